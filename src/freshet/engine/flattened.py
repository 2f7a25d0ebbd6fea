"""Rows, each once for every element of an array or map that it holds: nothing is kept.

Law: what a row becomes is a function of the row alone, so deltas are those of the input with every row replaced by what
it becomes, and its weight on each of them. Each distinct array of a batch is taken apart once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from freshet.engine.maintained import LOAD, Maintained, Outlet, keeps, maintain
from freshet.engine.table import Table
from freshet.plans.model import FlattenedPlan
from freshet.scalar.column import Column
from freshet.scalar.functions.elements import nothing
from freshet.scalar.lanes import pack, unpack
from freshet.scalar.nested import fields_of, lists_of
from freshet.scalar.types import INT
from freshet.state.arena import Scope
from freshet.state.arrays import Int64s
from freshet.state.rows import Rows, consolidated, joined, repeated
from freshet.state.strings import StringPool


@keeps(FlattenedPlan)
class FlattenedOperator(Maintained):
    def __init__(
        self, scope: Scope, plan: FlattenedPlan, tables: Mapping[str, Table], pool: StringPool, outlet: Outlet
    ) -> None:
        super().__init__(scope, plan, pool)
        self.plan: FlattenedPlan = plan
        self.source = maintain(scope.scope("rows"), plan.source, tables, pool, outlet)
        self.below = [self.source]

    def finish(self) -> Rows:
        rows = self.source.finish()
        parts = [self._elements(part) for part in _parts(rows)]
        return consolidated(parts, self.width) if parts else joined([], self.width)

    def _elements(self, rows: Rows) -> Rows:
        """What the rows become."""
        plan, columns = self.plan, unpack(rows.lanes, self.source.types, self.pool)
        lists = lists_of(columns.pop(plan.list))
        owners, places = lists.rows, np.arange(len(lists.items)) - np.repeat(lists.offsets[:-1], lists.sizes)
        elements = list(fields_of(lists.items) if plan.inline else lists.columns)
        if plan.numbered:
            elements.insert(0, Column(INT, places))
        if plan.outer:
            owners, elements = _with_missing(lists.sizes, owners, elements)
        made = [*(c.take(owners) for c in columns), *elements]
        return Rows(pack(made, self.pool, len(owners)), rows.weights[owners])

    def packed(self) -> Iterator[Rows]:
        for rows in self.source.packed():
            for part in _parts(rows):
                yield self._elements(part)

    def batches(self, rows: int) -> Iterator[list[Column]]:
        for part in self.packed():
            for places in repeated(part.weights, rows):
                yield unpack(part.lanes[places], self.types, self.pool)

    def count(self) -> int:
        return sum(int(part.weights.sum()) for part in self.packed())


def _parts(rows: Rows) -> Iterator[Rows]:
    """The rows, some at a time."""
    for start in range(0, len(rows), LOAD):
        yield Rows(rows.lanes[start : start + LOAD], rows.weights[start : start + LOAD])


def _with_missing(sizes: Int64s, owners: Int64s, elements: list[Column]) -> tuple[Int64s, list[Column]]:
    """The same with a NULL for each row without elements."""
    missing = np.flatnonzero(sizes == 0)
    places = np.concatenate([np.arange(len(owners)), np.full(len(missing), -1)])
    there = places >= 0
    made = []
    for column in elements:
        taken = column.take(np.maximum(places, 0)) if len(column) else nothing(column.type, len(places))
        valid = there if taken.valid is None else there & taken.valid
        made.append(Column(taken.type, taken.data, valid, taken.hi, taken.pool))
    return np.concatenate([owners, missing]), made
