"""A stored table: the tuples themselves, shared by every view and every role that reads them.

Rows are packed lanes (scalar/lanes): with a primary key, the key columns come first and identify a row; without one the
table is a bag: a row is identified by all its lanes and has a weight. Views store slots, never values.

In a table with a primary key, texts of columns that no operator reads are *plain*: only their row knows them
(state/heap). Law: an operator reads lanes, so its columns are `interned` before it exists, and they stay so. Everything
else reads columns (`columns`, `reader`), in which a plain text is as good as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.engine.settle import MISSING, add_up, settle, settle_keyed
from freshet.engine.sources import read_column
from freshet.interrupts import Deferred
from freshet.logical.query import Field, Retention
from freshet.scalar.arrow import from_arrow
from freshet.scalar.clock import NEVER
from freshet.scalar.column import Column
from freshet.scalar.expression import Reference
from freshet.scalar.lanes import layout, pack, unpack, width
from freshet.scalar.types import BIGINT
from freshet.state.agenda import Agenda
from freshet.state.arena import Scope
from freshet.state.arrays import BYTES, Bools, Int64s
from freshet.state.heap import NO_BASES, NO_LANES, FullHeapError, Heap, texts_at
from freshet.state.rows import Rows, consolidated, joined
from freshet.state.strings import StringPool
from freshet.state.tuples import Slots, Tuples

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


class MissingRowError(Exception):
    """A change removes more copies of a row than exist; `row` is its position in the batch."""

    def __init__(self, row: int) -> None:
        self.row = row


class RepeatedKeyError(MissingRowError):
    """A row is inserted whose primary key already exists."""


class Table:
    """Columns are given in declaration order and stored with the primary key first (`order`). `plain`: whether texts
    that no operator reads may be plain."""

    def __init__(
        self, scope: Scope, fields: Sequence[Field], primary_key: Sequence[int], pool: StringPool,
        retention: Retention | None = None, plain: bool = False,
    ) -> None:  # fmt: skip
        self.fields, self.primary_key, self.pool = tuple(fields), tuple(primary_key), pool
        self.order = (*self.primary_key, *(i for i in range(len(fields)) if i not in self.primary_key))
        self.place = {column: i for i, column in enumerate(self.order)}
        self.types = [fields[i].type for i in self.order]
        self.width = width(self.types)
        self.first_lanes = layout(self.types)
        self.value_lanes = sum(t.lanes for t in self.types)
        self.pooled_lanes = [lane for t, lane in zip(self.types, self.first_lanes, strict=True) if t.pooled]
        key_lanes = sum(t.lanes for t in self.types[: len(self.primary_key)]) if self.primary_key else None
        self.tuples = Tuples(scope, self.width, key_lanes)
        self.weights = None if self.primary_key else scope.array("weight", np.int64)
        self.greatest = scope.array("greatest", np.int64)  # greatest weight that any row ever had, 0 while all are 1
        self.scope = scope
        self.retention = retention
        self.agenda = None if retention is None else Agenda(scope.scope("agenda"))  # when rows expire
        self.memo: Any = None  # the form of the last changes (database/changes)
        may_be = [t.pooled is not None and not t.is_nested for t in self.types]
        self._may_be_plain = [i for i in range(len(self.primary_key), len(may_be)) if may_be[i]]
        self.heap: Heap | None = None
        if plain and self.primary_key and self._may_be_plain:
            self.heap, self._interned = Heap(scope), scope.array("interned", np.int8)
            self._interned.match(len(self.types))
        self._note_plain()

    # Plain texts ----------------------------------------------------------------------------------------------

    def _note_plain(self) -> None:
        kept = [] if self.heap is None else [i for i in self._may_be_plain if not self._interned.data[i]]
        self.plain_lanes: Int64s = np.array([self.first_lanes[i] for i in kept], np.int64)
        self._plain_places = kept
        self._is_plain = NO_LANES if not kept else np.isin(np.arange(self.width), self.plain_lanes)
        #: The lanes of texts in the pool.
        self.text_lanes = [lane for lane in self.pooled_lanes if lane not in self.plain_lanes]

    def is_plain(self, column: int) -> bool:
        return self.place[column] in self._plain_places

    def intern(self, columns: Iterable[int]) -> None:
        """From now on the texts of these columns are in the pool. Rows that were packed before, but are not stored yet,
        need to be `current`."""
        places = [self.place[c] for c in columns if self.is_plain(c)]
        if not places or self.heap is None:
            return
        slots, before = self.tuples.slots(), self.pool.loose
        ids = [np.empty(len(slots), np.int64) for _ in places]
        for start in range(0, len(slots), _TOGETHER):
            part = slice(start, start + _TOGETHER)
            for place, interned in zip(places, ids, strict=True):
                lanes = self.tuples.lanes.data[slots[part], self.first_lanes[place]]
                interned[part] = self.pool.intern(self.heap.text(lanes, self._kind(place)))
        with Deferred():
            for place, interned in zip(places, ids, strict=True):
                self.tuples.lanes.data[slots, self.first_lanes[place]] = interned
            self._interned.data[places] = 1
            self._note_plain()
            self.memo = None
            self.pool.held(self.pool.loose - before)

    def _intern_all(self) -> None:
        self.intern([self.order[place] for place in self._plain_places])

    def _kind(self, place: int) -> pa.DataType:
        kind = self.types[place].pooled
        assert kind is not None
        return kind

    def current(self, rows: Int64s) -> Int64s:
        """Rows that were packed or stored when more columns were plain."""
        for place in self._may_be_plain if self.heap is not None else ():
            lane = self.first_lanes[place]
            if lane in self.text_lanes and (rows[:, lane] < 0).any():
                assert self.heap is not None
                was = np.flatnonzero(rows[:, lane] < 0)
                rows = rows.copy()
                rows[was, lane] = self.pool.intern(self.heap.text(rows[was, lane], self._kind(place)))
        return rows

    def encoded(self, lane: int) -> bytes:
        """The text of a lane."""
        if lane >= 0 or self.heap is None:
            return self.pool.encoded(lane)
        return bytes(self.heap.text(np.array([lane]), BYTES)[0].as_py())

    def consolidated(self, parts: Sequence[Rows]) -> Rows:
        """Adds up equal rows of the table, and drops sums of zero. Overwrites the weights of the parts."""
        if self.heap is None:
            return consolidated(parts, self.width)
        whole = joined([Rows(self.current(part.lanes), part.weights) for part in parts], self.width)
        chosen = np.empty(len(whole), np.int64)
        bases = np.full(self.width, self.heap.address)
        found = add_up(whole.lanes, whole.weights, self.tuples.key_lanes, bases, self._is_plain, chosen)
        return Rows(whole.lanes[chosen[:found]], whole.weights[chosen[:found]])

    def mark(self) -> int:
        """Records the end of the heap, for `undo`."""
        return 0 if self.heap is None else self.heap.end

    def undo(self, mark: int) -> None:
        """Removes the plain texts added since; no stored row may have one."""
        if self.heap is not None:
            self.heap.undo(mark)

    @property
    def text_bytes(self) -> int:
        """Bytes of plain texts, those included that will be freed."""
        return 0 if self.heap is None else self.heap.end

    def tidy(self, removed: int = 0) -> None:
        """Frees the plain texts of removed rows, of which there are `removed` more, if there are many. Only stored rows
        may have plain texts."""
        if self.heap is not None:
            self.heap.tidy(self.tuples, self.plain_lanes, removed)

    def differ(self, rows: Int64s, others: Int64s, lane: int) -> Bools:
        """Which rows differ in a lane."""
        if self._is_plain.size and self._is_plain[lane] and self.heap is not None:
            return self.heap.differ(rows[:, lane], others[:, lane])
        different: Bools = rows[:, lane] != others[:, lane]
        return different

    # Rows -----------------------------------------------------------------------------------------------------

    def pack(self, columns: Sequence[Column], rows: int) -> Int64s:
        """Packs columns in declaration order."""
        ordered = [columns[i] for i in self.order]
        if self.heap is not None and self._plain_places:
            mark = self.heap.end
            try:
                for place in self._plain_places:
                    ordered[place] = _plain(ordered[place], self.heap)
            except FullHeapError:
                self.heap.undo(mark)
                self._intern_all()
                ordered = [columns[i] for i in self.order]
        return pack(ordered, self.pool, rows)

    def unpack(self, rows: Int64s, bases: Int64s | None = None) -> list[Column]:
        """Packed rows as columns in declaration order. `bases`: as `resolve` takes it."""
        stored = unpack(rows, self.types, self.pool)
        for place in self._plain_places:
            assert self.heap is not None
            lane, c = self.first_lanes[place], stored[place]
            base, unit = (self.heap.address, 8) if bases is None else (int(bases[lane]), 1)
            stored[place] = Column(c.type, texts_at(rows[:, lane], base, unit, self._kind(place), c.valid), c.valid)
        return [stored[self.place[i]] for i in range(len(self.fields))]

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
        """First lane of a column, its null lane and its bit there. Operators, which compare lanes, get only those of
        interned columns."""
        assert not self.is_plain(column), f"column {column} is read before it is interned"
        return self.lane_of(column)

    def lane_of(self, column: int) -> tuple[int, int, int]:
        """The same of any column."""
        at = self.place[column]
        return self.first_lanes[at], self.value_lanes + at // 63 if self.fields[column].nullable else -1, at % 63

    def columns(self, slots: Slots) -> list[Column]:
        """The rows in the given slots, columns in declaration order."""
        return self.unpack(self.tuples.lanes.data[slots])

    def reader(self, slots: Slots) -> Callable[[Reference], Column]:
        lanes = self.tuples.lanes.data

        def read(c: Reference) -> Column:
            column = read_column(lanes, slots, c.type, self.lane_of(c.column), self.pool)
            if self.heap is None or not self.is_plain(c.column):
                return column
            texts = self.heap.text(column.data, self._kind(self.place[c.column]), column.valid)
            return Column(column.type, texts, column.valid)

        return read

    def resolve(self, rows: Int64s, weights: Int64s, bases: Int64s | None = None) -> RowChange:
        """Resolves signed rows to a change of the table, which itself is unchanged; overwrites `weights`. Plain texts
        are in the heap, or, for each lane, at a base (`read_texts`); those of added rows are then stored. Raises
        MissingRowError or RepeatedKeyError."""
        n, t = len(rows), self.tuples
        removed, added = np.empty(n, np.int32), np.empty(rows.shape, np.int64)
        if self.weights is None:
            heap, at, unit, plain = NO_BASES, NO_BASES, 8, self._is_plain
            if self.heap is not None and plain.size:
                heap = np.full(self.width, self.heap.address)
                at, unit = (heap, 8) if bases is None else (bases, 1)
            gone, come = settle_keyed(
                t.table.data, t.lanes.data, t.key_lanes, rows, weights, removed, added, heap, at, unit, plain
            )
            if gone < 0:
                raise (MissingRowError if gone == MISSING else RepeatedKeyError)(come)
            if bases is not None:
                self._store(added[:come], bases)
            return RowChange(removed[:gone], added[:come], _NO_WEIGHTS)
        after, changed, changed_to = np.empty(n, np.int64), np.empty(n, np.int32), np.empty(n, np.int64)
        gone, come, kept = settle(
            t.table.data, t.lanes.data, self.weights.data, rows, weights, removed, added, after, changed, changed_to
        )
        if gone < 0:
            raise MissingRowError(come)
        return RowChange(removed[:gone], added[:come], after[:come], changed[:kept], changed_to[:kept])

    def _store(self, rows: Int64s, bases: Int64s) -> None:
        """Stores the plain texts of rows that were read."""
        assert self.heap is not None
        try:
            self.heap.store(rows, self.plain_lanes, bases)
        except FullHeapError:
            places = self._plain_places
            lanes = [self.first_lanes[place] for place in places]
            texts = [texts_at(rows[:, k], int(bases[k]), 1, self._kind(p)) for p, k in zip(places, lanes, strict=True)]
            self._intern_all()
            for lane, given in zip(lanes, texts, strict=True):
                rows[:, lane] = self.pool.intern(given)

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
        lane, null_lane, bit = self.lane_of(moment.column)
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
            change = self.resolve(self.pack(made, n), weights)
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
        """Marks the texts that the table has in the pool, so that the pool keeps them."""
        slots = self.tuples.slots()
        for lane in self.text_lanes:
            marked[self.tuples.lanes.data[slots, lane]] = True


def _plain(column: Column, heap: Heap) -> Column:
    """The lanes of texts that are added to a heap."""
    texts = column.data if column.pool is None else column.pool.text(column.data, column.valid, BYTES)
    lanes = heap.add(texts)
    return Column(BIGINT, lanes, column.valid)
