"""Maintains UNION ALL without any state: its delta is the sum of the deltas of its inputs, and its answer the
concatenation of theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from freshet.engine.maintained import Maintained, Outlet, keeps, maintain
from freshet.engine.table import Table
from freshet.plans.model import UnionAllPlan
from freshet.scalar.column import Column
from freshet.state.arena import Scope
from freshet.state.rows import Rows, consolidated
from freshet.state.strings import StringPool


@keeps(UnionAllPlan)
class UnionAllOperator(Maintained):
    def __init__(
        self, scope: Scope, plan: UnionAllPlan, tables: Mapping[str, Table], pool: StringPool, outlet: Outlet
    ) -> None:
        super().__init__(scope, plan, pool)
        self.below = [
            maintain(scope.scope(f"input{i}"), each, tables, pool, outlet) for i, each in enumerate(plan.inputs)
        ]

    def finish(self) -> Rows:
        return consolidated([rows for query in self.below if len(rows := query.finish())], self.width)

    def batches(self, rows: int) -> Iterator[list[Column]]:
        for query in self.below:
            yield from query.batches(rows)

    def count(self) -> int:
        return sum(query.count() for query in self.below)
