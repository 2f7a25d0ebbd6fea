"""Chains of the tuples that share a key of an edge: children in one, parents in the other, the live parents first.

Doubly linked through int32 pairs, next and previous, that hold slot + 1; 0 is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.kernel import AHEAD, FAR, as_int32, inlined, prefetch
from freshet.state.tree_table import (
    APART,
    CHILD_HEAD,
    CHILD_KEY,
    CHILD_LINKS,
    COMPARISON,
    COUNTER,
    FIRST,
    KEYS,
    NEXT,
    NONE,
    PARENT,
    PARENT_HEAD,
    PARENT_KEY,
    PARENT_LINKS,
    PARENT_TAIL,
    ROOM,
    STATUS,
    TREE_COLUMNS,
)  # fmt: skip


@inlined
def child_key(t: Any, c: Any, s: Any) -> Any:
    return np.int64(as_int32(t[c * TREE_COLUMNS + CHILD_KEY])[s])


@inlined
def parent_key(t: Any, c: Any, s: Any) -> Any:
    """Key under which tuple s of c's parent meets c; -1 when it has none (a NULL in it)."""
    if t[c * TREE_COLUMNS + PARENT_KEY] == 0:
        return np.int64(s)
    return np.int64(as_int32(t[c * TREE_COLUMNS + PARENT_KEY])[s])


@inlined
def _foresee_chain(keys: Any, ids: Any, links: Any, end: Any, tuples: Any, j: Any) -> None:
    """Asks for what putting tuples from j on into their chains, or taking them out, will touch: their ids and links,
    their keys, and the links of their neighbours there. `end`: the column of the keys where tuples are put in."""
    stop = min(j + AHEAD, tuples.size)
    for i in range(j, stop):
        prefetch(ids + 4 * np.int64(tuples[i]))
        prefetch(links + 8 * np.int64(tuples[i]))
    for i in range(j, stop):
        prefetch(keys + 16 * np.int64(as_int32(ids)[tuples[i]]))
    for i in range(j, stop):
        s, k = np.int64(tuples[i]), np.int64(as_int32(ids)[tuples[i]])
        if k >= 0:
            prefetch(links + 8 * np.int64(as_int32(keys)[4 * k + end] - 1))
            prefetch(links + 8 * np.int64(as_int32(links)[2 * s] - 1))
            prefetch(links + 8 * np.int64(as_int32(links)[2 * s + 1] - 1))


@inlined
def foresee_tuples(t: Any, e: Any, tuples: Any, j: Any) -> None:
    """Asks for what it will touch in node e and its plain edges when the tuples from j on come, go or change."""
    base = e * TREE_COLUMNS
    if t[base + ROOM] < FAR:
        return
    for i in range(j, min(j + AHEAD, tuples.size)):
        prefetch(t[base + STATUS] + np.int64(tuples[i]))
        prefetch(t[base + COUNTER] + np.int64(tuples[i]))
    if t[base + PARENT] >= 0 and t[base + COMPARISON] == NONE:
        _foresee_chain(t[base + KEYS], t[base + CHILD_KEY], t[base + CHILD_LINKS], CHILD_HEAD, tuples, j)
    c = t[base + FIRST]
    while c >= 0:
        edge = c * TREE_COLUMNS
        if t[edge + PARENT_KEY] != 0 and t[edge + COMPARISON] == NONE:
            _foresee_chain(t[edge + KEYS], t[edge + PARENT_KEY], t[edge + PARENT_LINKS], PARENT_TAIL, tuples, j)
        c = t[edge + NEXT]


@inlined
def link_child(keys: Any, links: Any, k: Any, s: Any) -> None:
    head = keys[4 * k + CHILD_HEAD]
    links[2 * s] = head
    links[2 * s + 1] = 0
    if head:
        links[2 * (head - 1) + 1] = s + 1
    keys[4 * k + CHILD_HEAD] = s + 1


@inlined
def unlink_child(keys: Any, links: Any, k: Any, s: Any) -> None:
    after, before = links[2 * s], links[2 * s + 1]
    if before:
        links[2 * (before - 1)] = after
    else:
        keys[4 * k + CHILD_HEAD] = after
    if after:
        links[2 * (after - 1) + 1] = before


@inlined
def link_front(keys: Any, links: Any, k: Any, s: Any) -> None:
    """Puts parent s at the head of its chain, where the live ones are."""
    head = keys[4 * k + PARENT_HEAD]
    links[2 * s] = head
    links[2 * s + 1] = 0
    keys[4 * k + PARENT_HEAD] = s + 1
    if head:
        links[2 * (head - 1) + 1] = s + 1
    else:
        keys[4 * k + PARENT_TAIL] = s + 1


@inlined
def link_back(keys: Any, links: Any, k: Any, s: Any) -> None:
    tail = keys[4 * k + PARENT_TAIL]
    links[2 * s] = 0
    links[2 * s + 1] = tail
    keys[4 * k + PARENT_TAIL] = s + 1
    if tail:
        links[2 * (tail - 1)] = s + 1
    else:
        keys[4 * k + PARENT_HEAD] = s + 1


@inlined
def unlink_parent(keys: Any, links: Any, k: Any, s: Any) -> None:
    """Takes parent s out of its chain, if it is in it."""
    after, before = links[2 * s], links[2 * s + 1]
    if before == APART:
        return
    if before:
        links[2 * (before - 1)] = after
    else:
        keys[4 * k + PARENT_HEAD] = after
    if after:
        links[2 * (after - 1) + 1] = before
    else:
        keys[4 * k + PARENT_TAIL] = before
    links[2 * s + 1] = APART
