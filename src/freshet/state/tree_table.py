"""The table that describes a join tree to the kernels: one row of integers a node, most of them addresses.

The edge to a node's parent is in the node's own row. Kernels take the table as a pointer, because numba counts
references to an array at every call that is not inlined.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.kernel import FAR, as_int8, as_int32, as_int64, inlined

# Columns. On edges with a comparison, COMPARISON is not NONE and ENDS replaces KEYS (state/comparison).
STATUS, COUNTER, WEIGHT, LANES, WIDTH, FULL, FIRST, NEXT, PARENT, KIND = range(10)
KEYS, CHILD_KEY, CHILD_LINKS, PARENT_KEY, PARENT_LINKS, OUTPUT, OUTPUT_CHILDREN, CHECKS, CHECKS_END = range(10, 19)
COMPARISON, ENDS, CHILD_SIDES, PARENT_SIDES, LIVE_LINKS, LIVE_SIDES, CHILD_VALUES, PARENT_VALUES, BAND = range(19, 28)
ROOM = 28  # tuples the node has room for
SECOND, CHILD_SECONDS, CHILD_BEST, PARENT_SECONDS, LIVE_BEST = range(29, 34)  # of a second comparison
CHILD_COUNTS = 34
UNCOUNTED = -1  # in CHILD_COUNTS: children are enumerated, not counted
#: Of comparisons after the first: how many, whether each is strict, by bits; and, of node 0, the address of the number
#: of tuples that were looked at in vain (state/further_values).
FURTHER, STRICT, LOOKED = 35, 36, 37
TREE_COLUMNS = 38
MOST_NODES = 256

# What a plain edge keeps a key: KEYS is int32[keys, KEY_COLUMNS].
SUPPORT, CHILD_HEAD, PARENT_HEAD, PARENT_TAIL = range(4)
KEY_COLUMNS = 4
KEY_BYTES, LINK_BYTES = 16, 8  # of a key, and of a tuple's links

# A tuple's links in a chain: int32[tuples, 2].
AFTER, BEFORE = 0, 1

APART = -1  # in place of a link back: the tuple is currently in no chain of parents

ABSENT, PRESENT, ALIVE, LIVE = range(4)  # status
INNER, SEMI, ANTI, LEFT = range(4)  # kind

# Comparison of the parent's value with the child's. Greater is less with both values turned around (~).
NONE, LESS, AT_MOST, UNEQUAL = range(4)

# In BAND: no other comparison limits the distance between the values of child and parent.
ANY_DISTANCE = -1

# An assertion: two paths of nodes down from the tuple it is checked on, then a lane at the end of each.
CHECK_STEPS = 8
CHECK_COLUMNS = 2 * (CHECK_STEPS + 2)

# Work done, for the proofs of cost: counters changed, keys whose support flipped.
COUNTED, FLIPPED = 0, 1


# Accessors: named reads of columns, which are inlined.


@inlined
def column(t: Any, e: Any, which: Any) -> Any:
    """A number of node e, or the address of one of its arrays."""
    return t[e * TREE_COLUMNS + which]


@inlined
def status_of(t: Any, e: Any) -> Any:
    """ABSENT, PRESENT, ALIVE or LIVE, for each tuple of node e."""
    return as_int8(t[e * TREE_COLUMNS + STATUS])


@inlined
def counter_of(t: Any, e: Any) -> Any:
    """How many counting edges hold, for each tuple of node e."""
    return as_int8(t[e * TREE_COLUMNS + COUNTER])


@inlined
def lanes_of(t: Any, e: Any) -> Any:
    """The rows of node e, `width_of` lanes each."""
    return as_int64(t[e * TREE_COLUMNS + LANES])


@inlined
def keys_of(t: Any, e: Any) -> Any:
    """The entries of keys on the edge above node e, KEY_COLUMNS each."""
    return as_int32(t[e * TREE_COLUMNS + KEYS])


@inlined
def child_ids_of(t: Any, e: Any) -> Any:
    """The key of each tuple of node e on the edge above it; -1: none."""
    return as_int32(t[e * TREE_COLUMNS + CHILD_KEY])


@inlined
def parent_ids_of(t: Any, e: Any) -> Any:
    """The key of each tuple of e's parent on that edge; -1: none."""
    return as_int32(t[e * TREE_COLUMNS + PARENT_KEY])


@inlined
def child_links_of(t: Any, e: Any) -> Any:
    """The chains of node e's tuples under the keys of that edge."""
    return as_int32(t[e * TREE_COLUMNS + CHILD_LINKS])


@inlined
def parent_links_of(t: Any, e: Any) -> Any:
    """The chains of its parent's tuples there."""
    return as_int32(t[e * TREE_COLUMNS + PARENT_LINKS])


@inlined
def live_links_of(t: Any, e: Any) -> Any:
    """The sorted chains of its parent's live tuples, where that edge compares."""
    return as_int32(t[e * TREE_COLUMNS + LIVE_LINKS])


@inlined
def child_sides_of(t: Any, e: Any) -> Any:
    return as_int32(t[e * TREE_COLUMNS + CHILD_SIDES])


@inlined
def parent_sides_of(t: Any, e: Any) -> Any:
    return as_int32(t[e * TREE_COLUMNS + PARENT_SIDES])


@inlined
def live_sides_of(t: Any, e: Any) -> Any:
    return as_int32(t[e * TREE_COLUMNS + LIVE_SIDES])


@inlined
def child_values_of(t: Any, e: Any) -> Any:
    return as_int64(t[e * TREE_COLUMNS + CHILD_VALUES])


@inlined
def parent_values_of(t: Any, e: Any) -> Any:
    return as_int64(t[e * TREE_COLUMNS + PARENT_VALUES])


@inlined
def ends_of(t: Any, e: Any) -> Any:
    """The ends and roots of that edge's sorted chains (state/comparison), where it compares."""
    return as_int32(t[e * TREE_COLUMNS + ENDS])


@inlined
def parent_of(t: Any, c: Any) -> Any:
    return t[c * TREE_COLUMNS + PARENT]


@inlined
def first_child(t: Any, c: Any) -> Any:
    return t[c * TREE_COLUMNS + FIRST]


@inlined
def next_sibling(t: Any, c: Any) -> Any:
    return t[c * TREE_COLUMNS + NEXT]


@inlined
def kind_of(t: Any, c: Any) -> Any:
    return t[c * TREE_COLUMNS + KIND]


@inlined
def width_of(t: Any, c: Any) -> Any:
    return t[c * TREE_COLUMNS + WIDTH]


@inlined
def comparison_of(t: Any, c: Any) -> Any:
    return t[c * TREE_COLUMNS + COMPARISON]


@inlined
def compares(t: Any, c: Any) -> Any:
    """Whether the edge above node c compares values."""
    return t[c * TREE_COLUMNS + COMPARISON] != NONE


@inlined
def keyed_by_slot(t: Any, c: Any) -> Any:
    """Whether node c's parent is generalized: its slots are the keys of the edge."""
    return t[c * TREE_COLUMNS + PARENT_KEY] == 0


@inlined
def is_output(t: Any, c: Any) -> Any:
    return t[c * TREE_COLUMNS + OUTPUT] != 0


@inlined
def has_output_children(t: Any, c: Any) -> Any:
    return t[c * TREE_COLUMNS + OUTPUT_CHILDREN] != 0


@inlined
def is_far(t: Any, c: Any) -> Any:
    """Whether the tuples of node c are too many for the caches: looking ahead pays."""
    return t[c * TREE_COLUMNS + ROOM] >= FAR


@inlined
def head_of(keys: Any, k: Any, end: Any) -> Any:
    """The tuple at one end of key k's chain (CHILD_HEAD, PARENT_HEAD, PARENT_TAIL); -1 where it is empty."""
    return np.int64(keys[KEY_COLUMNS * k + end]) - 1


@inlined
def next_in(links: Any, s: Any) -> Any:
    """The tuple after s in its chain; -1 at the end."""
    return np.int64(links[2 * s + AFTER]) - 1
