"""Enumeration of join results: an odometer over the tree's chains, resumable, in bounded memory.

An order lists the output nodes so that each is reached from one already bound: its parent (downwards, through the chain
of alive children) or its child (upwards, through the live parents). Because chains hold no dead ends, every advance of
the odometer yields a result: the delay between two results is bounded by the number of nodes, whatever the data.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.chains import child_key, parent_key
from freshet.state.comparison import count_children, next_child, next_live_parent
from freshet.state.kernel import AHEAD, FAR, as_int32, as_int64, inlined, kernel, prefetch
from freshet.state.live import is_live
from freshet.state.tree_table import (
    CHILD_HEAD,
    CHILD_KEY,
    CHILD_LINKS,
    KEY_BYTES,
    KEYS,
    LANES,
    LEFT,
    LINK_BYTES,
    LIVE,
    PARENT_HEAD,
    PARENT_KEY,
    PARENT_LINKS,
    ROOM,
    STATUS,
    WEIGHT,
    child_links_of,
    column,
    compares,
    head_of,
    is_far,
    keyed_by_slot,
    keys_of,
    kind_of,
    lanes_of,
    next_in,
    parent_links_of,
    status_of,
    width_of,
)  # fmt: skip
from freshet.state.tuples import hash_row, same_row

# Columns of an order; position 0 takes the given tuples.
NODE, FROM, DIRECTION = 0, 1, 2
#: NULL: a left child forced to be missing; COUNTED: children that multiply the weight, instead of rows.
SOURCE, DOWN, UP, NULL, COUNTED = range(5)
MISSING, END = -1, -2

MOST_COPIES = 2**62  # of one row

# The state of the odometer between calls.
AT_SOURCE, AT_POSITION, DONE = 0, 1, 2


@inlined
def first_slot(t: Any, order: Any, i: Any, s: Any) -> Any:
    """First tuple for position i, whose neighbour already bound is s."""
    node, direction = order[3 * i + NODE], order[3 * i + DIRECTION]
    if direction == UP:
        c = order[3 * order[3 * i + FROM] + NODE]
        k = child_key(t, c, s)
        if k < 0:
            return np.int64(END)
        if compares(t, c):
            found = next_live_parent(t, c, k, s, np.int64(-1))
            return found if found >= 0 else np.int64(END)
        status = status_of(t, node)
        if keyed_by_slot(t, c):
            return k if status[k] == LIVE else np.int64(END)
        head = head_of(keys_of(t, c), k, PARENT_HEAD)
        return head if head >= 0 and status[head] == LIVE else np.int64(END)
    if s < 0 or direction in (NULL, COUNTED):
        return np.int64(MISSING)
    k = parent_key(t, node, s)
    head = np.int64(-1)
    if k >= 0 and compares(t, node):
        head = next_child(t, node, k, s, np.int64(-1))
    elif k >= 0:
        head = head_of(keys_of(t, node), k, CHILD_HEAD)
    if head >= 0:
        return head
    return np.int64(MISSING) if kind_of(t, node) == LEFT else np.int64(END)


@inlined
def next_slot(t: Any, order: Any, i: Any, s: Any, back: Any) -> Any:
    """The tuple after s at position i, whose neighbour already bound is `back`."""
    if s < 0:
        return np.int64(END)
    node = order[3 * i + NODE]
    if order[3 * i + DIRECTION] == UP:
        c = order[3 * order[3 * i + FROM] + NODE]
        if compares(t, c):
            found = next_live_parent(t, c, child_key(t, c, back), back, s)
            return found if found >= 0 else np.int64(END)
        if keyed_by_slot(t, c):
            return np.int64(END)
        after = next_in(parent_links_of(t, c), s)
        alive = after >= 0 and status_of(t, node)[after] == LIVE
        return after if alive else np.int64(END)
    if compares(t, node):
        found = next_child(t, node, parent_key(t, node, back), back, s)
        return found if found >= 0 else np.int64(END)
    after = next_in(child_links_of(t, node), s)
    return after if after >= 0 else np.int64(END)


@inlined
def prefetch_seconds(t: Any, order: Any, sources: Any, j: Any) -> None:
    """Prefetches what leads from the sources from j on to their first tuples at position 1, and these tuples."""
    node, up, stop = order[3 + NODE], order[3 + DIRECTION] == UP, min(j + AHEAD, sources.size)
    c = order[NODE] if up else node
    near = column(t, order[NODE], ROOM) + column(t, node, ROOM) < FAR
    if near or compares(t, c) or order[3 + DIRECTION] == NULL:  # COUNTED compares
        return
    links, end = (column(t, c, PARENT_LINKS), PARENT_HEAD) if up else (column(t, c, CHILD_LINKS), CHILD_HEAD)
    ids, keys = column(t, c, CHILD_KEY if up else PARENT_KEY), column(t, c, KEYS)
    for i in range(j, stop):
        prefetch(column(t, order[NODE], STATUS) + np.int64(sources[i]))
        prefetch(ids + 4 * np.int64(sources[i]))
    if ids != 0:
        for i in range(j, stop):
            prefetch(keys + KEY_BYTES * np.int64(as_int32(ids)[sources[i]]))
    for i in range(j, stop):
        k = np.int64(sources[i]) if ids == 0 else np.int64(as_int32(ids)[sources[i]])
        if k >= 0:
            s = k if up and keyed_by_slot(t, c) else head_of(as_int32(keys), k, end)
            prefetch(column(t, node, STATUS) + s)
            prefetch(links + LINK_BYTES * s)
            prefetch(column(t, node, LANES) + 8 * width_of(t, node) * s)


@kernel("i8(i8, i8[:,::1], i4[::1], i8[::1], i4[::1], i8[::1], i8[::1], i4[:,::1], i8[::1])")
def enumerate_rows(
    tree: Any, steps: Any, sources: Any, weights: Any, cursor: Any, products: Any, progress: Any, rows: Any, out: Any
) -> Any:
    """Fills `rows` (a slot for each position of the order) and `out` (weights), continuing where the last call stopped;
    returns the number of rows. The weights of sources are given, so that the same code enumerates rows that appear,
    disappear or change their weight."""
    t, order = as_int64(tree), as_int64(steps.ctypes.data)
    width, capacity, n = steps.shape[0], rows.shape[0], 0
    i, source = progress[AT_POSITION], progress[AT_SOURCE]
    entering, last, prefetched = i == 0, width - 1, source
    while n < capacity:
        if i == 0:
            if last > 0 and source >= prefetched and capacity - n >= AHEAD:  # enough results
                prefetch_seconds(t, order, sources, source)
                prefetched = source + AHEAD
            while source < sources.size and not is_live(t, order[NODE], np.int64(sources[source])):
                source += 1
            if source >= sources.size:
                progress[DONE] = 1
                break
            cursor[0] = sources[source]
            products[0] = weights[source]
            source += 1
            if last == 0:
                rows[n, 0] = cursor[0]
                out[n] = products[0]
                n += 1
            else:
                i, entering = 1, True
            continue
        back = np.int64(cursor[order[3 * i + FROM]])
        s = first_slot(t, order, i, back) if entering else next_slot(t, order, i, np.int64(cursor[i]), back)
        weight, whole = column(t, order[3 * i + NODE], WEIGHT), products[i - 1]
        if order[3 * i + DIRECTION] == COUNTED and s != END and back >= 0:
            whole *= count_children(t, order[3 * i + NODE], back)
        if i < last:
            if s == END:
                i, entering = i - 1, False
                continue
            cursor[i] = s
            products[i] = whole * as_int64(weight)[s] if s >= 0 and weight != 0 else whole
            i, entering = i + 1, True
            continue
        while s != END and n < capacity:  # the innermost loop: all rows that differ in the last tuple alone
            for j in range(last):
                rows[n, j] = cursor[j]
            rows[n, last] = s
            out[n] = whole * as_int64(weight)[s] if s >= 0 and weight != 0 else whole
            n += 1
            cursor[last] = s
            if n < capacity:
                s = next_slot(t, order, i, s, back)
        entering = False
        if s == END:
            i -= 1
    progress[AT_POSITION], progress[AT_SOURCE] = i, source
    return n


@kernel("void(i8, i8[:,::1], i4[:,::1], i8, i8[:,::1], i8, i8[:,::1])")
def gather(tree: Any, order: Any, rows: Any, n: Any, wanted: Any, nulls: Any, out: Any) -> None:
    """Packed rows (scalar/lanes) of results: for each wanted column (position, first lane, lanes, null lane or -1,
    bit), its value lanes, then from lane `nulls` on the null bits. A missing tuple is NULL in every column."""
    t, at = as_int64(tree), 0
    for j in range(n):
        for i in range(nulls, out.shape[1]):
            out[j, i] = 0
    for i in range(wanted.shape[0]):
        position, first, count, null_lane = wanted[i, 0], wanted[i, 1], wanted[i, 2], wanted[i, 3]
        node = order[position, NODE]
        lanes, width = lanes_of(t, node), width_of(t, node)
        bit, null_at = np.int64(1) << (i % 63), nulls + i // 63
        for j in range(n):
            if j % AHEAD == 0 and is_far(t, node):
                for ahead in range(j, min(j + AHEAD, n)):
                    prefetch(column(t, node, LANES) + 8 * (np.int64(rows[ahead, position]) * width + first))
            s = np.int64(rows[j, position])
            if s < 0:
                for lane in range(count):
                    out[j, at + lane] = 0
                out[j, null_at] |= bit
                continue
            base = s * width
            for lane in range(count):
                out[j, at + lane] = lanes[base + first + lane]
            if null_lane >= 0 and ((lanes[base + null_lane] >> wanted[i, 4]) & 1) == 1:
                out[j, null_at] |= bit
        at += count


@kernel("i8(i8[:,::1], i8[::1], i8[::1])")
def consolidate(rows: Any, weights: Any, chosen: Any) -> Any:
    """Adds up the weights of equal rows; lists in `chosen` the first row of each sum that is not zero, and returns how
    many. Weights of chosen rows hold the sums. No weight is beyond MOST_COPIES, so no sum of two wraps around unseen;
    a sum beyond it gives -1."""
    n, width = rows.shape[0], rows.shape[1]
    size = 16
    while size < 2 * n:
        size *= 2
    table = np.full(size, -1, np.int64)
    mask = np.int64(size - 1)
    for j in range(n):
        h = hash_row(rows, j, width)
        at = np.int64(h) & mask
        while True:
            entry = table[at]
            if entry == -1:
                table[at] = np.int64((h << np.uint64(32)) | np.uint64(j))
                break
            i = entry & 0xFFFFFFFF
            if (np.uint64(entry) >> np.uint64(32)) == h and same_row(rows, i, rows, j, width):
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
