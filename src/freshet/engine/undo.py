"""Undoes a transaction on the tables that it has already changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from freshet.engine.table import RowChange, Table
from freshet.state.arrays import Int64s
from freshet.state.tuples import Slots


@dataclass(slots=True)
class Undo:
    """Undoes one step of a transaction on its table: rows to restore, slots to free, or, with weights and no rows,
    slots whose weights are restored."""

    table: Table
    rows: Int64s | None
    weights: Int64s | None
    slots: Slots

    @classmethod
    def before(cls, table: Table, change: RowChange) -> Undo:
        weights = None if table.weights is None else table.weights.data[change.removed]
        return cls(table, table.tuples.lanes.data[change.removed], weights, change.removed)

    def take_back(self) -> None:
        none = np.empty(0, np.int64)
        if self.rows is None and self.weights is not None:
            self.table.reweigh(RowChange(self.slots[:0], none.reshape(0, 1), none, self.slots, self.weights))
            return
        if self.rows is None:
            self.table.remove(RowChange(self.slots, none.reshape(0, 1), none))
            return
        absent = self.table.tuples.find(self.rows) < 0
        weights = none if self.weights is None else self.weights[absent]
        self.table.add(RowChange(self.slots[:0], self.rows[absent], weights))
