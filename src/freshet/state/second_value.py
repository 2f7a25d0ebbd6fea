"""A second value of the tuples in sorted chains: the next tuple of a chain that has enough of it, in O(log n).

For each tuple, `best` is the greatest second value in its subtree of the chain's treap. So a search skips subtrees
without a sufficient value, as in a priority search tree: a chain in order of one value answers for two comparisons at
once. Arguments are those of `sorted_chain`; `at` is the place of the chain's root.

Static range trees that are merged as they grow are searched in half the time and filled in a tenth of it (`make
bench-papers`, iedyn-structures), but this treap also deletes in O(log n), gives the next tuple in order, and is the one
that support and bands use anyway.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.kernel import inlined
from freshet.state.sorted_chain import ROOT, before, changed_subtrees

_LEFT, _RIGHT = np.int64(0), np.int64(1)


@inlined
def refresh_best(ends: Any, at: Any, sides: Any, values: Any, seconds: Any, best: Any, s: Any) -> Any:
    """Updates `best` after s was added or removed. Returns the number of nodes visited."""
    path, n = changed_subtrees(ends, at, sides, values, s)
    for i in range(n - 1, -1, -1):
        x = np.int64(path[i])
        most = seconds[x]
        for side in range(2):
            below = np.int64(sides[2 * x + side])
            if below and best[below - 1] > most:
                most = best[below - 1]
        best[x] = most
    return n


@inlined
def _end_of(sides: Any, seconds: Any, best: Any, node: Any, least: Any, side: Any) -> Any:
    """The tuple with enough that is farthest to a side in a subtree that has one, and the number of nodes visited."""
    visited = np.int64(0)
    while True:
        visited += 1
        s = node - 1
        near = np.int64(sides[2 * s + side])
        if near and best[near - 1] >= least:
            node = near
        elif seconds[s] >= least:
            return s, visited
        else:
            node = np.int64(sides[2 * s + 1 - side])


@inlined
def _next_to(
    ends: Any, at: Any, sides: Any, values: Any, seconds: Any, best: Any, s: Any, least: Any, side: Any
) -> Any:
    """The tuple with enough that is nearest to s on a side; -1 when there is none. And the number of nodes visited."""
    node, visited = np.int64(ends[at + ROOT]), np.int64(1)
    found = np.int64(0)  # the last tuple on the way that lies on that side and has enough, itself or beyond it
    while node and node - 1 != s:
        visited += 1
        x = node - 1
        toward = 1 if before(values, x, s) else 0  # where s is, seen from x
        if toward != side:
            beyond = np.int64(sides[2 * x + side])
            if seconds[x] >= least or (beyond and best[beyond - 1] >= least):
                found = node
        node = np.int64(sides[2 * x + toward])
    if node:
        below = np.int64(sides[2 * s + side])
        if below and best[below - 1] >= least:
            end, further = _end_of(sides, seconds, best, below, least, 1 - side)
            return end, visited + further
    if not found:
        return np.int64(-1), visited
    if seconds[found - 1] >= least:
        return found - 1, visited
    end, further = _end_of(sides, seconds, best, np.int64(sides[2 * (found - 1) + side]), least, 1 - side)
    return end, visited + further


@inlined
def last_before(ends: Any, at: Any, sides: Any, values: Any, seconds: Any, best: Any, s: Any, least: Any) -> Any:
    """The last tuple before s whose second value is `least` or more; -1 when there is none. And the nodes visited."""
    return _next_to(ends, at, sides, values, seconds, best, s, least, _LEFT)


@inlined
def first_after(ends: Any, at: Any, sides: Any, values: Any, seconds: Any, best: Any, s: Any, least: Any) -> Any:
    """The first tuple after s whose second value is `least` or more; -1 when there is none. And the nodes visited."""
    return _next_to(ends, at, sides, values, seconds, best, s, least, _RIGHT)
