"""Maintains ORDER BY ... LIMIT, for the whole query or in each partition: all input rows are stored in order, and the
change of the first ones is read around each inserted or deleted row (state/ranked)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from freshet.engine.in_order import InOrder
from freshet.engine.maintained import Outlet, keeps
from freshet.engine.table import Table
from freshet.plans.model import TopPlan
from freshet.scalar.column import Column
from freshet.scalar.lanes import leading, unpack
from freshet.state.arena import Scope
from freshet.state.arrays import Int64s
from freshet.state.ranked import ENDLESS
from freshet.state.rows import Rows, consolidated, joined, repeated
from freshet.state.strings import StringPool


@keeps(TopPlan)
class TopKOperator(InOrder):
    def __init__(
        self, scope: Scope, plan: TopPlan, tables: Mapping[str, Table], pool: StringPool, outlet: Outlet
    ) -> None:
        super().__init__(scope, plan, tables, pool)
        last = ENDLESS if plan.limit is None else min(plan.offset + plan.limit, ENDLESS)
        self.window = (plan.offset, last, len(plan.order) if plan.ties else 0)

    def finish(self) -> Rows:
        rows = self.source.finish()
        if not len(rows):
            return joined([], self.width)
        lanes, weights = self.move(*self.placed(rows), *self.window)
        self.count_visits()
        self.total.data[0] += weights.sum()
        return consolidated([Rows(self._shown(lanes), weights)], self.width)

    def _shown(self, lanes: Int64s) -> Int64s:
        return leading(lanes, self.source.types, len(self.types))

    def batches(self, rows: int) -> Iterator[list[Column]]:
        for lanes, counts, _ in self.ranked.windows(self.partitions.slots(), rows, *self.window):
            shown = self._shown(lanes)
            for places in repeated(counts, rows):
                yield unpack(shown[places], self.types, self.pool)

    def load(self, tables: Sequence[Table]) -> None:
        super().load(tables)
        for rows in self.source.packed():
            self.move(*self.placed(rows))
        self.total.data[0] = self.ranked.count(self.partitions.slots(), *self.window)
