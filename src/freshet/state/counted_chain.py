"""How many tuples of a sorted chain compare with a value, in O(log n).

For each tuple, `counts` has the number of tuples in its subtree of the chain's treap, with their copies. `weights` is
the address of the number of copies of each tuple, or 0 if each has one. Other arguments are those of `sorted_chain`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.kernel import as_int64, inlined
from freshet.state.sorted_chain import ROOT, changed_subtrees, less, same, value_at


@inlined
def refresh_counts(ends: Any, at: Any, sides: Any, values: Any, weights: Any, counts: Any, s: Any) -> Any:
    """Updates `counts` after s was added or removed, or has other copies than before. Returns the number of nodes
    visited."""
    path, n = changed_subtrees(ends, at, sides, values, s)
    for i in range(n - 1, -1, -1):
        x = np.int64(path[i])
        total = as_int64(weights)[x] if weights != 0 else np.int64(1)
        for side in range(2):
            below = np.int64(sides[2 * x + side])
            if below:
                total += counts[below - 1]
        counts[x] = total
    return n


@inlined
def count_above(
    ends: Any, at: Any, sides: Any, values: Any, weights: Any, counts: Any, value: Any, inclusive: Any
) -> Any:
    """How many tuples are above a value, or equal to it if `inclusive`; and the number of nodes visited."""
    total, node, visited = np.int64(0), np.int64(ends[at + ROOT]), np.int64(0)
    while node:
        visited += 1
        s = node - 1
        own = value_at(values, s)
        if less(value, own) or (inclusive and same(own, value)):
            total += as_int64(weights)[s] if weights != 0 else np.int64(1)
            beyond = np.int64(sides[2 * s + 1])
            if beyond:
                total += counts[beyond - 1]
            node = np.int64(sides[2 * s])
        else:
            node = np.int64(sides[2 * s + 1])
    return total, visited
