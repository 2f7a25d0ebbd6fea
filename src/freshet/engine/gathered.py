"""ARRAY_AGG and STRING_AGG: the values of each group in order, and the list or text they make.

Law: the list of a group is a function of the bag of its values, so the order is that of the values themselves wherever
the query gives none, or one that cannot tell them apart. What a touched group answers is written anew from its values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from freshet.arrow import to_arrow
from freshet.column import Bools, Column, Int64s, take_text
from freshet.engine import lanes
from freshet.engine.order import order_lines
from freshet.engine.rows import Rows, consolidated
from freshet.errors import TooMuchTextError
from freshet.lists import join_texts, list_elements
from freshet.sql.bound import SortKey
from freshet.sql.expression import AggregateCall
from freshet.sql.functions.bounds import byte_sizes, check_sizes
from freshet.sql.functions.rows import text_of
from freshet.state.arena import Scope
from freshet.state.ranked import ENDLESS, Ranked
from freshet.state.strings import StringPool
from freshet.state.tuples import Slots
from freshet.types import STRING, Type

_ROOM = 1 << 16  # rows read at a time
GATHERED = ("array_agg", "string_agg")


class Gathered:
    """The first argument's values of each group, in the order of the others. Changes are added up until a transaction
    is over: only then is it sure that what goes was there."""

    def __init__(self, scope: Scope, pool: StringPool, types: Sequence[Type], call: AggregateCall) -> None:
        self._pool, self._types = pool, types
        order = order_lines(types, [SortKey(*key) for key in call.order])
        self._ranked = Ranked(scope, lanes.width(types), order, pool)
        self._changes: list[Rows] = []

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
        self._changes = []
        places = np.argsort(change.weights > 0, kind="stable")  # what goes, goes first
        rows = change.lanes[places]
        groups, values = rows[:, 0].astype(np.int32), np.ascontiguousarray(rows[:, 1:])
        self._ranked.move(groups, values, change.weights[places])

    def answers(self, groups: Slots, call: AggregateCall) -> tuple[Int64s, Bools]:
        """What the call answers for groups, as ids of the pool, and where it is not NULL."""
        try:
            return self._written(groups, call)
        except TooMuchTextError:
            if len(groups) == 1:
                raise
        halves = [self.answers(half, call) for half in np.array_split(groups, 2)]
        return np.concatenate([ids for ids, _ in halves]), np.concatenate([known for _, known in halves])

    def _written(self, groups: Slots, call: AggregateCall) -> tuple[Int64s, Bools]:
        gathered = self._ranked.count(groups, 0, ENDLESS)
        found = list(self._ranked.windows(groups, max(min(gathered, _ROOM), 1), 0, ENDLESS))
        counts = np.concatenate([np.empty(0, np.int64), *(c for _, c, _ in found)])
        owners = np.concatenate([np.empty(0, np.int32), *(o for _, _, o in found)])
        rows = np.concatenate([np.empty((0, lanes.width(self._types)), np.int64), *(r for r, _, _ in found)])
        values = lanes.unpack(rows, self._types, self._pool)[0]
        is_list = call.function == "array_agg"
        texts = text_of(values) if values.type.name == "STRING" else to_arrow(values)
        texts = list_elements(texts) if is_list else texts
        lengths = np.zeros(len(groups), np.int64)
        np.add.at(lengths, owners, counts)
        separator = "" if is_list else call.separator
        sizes = np.maximum(lengths - 1, 0) * len(separator.encode())
        np.add.at(sizes, owners, byte_sizes(Column(STRING, texts)) * counts)
        # Values take room while they are written, even empty ones.
        check_sizes(call.function, np.maximum(sizes, lengths), None, len(groups))
        copies = np.repeat(np.arange(len(counts)), counts)
        made = self._pool.intern(join_texts(take_text(texts, copies), lengths, separator))
        return made, np.ones(len(groups), np.bool_) if is_list else lengths > 0

    def mark(self, marked: Bools) -> None:
        for type_, lane in zip(self._types, lanes.layout(self._types), strict=True):
            if type_.name == "STRING":
                self._ranked.mark(lane, marked)

    def reset(self) -> None:
        self._changes = []
        self._ranked.reset()
