"""UNION, EXCEPT and INTERSECT of two queries in which rows can be looked up, with or without ALL: nothing is stored.

How a row changes the answer depends on how many copies of it each side had before and has now. The row is looked up in
both sides after they have finished the transaction; its former copies follow from their deltas.
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
from freshet.state.arrays import Int64s
from freshet.state.rows import Rows, added_up, consolidated, repeated
from freshet.state.strings import StringPool


@keeps(LookedUpPlan)
class LookedUp(Maintained):
    def __init__(
        self, scope: Scope, plan: LookedUpPlan, tables: Mapping[str, Table], pool: StringPool, outlet: Outlet
    ) -> None:
        super().__init__(scope, plan, pool)
        self.kind, self.every = plan.kind, plan.all
        self.left = maintain(scope.scope("left"), plan.left, tables, pool, outlet)
        self.right = maintain(scope.scope("right"), plan.right, tables, pool, outlet)
        self.below = [self.left, self.right]

    def finish(self) -> Rows:
        left, right = self.left.finish(), self.right.finish()
        self.steps.data[[DISTINCT, FED]] += len(left) + len(right)
        if not len(left) + len(right):
            return Rows(left.lanes, left.weights)
        # A row occurs once in each delta: the sum of its two places, from 1 on, identifies both.
        base = len(right.weights) + 1
        on_left, on_right = np.arange(1, len(left) + 1), np.arange(1, base)
        both = consolidated([Rows(left.lanes, base * on_left), Rows(right.lanes, on_right)], self.width)
        columns = unpack(both.lanes, self.types, self.pool)
        changes = (_at(both.weights // base, left.weights), _at(both.weights % base, right.weights))
        now = [side.copies(columns, len(both)) for side in self.below]
        change = self._copies(*now) - self._copies(now[0] - changes[0], now[1] - changes[1])
        changed = change != 0
        return Rows(both.lanes[changed], change[changed])

    def _copies(self, left: Int64s, right: Int64s) -> Int64s:
        return self.kind.copies(self.every, left, right)

    def copies(self, columns: list[Column], rows: int) -> Int64s:
        return self._copies(*(side.copies(columns, rows) for side in self.below))

    def batches(self, rows: int) -> Iterator[list[Column]]:
        for columns, copies in self.weighted(rows):
            if (copies == 1).all():
                yield columns
                continue
            for places in repeated(copies, rows):
                yield [c.take(places) for c in columns]

    def weighted(self, rows: int) -> Iterator[tuple[list[Column], Int64s]]:
        if self.kind is SetKind.UNION:
            yield from self.left.weighted(rows)
            yield from self._kept(self.right, self.left, rows)
        else:
            yield from self._kept(self.left, self.right, rows)

    def _kept(self, side: Maintained, other: Maintained, rows: int) -> Iterator[tuple[list[Column], Int64s]]:
        """The rows of one side, as often as they are in the answer; those of a UNION unless the other side has them."""
        for columns, copies in side.weighted(rows):
            there = other.copies(columns, len(copies))
            kept = copies * (there == 0) if self.kind is SetKind.UNION else self._copies(copies, there)
            some = kept > 0
            if some.all():
                yield columns, kept
            elif some.any():
                yield [c.take(some) for c in columns], kept[some]

    def count(self) -> int:
        if self.kind is SetKind.UNION:
            return self.left.count() + sum(added_up(copies) for _, copies in self._kept(self.right, self.left, 4096))
        return sum(added_up(copies) for _, copies in self.weighted(4096))


def _at(places: Int64s, weights: Int64s) -> Int64s:
    """The weights at places that count from 1; 0 at place 0."""
    found: Int64s = np.concatenate([np.zeros(1, np.int64), weights])[places]
    return found
