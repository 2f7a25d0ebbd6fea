"""Live marks: which alive tuples occur in the answer, and what follows below when one begins or ceases to (the laws are
those of state/tree)."""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.chains import child_key, link_back, link_front, parent_key, unlink_parent
from freshet.state.comparison import LIVES, append, change_live, foresee_order, is_reached
from freshet.state.kernel import AHEAD, as_int8, as_int32, as_int64, inlined
from freshet.state.sorted_chain import value_at
from freshet.state.tree_table import (
    ALIVE,
    CHILD_HEAD,
    CHILD_LINKS,
    CHILD_VALUES,
    COMPARISON,
    FIRST,
    KEYS,
    LIVE,
    NEXT,
    NONE,
    OUTPUT,
    OUTPUT_CHILDREN,
    PARENT,
    PARENT_HEAD,
    PARENT_KEY,
    PARENT_LINKS,
    PRESENT,
    STATUS,
    TREE_COLUMNS,
)  # fmt: skip


@inlined
def live_above(t: Any, c: Any, k: Any) -> Any:
    """Whether a live parent of c has key k."""
    status = as_int8(t[t[c * TREE_COLUMNS + PARENT] * TREE_COLUMNS + STATUS])
    if t[c * TREE_COLUMNS + PARENT_KEY] == 0:
        return status[k] == LIVE
    head = as_int32(t[c * TREE_COLUMNS + KEYS])[4 * k + PARENT_HEAD]
    return head != 0 and status[head - 1] == LIVE


@inlined
def is_live(t: Any, e: Any, s: Any) -> Any:
    """Whether tuple s of output node e occurs in the answer."""
    if as_int8(t[e * TREE_COLUMNS + STATUS])[s] < ALIVE:
        return False
    if t[e * TREE_COLUMNS + PARENT] < 0:
        return True
    k = child_key(t, e, s)
    if k < 0:
        return False
    if t[e * TREE_COLUMNS + COMPARISON] != NONE:
        return is_reached(t, e, k, value_at(as_int64(t[e * TREE_COLUMNS + CHILD_VALUES]), s))
    return live_above(t, e, k)


@inlined
def enliven(t: Any, e: Any, tuples: Any, start: Any, end: Any) -> None:
    """Marks those of the alive tuples live that are, and whatever below becomes live with them."""
    stack = np.empty(16, np.int32)
    given = as_int8(t[e * TREE_COLUMNS + STATUS])
    for j in range(start, end):
        if (j - start) % AHEAD == 0:
            foresee_order(t, e, LIVES, tuples[j:end], 0)
        node, s, n = np.int64(e), np.int64(tuples[j]), 0
        if given[s] != ALIVE or not is_live(t, node, s):
            continue
        while True:
            status = as_int8(t[node * TREE_COLUMNS + STATUS])
            status[s] = LIVE
            c = t[node * TREE_COLUMNS + FIRST]
            while c >= 0:
                k = parent_key(t, c, s) if t[c * TREE_COLUMNS + OUTPUT] else np.int64(-1)
                if k >= 0 and t[c * TREE_COLUMNS + COMPARISON] != NONE:
                    reached, m = change_live(t, c, k, s, True, np.empty(16, np.int32), 0)
                    if t[c * TREE_COLUMNS + OUTPUT_CHILDREN]:
                        below_status = as_int8(t[c * TREE_COLUMNS + STATUS])
                        for i in range(m):
                            if below_status[reached[i]] == ALIVE:
                                stack = append(append(stack, n, c), n + 1, reached[i])
                                n += 2
                elif k >= 0:
                    keys, first = as_int32(t[c * TREE_COLUMNS + KEYS]), True
                    if t[c * TREE_COLUMNS + PARENT_KEY] != 0:
                        links = as_int32(t[c * TREE_COLUMNS + PARENT_LINKS])
                        unlink_parent(keys, links, k, s)
                        head = keys[4 * k + PARENT_HEAD]
                        first = head == 0 or status[head - 1] != LIVE
                        link_front(keys, links, k, s)
                    if first and t[c * TREE_COLUMNS + OUTPUT_CHILDREN]:
                        below_status = as_int8(t[c * TREE_COLUMNS + STATUS])
                        below = keys[4 * k + CHILD_HEAD]
                        while below:
                            if below_status[below - 1] == ALIVE:
                                stack = append(append(stack, n, c), n + 1, below - 1)
                                n += 2
                            below = as_int32(t[c * TREE_COLUMNS + CHILD_LINKS])[2 * (below - 1)]
                c = t[c * TREE_COLUMNS + NEXT]
            if n == 0:
                break
            n -= 2
            node, s = np.int64(stack[n]), np.int64(stack[n + 1])


@inlined
def unliven(t: Any, e: Any, tuples: Any, own: Any) -> None:
    """Marks tuples dead, with the consequences for what was live through them. Those that are about to leave (`own`)
    are left apart from their chains of parents."""
    stack = np.empty(16, np.int32)
    given = as_int8(t[e * TREE_COLUMNS + STATUS])
    for j in range(tuples.size):
        if j % AHEAD == 0:
            foresee_order(t, e, LIVES, tuples, j)
        node, s, n, leaving = np.int64(e), np.int64(tuples[j]), 0, own
        was_live = given[s] == LIVE
        given[s] = PRESENT
        while was_live:
            c = t[node * TREE_COLUMNS + FIRST]
            while c >= 0:
                k = parent_key(t, c, s) if t[c * TREE_COLUMNS + OUTPUT] else np.int64(-1)
                if k >= 0 and t[c * TREE_COLUMNS + COMPARISON] != NONE:
                    lost, m = change_live(t, c, k, s, False, np.empty(16, np.int32), 0)
                    if t[c * TREE_COLUMNS + OUTPUT_CHILDREN]:
                        status = as_int8(t[c * TREE_COLUMNS + STATUS])
                        for i in range(m):
                            if status[lost[i]] == LIVE:
                                stack = append(append(stack, n, c), n + 1, lost[i])
                                n += 2
                elif k >= 0:
                    keys = as_int32(t[c * TREE_COLUMNS + KEYS])
                    if t[c * TREE_COLUMNS + PARENT_KEY] != 0:
                        links = as_int32(t[c * TREE_COLUMNS + PARENT_LINKS])
                        unlink_parent(keys, links, k, s)
                        if not leaving:
                            link_back(keys, links, k, s)
                    if t[c * TREE_COLUMNS + OUTPUT_CHILDREN] and not live_above(t, c, k):
                        status = as_int8(t[c * TREE_COLUMNS + STATUS])
                        below = keys[4 * k + CHILD_HEAD]
                        while below:
                            if status[below - 1] == LIVE:
                                stack = append(append(stack, n, c), n + 1, below - 1)
                                n += 2
                            below = as_int32(t[c * TREE_COLUMNS + CHILD_LINKS])[2 * (below - 1)]
                c = t[c * TREE_COLUMNS + NEXT]
            if n == 0:
                break
            n -= 2
            node, s, leaving = np.int64(stack[n]), np.int64(stack[n + 1]), False
            as_int8(t[node * TREE_COLUMNS + STATUS])[s] = ALIVE  # not before it leaves the front of its chains
