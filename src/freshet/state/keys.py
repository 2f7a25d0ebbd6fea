"""Keys of edges: a dictionary from key lanes to dense ids, and the id of each tuple, kept by slot.

Both ends of an edge share the dictionary, and so do edges whose ends read the same columns of the same table: a tuple
is hashed once for each distinct key it has, and all further steps use integers. Unused ids are swept once the number of
removed tuples is half the number of ids, and half the number of tuples to look through: O(1) amortized.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.arena import Growable, Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.kernel import AHEAD, FAR, inlined, kernel, prefetch
from freshet.state.tuples import LIVE, Slots, Tuples, prefetch_rows, prefetch_slots, probe, put_row

# Columns of a key's parts: first lane, lanes, null lane (-1: never NULL), bit, whether NULL is a value like any other.
PART_COLUMNS = 5

#: Tuples for whose keys room is made at a time: no more than that is made in vain, if all of them have the same key.
ROOM_FOR = 1024

_FEW = 1024  # fewer removed tuples are not worth a sweep


@inlined
def read_key(lanes: Any, s: Any, parts: Any, rows: Any, i: Any) -> Any:
    """Copies the key of tuple s to rows[i]; false if it has no key because of a NULL."""
    at, nulls, null_safe = 0, np.int64(0), False
    for p in range(parts.shape[0]):
        null = parts[p, 2] >= 0 and ((lanes[s, parts[p, 2]] >> parts[p, 3]) & 1) == 1
        if null and parts[p, 4] == 0:
            return False
        null_safe |= parts[p, 4] != 0
        if null:
            nulls |= np.int64(1) << p
        for lane in range(parts[p, 1]):
            rows[i, at] = lanes[s, parts[p, 0] + lane]
            at += 1
    if null_safe:
        rows[i, at] = nulls
    return True


@inlined
def read_keys(lanes: Any, slots: Any, parts: Any, ids: Any, rows: Any, has_key: Any) -> None:
    """Reads the keys of the next tuples."""
    if lanes.shape[0] >= FAR:
        prefetch_slots(lanes, slots, 0)
        for i in range(min(AHEAD, slots.size)):
            prefetch(ids.ctypes.data + 4 * np.int64(slots[i]))
    for i in range(min(AHEAD, slots.size)):
        has_key[i] = read_key(lanes, np.int64(slots[i]), parts, rows, i)


@kernel("i8(i8[:,::1], i4[::1], i8[:,::1], i8[::1], i8[:,::1], i1[::1], i4[::1], i8[::1], i8[:,::1], i4[::1], i4[::1])")
def assign_keys(
    lanes: Any, slots: Any, parts: Any, table: Any, keys: Any, occupied: Any, free: Any, meta: Any, rows: Any, ids: Any,
    fresh: Any,
) -> Any:  # fmt: skip
    """Sets ids[s] for each tuple, -1 if it has no key; lists new ids in `fresh` and returns their number. `rows` has
    room for AHEAD keys."""
    width, made = rows.shape[1], 0
    has_key, hashes = np.empty(AHEAD, np.bool_), np.empty(AHEAD, np.uint64)
    for j in range(slots.size):
        i = j % AHEAD
        if i == 0:
            read_keys(lanes, slots[j:], parts, ids, rows, has_key)
            prefetch_rows(table, keys, rows[: slots.size - j], 0, width, hashes)
        s, h = np.int64(slots[j]), hashes[i]
        if not has_key[i]:
            ids[s] = -1
            continue
        at = probe(table, keys, rows, i, width, h)
        entry = table[at]
        if entry != -1:
            ids[s] = np.int32(entry & 0xFFFFFFFF)
            continue
        k = put_row(table, keys, occupied, free, meta, rows, i, at, h)
        ids[s] = np.int32(k)
        fresh[made] = k
        made += 1
    return made


class Dictionary:
    """Distinct keys of `width` lanes."""

    def __init__(self, scope: Scope, width: int) -> None:
        self.tuples, self.width = Tuples(scope, width), width
        self.gone: Growable = scope.array(
            "gone", np.int64
        )  # [tuples with these keys that were removed since the last sweep]
        self.rows = np.zeros((AHEAD, width), np.int64)

    @property
    def capacity(self) -> int:
        return len(self.tuples.occupancy.data)

    def assign(self, lanes: Int64s, slots: Slots, parts: Int64s, ids: Slots) -> Slots:
        """Writes the ids of the keys of tuples to ids[slot]; returns the new ids."""
        t, made = self.tuples, 0
        fresh = np.empty(len(slots), np.int32)
        for start in range(0, len(slots), ROOM_FOR):
            part = slots[start : start + ROOM_FOR]
            t.reserve(len(part))
            made += assign_keys(
                lanes, part, parts, t.table.data, t.lanes.data, t.occupancy.data, t.free.data, t.meta.data, self.rows,
                ids, fresh[made:],
            )  # fmt: skip
        return fresh[:made]

    def add(self, rows: Int64s, has_key: Bools, slots: Slots, ids: Slots) -> Slots:
        """The same for keys computed by expressions."""
        ids[slots[~has_key]] = -1
        found, fresh = self.tuples.add_fresh(np.ascontiguousarray(rows[has_key]))
        ids[slots[has_key]] = found
        return found[fresh]

    def patience(self, tuples: int) -> int:
        """The number of removed tuples for which a sweep pays: each can leave an unused key, and a sweep visits all
        keys and `tuples` tuples."""
        return max(_FEW, int(self.tuples.meta.data[LIVE]) // 2, tuples // 2)

    def wants_sweep(self, tuples: int) -> bool:
        return bool(self.gone.data[0] > self.patience(tuples))

    def sweep(self, marked: Bools) -> Slots:
        """Frees the keys that are not marked, and returns them."""
        slots = self.tuples.slots()
        gone = slots[~marked[slots]]
        self.tuples.remove(gone)
        self.gone.data[0] = 0
        return gone
