"""A query that groups the rows of one table or view, for which no view is made.

Law: the rows are those of a scan, and Arrow groups them. It is given only keys that are equal exactly when their lanes
are, and only aggregates that are exact there: counts, the least and greatest of whole numbers, and sums of so few and
so small numbers that they fit 64 bits. If it turns out that they may not, or that there are many rows, `UnfitError` is
raised before anything is answered, and the query is answered in another way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.budget import hold
from freshet.database.scan import Scan, scan_of
from freshet.engine.sorted import whole
from freshet.logical.query import AnyQuery, Field, Grouping, Query, Sorted, TopK
from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate, evaluate_filter
from freshet.scalar.expression import AggregateCall
from freshet.scalar.functions.rows import text_or_null
from freshet.scalar.types import INTEGERS, Type
from freshet.state.arrays import values_of

MOST_GROUPED = 262_144  # rows; more of them would make others wait
_WHOLE = {*INTEGERS, "DATE", "TIMESTAMP", "BOOLEAN", "DECIMAL"}  # types whose lane is a number that sorts as they do
_TEXTS = {"STRING", "BINARY"}


def are_few(rows: int) -> bool:
    return rows <= MOST_GROUPED


class UnfitError(Exception):
    """The rows are not such that they can be grouped here."""


@dataclass(frozen=True, slots=True)
class GroupedScan:
    """`read`: the keys, then the arguments of the aggregates, row by row; `shown`: what is selected of the groups, its
    order and limit."""

    read: Scan
    grouping: Grouping
    shown: Scan

    def answer(self, parts: Iterator[list[Column]]) -> Iterator[list[Column]]:
        """The answer, from the rows of `read`."""
        held, rows = list[list[Column]](), 0
        for columns in parts:
            rows += len(columns[0])
            if not are_few(rows):
                raise UnfitError
            hold(32 * len(columns) * len(columns[0]))
            held.append(columns)
        if not held:
            return
        groups = self._grouped([whole([part[i] for part in held]) for i in range(len(held[0]))], rows)
        n = len(groups[0])
        if self.grouping.having is not None:
            passed = evaluate_filter((self.grouping.having,), lambda c: groups[c.column], n)
            groups, n = [c.take(passed) for c in groups], int(np.count_nonzero(passed))
        if n:
            outputs = [evaluate(o, lambda c: groups[c.column], n) for o in self.shown.outputs]
            yield from self.shown.answer(iter([outputs]))

    def _grouped(self, columns: Sequence[Column], rows: int) -> list[Column]:
        """The keys and aggregates of each group."""
        keys, arguments = columns[: len(self.grouping.keys)], iter(columns[len(self.grouping.keys) :])
        named, asked = {f"k{i}": _values(c) for i, c in enumerate(keys)}, list[Any]()
        for i, call in enumerate(self.grouping.aggregates):
            if not call.args:
                asked.append(([], "count_all"))
                continue
            argument = next(arguments)
            if call.function == "sum" and rows * _greatest(argument) >= 1 << 63:
                raise UnfitError
            named[f"a{i}"] = _values(argument)
            asked.append((f"a{i}", call.function))
        grouped = pa.table(named).group_by([f"k{i}" for i in range(len(keys))], use_threads=False).aggregate(asked)
        made = [_column(grouped.column(f"k{i}"), key.type, key) for i, key in enumerate(keys)]
        for i, call in enumerate(self.grouping.aggregates):
            name = f"a{i}_{call.function}" if call.args else "count_all"
            made.append(_column(grouped.column(name), call.type, None))
        return made


def _values(column: Column) -> pa.Array:
    """A column's lane, or its texts where they have none."""
    if not isinstance(column.data, np.ndarray):
        return text_or_null(column, column.valid)
    return pa.array(column.data, pa.int64(), mask=None if column.valid is None else ~column.valid)


def _greatest(column: Column) -> int:
    return max(abs(int(column.data.min())), abs(int(column.data.max())))


def _column(values: pa.ChunkedArray, type_: Type, like: Column | None) -> Column:
    """A column of groups; `like`: the rows that it is a key of."""
    array = values.combine_chunks()
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    valid = None if not array.null_count else np.asarray(array.is_valid())
    if like is not None and not isinstance(like.data, np.ndarray):
        return Column(type_, array, valid)
    data = values_of(array.fill_null(0) if array.null_count else array)
    return Column(type_, data.astype(np.int64), valid, None, None if like is None else like.pool)


def grouped_scan(query: AnyQuery) -> GroupedScan | None:
    """The query as a grouped scan, if it is one."""
    select = query.source if isinstance(query, Sorted | TopK) else query
    if not isinstance(select, Query) or select.grouping is None or select.distinct or select.copies:
        return None
    grouping = select.grouping
    if not grouping.keys or not all(map(_is_key, (k.type for k in grouping.keys))):
        return None
    if not all(map(_is_exact, grouping.aggregates)):
        return None
    listed = (*grouping.keys, *(a for call in grouping.aggregates for a in call.args))
    fields = tuple(Field(f"x{i}", e.type) for i, e in enumerate(listed))
    read = scan_of(replace(select, grouping=None, outputs=listed, fields=fields))
    ungrouped = replace(select, grouping=None)
    shown = scan_of(replace(query, source=ungrouped) if isinstance(query, Sorted | TopK) else ungrouped)
    return None if read is None or shown is None else GroupedScan(read, grouping, shown)


def _is_key(type_: Type) -> bool:
    return type_.lanes == 1 and not type_.char and (type_.name in _WHOLE or type_.name in _TEXTS)


def _is_exact(call: AggregateCall) -> bool:
    if call.distinct or call.filter is not None or call.copies is not None or call.term or len(call.args) > 1:
        return False
    if call.function == "count":
        return all(_is_key(a.type) for a in call.args)
    if not call.args:
        return False
    given = call.args[0].type
    if call.function == "sum":
        return given.is_integer
    return call.function in ("min", "max") and given.lanes == 1 and given.name in _WHOLE
