"""Signed rows settled against the rows of a table: what to remove, and what to add.

Law: equal rows are added up first. A row that is left is removed if its sum is negative, and must exist; otherwise it
is added, and with a primary key its key must be free by then. Rows are equal if their lanes are, and of plain texts
(state/heap) if these are; keys have no plain texts, so the key of a row is enough to hash it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.enumeration import MOST_COPIES, consolidate
from freshet.state.heap import address_of, is_long, same_with_texts
from freshet.state.kernel import AHEAD, FAR, inlined, kernel, prefetch
from freshet.state.places import HEAD, HOMES, MASK, home
from freshet.state.tuples import hash_row, prefetch_rows, probe, same_row

MISSING, REPEATED = -1, -2

_LINE = 64  # bytes of a cache line


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


@inlined
def _add_up(rows: Any, weights: Any, key: Any, bases: Any, unit: Any, plain: Any, chosen: Any) -> Any:
    """The same as `consolidate`, but rows are hashed by their first `key` lanes."""
    n = rows.shape[0]
    size = 16
    while size < 2 * n:
        size *= 2
    index = np.full(size, -1, np.int64)
    mask = np.int64(size - 1)
    for j in range(n):
        h = hash_row(rows, j, key)
        at = np.int64(h) & mask
        while True:
            entry = index[at]
            if entry == -1:
                index[at] = np.int64((h << np.uint64(32)) | np.uint64(j))
                break
            i = entry & 0xFFFFFFFF
            if (np.uint64(entry) >> np.uint64(32)) == h and same_with_texts(
                rows, i, bases, unit, rows, j, bases, unit, plain
            ):
                weights[i] += weights[j]
                weights[j] = 0
                if weights[i] > MOST_COPIES or weights[i] < -MOST_COPIES:
                    return np.int64(-1)
                break
            at = (at + 1) & mask
    m = 0
    for j in range(n):
        if weights[j] != 0:
            chosen[m] = j
            m += 1
    return np.int64(m)


@kernel("i8(i8[:,::1], i8[::1], i8, i8[::1], b1[::1], i8[::1])")
def add_up(rows: Any, weights: Any, key: Any, bases: Any, plain: Any, chosen: Any) -> Any:
    """Adds up equal rows of a table with a primary key, whose texts are in its heap, as `consolidate` does."""
    return _add_up(rows, weights, key, bases, 8, plain, chosen)


@inlined
def _prefetch_stored(
    table: Any, lanes: Any, rows: Any, weights: Any, j: Any, key: Any, hashes: Any, heap: Any, plain: Any
) -> None:
    """Prefetches what comparing the rows from j on with stored rows will read beyond the beginning of these."""
    if lanes.shape[0] < FAR or 8 * lanes.shape[1] <= _LINE:
        return
    n, row_bytes = min(AHEAD, rows.shape[0] - j), 8 * lanes.shape[1]
    for i in range(n):
        entry = table[home(table, np.int64(hashes[i]))]
        if weights[j + i] < 0 and entry != -1:
            row = lanes.ctypes.data + row_bytes * (entry & 0xFFFFFFFF)
            for at in range(_LINE, row_bytes, _LINE):
                prefetch(row + at)
    if plain.size == 0:
        return
    for i in range(n):
        entry = table[home(table, np.int64(hashes[i]))]
        if weights[j + i] < 0 and entry != -1:
            for lane in range(plain.size):
                if plain[lane]:
                    value = lanes[entry & 0xFFFFFFFF, lane]
                    if is_long(value):
                        prefetch(address_of(value, heap[lane], 8))


@kernel(
    "UniTuple(i8, 2)(i8[::1], i8[:,::1], i8, i8[:,::1], i8[::1], i4[::1], i8[:,::1], i8[::1], i8[::1], i8, b1[::1])"
)
def settle_keyed(
    table: Any, lanes: Any, key: Any, rows: Any, weights: Any, removed: Any, added: Any, heap: Any, bases: Any,
    unit: Any, plain: Any,
) -> Any:  # fmt: skip
    """The same for a table whose rows are identified by their first `key` lanes. Returns the number of slots to remove
    and of rows to add, or MISSING or REPEATED and the position of the row that does not exist, or whose key already
    exists. `heap` and `bases`: where the plain texts of stored and of given rows are, for each lane, the latter in
    units; `plain`: which lanes these are."""
    n, width, gone, come = rows.shape[0], rows.shape[1], 0, 0
    chosen = np.empty(n, np.int64)
    bare = plain.size == 0
    m = consolidate(rows, weights, chosen) if bare else _add_up(rows, weights, key, bases, unit, plain, chosen)
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
            _prefetch_stored(table, lanes, rows, weights, prefetched, key, hashes, heap, plain)
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
            if weights[j] < -1 or slot < 0 or freed[first]:
                return MISSING, j
            if bare and not same_row(lanes, slot, rows, j, width):
                return MISSING, j
            if not bare and not same_with_texts(lanes, slot, heap, 8, rows, j, bases, unit, plain):
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
