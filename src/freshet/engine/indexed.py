"""A query with indexes on its answer.

Law: in addition to the query's own state, its answer is stored, each row once with its weight, and for each index the
chains of rows that agree on its columns. Both are updated with the query's deltas, so they match the answer after every
transaction, at a cost proportional to the delta. The query's state is in the same scope as without indexes, so a
process that attaches to it without looking up rows can ignore them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from freshet.engine.maintained import Finder, Maintained, Outlet, StoredLanes, keeps, maintain
from freshet.engine.table import Table
from freshet.plans.model import IndexedPlan
from freshet.scalar.column import Column
from freshet.scalar.lanes import NULLS, layout, unpack, value_lanes, width
from freshet.scalar.types import Type
from freshet.state.arena import Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.index import Index
from freshet.state.rows import Rows, repeated
from freshet.state.strings import StringPool
from freshet.state.tuples import Slots

Columns = tuple[int, ...]

ANSWER, INDEX = "answer", "index"  # the scopes of its own state, those of indexes numbered


@keeps(IndexedPlan)
class Indexed(Maintained):
    def __init__(
        self, scope: Scope, plan: IndexedPlan, tables: Mapping[str, Table], pool: StringPool, outlet: Outlet
    ) -> None:
        super().__init__(scope, plan, pool)
        self.source = maintain(scope, plan.source, tables, pool)
        self.below = [self.source]
        self.rows = Table(scope.scope(ANSWER), plan.fields, (), pool)
        self.indexes = [
            (columns, Index(scope.scope(f"{INDEX}{i}"), width([self.types[c] for c in columns])))
            for i, columns in enumerate(plan.indexes)
        ]

    @property
    def unindexed(self) -> Maintained:
        return self.source

    def finish(self) -> Rows:
        rows = self.source.finish()
        self._take(rows)
        return rows

    def _take(self, rows: Rows) -> None:
        if not len(rows):
            return
        table = self.rows
        change = table.resolve(rows.lanes, rows.weights.copy())
        for _, index in self.indexes:
            index.remove(change.removed)
        table.remove(change)
        if len(change.changed):
            table.reweigh(change)
        slots = table.add(change)
        for columns, index in self.indexes:
            index.add(key_lanes(change.added, self.types, columns), slots, table.capacity)

    def finders(self) -> list[Finder]:
        return [*self.source.finders(), *(self._finder(columns, index) for columns, index in self.indexes)]

    def _finder(self, columns: Columns, index: Index) -> Finder:
        nulls = value_lanes(self.types)
        cells = tuple((0, lane, nulls + c // NULLS, c % NULLS) for c, lane in enumerate(layout(self.types)))

        def rows(key: Int64s) -> list[tuple[list[int], ...]]:
            return [(lanes,) for lanes in self._lanes(index.find(key)).tolist()]

        def find(key: Int64s) -> list[Column]:
            return unpack(self._lanes(index.find(key)), self.types, self.pool)

        return Finder(columns, False, find, StoredLanes(rows, cells))

    def _lanes(self, slots: Slots) -> Int64s:
        assert self.rows.weights is not None
        lanes, weights = self.rows.tuples.lanes.data[slots], self.rows.weights.data[slots]
        if self.rows.counted and len(slots):
            lanes = lanes[np.concatenate(list(repeated(weights, int(weights.sum()))))]
        copies: Int64s = lanes
        return copies

    def batches(self, rows: int) -> Iterator[list[Column]]:
        return self.source.batches(rows)

    def unordered(self, rows: int) -> Iterator[list[Column]]:
        return self.source.unordered(rows)

    def count(self) -> int:
        return self.source.count()

    def load(self, tables: Sequence[Table]) -> None:
        super().load(tables)
        for rows in self.source.packed():
            self._take(rows)

    def string_marks(self, marked: Bools) -> None:
        super().string_marks(marked)
        self.rows.string_marks(marked)

    def statistics(self) -> list[tuple[int, int]]:
        return self.source.statistics()


def key_lanes(rows: Int64s, types: Sequence[Type], columns: Columns) -> Int64s:
    """The given columns of rows of lanes, packed as rows of lanes."""
    firsts, nulls = layout(types), value_lanes(types)
    chosen = [types[c] for c in columns]
    at, null_lane = layout(chosen), value_lanes(chosen)
    out = np.zeros((len(rows), width(chosen)), np.int64)
    for i, c in enumerate(columns):
        for lane in range(types[c].lanes):
            out[:, at[i] + lane] = rows[:, firsts[c] + lane]
        is_null = (rows[:, nulls + c // NULLS] >> (c % NULLS)) & 1
        out[:, null_lane + i // NULLS] |= is_null << (i % NULLS)
    return out
