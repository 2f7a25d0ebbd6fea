"""Trees of rows: a treap a group (state/treap), whose nodes hold whole rows of lanes instead of one value.

`order` says how rows compare, one line a column, most significant first; two rows that compare equal in all lines are
the same row. A row with n copies takes n ranks. The row to be looked up is in node 0, which is not part of any tree;
its count is that of the nodes visited.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.kernel import inlined
from freshet.state.ordered import FRACTION, WIDE, compare
from freshet.state.treap import COUNT, NOWHERE, TOTAL, VALUE, drop, put

#: Columns of an order: first lane of the value, its kind (state/ordered), -1 for downwards or 1, null lane, bit in it,
#: and the side NULL sorts on: -1 first, 1 last.
LANE, KIND, SIGN, NULL_LANE, NULL_BIT, NULL_SIDE = range(6)


@inlined
def compare_rows(nodes: Any, x: Any, y: Any, order: Any, lines: Any, texts: Any, spans: Any) -> Any:
    """-1, 0 or 1 as the row of node x sorts before, with or after that of node y by the first `lines` of the order."""
    for i in range(lines):
        bit, null_lane = order[i, NULL_BIT], VALUE + order[i, NULL_LANE]
        x_null, y_null = (nodes[x, null_lane] >> bit) & 1, (nodes[y, null_lane] >> bit) & 1
        if x_null != y_null:
            return order[i, NULL_SIDE] if x_null == 1 else -order[i, NULL_SIDE]
        if x_null == 1:
            continue
        kind, lane = order[i, KIND], VALUE + order[i, LANE]
        low, other = nodes[x, lane], nodes[y, lane]
        if low == other and kind != WIDE:
            continue
        high, other_high = low, other
        if kind == WIDE:
            high, other_high = nodes[x, lane + 1], nodes[y, lane + 1]
        elif kind == FRACTION:
            low ^= (low >> 63) & 0x7FFFFFFFFFFFFFFF
            other ^= (other >> 63) & 0x7FFFFFFFFFFFFFFF
        side = compare(kind, low, high, other, other_high, texts, spans)
        if side != 0:
            return side * order[i, SIGN]
    return 0


@inlined
def find(nodes: Any, links: Any, root: Any, order: Any, texts: Any, spans: Any, path: Any) -> Any:
    """The node equal to the row in node 0, or 0; the depth of the path to it, the side it lies on, and its rank."""
    node, depth, side, rank = np.int64(root), 0, 0, 0
    while node != 0:
        side = compare_rows(nodes, 0, node, order, len(order), texts, spans)
        if side >= 0:
            rank += nodes[links[node, 0], TOTAL]
        if side == 0:
            break
        if side > 0:
            rank += nodes[node, COUNT]
        path[depth] = node
        depth += 1
        node = np.int64(links[node, 1 if side > 0 else 0])
    nodes[NOWHERE, COUNT] += depth + 1
    return node, depth, side, rank


@inlined
def change(
    nodes: Any, links: Any, roots: Any, group: Any, free: Any, meta: Any, weight: Any, found: Any, depth: Any,
    side: Any, path: Any,
) -> Any:  # fmt: skip
    """Adds `weight` copies of the row in node 0, after `find`. Returns the new count."""
    for k in range(depth):
        nodes[path[k], TOTAL] += weight
    if found != 0:
        nodes[found, COUNT] += weight
        nodes[found, TOTAL] += weight
        left = nodes[found, COUNT]
        if left == 0:
            drop(nodes, links, roots, free, meta, group, found, path[depth - 1] if depth > 0 else 0)
        return left
    made = put(nodes, links, roots, free, meta, group, weight, path, depth, side)
    for lane in range(VALUE, nodes.shape[1]):
        nodes[made, lane] = nodes[0, lane]
    return weight


@inlined
def at_rank(nodes: Any, links: Any, root: Any, rank: Any) -> Any:
    """The node that holds a rank, which must be below the tree's total."""
    node, visited = np.int64(root), 0
    while True:
        visited += 1
        before = nodes[links[node, 0], TOTAL]
        if rank < before:
            node = np.int64(links[node, 0])
        elif rank < before + nodes[node, COUNT]:
            nodes[NOWHERE, COUNT] += visited
            return node
        else:
            rank -= before + nodes[node, COUNT]
            node = np.int64(links[node, 1])


@inlined
def through(nodes: Any, links: Any, root: Any, row: Any, order: Any, keys: Any, texts: Any, spans: Any) -> Any:
    """How many rows sort before or with the row of a node, by the first `keys` lines."""
    total, node, visited = 0, np.int64(root), 0
    while node != 0:
        visited += 1
        if compare_rows(nodes, row, node, order, keys, texts, spans) >= 0:
            total += nodes[node, COUNT] + nodes[links[node, 0], TOTAL]
            node = np.int64(links[node, 1])
        else:
            node = np.int64(links[node, 0])
    nodes[NOWHERE, COUNT] += visited
    return total


@inlined
def read(
    nodes: Any, links: Any, root: Any, low: Any, high: Any, sign: Any, stack: Any, out: Any, counts: Any, given: Any
) -> Any:
    """Appends the rows with ranks from `low` up to `high`, in order, as many as there is room for; returns how many
    there are then and the rank after the last one. Only the way to the first of them counts as visited."""
    high = min(high, nodes[root, TOTAL])
    if low >= high:
        return given, high
    depth, node, rank, visited = 0, np.int64(root), 0, 0  # `rank`: of the leftmost row below `node`
    while node != 0:
        visited += 1
        before = rank + nodes[links[node, 0], TOTAL]
        if low < before + nodes[node, COUNT]:
            stack[depth] = node
            depth += 1
            if low >= before:
                rank = before
                break
            node = np.int64(links[node, 0])
        else:
            rank = before + nodes[node, COUNT]
            node = np.int64(links[node, 1])
    nodes[NOWHERE, COUNT] += visited
    while depth > 0 and rank < high:
        if given == len(counts):
            return given, max(rank, low)
        depth -= 1
        node = stack[depth]
        count = nodes[node, COUNT]
        for lane in range(out.shape[1]):
            out[given, lane] = nodes[node, VALUE + lane]
        counts[given] = sign * (min(high, rank + count) - max(low, rank))
        given += 1
        rank += count
        node = np.int64(links[node, 1])
        while node != 0:
            stack[depth] = node
            depth += 1
            node = np.int64(links[node, 0])
    return given, high
