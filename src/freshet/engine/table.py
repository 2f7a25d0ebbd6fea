"""A stored table: the tuples themselves, shared by every view and every role that reads them.

Rows are packed lanes (scalar/lanes): with a primary key, the key columns come first and identify a row; without one the
table is a bag: a row is identified by all its lanes and has a weight. Views store slots, never values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.engine.sources import read_column
from freshet.logical.query import Field, Retention
from freshet.scalar.arrow import from_arrow
from freshet.scalar.clock import NEVER
from freshet.scalar.column import Column
from freshet.scalar.expression import Reference
from freshet.scalar.lanes import layout, pack, unpack, width
from freshet.state.agenda import Agenda
from freshet.state.arena import Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.enumeration import consolidate
from freshet.state.kernel import AHEAD, kernel
from freshet.state.places import HEAD, HOMES, MASK
from freshet.state.strings import StringPool
from freshet.state.tuples import Slots, Tuples, prefetch_rows, probe, same_row

_TOGETHER = 1 << 16  # rows that are copied at a time
_NO_SLOTS: Slots = np.empty(0, np.int32)
_NO_WEIGHTS: Int64s = np.empty(0, np.int64)


@dataclass(slots=True)
class RowChange:
    """The change of one table in a transaction, resolved against its rows and validated: slots to remove, rows to add
    and, in a bag, the weight of each, and slots whose weight changes."""

    removed: Slots
    added: Int64s
    weights: Int64s
    changed: Slots = field(default_factory=lambda: _NO_SLOTS)
    changed_to: Int64s = field(default_factory=lambda: _NO_WEIGHTS)

    def __len__(self) -> int:
        return len(self.removed) + len(self.added) + len(self.changed)


MISSING, REPEATED = -1, -2


class MissingRowError(Exception):
    """A change removes more copies of a row than exist; `row` is its position in the batch."""

    def __init__(self, row: int) -> None:
        self.row = row


class RepeatedKeyError(MissingRowError):
    """A row is inserted whose primary key already exists."""


@kernel(
    "UniTuple(i8, 3)(i8[::1], i8[:,::1], i8[::1], i8[:,::1], i8[::1], i4[::1], i8[:,::1], i8[::1], i4[::1], i8[::1])"
)
def settle(
    table: Any, lanes: Any, stored: Any, rows: Any, weights: Any, removed: Any, added: Any, after: Any, changed: Any,
    changed_to: Any,
) -> Any:  # fmt: skip
    """Adds up equal rows and looks them up in the table. Returns the number of slots to remove, of rows to add and of
    slots that get another weight; or -1 and the position of a row of which more copies are removed than exist."""
    width, gone, come, kept = rows.shape[1], 0, 0, 0
    chosen = np.empty(rows.shape[0], np.int64)
    m, prefetched = consolidate(rows, weights, chosen), np.int64(0)
    hashes = np.empty(AHEAD, np.uint64)
    for i in range(m):
        j = chosen[i]
        while prefetched <= j:
            prefetch_rows(table, lanes, rows, prefetched, width, hashes)
            prefetched += AHEAD
        entry = table[probe(table, lanes, rows, j, width, hashes[j % AHEAD])]
        have = np.int64(0) if entry == -1 else stored[entry & 0xFFFFFFFF]
        left = have + weights[j]
        if left < 0:
            return MISSING, j, 0
        if have > 0 and left > 0:
            changed[kept] = np.int32(entry & 0xFFFFFFFF)
            changed_to[kept] = left
            kept += 1
        elif have > 0:
            removed[gone] = np.int32(entry & 0xFFFFFFFF)
            gone += 1
        else:
            for lane in range(width):
                added[come, lane] = rows[j, lane]
            after[come] = left
            come += 1
    return gone, come, kept


@kernel("UniTuple(i8, 2)(i8[::1], i8[:,::1], i8, i8[:,::1], i8[::1], i4[::1], i8[:,::1])")
def settle_keyed(table: Any, lanes: Any, key: Any, rows: Any, weights: Any, removed: Any, added: Any) -> Any:
    """The same for a table whose rows are identified by their first `key` lanes. Returns the number of slots to remove
    and of rows to add, or MISSING or REPEATED and the position of the row that does not exist, or whose key already
    exists."""
    n, width, gone, come = rows.shape[0], rows.shape[1], 0, 0
    chosen = np.empty(n, np.int64)
    m = consolidate(rows, weights, chosen)
    homes = 16
    while homes < 2 * m:
        homes *= 2
    index = np.full(HEAD + homes, -1, np.int64)  # keys within this batch, as rows of it
    index[HOMES], index[MASK] = homes, homes - 1
    freed = np.zeros(n, np.bool_)  # by the first row with a key: whether the stored row with that key is removed
    given = np.zeros(n, np.bool_)  # and whether a row with that key is added
    held = np.empty(n, np.int64)  # the stored row with that key, or -1
    owner = np.empty(n, np.int64)
    prefetched, hashes = np.int64(0), np.empty(AHEAD, np.uint64)
    for i in range(m):
        j = chosen[i]
        while prefetched <= j:
            prefetch_rows(table, lanes, rows, prefetched, key, hashes)
            prefetched += AHEAD
        h = hashes[j % AHEAD]
        at = probe(index, rows, rows, j, key, h)
        if index[at] == -1:
            index[at] = np.int64((h << np.uint64(32)) | np.uint64(j))
            entry = table[probe(table, lanes, rows, j, key, h)]
            held[j] = -1 if entry == -1 else entry & 0xFFFFFFFF
        first = index[at] & 0xFFFFFFFF
        owner[j] = first
        slot = held[first]
        if weights[j] < 0:
            if weights[j] < -1 or slot < 0 or freed[first] or not same_row(lanes, slot, rows, j, width):
                return MISSING, j
            freed[first] = True
            removed[gone] = np.int32(slot)
            gone += 1
        else:
            if weights[j] > 1 or given[first]:
                return REPEATED, j
            given[first] = True
    for i in range(m):
        j = chosen[i]
        if weights[j] > 0:
            if held[owner[j]] >= 0 and not freed[owner[j]]:
                return REPEATED, j
            for lane in range(width):
                added[come, lane] = rows[j, lane]
            come += 1
    return gone, come


class Table:
    """Columns are given in declaration order and stored with the primary key first (`order`)."""

    def __init__(
        self, scope: Scope, fields: Sequence[Field], primary_key: Sequence[int], pool: StringPool,
        retention: Retention | None = None,
    ) -> None:  # fmt: skip
        self.fields, self.primary_key, self.pool = tuple(fields), tuple(primary_key), pool
        self.order = (*self.primary_key, *(i for i in range(len(fields)) if i not in self.primary_key))
        self.place = {column: i for i, column in enumerate(self.order)}
        self.types = [fields[i].type for i in self.order]
        self.width = width(self.types)
        self.first_lanes = layout(self.types)
        self.value_lanes = sum(t.lanes for t in self.types)
        self.text_lanes = [lane for t, lane in zip(self.types, self.first_lanes, strict=True) if t.pooled]
        key_lanes = sum(t.lanes for t in self.types[: len(self.primary_key)]) if self.primary_key else None
        self.tuples = Tuples(scope, self.width, key_lanes)
        self.weights = None if self.primary_key else scope.array("weight", np.int64)
        self.greatest = scope.array("greatest", np.int64)  # greatest weight that any row ever had, 0 while all are 1
        self.scope = scope
        self.retention = retention
        self.agenda = None if retention is None else Agenda(scope.scope("agenda"))  # when rows expire
        self.memo: Any = None  # the form of the last changes (database/changes)

    @property
    def capacity(self) -> int:
        return len(self.tuples.occupancy.data)

    @property
    def counted(self) -> bool:
        """Whether weights matter: some row has had more than one copy."""
        return bool(self.greatest.data[0])

    @property
    def heaviest(self) -> int:
        """An upper bound on the weight of rows."""
        return max(int(self.greatest.data[0]), 1)

    def lane(self, column: int) -> tuple[int, int, int]:
        """First lane of a column, its null lane and its bit there."""
        at = self.place[column]
        return self.first_lanes[at], self.value_lanes + at // 63 if self.fields[column].nullable else -1, at % 63

    def columns(self, slots: Slots) -> list[Column]:
        """The rows in the given slots, columns in declaration order."""
        stored = unpack(self.tuples.lanes.data[slots], self.types, self.pool)
        return [stored[self.place[i]] for i in range(len(self.fields))]

    def reader(self, slots: Slots) -> Callable[[Reference], Column]:
        lanes = self.tuples.lanes.data
        return lambda c: read_column(lanes, slots, c.type, self.lane(c.column), self.pool)

    def resolve(self, rows: Int64s, weights: Int64s) -> RowChange:
        """Resolves signed rows to a change of the table, which itself is unchanged; overwrites `weights`. Raises
        MissingRowError or RepeatedKeyError."""
        n, t = len(rows), self.tuples
        removed, added = np.empty(n, np.int32), np.empty(rows.shape, np.int64)
        if self.weights is None:
            gone, come = settle_keyed(t.table.data, t.lanes.data, t.key_lanes, rows, weights, removed, added)
            if gone < 0:
                raise (MissingRowError if gone == MISSING else RepeatedKeyError)(come)
            return RowChange(removed[:gone], added[:come], _NO_WEIGHTS)
        after, changed, changed_to = np.empty(n, np.int64), np.empty(n, np.int32), np.empty(n, np.int64)
        gone, come, kept = settle(
            t.table.data, t.lanes.data, self.weights.data, rows, weights, removed, added, after, changed, changed_to
        )
        if gone < 0:
            raise MissingRowError(come)
        return RowChange(removed[:gone], added[:come], after[:come], changed[:kept], changed_to[:kept])

    def remove(self, change: RowChange) -> None:
        if len(change.removed):
            self.tuples.remove(change.removed)
            if self.agenda is not None:
                self.agenda.take(change.removed)
            if self.weights is not None:
                self.weights.data[change.removed] = 0

    def add(self, change: RowChange) -> Slots:
        if not len(change.added):
            return np.empty(0, np.int32)
        slots = self.tuples.add(change.added)
        if self.weights is not None:
            self.weights.grow(self.capacity)
            self._weigh(slots, change.weights)
        self._schedule(slots)
        return slots

    def _schedule(self, slots: Slots) -> None:
        """Schedules the expiry of added rows."""
        if self.agenda is None or self.retention is None:
            return
        moment = self.retention.moment
        lane, null_lane, bit = self.lane(moment.column)
        rows = self.tuples.lanes.data[slots]
        times = moment.of(np.ascontiguousarray(rows[:, lane]), self.fields[moment.column].type)
        if null_lane >= 0:
            times[rows[:, null_lane] & (1 << bit) != 0] = NEVER
        self.agenda.put(slots, times)

    def overdue(self, now: int) -> Slots:
        """The rows that have expired."""
        if self.agenda is None:
            return _NO_SLOTS
        slots = self.agenda.due(now)
        self.agenda.put(slots, self.agenda.times.data[slots])
        return slots

    def reweigh(self, change: RowChange) -> Int64s:
        """Sets the new weights of tuples; returns the old ones."""
        assert self.weights is not None
        before = self.weights.data[change.changed]
        self._weigh(change.changed, change.changed_to)
        return before

    def _weigh(self, slots: Slots, weights: Int64s) -> None:
        assert self.weights is not None
        self.weights.data[slots] = weights
        most, known = int(weights.max()), int(self.greatest.data[0])
        if most > max(known, 1):
            self.greatest.data[0] = most
            if not known:
                self.weights.changed()

    def fill(self, other: Table, columns: Sequence[int]) -> None:
        """Copies the rows of another table, whose columns at the given positions become the columns of this one; -1
        means NULL. Rows that become equal are added up."""
        slots = other.tuples.slots()
        for start in range(0, len(slots), _TOGETHER):
            part = slots[start : start + _TOGETHER]
            stored, n = other.columns(part), len(part)
            made = [
                stored[c] if c >= 0 else from_arrow(pa.nulls(n, f.type.to_arrow()), f.type)
                for c, f in zip(columns, self.fields, strict=True)
            ]
            weights = np.ones(n, np.int64) if other.weights is None else other.weights.data[part]
            change = self.resolve(pack([made[i] for i in self.order], self.pool, n), weights)
            if len(change.changed):
                self.reweigh(change)
            self.add(change)

    def reserve(self, rows: int, gone: int = 0) -> None:
        """Makes room for rows, after so many others are removed."""
        self.tuples.reserve(rows, gone)
        if self.weights is not None:
            self.weights.grow(self.capacity)

    def repack(self) -> None:
        """Moves the rows to the first slots and frees the others. Nothing may refer to slots."""
        weights = None if self.weights is None else self.weights.data[self.tuples.slots()]
        self.tuples.repack()
        if self.agenda is not None:
            self.agenda.clear()
            self._schedule(self.tuples.slots())
        if self.weights is not None and weights is not None:
            self.weights.reset()
            self.weights.data[: len(weights)] = weights
            self.weights.shrink(len(weights))
        self.tuples.shrink()
        if self.weights is not None:
            self.weights.match(self.capacity)

    def string_marks(self, marked: Bools) -> None:
        """Marks the texts of the table, so that the pool keeps them."""
        slots = self.tuples.slots()
        for lane in self.text_lanes:
            marked[self.tuples.lanes.data[slots, lane]] = True
