"""UNION, EXCEPT and INTERSECT of two sets in which rows can be looked up: nothing is stored.

How a row changes the answer depends on whether it was in each side before and whether it is now. The row is looked up
in both sides after they have finished the transaction; its former state follows from their deltas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from freshet.engine.maintained import Maintained, Outlet, keeps, maintain
from freshet.engine.table import Table
from freshet.engine.work import DISTINCT, FED
from freshet.logical.kinds import SetKind
from freshet.plans.model import LookedUpPlan
from freshet.scalar.column import Column
from freshet.scalar.lanes import unpack
from freshet.state.arena import Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.rows import Rows, consolidated
from freshet.state.strings import StringPool

_LEFT = 3  # weight of a change of the left side, 1 for the right: the sum of one of each identifies both


@keeps(LookedUpPlan)
class LookedUp(Maintained):
    def __init__(
        self, scope: Scope, plan: LookedUpPlan, tables: Mapping[str, Table], pool: StringPool, outlet: Outlet
    ) -> None:
        super().__init__(scope, plan, pool)
        self.kind = plan.kind
        self.left = maintain(scope.scope("left"), plan.left, tables, pool, outlet)
        self.right = maintain(scope.scope("right"), plan.right, tables, pool, outlet)
        self.below = [self.left, self.right]

    def finish(self) -> Rows:
        left, right = self.left.finish(), self.right.finish()
        self.steps.data[[DISTINCT, FED]] += len(left) + len(right)
        both = consolidated([Rows(left.lanes, _LEFT * left.weights), Rows(right.lanes, right.weights)], self.width)
        if not len(both):
            return both
        columns = unpack(both.lanes, self.types, self.pool)
        on_left = np.rint(both.weights / _LEFT).astype(np.int64)
        on_right = both.weights - _LEFT * on_left
        now = [side.holds(columns, len(both)).astype(np.int64) for side in self.below]
        change = self._copies(*now) - self._copies(now[0] - on_left, now[1] - on_right)
        changed = change != 0
        return Rows(both.lanes[changed], change[changed])

    def _copies(self, left: Int64s, right: Int64s) -> Int64s:
        return self.kind.copies(False, left, right)

    def holds(self, columns: list[Column], rows: int) -> Bools:
        left, right = (side.holds(columns, rows).astype(np.int64) for side in self.below)
        held: Bools = self._copies(left, right) != 0
        return held

    def batches(self, rows: int) -> Iterator[list[Column]]:
        if self.kind is SetKind.UNION:
            yield from self.left.batches(rows)
            yield from self._kept(self.right, self.left, False, rows)
        else:
            yield from self._kept(self.left, self.right, self.kind is SetKind.INTERSECT, rows)

    def _kept(self, side: Maintained, other: Maintained, held: bool, rows: int) -> Iterator[list[Column]]:
        """The rows of one side that the other contains, or does not contain."""
        for columns in side.batches(rows):
            kept = other.holds(columns, len(columns[0])) == held
            if kept.all():
                yield columns
            elif kept.any():
                yield [c.take(kept) for c in columns]

    def count(self) -> int:
        left = self.left.count()
        if self.kind is SetKind.UNION:
            return left + sum(len(columns[0]) for columns in self._kept(self.right, self.left, False, 4096))
        return sum(len(columns[0]) for columns in self.batches(4096))
