"""Keeps all rows of a query in order within each partition: the common part of top-k and window functions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from freshet.engine.maintained import Maintained, maintain
from freshet.engine.partitions import Partitions
from freshet.engine.table import Table
from freshet.engine.work import FED, PLACED
from freshet.plans.model import TopPlan, WindowPlan
from freshet.scalar.lanes import layout
from freshet.scalar.order import order_lines
from freshet.state.arena import Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.ranked import Ranked, Slots
from freshet.state.rows import Rows
from freshet.state.strings import StringPool


class InOrder(Maintained):
    def __init__(self, scope: Scope, plan: TopPlan | WindowPlan, tables: Mapping[str, Table], pool: StringPool) -> None:
        super().__init__(scope, plan, pool)
        self.source = maintain(scope.scope("rows"), plan.source, tables, pool)
        self.below = [self.source]
        self.partitions = Partitions(scope.scope("partitions"), self.source.types, plan.partition, pool)
        order = order_lines(self.source.types, plan.order)
        self.ranked = Ranked(scope.scope("order"), self.source.width, order, pool)
        self.total = scope.array("total", np.int64)  # rows of the answer

    def placed(self, rows: Rows) -> tuple[Slots, Rows]:
        """A delta of the source, deletions before insertions, and the partition of each row."""
        self.steps.data[FED] += len(rows)
        self.ranked.visits()  # those of reading the answer, which are not part of its maintenance
        places = np.argsort(rows.weights > 0, kind="stable")
        rows = Rows(rows.lanes[places], rows.weights[places])
        groups = self.partitions.of(rows.lanes)
        self.ranked.roots.grow(self.partitions.room)
        return groups, rows

    def move(self, groups: Slots, rows: Rows, low: int = 0, high: int = 0, keys: int = 0) -> tuple[Int64s, Int64s]:
        """Applies rows whose partitions are known, returns the change within the given ranks, and drops empty
        partitions."""
        moved = self.ranked.move(groups, rows.lanes, rows.weights, low, high, keys)
        self.partitions.drop(groups, self.ranked.roots.data)
        return moved

    def count_visits(self) -> None:
        """Called when all changes are made, and all that has changed is read."""
        self.steps.data[PLACED] += self.ranked.visits()

    def count(self) -> int:
        return int(self.total.data[0])

    def string_marks(self, marked: Bools) -> None:
        super().string_marks(marked)
        self.partitions.string_marks(marked)
        for type, lane in zip(self.source.types, layout(self.source.types), strict=True):
            if type.pooled:
                self.ranked.mark(lane, marked)
