"""Live marks: which alive tuples occur in the answer, and the consequences below when a tuple becomes or ceases to be
live (state/tree states the laws)."""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.chains import child_key, link_back, link_front, parent_key, unlink_parent
from freshet.state.comparison import LIVES, change_live, is_reached, prefetch_order
from freshet.state.kernel import AHEAD, inlined
from freshet.state.sorted_chain import append, value_at
from freshet.state.tree_table import (
    AFTER,
    ALIVE,
    CHILD_HEAD,
    KEY_COLUMNS,
    LIVE,
    PARENT_HEAD,
    PRESENT,
    child_links_of,
    child_values_of,
    compares,
    first_child,
    has_output_children,
    is_output,
    keyed_by_slot,
    keys_of,
    next_sibling,
    parent_links_of,
    parent_of,
    status_of,
)  # fmt: skip


@inlined
def live_above(t: Any, c: Any, k: Any) -> Any:
    """Whether a live parent of c has key k."""
    status = status_of(t, parent_of(t, c))
    if keyed_by_slot(t, c):
        return status[k] == LIVE
    head = keys_of(t, c)[KEY_COLUMNS * k + PARENT_HEAD]
    return head != 0 and status[head - 1] == LIVE


@inlined
def is_live(t: Any, e: Any, s: Any) -> Any:
    """Whether tuple s of output node e occurs in the answer."""
    if status_of(t, e)[s] < ALIVE:
        return False
    if parent_of(t, e) < 0:
        return True
    k = child_key(t, e, s)
    if k < 0:
        return False
    if compares(t, e):
        return is_reached(t, e, k, value_at(child_values_of(t, e), s))
    return live_above(t, e, k)


@inlined
def mark_live(t: Any, e: Any, tuples: Any, start: Any, end: Any) -> None:
    """Marks those of the alive tuples that are live, and the tuples below that become live with them."""
    stack = np.empty(16, np.int32)
    given = status_of(t, e)
    for j in range(start, end):
        if (j - start) % AHEAD == 0:
            prefetch_order(t, e, LIVES, tuples[j:end], 0)
        node, s, n = np.int64(e), np.int64(tuples[j]), 0
        if given[s] != ALIVE or not is_live(t, node, s):
            continue
        while True:
            status = status_of(t, node)
            status[s] = LIVE
            c = first_child(t, node)
            while c >= 0:
                k = parent_key(t, c, s) if is_output(t, c) else np.int64(-1)
                if k >= 0 and compares(t, c):
                    reached, m = change_live(t, c, k, s, True, np.empty(16, np.int32), 0)
                    if has_output_children(t, c):
                        below_status = status_of(t, c)
                        for i in range(m):
                            if below_status[reached[i]] == ALIVE:
                                stack = append(append(stack, n, c), n + 1, reached[i])
                                n += 2
                elif k >= 0:
                    keys, first = keys_of(t, c), True
                    if not keyed_by_slot(t, c):
                        links = parent_links_of(t, c)
                        unlink_parent(keys, links, k, s)
                        head = keys[KEY_COLUMNS * k + PARENT_HEAD]
                        first = head == 0 or status[head - 1] != LIVE
                        link_front(keys, links, k, s)
                    if first and has_output_children(t, c):
                        below_status = status_of(t, c)
                        below = keys[KEY_COLUMNS * k + CHILD_HEAD]
                        while below:
                            if below_status[below - 1] == ALIVE:
                                stack = append(append(stack, n, c), n + 1, below - 1)
                                n += 2
                            below = child_links_of(t, c)[2 * (below - 1) + AFTER]
                c = next_sibling(t, c)
            if n == 0:
                break
            n -= 2
            node, s = np.int64(stack[n]), np.int64(stack[n + 1])


@inlined
def unmark_live(t: Any, e: Any, tuples: Any, own: Any) -> None:
    """Marks tuples as not live, with the consequences for the tuples that were live through them. Those that are about
    to be removed (`own`) are not put back into their chains of parents."""
    stack = np.empty(16, np.int32)
    given = status_of(t, e)
    for j in range(tuples.size):
        if j % AHEAD == 0:
            prefetch_order(t, e, LIVES, tuples, j)
        node, s, n, leaving = np.int64(e), np.int64(tuples[j]), 0, own
        was_live = given[s] == LIVE
        given[s] = PRESENT
        while was_live:
            c = first_child(t, node)
            while c >= 0:
                k = parent_key(t, c, s) if is_output(t, c) else np.int64(-1)
                if k >= 0 and compares(t, c):
                    lost, m = change_live(t, c, k, s, False, np.empty(16, np.int32), 0)
                    if has_output_children(t, c):
                        status = status_of(t, c)
                        for i in range(m):
                            if status[lost[i]] == LIVE:
                                stack = append(append(stack, n, c), n + 1, lost[i])
                                n += 2
                elif k >= 0:
                    keys = keys_of(t, c)
                    if not keyed_by_slot(t, c):
                        links = parent_links_of(t, c)
                        unlink_parent(keys, links, k, s)
                        if not leaving:
                            link_back(keys, links, k, s)
                    if has_output_children(t, c) and not live_above(t, c, k):
                        status = status_of(t, c)
                        below = keys[KEY_COLUMNS * k + CHILD_HEAD]
                        while below:
                            if status[below - 1] == LIVE:
                                stack = append(append(stack, n, c), n + 1, below - 1)
                                n += 2
                            below = child_links_of(t, c)[2 * (below - 1) + AFTER]
                c = next_sibling(t, c)
            if n == 0:
                break
            n -= 2
            node, s, leaving = np.int64(stack[n]), np.int64(stack[n + 1]), False
            status_of(t, node)[s] = ALIVE  # only after it left the front of its chains
