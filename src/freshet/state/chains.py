"""Chains of the tuples that share a key of an edge: children in one, parents in the other, the live parents first.

Doubly linked through int32 pairs, next and previous, that hold slot + 1; 0 is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.kernel import as_int32, inlined
from freshet.state.tree_table import (
    APART,
    CHILD_HEAD,
    CHILD_KEY,
    PARENT_HEAD,
    PARENT_KEY,
    PARENT_TAIL,
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
