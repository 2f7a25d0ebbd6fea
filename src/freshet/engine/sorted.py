"""ORDER BY without LIMIT: the rows of a query, sorted when they are read.

Law: a bag has no order, so no order is maintained. State and deltas are those of the query below, without the columns
that only ORDER BY reads; a change of only those columns changes nothing. Reading in order holds the whole answer in
memory while sorting it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshet.budget import hold
from freshet.engine.maintained import LOAD, Finder, Maintained, Outlet, keeps, maintain
from freshet.engine.table import Table
from freshet.engine.work import Work
from freshet.plans.model import SortPlan
from freshet.scalar.column import Column
from freshet.scalar.expression import SortKey
from freshet.scalar.functions.rows import text_of
from freshet.scalar.lanes import leading
from freshet.state import wide
from freshet.state.arena import Scope
from freshet.state.arrays import Int64s, values_of
from freshet.state.rows import Rows, consolidated, joined
from freshet.state.strings import StringPool

_FEW = 8  # rows for each one wanted, from which not all are sorted


@keeps(SortPlan)
class SortOperator(Maintained):
    def __init__(
        self, scope: Scope, plan: SortPlan, tables: Mapping[str, Table], pool: StringPool, outlet: Outlet
    ) -> None:
        super().__init__(scope, plan, pool)
        self.source = maintain(scope, plan.source, tables, pool, outlet)
        self.below = [self.source]
        self.reads = self.source.reads or self.source.below
        self.order = plan.order
        self.hides = len(self.source.types) > len(self.types)

    def finish(self) -> Rows:
        rows = self.source.finish()
        if not self.hides:
            return rows
        if not len(rows):
            return joined([], self.width)
        shown = leading(rows.lanes, self.source.types, len(self.types))
        return consolidated([Rows(shown, rows.weights)], self.width)

    def batches(self, rows: int) -> Iterator[list[Column]]:
        parts = []
        for part in self.source.batches(LOAD):
            hold(2 * len(part[0]) * 8 * self.source.width)  # the batches, then the columns concatenated from them
            parts.append(part)
        if not parts:
            return
        columns = [whole([part[i] for part in parts]) for i in range(len(parts[0]))]
        del parts
        places = sorted_places(columns, self.order)
        for start in range(0, len(places), rows):
            yield [c.take(places[start : start + rows]) for c in columns[: len(self.types)]]

    def unordered(self, rows: int) -> Iterator[list[Column]]:
        for columns in self.source.batches(rows):
            yield columns[: len(self.types)]

    def finders(self) -> list[Finder]:
        return [self._shown(f) for f in self.source.finders() if max(f.columns) < len(self.types)]

    def _shown(self, finder: Finder) -> Finder:
        """The same without the columns that only ORDER BY reads."""
        shown, stored = len(self.types), finder.stored
        if stored is not None:
            stored = replace(stored, cells=stored.cells[:shown])
        return replace(finder, find=lambda key: finder.find(key)[:shown], stored=stored)

    def count(self) -> int:
        return self.source.count()

    def statistics(self) -> list[tuple[int, int]]:
        return self.source.statistics()

    def work(self, counted: set[int] | None = None) -> Work:
        return self.source.work(counted)

    def own_work(self) -> Work:
        return self.source.own_work()


def sorted_places(columns: Sequence[Column], order: Sequence[SortKey]) -> Int64s:
    """The positions of rows in sorted order; the sort is stable."""
    return np.lexsort(_keys(columns, order)[::-1])


def first_places(columns: Sequence[Column], order: Sequence[SortKey], most: int) -> Int64s:
    """The first positions of `sorted_places`. A column is compared only on rows that tie, in the columns before it,
    with the last row wanted."""
    rows = len(columns[0])
    if most * _FEW > rows:
        return sorted_places(columns, order)[:most]
    wanted = most
    certain, tied = list[Int64s](), np.arange(rows)
    for each in order:
        keys = _keys([columns[each.column].take(tied)], [replace(each, column=0)])
        while keys and len(tied) > most:
            key = keys.pop(0)
            last = np.partition(key, most - 1)[most - 1]
            certain.append(tied[key < last])
            most -= len(certain[-1])
            ties = key == last
            tied, keys = tied[ties], [k[ties] for k in keys]
        if len(tied) <= most:
            break
    places = np.sort(np.concatenate([*certain, tied]))
    return places[sorted_places([c.take(places) for c in columns], order)[:wanted]]


def _keys(columns: Sequence[Column], order: Sequence[SortKey]) -> list[Any]:
    """What rows are compared by, the most significant first."""
    keys: list[Any] = []
    for key in order:
        column = columns[key.column]
        values = _comparable(column)
        if column.valid is not None:
            keys.append(column.valid if key.nulls_first else ~column.valid)
            values = [np.where(column.valid, v, v.dtype.type(0)) for v in values]
        keys += [~v for v in values] if key.descending else values
    return keys


def _comparable(column: Column) -> list[Any]:
    """Integers that compare as the values do, column by column: NaN is greatest, as in Spark."""
    if column.type.is_fraction:
        bits = (np.asarray(column.data, np.float64) + 0.0).view(np.int64)  # -0.0 is 0.0
        bits = np.where(np.isnan(column.data), np.int64(0x7FF8000000000000), bits)
        return [np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)]
    if column.type.pooled:
        return [_ranks(column)]
    low = np.asarray(column.data, np.int64)
    if column.type.lanes == 1:
        return [low]
    return [wide.high(low, column.hi), low.view(np.uint64)]


def _ranks(column: Column) -> Int64s:
    """The rank of each text among the distinct ones, compared by UTF-8 bytes."""
    if column.pool is not None:
        ids, codes = np.unique(np.asarray(column.data, np.int64), return_inverse=True)
        texts: Any = column.pool.text(ids, kind=column.type.pooled)
    else:
        encoded = text_of(column).dictionary_encode()
        encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
        texts, codes = encoded.dictionary, values_of(encoded.indices.fill_null(0))
    places = values_of(pc.sort_indices(texts))
    ranks = np.empty(max(len(places), 1), np.int64)
    ranks[places] = np.arange(len(places))
    return ranks[codes]


def whole(parts: Sequence[Column]) -> Column:
    """Concatenates columns."""
    first = parts[0]
    if len(parts) == 1:
        return first
    valid = None
    if any(p.valid is not None for p in parts):
        valid = np.concatenate([np.ones(len(p), np.bool_) if p.valid is None else p.valid for p in parts])
    if all(isinstance(p.data, np.ndarray) and p.pool is first.pool for p in parts):
        hi = None
        if any(p.hi is not None for p in parts):
            hi = np.concatenate([wide.high(np.asarray(p.data, np.int64), p.hi) for p in parts])
        return Column(first.type, np.concatenate([p.data for p in parts]), valid, hi, first.pool)
    texts = [text_of(p) for p in parts]
    chunks = [c for t in texts for c in (t.chunks if isinstance(t, pa.ChunkedArray) else [t])]
    return Column(first.type, pa.concat_arrays(chunks), valid)
