"""DISTINCT above a join whose tree does not produce each row once: each row with the number of times it is derived."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from freshet.errors import StateError
from freshet.scalar.column import Column
from freshet.scalar.lanes import unpack, width
from freshet.scalar.types import Type
from freshet.state.arena import Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.rows import Rows, consolidated
from freshet.state.strings import StringPool
from freshet.state.tuples import Tuples


class DistinctOperator:
    def __init__(self, scope: Scope, pool: StringPool, types: Sequence[Type]) -> None:
        self.types, self.pool = list(types), pool
        self.tuples = Tuples(scope, width(self.types))
        self.counts = scope.array("counts", np.int64)

    def apply(self, rows: Rows) -> Rows:
        """Rows that appeared (+1) or disappeared (-1)."""
        rows = consolidated([rows], rows.lanes.shape[1])
        slots = self.tuples.add(rows.lanes)
        self.counts.grow(len(self.tuples.occupancy.data))
        before = self.counts.data[slots]
        after = before + rows.weights
        if (after < 0).any():
            raise StateError("DISTINCT has a negative count of a row; please report this")
        self.counts.data[slots] = after
        self.tuples.remove(slots[after == 0])
        change = (after > 0).astype(np.int64) - (before > 0)
        changed = change != 0
        return Rows(rows.lanes[changed], change[changed])

    def batches(self, rows: int) -> Iterator[list[Column]]:
        slots = self.tuples.slots()
        for start in range(0, len(slots), rows):
            yield unpack(self.tuples.lanes.data[slots[start : start + rows]], self.types, self.pool)

    def count(self) -> int:
        return self.tuples.live

    def string_marks(self, marked: Bools) -> None:
        lanes: Int64s = self.tuples.lanes.data[self.tuples.slots()]
        at = 0
        for t in self.types:
            if t.pooled:
                marked[lanes[:, at]] = True
            at += t.lanes
