"""Chains in the order of a value, which edges with a comparison need instead of plain chains.

Per key, the tuples form a doubly linked list in ascending order of (value, slot) and, over the same slots, a treap that
finds the place of a value in O(log n). The list gives the next tuple in O(1), so enumeration keeps its constant delay;
the treap is needed only where a list is entered in the middle. Priorities are a hash of the slot: nothing to store.

All functions take pointers: `ends` has root, head and tail of each key, `links` next and previous, `sides` left and
right of each slot, all as slot + 1 with 0 for none; `values` the value by slot, a pair of integers compared from left
to right, so that decimals of two lanes fit. `ends` may have more columns: `at` is the place of the key's root in it.
Each function also returns how many nodes of the treap it has visited, the ones it adds or removes included.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.kernel import AHEAD, as_int32, as_int64, inlined, prefetch

ROOT, HEAD, TAIL = 0, 1, 2


@inlined
def _priority(s: Any) -> Any:
    h = np.uint64(s) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0xD6E8FEB86659FD93)
    return h >> np.uint64(32)


@inlined
def append(buffer: Any, n: Any, value: Any) -> Any:
    if n == buffer.size:
        bigger = np.empty(2 * n, np.int32)
        bigger[:n] = buffer
        buffer = bigger
    buffer[n] = value
    return buffer


@inlined
def value_at(values: Any, s: Any) -> Any:
    return values[2 * s], values[2 * s + 1]


@inlined
def less(a: Any, b: Any) -> Any:
    return a[0] < b[0] or (a[0] == b[0] and a[1] < b[1])


@inlined
def same(a: Any, b: Any) -> Any:
    return a[0] == b[0] and a[1] == b[1]


@inlined
def before(values: Any, a: Any, b: Any) -> Any:
    x, y = value_at(values, a), value_at(values, b)
    return less(x, y) or (same(x, y) and a < b)


@inlined
def _hang(ends: Any, at: Any, sides: Any, holder: Any, side: Any, what: Any) -> None:
    if holder < 0:
        ends[at + ROOT] = what
    else:
        sides[2 * holder + side] = what


@inlined
def prefetch_places(roots: Any, row_bytes: Any, ids: Any, sides: Any, values: Any, tuples: Any, j: Any) -> None:
    """Prefetches the nodes on the paths to the positions of the tuples from j on, by descending for all of them at
    once. Takes addresses: `roots` that of the first key's root, with `row_bytes` from key to key."""
    stop, n = min(j + AHEAD, tuples.size), 0
    who, at = np.empty(AHEAD, np.int64), np.empty(AHEAD, np.int64)
    for i in range(j, stop):
        prefetch(ids + 4 * np.int64(tuples[i]))
        prefetch(values + 16 * np.int64(tuples[i]))
    for i in range(j, stop):
        k = np.int64(as_int32(ids)[tuples[i]])
        if k >= 0:
            who[n], at[n] = np.int64(tuples[i]), roots + row_bytes * k
            prefetch(at[n])
            n += 1
    for i in range(n):
        at[i] = np.int64(as_int32(at[i])[0])
        prefetch(values + 16 * (at[i] - 1))
        prefetch(sides + 8 * (at[i] - 1))
    while n > 0:
        m = 0
        for i in range(n):
            if at[i] == 0:
                continue
            side = np.int64(before(as_int64(values), at[i] - 1, who[i]))
            who[m], at[m] = who[i], np.int64(as_int32(sides)[2 * (at[i] - 1) + side])
            prefetch(values + 16 * (at[m] - 1))
            prefetch(sides + 8 * (at[m] - 1))
            m += 1
        n = m


@inlined
def add_sorted(ends: Any, at: Any, links: Any, sides: Any, values: Any, s: Any) -> Any:
    p, visited = _priority(s), np.int64(1)
    holder, side = np.int64(-1), np.int64(0)
    previous, after = np.int64(0), np.int64(0)
    node = np.int64(ends[at + ROOT])
    while node and _priority(node - 1) >= p:
        visited += 1
        holder = node - 1
        if before(values, holder, s):
            previous, side = node, np.int64(1)
        else:
            after, side = node, np.int64(0)
        node = np.int64(sides[2 * holder + side])
    _hang(ends, at, sides, holder, side, s + 1)
    # The subtree at this position is split into the part before s and the part after it.
    left, left_side, right, right_side = s, np.int64(0), s, np.int64(1)
    while node:
        visited += 1
        if before(values, node - 1, s):
            previous = node
            sides[2 * left + left_side] = node
            left, left_side = node - 1, np.int64(1)
            node = np.int64(sides[2 * left + 1])
        else:
            after = node
            sides[2 * right + right_side] = node
            right, right_side = node - 1, np.int64(0)
            node = np.int64(sides[2 * right])
    sides[2 * left + left_side] = 0
    sides[2 * right + right_side] = 0
    links[2 * s] = after
    links[2 * s + 1] = previous
    if previous:
        links[2 * (previous - 1)] = s + 1
    else:
        ends[at + HEAD] = s + 1
    if after:
        links[2 * (after - 1) + 1] = s + 1
    else:
        ends[at + TAIL] = s + 1
    return visited


@inlined
def remove_sorted(ends: Any, at: Any, links: Any, sides: Any, values: Any, s: Any) -> Any:
    holder, side, visited = np.int64(-1), np.int64(0), np.int64(1)
    node = np.int64(ends[at + ROOT])
    while node - 1 != s:
        visited += 1
        holder = node - 1
        side = np.int64(1) if before(values, holder, s) else np.int64(0)
        node = np.int64(sides[2 * holder + side])
    a, b = np.int64(sides[2 * s]), np.int64(sides[2 * s + 1])
    while a and b:
        visited += 1
        if _priority(a - 1) >= _priority(b - 1):
            _hang(ends, at, sides, holder, side, a)
            holder, side = a - 1, np.int64(1)
            a = np.int64(sides[2 * holder + 1])
        else:
            _hang(ends, at, sides, holder, side, b)
            holder, side = b - 1, np.int64(0)
            b = np.int64(sides[2 * holder])
    _hang(ends, at, sides, holder, side, a if a else b)
    after, previous = np.int64(links[2 * s]), np.int64(links[2 * s + 1])
    if previous:
        links[2 * (previous - 1)] = after
    else:
        ends[at + HEAD] = after
    if after:
        links[2 * (after - 1) + 1] = previous
    else:
        ends[at + TAIL] = previous
    return visited


@inlined
def changed_subtrees(ends: Any, at: Any, sides: Any, values: Any, s: Any) -> Any:
    """The tuples whose subtrees have changed because s was added or removed, from the root down, and how many: those on
    the path to its position, and along the two spines below s. All of them are visited."""
    path, n = np.empty(64, np.int32), 0
    node = np.int64(ends[at + ROOT])
    while node:
        path = append(path, n, node - 1)
        n += 1
        if node - 1 == s:
            break
        node = np.int64(sides[2 * (node - 1) + (1 if before(values, node - 1, s) else 0)])
    if node:
        for side in range(2):
            below = np.int64(sides[2 * s + side])
            while below:
                path = append(path, n, below - 1)
                n += 1
                below = np.int64(sides[2 * (below - 1) + 1 - side])
    return path, n


@inlined
def last_upto(ends: Any, at: Any, sides: Any, values: Any, most: Any) -> Any:
    """The last slot of those whose values begin with `most` or less, + 1; 0 when there is none."""
    found, node, visited = np.int64(0), np.int64(ends[at + ROOT]), np.int64(0)
    while node:
        visited += 1
        if value_at(values, node - 1)[0] <= most:
            found = node
            node = np.int64(sides[2 * (node - 1) + 1])
        else:
            node = np.int64(sides[2 * (node - 1)])
    return found, visited


@inlined
def first_from(ends: Any, at: Any, sides: Any, values: Any, value: Any, inclusive: Any) -> Any:
    """The first slot whose value is above `value` (or equal, if inclusive), + 1; 0 when there is none."""
    found, node, visited = np.int64(0), np.int64(ends[at + ROOT]), np.int64(0)
    while node:
        visited += 1
        v = value_at(values, node - 1)
        if less(value, v) or (inclusive and same(v, value)):
            found = node
            node = np.int64(sides[2 * (node - 1)])
        else:
            node = np.int64(sides[2 * (node - 1) + 1])
    return found, visited
