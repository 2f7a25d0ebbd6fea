"""Treaps over one array of nodes, shared by state/ordered (values) and state/row_tree (rows).

A node's priority is a hash of its own number, so it takes no memory, and the shape of a tree depends on which nodes
hold what only: expected depth is O(log n) for every order of arrival. A node is a row of int64 lanes: its left and
right child as two int32, its count, the counts in its whole subtree, then its contents. Node 0 means no node; its
subtree has count zero. The count of node 0 itself is the number of nodes visited: kernels add to it what changing or
searching a tree takes, and `visits` takes it away.

A search records its path, and inserting a node follows that path, so nothing is compared twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.arrays import Int64s
from freshet.state.kernel import inlined, kernel

COUNT, TOTAL, VALUE = 1, 2, 3  # lanes of a node
NOWHERE = 0  # the node that no tree has
USED, FREE, LIVE = range(3)  # places in meta
DEPTH = 1024  # far beyond any depth a treap of 2**31 nodes can have in practice


@inlined
def _priority(node: Any) -> Any:
    h = np.uint64(node) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0xD6E8FEB86659FD93)
    return h ^ (h >> np.uint64(32))


@inlined
def _relink(roots: Any, links: Any, parent: Any, group: Any, old: Any, new: Any) -> Any:
    """Replaces the link to `old` by one to `new`."""
    if parent == 0:
        roots[group] = new
    elif links[parent, 0] == old:
        links[parent, 0] = new
    else:
        links[parent, 1] = new


@inlined
def _merge(nodes: Any, links: Any, a: Any, b: Any) -> Any:
    """Merges two trees, all of `a` before all of `b`."""
    root, above, side, visited = 0, 0, 0, 0
    while a != 0 or b != 0:
        visited += 1
        if b == 0 or (a != 0 and _priority(a) > _priority(b)):
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
    nodes[NOWHERE, COUNT] += visited
    return root


@inlined
def drop(nodes: Any, links: Any, roots: Any, free: Any, meta: Any, group: Any, node: Any, parent: Any) -> Any:
    """Removes a node from its tree."""
    below = _merge(nodes, links, np.int64(links[node, 0]), np.int64(links[node, 1]))
    _relink(roots, links, parent, group, node, below)
    free[meta[FREE]] = node
    meta[FREE] += 1
    meta[LIVE] -= 1


@inlined
def put(
    nodes: Any, links: Any, roots: Any, free: Any, meta: Any, group: Any, weight: Any, path: Any, depth: Any, side: Any
) -> Any:
    """Inserts a new node with a count where a search ended: below the path's last node, on that side (right where it is
    above 0), or as high as its priority takes it. The path's totals have the count already. Returns the node, whose
    value is still to be written."""
    if meta[FREE] > 0:
        meta[FREE] -= 1
        made = np.int64(free[meta[FREE]])
    else:
        meta[USED] += 1
        made = meta[USED]
    meta[LIVE] += 1
    nodes[made, 0] = 0
    nodes[made, COUNT] = weight
    nodes[made, TOTAL] = weight
    own = _priority(made)
    above = depth
    while above > 0 and _priority(path[above - 1]) < own:
        above -= 1
    parent = path[above - 1] if above > 0 else 0
    if above == depth:
        if depth > 0:
            links[parent, 1 if side > 0 else 0] = made
        else:
            roots[group] = made
        return made
    _relink(roots, links, parent, group, path[above], made)
    nodes[made, TOTAL] = nodes[path[above], TOTAL]
    left_end, right_end = 0, 0  # the rest of the path is split into the nodes before the new one and those after it
    for k in range(above, depth):
        node = path[k]
        if side > 0 if k == depth - 1 else links[node, 1] == path[k + 1]:
            if left_end == 0:
                links[made, 0] = node
            else:
                links[left_end, 1] = node
            left_end = node
        else:
            if right_end == 0:
                links[made, 1] = node
            else:
                links[right_end, 0] = node
            right_end = node
    if left_end != 0:
        links[left_end, 1] = 0
    if right_end != 0:
        links[right_end, 0] = 0
    for k in range(depth - 1, above - 1, -1):
        node = path[k]
        nodes[node, TOTAL] = nodes[node, COUNT] + nodes[links[node, 0], TOTAL] + nodes[links[node, 1], TOTAL]
    return made


def visits(nodes: Int64s) -> int:
    """The nodes visited since they were last asked for."""
    visited = int(nodes[NOWHERE, COUNT])
    nodes[NOWHERE, COUNT] = 0
    return visited


@kernel("void(i4[::1], i8[:,::1], i8, b1[::1])")
def mark_lane(roots: Any, nodes: Any, lane: Any, marked: Any) -> None:
    """Marks the ids in one lane of all nodes."""
    links = nodes.view(np.int32)
    stack = np.empty(DEPTH, np.int64)
    for root in roots:
        depth = 0
        node = np.int64(root)
        while node != 0 or depth > 0:
            while node != 0:
                marked[nodes[node, lane]] = True
                stack[depth] = node
                depth += 1
                node = np.int64(links[node, 0])
            depth -= 1
            node = np.int64(links[stack[depth], 1])
