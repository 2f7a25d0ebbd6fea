"""The partition of each row: a number for each key, which is freed when its partition has no rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from freshet.aggregates.accumulators import mark_texts
from freshet.scalar.lanes import pack, unpack, width
from freshet.scalar.types import Type
from freshet.state.arena import Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.strings import StringPool
from freshet.state.tuples import Slots, Tuples


class Partitions:
    """Of rows with columns of `types`, by the columns `key`; without a key there is one partition, which always
    exists."""

    def __init__(self, scope: Scope, types: Sequence[Type], key: Sequence[int], pool: StringPool) -> None:
        self.types = types
        self.key = key
        self.pool = pool
        self.key_types = [types[i] for i in key]
        self.tuples = Tuples(scope, width(self.key_types)) if key else None

    @property
    def room(self) -> int:
        """A number greater than that of any partition."""
        return 1 if self.tuples is None else self.tuples.used

    def of(self, rows: Int64s) -> Slots:
        """The partition of each row; new ones are created."""
        if self.tuples is None:
            return np.zeros(len(rows), np.int32)
        columns = unpack(rows, self.types, self.pool)
        return self.tuples.add(pack([columns[i] for i in self.key], self.pool, len(rows)))

    def drop(self, touched: Slots, roots: Slots) -> None:
        """Drops the touched partitions whose tree is empty."""
        if self.tuples is not None:
            touched = np.unique(touched)
            self.tuples.remove(touched[roots[touched] == 0])

    def slots(self) -> Slots:
        return np.zeros(1, np.int32) if self.tuples is None else self.tuples.slots()

    def string_marks(self, marked: Bools) -> None:
        if self.tuples is not None:
            mark_texts(self.tuples.lanes.data, self.tuples.slots(), self.key_types, 0, marked)
