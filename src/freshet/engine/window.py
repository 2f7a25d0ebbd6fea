"""Maintains window functions: the input rows are stored in order, and the functions are recomputed for the partitions
in which rows were inserted or deleted.

The old values of a touched partition are computed from its rows before they change, the new values afterwards; rows
that are equal in both cancel out. So nothing is stored but the rows in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from freshet.budget import look
from freshet.engine.in_order import InOrder
from freshet.engine.maintained import LOAD, Outlet, keeps
from freshet.engine.table import Table
from freshet.plans.model import WindowPlan
from freshet.scalar.column import Column
from freshet.scalar.lanes import NULLS, layout, pack, unpack, value_lanes
from freshet.state.arena import Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.ranked import ENDLESS, Slots
from freshet.state.rows import Rows, consolidated, joined
from freshet.state.strings import StringPool
from freshet.windows import window_function_of
from freshet.windows.ordered_rows import OrderedRows


@keeps(WindowPlan)
class WindowOperator(InOrder):
    def __init__(
        self, scope: Scope, plan: WindowPlan, tables: Mapping[str, Table], pool: StringPool, outlet: Outlet
    ) -> None:
        super().__init__(scope, plan, tables, pool)
        self.plan: WindowPlan = plan
        self.window = (0, ENDLESS if plan.first is None else plan.first, len(plan.order) if plan.ties else 0)

    def finish(self) -> Rows:
        rows = self.source.finish()
        if not len(rows):
            return joined([], self.width)
        groups, rows = self.placed(rows)
        touched = np.unique(groups)
        old = [Rows(pack(c, self.pool, len(c[0])), np.full(len(c[0]), -1)) for c in self._answers(touched)]
        self.ranked.move(groups, rows.lanes, rows.weights)
        new = [Rows(pack(c, self.pool, len(c[0])), np.ones(len(c[0]), np.int64)) for c in self._answers(touched)]
        self.partitions.drop(groups, self.ranked.roots.data)
        self.count_visits()
        delta = consolidated([*old, *new], self.width)
        self.total.data[0] += delta.weights.sum()
        return delta

    def _answers(self, partitions: Slots) -> Iterator[list[Column]]:
        """The rows of partitions with the functions' values, several whole partitions at a time."""
        for some in self._portions(partitions):
            look()
            room = int(self.ranked.count(some, *self.window))
            for lanes, counts, owners in self.ranked.windows(some, room, *self.window) if room else ():
                copies = np.repeat(np.arange(len(counts)), counts)
                yield self._with_values(lanes[copies], owners[copies])

    def _portions(self, partitions: Slots) -> Iterator[Slots]:
        """Partitions, grouped into portions of bounded size."""
        sizes = np.minimum(self.ranked.sizes(partitions), self.window[1])
        portion = np.cumsum(sizes) // LOAD
        yield from np.split(partitions, np.flatnonzero(np.diff(portion)) + 1)

    def _with_values(self, lanes: Int64s, owners: Slots) -> list[Column]:
        fresh = np.ones(len(lanes), np.bool_)
        fresh[1:] = owners[1:] != owners[:-1]
        columns = unpack(lanes, self.source.types, self.pool)
        rows = OrderedRows.of(columns, fresh, self._differs(lanes), self.plan.order, self.pool)
        return [*columns, *(window_function_of(call).values(call, rows) for call in self.plan.calls)]

    def _differs(self, lanes: Int64s) -> Bools:
        """Rows whose sort keys differ from those of the row before."""
        differs = np.zeros(len(lanes), np.bool_)
        types = self.source.types
        firsts, nulls = layout(types), value_lanes(types)
        for key in self.plan.order:
            bit = 1 << key.column % NULLS
            null = lanes[:, nulls + key.column // NULLS] & bit
            differs[1:] |= null[1:] != null[:-1]
            for lane in range(firsts[key.column], firsts[key.column] + types[key.column].lanes):
                differs[1:] |= lanes[1:, lane] != lanes[:-1, lane]
        return differs

    def batches(self, rows: int) -> Iterator[list[Column]]:
        for columns in self._answers(self.partitions.slots()):
            for start in range(0, len(columns[0]), rows):
                part = np.arange(start, min(start + rows, len(columns[0])))
                yield [c.take(part) for c in columns]

    def load(self, tables: Sequence[Table]) -> None:
        super().load(tables)
        for rows in self.source.packed():
            self.move(*self.placed(rows))
        self.total.data[0] = self.ranked.count(self.partitions.slots(), *self.window)
        for _ in self._answers(self.partitions.slots()):
            pass  # a value that does not fit is refused when the view is created, not when it is read
