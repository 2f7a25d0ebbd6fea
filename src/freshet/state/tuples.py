"""Distinct rows of 64-bit lanes and their slots: the one hash structure under tables, key dictionaries and groups.

A slot is a small integer that belongs to a row until the row is removed; freed slots are reused first. The index is
open addressing with linear probing (state/places); an entry holds 32 bits of hash next to the slot, so a probe touches
a row only when it very likely matches, and removal shifts later entries back instead of leaving tombstones, so the
index does not degrade under many changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from freshet.state.arena import Growable, Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.kernel import AHEAD, FAR, inlined, kernel, prefetch
from freshet.state.places import clear, following, hash_of, home, make_index, narrow, take_out, widen

Slots = npt.NDArray[np.int32]

USED, FREE, LIVE = 0, 1, 2  # meta: slots ever used, length of the free list, rows now


@inlined
def hash_row(rows: Any, j: Any, width: Any) -> Any:
    """32 well-mixed bits of a row's first `width` lanes."""
    h = np.uint64(0x9E3779B97F4A7C15)
    for i in range(width):
        h ^= np.uint64(rows[j, i])
        h *= np.uint64(0xD6E8FEB86659FD93)
        h ^= h >> np.uint64(32)
    return h & np.uint64(0xFFFFFFFF)


@inlined
def same_row(lanes: Any, slot: Any, rows: Any, j: Any, width: Any) -> Any:
    for i in range(width):
        if lanes[slot, i] != rows[j, i]:
            return False
    return True


@inlined
def probe(table: Any, lanes: Any, rows: Any, j: Any, width: Any, h: Any) -> Any:
    """Position in `table` of row j's entry, or of the empty place for it."""
    at = home(table, np.int64(h))
    while True:
        entry = table[at]
        if entry == -1:
            return at
        if hash_of(entry) == np.int64(h) and same_row(lanes, entry & 0xFFFFFFFF, rows, j, width):
            return at
        at = following(table, at)


@inlined
def prefetch_rows(table: Any, lanes: Any, rows: Any, j: Any, width: Any, hashes: Any) -> None:
    """Hashes the rows from j on, and prefetches what `probe` will read for them: their places in the table, then the
    rows found there."""
    n = min(AHEAD, rows.shape[0] - j)
    for i in range(n):
        hashes[i] = hash_row(rows, j + i, width)
    if lanes.shape[0] < FAR:
        return
    places, stored, row_bytes = table.ctypes.data, lanes.ctypes.data, 8 * lanes.shape[1]
    for i in range(n):
        prefetch(places + 8 * home(table, np.int64(hashes[i])))
    for i in range(n):
        entry = table[home(table, np.int64(hashes[i]))]
        if entry != -1:
            prefetch(stored + row_bytes * (entry & 0xFFFFFFFF))


@inlined
def prefetch_slots(lanes: Any, slots: Any, j: Any) -> None:
    """Prefetches the rows in the slots from j on."""
    if lanes.shape[0] < FAR:
        return
    stored, row_bytes = lanes.ctypes.data, 8 * lanes.shape[1]
    for i in range(j, min(j + AHEAD, slots.size)):
        prefetch(stored + row_bytes * np.int64(slots[i]))


@inlined
def _prefetch_whole(lanes: Any, slots: Any) -> None:
    """Prefetches all of the rows in the slots, which will be written."""
    if lanes.shape[0] < FAR:
        return
    stored, row_bytes = lanes.ctypes.data, 8 * lanes.shape[1]
    for i in range(slots.size):
        for at in range(0, row_bytes, 64):
            prefetch(stored + row_bytes * np.int64(slots[i]) + at)


@kernel("void(i8[::1], i8[:,::1], i8, i8[:,::1], i4[::1])")
def find_rows(table: Any, lanes: Any, width: Any, rows: Any, out: Any) -> None:
    hashes = np.empty(AHEAD, np.uint64)
    for j in range(rows.shape[0]):
        if j % AHEAD == 0:
            prefetch_rows(table, lanes, rows, j, width, hashes)
        entry = table[probe(table, lanes, rows, j, width, hashes[j % AHEAD])]
        out[j] = -1 if entry == -1 else np.int32(entry & 0xFFFFFFFF)


@inlined
def put_row(table: Any, lanes: Any, occupied: Any, free: Any, meta: Any, rows: Any, j: Any, at: Any, h: Any) -> Any:
    """Stores row j, whose place in the table is the empty one at `at`; returns its slot."""
    if meta[FREE] > 0:
        meta[FREE] -= 1
        slot = np.int64(free[meta[FREE]])
    else:
        slot = meta[USED]
        meta[USED] += 1
    meta[LIVE] += 1
    occupied[slot] = 1
    for i in range(rows.shape[1]):
        lanes[slot, i] = rows[j, i]
    table[at] = np.int64((h << np.uint64(32)) | np.uint64(slot))
    return slot


@kernel("void(i8[::1], i8[:,::1], i1[::1], i4[::1], i8[::1], i8, i8[:,::1], i4[::1], b1[::1])")
def add_rows(
    table: Any, lanes: Any, occupied: Any, free: Any, meta: Any, width: Any, rows: Any, out: Any, fresh: Any
) -> None:
    hashes = np.empty(AHEAD, np.uint64)
    for j in range(rows.shape[0]):
        if j % AHEAD == 0:
            prefetch_rows(table, lanes, rows, j, width, hashes)
            _prefetch_whole(lanes, free[max(meta[FREE] - AHEAD, 0) : meta[FREE]])
        h = hashes[j % AHEAD]
        at = probe(table, lanes, rows, j, width, h)
        entry = table[at]
        fresh[j] = entry == -1
        slot = put_row(table, lanes, occupied, free, meta, rows, j, at, h) if entry == -1 else entry & 0xFFFFFFFF
        out[j] = np.int32(slot)


@kernel("void(i8[::1], i8[:,::1], i1[::1], i4[::1], i8[::1], i8, i4[::1])")
def remove_rows(table: Any, lanes: Any, occupied: Any, free: Any, meta: Any, width: Any, slots: Any) -> None:
    for j in range(slots.size):
        if j % AHEAD == 0 and lanes.shape[0] >= FAR:
            prefetch_slots(lanes, slots, j)
            for i in range(j, min(j + AHEAD, slots.size)):
                prefetch(table.ctypes.data + 8 * home(table, np.int64(hash_row(lanes, slots[i], width))))
        slot = np.int64(slots[j])
        at = home(table, np.int64(hash_row(lanes, slot, width)))
        while (table[at] & 0xFFFFFFFF) != slot or table[at] == -1:
            at = following(table, at)
        take_out(table, at)
        occupied[slot] = 0
        free[meta[FREE]] = np.int32(slot)
        meta[FREE] += 1
        meta[LIVE] -= 1


class Tuples:
    """Rows of `lanes` lanes, distinct in their first `key_lanes` lanes (by default all)."""

    def __init__(self, scope: Scope, lanes: int, key_lanes: int | None = None) -> None:
        self.width, self.key_lanes = lanes, lanes if key_lanes is None else key_lanes
        self.lanes = scope.array("lanes", np.int64, columns=max(lanes, 1))
        self.table = scope.array("places", np.int64, fill=-1)
        make_index(self.table)
        self.occupancy = scope.array("occupied", np.int8)
        self.free = scope.array("free", np.int32)
        self.meta: Growable = scope.array("meta", np.int64)

    @property
    def used(self) -> int:
        return int(self.meta.data[USED])

    @property
    def live(self) -> int:
        return int(self.meta.data[LIVE])

    def reserve(self, rows: int, gone: int = 0) -> None:
        """Makes room for that many more rows, after so many others are removed."""
        meta = self.meta.data
        need = int(meta[USED]) + rows
        if need > len(self.occupancy.data):
            self.lanes.grow(need)
            self.free.grow(self.lanes.capacity)
            self.occupancy.match(self.lanes.capacity)  # last: memory may fail, and its capacity implies the others'
        widen(self.table, int(meta[LIVE]) - gone + rows)

    def find(self, rows: Int64s) -> Slots:
        """Slot of each row (only its key lanes are read), -1 where absent."""
        out = np.empty(len(rows), np.int32)
        find_rows(self.table.data, self.lanes.data, self.key_lanes, rows, out)
        return out

    def add(self, rows: Int64s) -> Slots:
        return self.add_fresh(rows)[0]

    def add_fresh(self, rows: Int64s) -> tuple[Slots, Bools]:
        """The slot of each row, and whether this call created it. A row whose key already exists is unchanged."""
        self.reserve(len(rows))
        out, fresh = np.empty(len(rows), np.int32), np.empty(len(rows), np.bool_)
        add_rows(
            self.table.data, self.lanes.data, self.occupancy.data, self.free.data, self.meta.data, self.key_lanes,
            rows, out, fresh,
        )  # fmt: skip
        return out, fresh

    def remove(self, slots: Slots) -> None:
        remove_rows(
            self.table.data, self.lanes.data, self.occupancy.data, self.free.data, self.meta.data, self.key_lanes, slots
        )

    def slots(self) -> Slots:
        """Every occupied slot, ascending."""
        return np.flatnonzero(self.occupancy.data[: self.used]).astype(np.int32)

    def repack(self) -> Slots:
        """Moves the rows to the first slots, in the order of their old slots, which it returns. All memory is allocated
        before anything changes."""
        slots, meta = self.slots(), self.meta.data
        rows = np.ascontiguousarray(self.lanes.data[slots])
        out, fresh = np.empty(len(rows), np.int32), np.empty(len(rows), np.bool_)
        self.reset()
        add_rows(
            self.table.data,
            self.lanes.data,
            self.occupancy.data,
            self.free.data,
            meta,
            self.key_lanes,
            rows,
            out,
            fresh,
        )
        return slots

    def shrink(self) -> None:
        """Frees the memory of unused slots, if it is most of it."""
        narrow(self.table, self.live)
        self.occupancy.shrink(self.used)  # first, because its capacity implies that of the others
        for array in (self.lanes, self.free):
            array.shrink(len(self.occupancy.data))

    def reset(self) -> None:
        clear(self.table)
        self.occupancy.reset()
        self.meta.reset()
