"""The rows of each group in order: the list or text of their values, and the first of them.

Law: the list of a group is a function of the bag of its values, so values are in their own order if the query specifies
none, or if they tie in the specified one. The result of a touched group is recomputed from its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from freshet.errors import TooMuchTextError
from freshet.scalar import lanes
from freshet.scalar.column import Column, take_text
from freshet.scalar.expression import AggregateCall, SortKey
from freshet.scalar.functions.bounds import byte_sizes, check_sizes
from freshet.scalar.functions.rows import text_of
from freshet.scalar.lists import join_texts
from freshet.scalar.nested import lists_of_parts, parts_of
from freshet.scalar.order import order_lines
from freshet.scalar.types import STRING, Type
from freshet.state.arena import Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.ranked import ENDLESS, Ranked
from freshet.state.rows import HeldRows, Rows, consolidated
from freshet.state.strings import StringPool
from freshet.state.tuples import Slots

_ROOM = 1 << 16  # rows read at a time


class Gathered:
    """The first argument's values of each group, in the order of the others. Changes are added up until the end of the
    transaction: only then is it certain that removed rows existed."""

    def __init__(self, scope: Scope, pool: StringPool, types: Sequence[Type], call: AggregateCall) -> None:
        self._pool, self._types = pool, types
        order = order_lines(types, [SortKey(*key) for key in call.order])
        self._ranked = Ranked(scope, lanes.width(types), order, pool)
        self._changes = HeldRows()

    def reserve(self, groups: int) -> None:
        self._ranked.roots.grow(groups)

    def add(self, groups: Slots, args: Sequence[Column], weights: Int64s) -> None:
        rows = lanes.pack(args, self._pool, len(weights), lead=1)
        rows[:, 0] = groups
        counted = weights != 0
        self._changes.append(Rows(rows[counted], weights[counted]))

    def settle(self) -> None:
        if not self._changes:
            return
        change = consolidated(self._changes, 1 + lanes.width(self._types))
        self._changes = HeldRows()
        places = np.argsort(change.weights > 0, kind="stable")  # removals come first
        rows = change.lanes[places]
        groups, values = rows[:, 0].astype(np.int32), np.ascontiguousarray(rows[:, 1:])
        self._ranked.move(groups, values, change.weights[places])

    def lists(self, groups: Slots) -> tuple[Int64s, Bools]:
        """The lists of groups as ids of the pool; none is NULL."""
        ids, _ = self._joined(groups, "array_agg", None)
        return ids, np.ones(len(groups), np.bool_)

    def texts(self, groups: Slots, separator: str | bytes) -> tuple[Int64s, Bools]:
        """The values of each group as one text, as ids of the pool, and which groups have values."""
        return self._joined(groups, "string_agg", separator)

    def _joined(self, groups: Slots, function: str, separator: str | bytes | None) -> tuple[Int64s, Bools]:
        """Values joined into texts, or without a separator into lists; groups with too much text are processed in
        halves."""
        try:
            return self._join(groups, function, separator)
        except TooMuchTextError:
            if len(groups) == 1:
                raise
        halves = [self._joined(half, function, separator) for half in np.array_split(groups, 2)]
        return np.concatenate([ids for ids, _ in halves]), np.concatenate([known for _, known in halves])

    def _join(self, groups: Slots, function: str, separator: str | bytes | None) -> tuple[Int64s, Bools]:
        gathered = self._ranked.count(groups, 0, ENDLESS)
        chunks = list(self._ranked.windows(groups, max(min(gathered, _ROOM), 1), 0, ENDLESS))
        counts = np.concatenate([np.empty(0, np.int64), *(c for _, c, _ in chunks)])
        owners = np.concatenate([np.empty(0, np.int32), *(o for _, _, o in chunks)])
        rows = np.concatenate([np.empty((0, lanes.width(self._types)), np.int64), *(r for r, _, _ in chunks)])
        values = lanes.unpack(rows, self._types, self._pool)[0]
        texts = parts_of(values) if separator is None else text_of(values)
        lengths = np.zeros(len(groups), np.int64)
        np.add.at(lengths, owners, counts)
        between = separator.encode() if isinstance(separator, str) else separator or b""
        sizes = np.maximum(lengths - 1, 0) * len(between)
        np.add.at(sizes, owners, byte_sizes(Column(STRING, texts)) * counts)
        # Values take memory while they are formatted, even empty ones.
        check_sizes(function, np.maximum(sizes, lengths), None, len(groups))
        copies = np.repeat(np.arange(len(counts)), counts)
        texts = take_text(texts, copies)
        made = lists_of_parts(texts, lengths) if separator is None else join_texts(texts, lengths, between)
        return self._pool.intern(made), lengths > 0

    def first(self, groups: Slots, column: int) -> tuple[Int64s, Bools]:
        """A column's lanes in the first row of each group, and whether it is not NULL."""
        type_, lane = self._types[column], lanes.layout(self._types)[column]
        out, there = np.zeros((len(groups), type_.lanes), np.int64), np.zeros(len(groups), np.bool_)
        null_lane, bit = lanes.value_lanes(self._types) + column // lanes.NULLS, 1 << column % lanes.NULLS
        for rows, _, owners in self._ranked.windows(groups, max(len(groups), 1), 0, 1):
            out[owners] = rows[:, lane : lane + type_.lanes]
            there[owners] = rows[:, null_lane] & bit == 0
        return out, there

    def mark(self, marked: Bools) -> None:
        for type_, lane in zip(self._types, lanes.layout(self._types), strict=True):
            if type_.pooled:
                self._ranked.mark(lane, marked)

    def visits(self) -> int:
        return self._ranked.visits()

    def reset(self) -> None:
        self._changes = HeldRows()
        self._ranked.reset()
