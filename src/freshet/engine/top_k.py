"""ORDER BY ... LIMIT kept fresh, for the whole query or in each partition: all rows of the input in order, and the
change of the first ones read off around each row that comes or goes (state/ranked)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from freshet.column import Bools, Column, Int64s
from freshet.engine.lanes import layout, leading, unpack
from freshet.engine.maintained import Maintained, keeps, maintain
from freshet.engine.order import order_lines
from freshet.engine.partitions import Partitions
from freshet.engine.rows import Rows, consolidated, joined, repeated
from freshet.engine.table import Table
from freshet.plans.model import TopPlan
from freshet.state.arena import Scope
from freshet.state.ranked import ENDLESS, Ranked
from freshet.state.strings import StringPool


@keeps(TopPlan)
class TopK(Maintained):
    keeps = True

    def __init__(
        self, scope: Scope, plan: TopPlan, tables: Mapping[str, Table], pool: StringPool, nested: bool = False
    ) -> None:
        super().__init__(scope, plan, pool)
        self.source = maintain(scope.scope("rows"), plan.source, tables, pool, nested=True)
        self.below = [self.source]
        self.partitions = Partitions(scope.scope("partitions"), self.source.types, plan.partition, pool)
        order = order_lines(self.source.types, plan.order)
        self.ranked = Ranked(scope.scope("order"), self.source.width, order, pool)
        self.window = (plan.offset, ENDLESS if plan.limit is None else plan.offset + plan.limit)
        self.tied = len(plan.order) if plan.ties else 0
        self.total = scope.array("total", np.int64)  # rows of the answer

    def finish(self, deltas: bool) -> Rows:
        rows = self.source.finish(True)
        if not len(rows):
            return joined([], self.width)
        found = self._move(rows, *self.window)
        self.total.data[0] += found.weights.sum()
        return consolidated([found], self.width)

    def _move(self, rows: Rows, low: int, high: int) -> Rows:
        """Takes in a consolidated delta of the input, what goes before what comes; the change of the windows."""
        places = np.argsort(rows.weights > 0, kind="stable")
        lanes, weights = rows.lanes[places], rows.weights[places]
        groups = self.partitions.of(lanes)
        self.ranked.roots.grow(self.partitions.room)
        found, counts = self.ranked.move(groups, lanes, weights, low, high, self.tied)
        self.partitions.drop(groups, self.ranked.roots.data)
        return Rows(self._shown(found), counts)

    def _shown(self, lanes: Int64s) -> Int64s:
        return leading(lanes, self.source.types, len(self.types))

    def batches(self, rows: int) -> Iterator[list[Column]]:
        for lanes, counts, _ in self.ranked.windows(self.partitions.slots(), rows, *self.window, self.tied):
            shown = self._shown(lanes)
            for places in repeated(counts, rows):
                yield unpack(shown[places], self.types, self.pool)

    def count(self) -> int:
        return int(self.total.data[0])

    def load(self, tables: Sequence[Table]) -> None:
        super().load(tables)
        for rows in self.source.packed():
            self._move(rows, 0, 0)
        self.total.data[0] = self.ranked.count(self.partitions.slots(), *self.window, self.tied)

    def string_marks(self, marked: Bools) -> None:
        super().string_marks(marked)
        self.partitions.string_marks(marked)
        for type, lane in zip(self.source.types, layout(self.source.types), strict=True):
            if type.name == "STRING":
                self.ranked.mark(lane, marked)
