"""Delta joins inside a bag: new tuples of one input extended by all others, one step of attributes at a time.

A step binds some lanes of the bag's row. Every input of which just these lanes are unbound offers its tuples that have
the bound ones (an *option*); the one with the fewest is walked, the others and whatever else is now wholly bound are
looked up. With all inputs at their attributes' turn this never does more work than the largest answer the inputs'
sizes allow (worst-case optimal) where inputs have two attributes each.

Inputs that are the same rows share a store; each is a *role* of it. Inserted and deleted tuples are marked, so that a
role can be read as it was before or as it is afterwards, as if each role had its own store and these changed one after
the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from freshet.state.kernel import as_int8, as_int32, as_int64, inlined, kernel
from freshet.state.places import following, hash_of, home
from freshet.state.tuples import hash_row

# Columns of a store: its hash index, rows and marks.
TABLE, SIZE, LANES, COLUMNS, MARKS = range(5)
STORE_COLUMNS = 5
# Columns of an index of a store: the hash index and rows of its keys, what is kept a key, links of tuples.
KEY_TABLE, KEY_SIZE, KEY_LANES, KEY_COLUMNS, KEYS, LINKS = range(6)
INDEX_COLUMNS = 6
HEAD, COUNT = 0, 1  # int32[keys, 2]; heads and links are slot + 1

# Columns of a step: its options, and the roles to be looked up as well.
OPTIONS, OPTIONS_END, CHECKS, CHECKS_END = range(4)
STEP_COLUMNS = 4
# Columns of an option or check: role, store, index (-1: only looked up), then parts of `lanes`: where the bag's row has
# the key, where it has the whole tuple, which lanes of it are bound here (pairs: lane of the row, lane of the tuple).
ROLE, STORE, INDEX, KEY, KEY_END, WHOLE, WHOLE_END, BOUND, BOUND_END = range(9)
OPTION_COLUMNS = 9


@kernel("void(i4[::1], i4[::1], i4[:,::1], i4[:,::1])")
def link_tuples(slots: Any, ids: Any, keys: Any, links: Any) -> None:
    for j in range(slots.size):
        s = np.int64(slots[j])
        k = np.int64(ids[s])
        head = keys[k, HEAD]
        links[s, 0] = head
        links[s, 1] = 0
        if head:
            links[head - 1, 1] = s + 1
        keys[k, HEAD] = s + 1
        keys[k, COUNT] += 1


@kernel("i4[::1](i4[::1], i4[::1], i4[:,::1], i4[:,::1])")
def unlink_tuples(slots: Any, ids: Any, keys: Any, links: Any) -> Any:
    """Returns the keys that have no tuple any more."""
    empty = np.empty(slots.size, np.int32)
    n = 0
    for j in range(slots.size):
        s = np.int64(slots[j])
        k = np.int64(ids[s])
        after, before = links[s, 0], links[s, 1]
        if before:
            links[before - 1, 0] = after
        else:
            keys[k, HEAD] = after
        if after:
            links[after - 1, 1] = before
        keys[k, COUNT] -= 1
        if keys[k, COUNT] == 0:
            empty[n] = k
            n += 1
    return empty[:n]


@inlined
def find_key(table: Any, size: Any, lanes: Any, columns: Any, row: Any, places: Any, start: Any, end: Any) -> Any:
    """Number of the key that the bag's row has at these places, or -1."""
    width = end - start
    key = np.empty((1, max(width, 1)), np.int64)
    for i in range(width):
        key[0, i] = row[places[start + i]]
    h = hash_row(key, 0, width)
    index = carray(as_int64(table), size)
    at = home(index, np.int64(h))
    while True:
        entry = index[at]
        if entry == -1:
            return np.int64(-1)
        if hash_of(entry) == np.int64(h):
            slot = entry & 0xFFFFFFFF
            same = True
            for i in range(width):
                same &= as_int64(lanes)[slot * columns + i] == key[0, i]
            if same:
                return slot
        at = following(index, at)


@inlined
def is_hidden(stores: Any, store: Any, slot: Any, other: Any, role: Any, sign: Any) -> Any:
    """Whether role `other` does not have the tuple while `role` changes: it is not inserted yet, or already deleted."""
    if as_int8(stores[store, MARKS])[slot] == 0:
        return False
    return (other > role) if sign > 0 else (other < role)


@inlined
def holds(stores: Any, options: Any, o: Any, row: Any, places: Any, role: Any, sign: Any) -> Any:
    """Whether the input of an option or check has the whole tuple."""
    store = options[o, STORE]
    slot = find_key(
        stores[store, TABLE], stores[store, SIZE], stores[store, LANES], stores[store, COLUMNS], row, places,
        options[o, WHOLE], options[o, WHOLE_END],
    )  # fmt: skip
    return slot >= 0 and not is_hidden(stores, store, slot, options[o, ROLE], role, sign)


@kernel("i8[:,::1](i8[:,::1], i8[:,::1], i8[:,::1], i8[:,::1], i8[::1], i8, i8, i8[:,::1], i8[::1], i8, i8, i8[::1])")
def extend(
    stores: Any, indexes: Any, steps: Any, options: Any, places: Any, role: Any, sign: Any, given: Any, bound: Any,
    width: Any, lanes: Any, work: Any,
) -> Any:  # fmt: skip
    """All rows of the bag, of `width` lanes of which the first `lanes` are bound, that the given tuples of a role are
    part of. `bound`: lanes of the row that the tuples' lanes are. The first step has no options, only checks."""
    out = np.zeros((max(16, given.shape[0]), width), np.int64)
    n, touched = 0, 0
    row = np.zeros(lanes, np.int64)
    depths = steps.shape[0]
    cursor, chosen = np.zeros(depths + 1, np.int64), np.zeros(depths + 1, np.int64)
    for j in range(given.shape[0]):
        for i in range(bound.size):
            row[bound[i]] = given[j, i]
        good = True
        for o in range(steps[0, CHECKS], steps[0, CHECKS_END]):
            good = good and holds(stores, options, o, row, places, role, sign)
        if not good:
            continue
        depth, fresh = 1, True
        while depth > 0:
            if depth == depths:
                if n == out.shape[0]:
                    bigger = np.zeros((2 * n, width), np.int64)
                    bigger[:n] = out
                    out = bigger
                for i in range(lanes):
                    out[n, i] = row[i]
                n += 1
                depth -= 1
                fresh = False
                continue
            at = np.int64(-1)
            if fresh:
                fewest = np.int64(0x7FFFFFFFFFFFFFFF)
                for o in range(steps[depth, OPTIONS], steps[depth, OPTIONS_END]):
                    x = options[o, INDEX]
                    key = find_key(
                        indexes[x, KEY_TABLE], indexes[x, KEY_SIZE], indexes[x, KEY_LANES], indexes[x, KEY_COLUMNS],
                        row, places, options[o, KEY], options[o, KEY_END],
                    )  # fmt: skip
                    count = np.int64(0) if key < 0 else np.int64(as_int32(indexes[x, KEYS])[2 * key + COUNT])
                    if count < fewest:
                        fewest = count
                        chosen[depth] = o
                        at = np.int64(-1) if key < 0 else np.int64(as_int32(indexes[x, KEYS])[2 * key + HEAD]) - 1
            else:
                at = np.int64(as_int32(indexes[options[chosen[depth], INDEX], LINKS])[2 * cursor[depth]]) - 1
            o = chosen[depth]
            store, links = options[o, STORE], as_int32(indexes[options[o, INDEX], LINKS])
            found = False
            while at >= 0 and not found:
                touched += 1
                found = not is_hidden(stores, store, at, options[o, ROLE], role, sign)
                if found:
                    for i in range(options[o, BOUND], options[o, BOUND_END], 2):
                        row[places[i]] = as_int64(stores[store, LANES])[at * stores[store, COLUMNS] + places[i + 1]]
                    for other in range(steps[depth, OPTIONS], steps[depth, OPTIONS_END]):
                        if other != o:
                            found = found and holds(stores, options, other, row, places, role, sign)
                    for check in range(steps[depth, CHECKS], steps[depth, CHECKS_END]):
                        found = found and holds(stores, options, check, row, places, role, sign)
                if not found:
                    at = np.int64(links[2 * at]) - 1
            if found:
                cursor[depth] = at
                depth += 1
                fresh = True
            else:
                depth -= 1
                fresh = False
    work[0] += touched
    return out[:n]
