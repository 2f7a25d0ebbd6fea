"""Ordered multisets, one a group: least, greatest, rank and ranges in O(log n), whatever is removed.

A treap a group, all in one array of nodes. A node's priority is a hash of its own number, so it takes no memory, and
the shape of a tree depends on which nodes hold which values only: expected depth is O(log n) for every order of
arrival. A node is one row of int64 lanes (half a cache line for one-lane values):

    lane 0: left and right child, as two int32    lane 1: count of the value    lane 2: counts in the whole subtree
    lane 3 and on: the value

Node 0 is no node, and its subtree counts zero. Within a transaction a count may be negative, when a value is removed
before it is added; a node leaves the tree when its count is zero.

Values are kept in a form that orders by one comparison: integers as they are, doubles with the bits of negative ones
flipped (NaN is greatest, -0.0 is 0.0), texts as pool ids compared by their UTF-8 bytes, wide decimals as low and high
lane.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.column import Bools, Int64s
from freshet.errors import StateError
from freshet.state.arena import Scope
from freshet.state.kernel import inlined, kernel
from freshet.state.strings import StringPool, compare_texts
from freshet.state.tuples import Slots

INTEGER, FRACTION, TEXT, WIDE = range(4)  # kinds of value
COUNT, TOTAL, VALUE = 1, 2, 3  # lanes of a node
USED, FREE, LIVE = range(3)  # places in meta
DEPTH = 1024  # far beyond any depth a treap of 2**31 nodes can have in practice


@inlined
def priority(node: Any) -> Any:
    h = np.uint64(node) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0xD6E8FEB86659FD93)
    return h ^ (h >> np.uint64(32))


@inlined
def compare(kind: Any, low: Any, high: Any, other: Any, other_high: Any, texts: Any, spans: Any) -> Any:
    """-1, 0 or 1 as a value sorts before, with or after the other. Of one-lane values the high lane is not read; for
    texts, `texts` and `spans` are the addresses of the pool's bytes and offsets."""
    if kind == TEXT:
        return compare_texts(low, other, texts, spans)
    if kind == WIDE:
        if high != other_high:
            return -1 if high < other_high else 1
        return (1 if np.uint64(low) > np.uint64(other) else 0) - (1 if np.uint64(low) < np.uint64(other) else 0)
    return (1 if low > other else 0) - (1 if low < other else 0)


@inlined
def relink(roots: Any, links: Any, parent: Any, group: Any, old: Any, new: Any) -> Any:
    """Lets whoever pointed to `old` point to `new`."""
    if parent == 0:
        roots[group] = new
    elif links[parent, 0] == old:
        links[parent, 0] = new
    else:
        links[parent, 1] = new


@inlined
def merge(nodes: Any, links: Any, a: Any, b: Any) -> Any:
    """One tree of two, all values of `a` before those of `b`; each node that ends up above the rest takes it in."""
    root, above, side = 0, 0, 0
    while a != 0 or b != 0:
        if b == 0 or (a != 0 and priority(a) > priority(b)):
            taken, next_side = a, 1
            if b != 0:
                nodes[a, TOTAL] += nodes[b, TOTAL]
            a = np.int64(links[a, 1]) if b != 0 else 0
        else:
            taken, next_side = b, 0
            if a != 0:
                nodes[b, TOTAL] += nodes[a, TOTAL]
            b = np.int64(links[b, 0]) if a != 0 else 0
        if above == 0:
            root = taken
        else:
            links[above, side] = taken
        if a == 0 and b == 0:
            break
        above, side = taken, next_side
    return root


@inlined
def _split(
    nodes: Any, links: Any, tree: Any, low: Any, high: Any, kind: Any, texts: Any, spans: Any, made: Any, path: Any
) -> Any:
    """Hangs the values of `tree` below the new node `made`, smaller ones left and greater ones right."""
    left_end, right_end, depth = 0, 0, 0
    last = nodes.shape[1] - 1
    while tree != 0:
        path[depth] = tree
        depth += 1
        if compare(kind, low, high, nodes[tree, VALUE], nodes[tree, last], texts, spans) > 0:
            if left_end == 0:
                links[made, 0] = tree
            else:
                links[left_end, 1] = tree
            left_end = tree
            tree = np.int64(links[tree, 1])
        else:
            if right_end == 0:
                links[made, 1] = tree
            else:
                links[right_end, 0] = tree
            right_end = tree
            tree = np.int64(links[tree, 0])
    if left_end != 0:
        links[left_end, 1] = 0
    if right_end != 0:
        links[right_end, 0] = 0
    for i in range(depth - 1, -1, -1):
        node = path[i]
        nodes[node, TOTAL] = nodes[node, COUNT] + nodes[links[node, 0], TOTAL] + nodes[links[node, 1], TOTAL]


@inlined
def drop(nodes: Any, links: Any, roots: Any, free: Any, meta: Any, group: Any, node: Any, parent: Any) -> Any:
    relink(roots, links, parent, group, node, merge(nodes, links, np.int64(links[node, 0]), np.int64(links[node, 1])))
    free[meta[FREE]] = node
    meta[FREE] += 1
    meta[LIVE] -= 1


@kernel("void(i4[::1], i8[:,::1], i8[::1], i8, i4[::1], i8[:,::1], i4[::1], i8[::1], i8, i8)")
def add_values(
    groups: Any,
    values: Any,
    weights: Any,
    kind: Any,
    roots: Any,
    nodes: Any,
    free: Any,
    meta: Any,
    texts: Any,
    spans: Any,
) -> None:
    links = nodes.view(np.int32)
    last, last_value = nodes.shape[1] - 1, values.shape[1] - 1
    path = np.empty(DEPTH, np.int64)
    for i in range(len(groups)):
        weight = weights[i]
        if weight == 0:
            continue
        group = groups[i]
        low, high = values[i, 0], values[i, last_value]
        node, depth, side = np.int64(roots[group]), 0, 0
        while node != 0:
            side = compare(kind, low, high, nodes[node, VALUE], nodes[node, last], texts, spans)
            if side == 0:
                break
            path[depth] = node
            depth += 1
            node = np.int64(links[node, 1 if side > 0 else 0])
        for k in range(depth):
            nodes[path[k], TOTAL] += weight
        if node != 0:
            nodes[node, COUNT] += weight
            nodes[node, TOTAL] += weight
            if nodes[node, COUNT] == 0:
                drop(nodes, links, roots, free, meta, group, node, path[depth - 1] if depth > 0 else 0)
            continue
        if meta[FREE] > 0:
            meta[FREE] -= 1
            made = np.int64(free[meta[FREE]])
        else:
            meta[USED] += 1
            made = meta[USED]
        meta[LIVE] += 1
        nodes[made, 0] = 0
        nodes[made, COUNT] = weight
        for lane in range(values.shape[1]):
            nodes[made, VALUE + lane] = values[i, lane]
        own = priority(made)
        above = depth
        while above > 0 and priority(path[above - 1]) < own:
            above -= 1
        parent = path[above - 1] if above > 0 else 0
        below = path[above] if above < depth else 0
        if above == depth and depth > 0:
            links[parent, 1 if side > 0 else 0] = made
        else:
            relink(roots, links, parent, group, below, made)
        nodes[made, TOTAL] = weight
        if below != 0:
            nodes[made, TOTAL] = nodes[below, TOTAL]
            _split(nodes, links, below, low, high, kind, texts, spans, made, path)


@kernel("i8(i4[::1], b1, i4[::1], i8[:,::1], i8[:,::1], b1[::1])")
def end_values(groups: Any, greatest: Any, roots: Any, nodes: Any, out: Any, found: Any) -> Any:
    """Least or greatest value of each group; returns how many of these have a negative count: the mark of a fault."""
    links = nodes.view(np.int32)
    side = 1 if greatest else 0
    faults = 0
    for i in range(len(groups)):
        node = np.int64(roots[groups[i]])
        found[i] = node != 0
        if node == 0:
            out[i, :] = 0
            continue
        while links[node, side] != 0:
            node = np.int64(links[node, side])
        if nodes[node, COUNT] < 0:
            faults += 1
        for lane in range(out.shape[1]):
            out[i, lane] = nodes[node, VALUE + lane]
    return faults


@inlined
def count_before(
    root: Any, inclusive: Any, nodes: Any, links: Any, low: Any, high: Any, kind: Any, texts: Any, spans: Any
) -> Any:
    """Sum of counts of the values in a tree that sort before (low, high), or with it when `inclusive`."""
    total, node, last = 0, np.int64(root), nodes.shape[1] - 1
    while node != 0:
        side = compare(kind, low, high, nodes[node, VALUE], nodes[node, last], texts, spans)
        if side > 0 or (side == 0 and inclusive):
            total += nodes[node, COUNT] + nodes[links[node, 0], TOTAL]
            node = np.int64(links[node, 1])
        else:
            node = np.int64(links[node, 0])
    return total


@kernel("void(i4[::1], i8[:,::1], b1, i8, i4[::1], i8[:,::1], i8, i8, i8[::1])")
def counts_before(
    groups: Any, values: Any, inclusive: Any, kind: Any, roots: Any, nodes: Any, texts: Any, spans: Any, out: Any
) -> None:
    links = nodes.view(np.int32)
    for i in range(len(groups)):
        low, high = values[i, 0], values[i, values.shape[1] - 1]
        out[i] = count_before(roots[groups[i]], inclusive, nodes, links, low, high, kind, texts, spans)


@kernel("i8(i8, i8[:,::1], i8, b1, b1, i8, i4[::1], i8[:,::1], i8, i8, i4[::1])")
def nodes_from(
    group: Any,
    bound: Any,
    row: Any,
    inclusive: Any,
    descending: Any,
    kind: Any,
    roots: Any,
    nodes: Any,
    texts: Any,
    spans: Any,
    out: Any,
) -> Any:
    """Nodes of a group in order from bound[row] on (upward, or downward when `descending`), as many as `out` holds.
    A `row` of -1 starts at the end of the tree. O(log n + nodes given)."""
    links = nodes.view(np.int32)
    near, far = (1, 0) if descending else (0, 1)
    last = nodes.shape[1] - 1
    low, high = bound[max(row, 0), 0], bound[max(row, 0), bound.shape[1] - 1]
    stack = np.empty(DEPTH, np.int64)
    depth, given = 0, 0
    node = np.int64(roots[group])
    while node != 0:
        side = 0 if row < 0 else compare(kind, low, high, nodes[node, VALUE], nodes[node, last], texts, spans)
        beyond = side > 0 if descending else side < 0
        if beyond or (side == 0 and (inclusive or row < 0)):
            stack[depth] = node
            depth += 1
            node = np.int64(links[node, near])
        else:
            node = np.int64(links[node, far])
    while depth > 0 and given < len(out):
        depth -= 1
        node = stack[depth]
        out[given] = node
        given += 1
        node = np.int64(links[node, far])
        while node != 0:
            stack[depth] = node
            depth += 1
            node = np.int64(links[node, near])
    return given


@kernel("void(i4[::1], i8[:,::1], b1[::1])")
def _mark(roots: Any, nodes: Any, marked: Any) -> None:
    links = nodes.view(np.int32)
    stack = np.empty(DEPTH, np.int64)
    for root in roots:
        depth = 0
        node = np.int64(root)
        while node != 0 or depth > 0:
            while node != 0:
                marked[nodes[node, VALUE]] = True
                stack[depth] = node
                depth += 1
                node = np.int64(links[node, 0])
            depth -= 1
            node = np.int64(links[stack[depth], 1])


def fraction_order(bits: Int64s) -> Int64s:
    """Bits of doubles to integers that sort like them, and back: negative ones have all bits but the sign flipped."""
    return bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)


class Ordered:
    """An ordered multiset for each group number. Values are int64[n, lanes] in lane form (engine/lanes)."""

    def __init__(self, scope: Scope, kind: int, pool: StringPool | None = None) -> None:
        self.kind, self.width, self._pool = kind, 2 if kind == WIDE else 1, pool
        self.roots = scope.array("roots", np.int32)
        self.nodes = scope.array("nodes", np.int64, columns=VALUE + self.width)
        self._free = scope.array("free", np.int32)
        self._meta = scope.array("meta", np.int64)

    @property
    def live(self) -> int:
        """Distinct values over all groups."""
        return int(self._meta.data[LIVE])

    def texts(self) -> tuple[int, int]:
        """What kernels compare texts by: where the pool's bytes and offsets stand until it grows."""
        if self._pool is None:
            return 0, 0
        return self._pool.bytes.data.ctypes.data, self._pool.offsets.data.ctypes.data

    def _stored(self, values: Int64s) -> Int64s:
        return fraction_order(values) if self.kind == FRACTION else values

    def reserve(self, groups: int) -> None:
        """Makes room for group numbers below `groups`."""
        self.roots.grow(groups)

    def add(self, groups: Slots, values: Int64s, weights: Int64s) -> None:
        """Adds `weight` copies of each value to its group, or takes them away; weight 0 skips the row."""
        meta = self._meta.data
        self.nodes.grow(int(meta[USED]) + len(groups) + 1)
        self._free.grow(self.nodes.capacity)
        add_values(
            groups, self._stored(values), weights, self.kind, self.roots.data, self.nodes.data, self._free.data, meta,
            *self.texts(),
        )  # fmt: skip

    def ends(self, groups: Slots, greatest: bool) -> tuple[Int64s, Bools]:
        """The least (or greatest) value of each group, and whether the group has one."""
        out, found = np.empty((len(groups), self.width), np.int64), np.empty(len(groups), np.bool_)
        if end_values(groups, greatest, self.roots.data, self.nodes.data, out, found):
            raise StateError("a value was removed more often than it was added; rebuild the view")
        return self._stored(out), found

    def count_before(self, groups: Slots, values: Int64s, inclusive: bool = False) -> Int64s:
        """How many members of each group are less than the value (or equal to it, when `inclusive`)."""
        out = np.empty(len(groups), np.int64)
        counts_before(
            groups, self._stored(values), inclusive, self.kind, self.roots.data, self.nodes.data, *self.texts(), out
        )
        return out

    def walk(
        self, group: int, start: Int64s | None, limit: int, *, inclusive: bool = True, descending: bool = False
    ) -> tuple[Int64s, Int64s]:
        """Up to `limit` values of a group in order from `start` (one row; None for the very end), and their counts."""
        bound = np.zeros((1, self.width), np.int64) if start is None else self._stored(start)
        found = np.empty(min(limit, self.live), np.int32)
        given = nodes_from(
            group, bound, -1 if start is None else 0, inclusive, descending, self.kind, self.roots.data,
            self.nodes.data, *self.texts(), found,
        )  # fmt: skip
        rows = self.nodes.data[found[:given]]
        return self._stored(np.ascontiguousarray(rows[:, VALUE:])), rows[:, COUNT]

    def mark(self, marked: Bools) -> None:
        """Marks the pool ids held here."""
        if self.kind == TEXT:
            _mark(self.roots.data, self.nodes.data, marked)

    def reset(self) -> None:
        for array in (self.roots, self.nodes, self._free, self._meta):
            array.reset()
