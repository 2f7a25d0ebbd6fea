"""Several further values of the tuples in sorted chains: the next tuple of a chain that has enough of each.

For each tuple, `best` has the greatest of each further value in its subtree of the chain's treap. A subtree is searched
only if these would be enough. They may belong to different tuples, so tuples are also looked at in vain; how many is
returned. A part that is searched has a tuple with enough of the rarest value: so all partners of a tuple are found in
O((1 + k) log n), if k tuples of the chain have enough of that value. Arguments are those of `second_value`, with `many`
values for each tuple; bit d of `strict` says that the value number d must be greater, not equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.kernel import inlined
from freshet.state.sorted_chain import ROOT, append, before, changed_subtrees, less, same, value_at


@inlined
def refresh_bests(ends: Any, at: Any, sides: Any, values: Any, further: Any, best: Any, many: Any, s: Any) -> Any:
    """Updates `best` after s was added or removed. Returns the number of nodes visited."""
    path, n = changed_subtrees(ends, at, sides, values, s)
    for i in range(n - 1, -1, -1):
        x = np.int64(path[i])
        for d in range(many):
            most = further[many * x + d]
            for side in range(2):
                below = np.int64(sides[2 * x + side])
                if below:
                    most = max(most, best[many * (below - 1) + d])
            best[many * x + d] = most
    return n


@inlined
def has_all(further: Any, x: Any, needed: Any, y: Any, many: Any, strict: Any) -> Any:
    """Whether the values of x are enough for y, whose own are the complements of what it needs."""
    for d in range(many):
        own, least = further[many * x + d], ~needed[many * y + d]
        if own < least or (own == least and (strict >> d) & 1 == 1):
            return False
    return True


@inlined
def next_with_all(
    ends: Any, at: Any, sides: Any, values: Any, further: Any, best: Any, needed: Any, y: Any, many: Any, strict: Any,
    s: Any, side: Any, bound: Any, inclusive: Any,
) -> Any:  # fmt: skip
    """The tuple nearest to s on a side that has enough for y, and is on the same side of the value `bound` as s is; -1
    when there is none. Also how many were looked at in vain, and the number of nodes visited."""
    waiting, n = np.empty(64, np.int32), 0  # tuples on that side, the nearest last
    looked, visited = np.int64(0), np.int64(1)
    node = np.int64(ends[at + ROOT])
    while node and node - 1 != s:
        visited += 1
        toward = 1 if before(values, node - 1, s) else 0
        if toward != side and has_all(best, node - 1, needed, y, many, strict):
            waiting = append(waiting, n, node - 1)
            n += 1
        node = np.int64(sides[2 * (node - 1) + toward])
    if node:
        node = np.int64(sides[2 * s + side])
    while node or n > 0:
        visited += 1  # the node at which the next loop ends
        while node and has_all(best, node - 1, needed, y, many, strict):
            visited += 1
            waiting = append(waiting, n, node - 1)
            n += 1
            node = np.int64(sides[2 * (node - 1) + 1 - side])
        if n == 0:
            break
        n -= 1
        x = np.int64(waiting[n])
        own = value_at(values, x)
        beyond = less(own, bound) if side == 0 else less(bound, own)
        if beyond or (not inclusive and same(own, bound)):
            break
        if has_all(further, x, needed, y, many, strict):
            return x, looked, visited
        looked += 1
        node = np.int64(sides[2 * x + side])
    return np.int64(-1), looked, visited
