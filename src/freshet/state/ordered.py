"""Ordered multisets, one for each group: least, greatest, rank and ranges in O(log n), with deletions.

A treap a group (state/treap), all in one array of nodes, half a cache line each for one-lane values. Within a
transaction a count may be negative, when a value is removed before it is added; a node leaves the tree when its count
is zero.

Values are kept in a form that orders by one comparison: integers as they are, doubles with the bits of negative ones
flipped (NaN is greatest, -0.0 is 0.0), texts as pool ids compared by their UTF-8 bytes, wide decimals as low and high
lane.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.errors import StateError
from freshet.state.arena import Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.kernel import inlined, kernel
from freshet.state.strings import StringPool, compare_texts
from freshet.state.treap import COUNT, DEPTH, LIVE, NOWHERE, TOTAL, USED, VALUE, drop, mark_lane, put, visits
from freshet.state.tuples import Slots

INTEGER, FRACTION, TEXT, WIDE = range(4)  # kinds of value


@inlined
def compare(kind: Any, low: Any, high: Any, other: Any, other_high: Any, texts: Any, spans: Any) -> Any:
    """-1, 0 or 1 if a value sorts before, with or after the other. Of one-lane values the high lane is not read; for
    texts, `texts` and `spans` are the addresses of the pool's bytes and offsets."""
    if kind == TEXT:
        return compare_texts(low, other, texts, spans)
    if kind == WIDE:
        if high != other_high:
            return -1 if high < other_high else 1
        return (1 if np.uint64(low) > np.uint64(other) else 0) - (1 if np.uint64(low) < np.uint64(other) else 0)
    return (1 if low > other else 0) - (1 if low < other else 0)


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
        nodes[NOWHERE, COUNT] += depth + 1
        if node != 0:
            nodes[node, COUNT] += weight
            nodes[node, TOTAL] += weight
            if nodes[node, COUNT] == 0:
                drop(nodes, links, roots, free, meta, group, node, path[depth - 1] if depth > 0 else 0)
            continue
        made = put(nodes, links, roots, free, meta, group, weight, path, depth, side)
        for lane in range(values.shape[1]):
            nodes[made, VALUE + lane] = values[i, lane]


@kernel("i8(i4[::1], b1, i4[::1], i8[:,::1], i8[:,::1], b1[::1])")
def end_values(groups: Any, greatest: Any, roots: Any, nodes: Any, out: Any, found: Any) -> Any:
    """The least or greatest value of each group; returns the number of those with a negative count, which indicates an
    error."""
    links = nodes.view(np.int32)
    side = 1 if greatest else 0
    faults, visited = 0, 0
    for i in range(len(groups)):
        node = np.int64(roots[groups[i]])
        found[i] = node != 0
        if node == 0:
            out[i, :] = 0
            continue
        visited += 1
        while links[node, side] != 0:
            visited += 1
            node = np.int64(links[node, side])
        if nodes[node, COUNT] < 0:
            faults += 1
        for lane in range(out.shape[1]):
            out[i, lane] = nodes[node, VALUE + lane]
    nodes[NOWHERE, COUNT] += visited
    return faults


@kernel("void(i4[::1], i8[::1], i4[::1], i8[:,::1], i8[:,::1])")
def values_at(groups: Any, places: Any, roots: Any, nodes: Any, out: Any) -> None:
    """The value at a position of each group, counting copies from the least on; zeros if there is none."""
    links, visited = nodes.view(np.int32), 0
    for i in range(len(groups)):
        node, left = np.int64(roots[groups[i]]), places[i]
        out[i, :] = 0
        while node != 0:
            visited += 1
            below = nodes[links[node, 0], TOTAL]
            if left < below:
                node = np.int64(links[node, 0])
            elif left < below + nodes[node, COUNT]:
                for lane in range(out.shape[1]):
                    out[i, lane] = nodes[node, VALUE + lane]
                break
            else:
                left -= below + nodes[node, COUNT]
                node = np.int64(links[node, 1])
    nodes[NOWHERE, COUNT] += visited


@kernel("void(i4[::1], b1, i4[::1], i8[:,::1], i8[:,::1], b1[::1])")
def most_frequent_values(groups: Any, greatest: Any, roots: Any, nodes: Any, out: Any, found: Any) -> None:
    """The value with the highest count of each group, and of those the least, or the greatest."""
    links = nodes.view(np.int32)
    first, then = (1, 0) if greatest else (0, 1)
    stack, visited = np.empty(DEPTH, np.int64), 0
    for i in range(len(groups)):
        node, depth, most = np.int64(roots[groups[i]]), 0, np.int64(0)
        out[i, :] = 0
        while node != 0 or depth > 0:
            while node != 0:
                stack[depth] = node
                depth += 1
                node = np.int64(links[node, first])
            depth -= 1
            visited += 1
            node = stack[depth]
            if nodes[node, COUNT] > most:
                most = nodes[node, COUNT]
                for lane in range(out.shape[1]):
                    out[i, lane] = nodes[node, VALUE + lane]
            node = np.int64(links[node, then])
        found[i] = most > 0
    nodes[NOWHERE, COUNT] += visited


@inlined
def count_before(
    root: Any, inclusive: Any, nodes: Any, links: Any, low: Any, high: Any, kind: Any, texts: Any, spans: Any
) -> Any:
    """Sum of counts of the values in a tree that sort before (low, high), or with it when `inclusive`."""
    total, node, last, visited = 0, np.int64(root), nodes.shape[1] - 1, 0
    while node != 0:
        visited += 1
        side = compare(kind, low, high, nodes[node, VALUE], nodes[node, last], texts, spans)
        if side > 0 or (side == 0 and inclusive):
            total += nodes[node, COUNT] + nodes[links[node, 0], TOTAL]
            node = np.int64(links[node, 1])
        else:
            node = np.int64(links[node, 0])
    nodes[NOWHERE, COUNT] += visited
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


def fraction_order(bits: Int64s) -> Int64s:
    """Bits of doubles to integers that sort like them, and back: negative ones have all bits but the sign flipped."""
    return bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)


class Ordered:
    """An ordered multiset for each group number. Values are int64[n, lanes] in lane form (scalar/lanes)."""

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
        """The addresses of the pool's bytes and offsets, by which kernels compare texts; valid until the pool grows."""
        if self._pool is None:
            return 0, 0
        return self._pool.bytes.data.ctypes.data, self._pool.offsets.data.ctypes.data

    def _stored(self, values: Int64s) -> Int64s:
        return fraction_order(values) if self.kind == FRACTION else values

    def reserve(self, groups: int) -> None:
        """Makes room for group numbers below `groups`."""
        self.roots.grow(groups)

    def add(self, groups: Slots, values: Int64s, weights: Int64s) -> None:
        """Adds `weight` copies of each value to its group, or removes them if negative; weight 0 skips the row."""
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

    def at(self, groups: Slots, places: Int64s) -> Int64s:
        """The value at a place of each group, in order and with copies, from 0 on."""
        out = np.empty((len(groups), self.width), np.int64)
        values_at(groups, np.ascontiguousarray(places), self.roots.data, self.nodes.data, out)
        return self._stored(out)

    def most_frequent(self, groups: Slots, greatest: bool) -> tuple[Int64s, Bools]:
        """The value each group has most copies of, the least or the greatest of such, and whether it has any."""
        out, found = np.empty((len(groups), self.width), np.int64), np.empty(len(groups), np.bool_)
        most_frequent_values(groups, greatest, self.roots.data, self.nodes.data, out, found)
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
        """Marks the pool ids stored here."""
        if self.kind == TEXT:
            mark_lane(self.roots.data, self.nodes.data, VALUE, marked)

    def visits(self) -> int:
        """The nodes visited since they were last asked for."""
        return visits(self.nodes.data)

    def reset(self) -> None:
        for array in (self.roots, self.nodes, self._free, self._meta):
            array.reset()
