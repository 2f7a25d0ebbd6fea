"""Maintains UNION, EXCEPT and INTERSECT: each row with two counts, its copies on the left and on the right.

The number of copies in the answer depends only on the two counts, so a change of a count determines the change of the
answer:

    UNION          l + r > 0           EXCEPT      l > 0 and r = 0      INTERSECT      l > 0 and r > 0
    EXCEPT ALL     max(l - r, 0)                                        INTERSECT ALL  min(l, r)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from freshet.aggregates.accumulators import mark_texts
from freshet.engine.maintained import Maintained, Outlet, keeps, maintain
from freshet.engine.table import Table
from freshet.engine.work import DISTINCT, FED
from freshet.errors import StateError
from freshet.plans.model import SetPlan
from freshet.scalar.column import Column
from freshet.scalar.lanes import unpack
from freshet.state.arena import Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.rows import Rows, consolidated, repeated
from freshet.state.strings import StringPool
from freshet.state.tuples import Tuples


@keeps(SetPlan)
class SetOperator(Maintained):
    def __init__(
        self, scope: Scope, plan: SetPlan, tables: Mapping[str, Table], pool: StringPool, outlet: Outlet
    ) -> None:
        super().__init__(scope, plan, pool)
        self.kind, self.every = plan.kind, plan.all
        self.below = [
            maintain(scope.scope("left"), plan.left, tables, pool),
            maintain(scope.scope("right"), plan.right, tables, pool),
        ]
        self.tuples = Tuples(scope.scope("rows"), self.width)
        self.counts = scope.array("counts", np.int64, columns=2)
        self.total = scope.array("total", np.int64)  # rows of the answer

    def _copies(self, counts: Int64s) -> Int64s:
        """The number of copies in the answer of rows with these counts (left, right)."""
        return self.kind.copies(self.every, counts[:, 0], counts[:, 1])

    def finish(self) -> Rows:
        left, right = (query.finish() for query in self.below)
        return consolidated([self._apply(0, left), self._apply(1, right)], self.width)

    def _apply(self, side: int, rows: Rows) -> Rows:
        """Applies a consolidated delta of one side and returns the change of the answer."""
        if not len(rows):
            return rows
        self.steps.data[[DISTINCT, FED]] += len(rows)
        slots = self.tuples.add(rows.lanes)
        self.counts.grow(len(self.tuples.occupancy.data))
        counts = self.counts.data[slots]
        before = self._copies(counts)
        counts[:, side] += rows.weights
        if (counts[:, side] < 0).any():
            raise StateError(f"{self.kind.upper()} has a negative count of a row; rebuild the view")
        self.counts.data[slots] = counts
        change = self._copies(counts) - before
        self.tuples.remove(slots[(counts == 0).all(axis=1)])
        self.total.data[0] += change.sum()
        changed = change != 0
        return Rows(rows.lanes[changed], change[changed])

    def batches(self, rows: int) -> Iterator[list[Column]]:
        for start in range(0, self.tuples.used, rows):
            part = slice(start, min(start + rows, self.tuples.used))
            held = self._copies(self.counts.data[part]) * (self.tuples.occupancy.data[part] != 0)
            for places in repeated(held, rows):
                yield unpack(self.tuples.lanes.data[start + places], self.types, self.pool)

    def count(self) -> int:
        return int(self.total.data[0])

    def load(self, tables: Sequence[Table]) -> None:
        super().load(tables)
        for side, query in enumerate(self.below):
            for rows in query.packed():
                self._apply(side, consolidated([rows], self.width))

    def string_marks(self, marked: Bools) -> None:
        super().string_marks(marked)
        mark_texts(self.tuples.lanes.data, self.tuples.slots(), self.types, 0, marked)
