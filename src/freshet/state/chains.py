"""Chains of the tuples that share a key of an edge: children in one, parents in the other, the live parents first.

Doubly linked through int32 pairs, next and previous, that hold slot + 1; 0 is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.kernel import AHEAD, as_int32, inlined, prefetch
from freshet.state.tree_table import (
    AFTER,
    APART,
    BEFORE,
    CHILD_HEAD,
    CHILD_KEY,
    CHILD_LINKS,
    COUNTER,
    KEY_BYTES,
    KEY_COLUMNS,
    KEYS,
    LINK_BYTES,
    PARENT_HEAD,
    PARENT_KEY,
    PARENT_LINKS,
    PARENT_TAIL,
    STATUS,
    child_ids_of,
    column,
    compares,
    first_child,
    is_far,
    keyed_by_slot,
    next_sibling,
    parent_ids_of,
    parent_of,
)  # fmt: skip


@inlined
def child_key(t: Any, c: Any, s: Any) -> Any:
    return np.int64(child_ids_of(t, c)[s])


@inlined
def parent_key(t: Any, c: Any, s: Any) -> Any:
    """Key under which tuple s of c's parent meets c; -1 when it has none (a NULL in it)."""
    if keyed_by_slot(t, c):
        return np.int64(s)
    return np.int64(parent_ids_of(t, c)[s])


@inlined
def _prefetch_chain(keys: Any, ids: Any, links: Any, end: Any, tuples: Any, j: Any) -> None:
    """Prefetches what adding the tuples from j on to their chains, or removing them, will read: their ids and links,
    their keys, and the links of their neighbours. `end`: the column of the keys at which tuples are added."""
    stop = min(j + AHEAD, tuples.size)
    for i in range(j, stop):
        prefetch(ids + 4 * np.int64(tuples[i]))
        prefetch(links + LINK_BYTES * np.int64(tuples[i]))
    for i in range(j, stop):
        prefetch(keys + KEY_BYTES * np.int64(as_int32(ids)[tuples[i]]))
    for i in range(j, stop):
        s, k = np.int64(tuples[i]), np.int64(as_int32(ids)[tuples[i]])
        if k >= 0:
            prefetch(links + LINK_BYTES * np.int64(as_int32(keys)[KEY_COLUMNS * k + end] - 1))
            prefetch(links + LINK_BYTES * np.int64(as_int32(links)[2 * s] - 1))
            prefetch(links + LINK_BYTES * np.int64(as_int32(links)[2 * s + 1] - 1))


@inlined
def prefetch_tuples(t: Any, e: Any, tuples: Any, j: Any) -> None:
    """Prefetches what inserting, deleting or changing the tuples from j on will read in node e and its plain edges."""
    if not is_far(t, e):
        return
    for i in range(j, min(j + AHEAD, tuples.size)):
        prefetch(column(t, e, STATUS) + np.int64(tuples[i]))
        prefetch(column(t, e, COUNTER) + np.int64(tuples[i]))
    if parent_of(t, e) >= 0 and not compares(t, e):
        _prefetch_chain(column(t, e, KEYS), column(t, e, CHILD_KEY), column(t, e, CHILD_LINKS), CHILD_HEAD, tuples, j)
    c = first_child(t, e)
    while c >= 0:
        if not keyed_by_slot(t, c) and not compares(t, c):
            keys, ids, links = column(t, c, KEYS), column(t, c, PARENT_KEY), column(t, c, PARENT_LINKS)
            _prefetch_chain(keys, ids, links, PARENT_TAIL, tuples, j)
        c = next_sibling(t, c)


@inlined
def link_child(keys: Any, links: Any, k: Any, s: Any) -> None:
    head = keys[KEY_COLUMNS * k + CHILD_HEAD]
    links[2 * s + AFTER] = head
    links[2 * s + BEFORE] = 0
    if head:
        links[2 * (head - 1) + BEFORE] = s + 1
    keys[KEY_COLUMNS * k + CHILD_HEAD] = s + 1


@inlined
def unlink_child(keys: Any, links: Any, k: Any, s: Any) -> None:
    after, before = links[2 * s + AFTER], links[2 * s + BEFORE]
    if before:
        links[2 * (before - 1) + AFTER] = after
    else:
        keys[KEY_COLUMNS * k + CHILD_HEAD] = after
    if after:
        links[2 * (after - 1) + BEFORE] = before


@inlined
def link_front(keys: Any, links: Any, k: Any, s: Any) -> None:
    """Adds parent s at the head of its chain, where the live parents are."""
    head = keys[KEY_COLUMNS * k + PARENT_HEAD]
    links[2 * s + AFTER] = head
    links[2 * s + BEFORE] = 0
    keys[KEY_COLUMNS * k + PARENT_HEAD] = s + 1
    if head:
        links[2 * (head - 1) + BEFORE] = s + 1
    else:
        keys[KEY_COLUMNS * k + PARENT_TAIL] = s + 1


@inlined
def link_back(keys: Any, links: Any, k: Any, s: Any) -> None:
    tail = keys[KEY_COLUMNS * k + PARENT_TAIL]
    links[2 * s + AFTER] = 0
    links[2 * s + BEFORE] = tail
    keys[KEY_COLUMNS * k + PARENT_TAIL] = s + 1
    if tail:
        links[2 * (tail - 1) + AFTER] = s + 1
    else:
        keys[KEY_COLUMNS * k + PARENT_HEAD] = s + 1


@inlined
def unlink_parent(keys: Any, links: Any, k: Any, s: Any) -> None:
    """Removes parent s from its chain, if it is in it."""
    after, before = links[2 * s + AFTER], links[2 * s + BEFORE]
    if before == APART:
        return
    if before:
        links[2 * (before - 1) + AFTER] = after
    else:
        keys[KEY_COLUMNS * k + PARENT_HEAD] = after
    if after:
        links[2 * (after - 1) + BEFORE] = before
    else:
        keys[KEY_COLUMNS * k + PARENT_TAIL] = before
    links[2 * s + BEFORE] = APART
