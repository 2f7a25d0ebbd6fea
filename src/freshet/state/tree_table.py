"""The table that describes a join tree to the kernels: one row of integers a node, most of them addresses.

The edge to a node's parent is in the node's own row. Kernels take the table as a pointer, because numba counts
references to an array at every call that is not inlined.
"""

from __future__ import annotations

# Columns. On edges with a comparison, COMPARISON is not NONE and ENDS replaces KEYS (state/comparison).
STATUS, COUNTER, WEIGHT, LANES, WIDTH, FULL, FIRST, NEXT, PARENT, KIND = range(10)
KEYS, CHILD_KEY, CHILD_LINKS, PARENT_KEY, PARENT_LINKS, OUTPUT, OUTPUT_CHILDREN, CHECKS, CHECKS_END = range(10, 19)
COMPARISON, ENDS, CHILD_SIDES, PARENT_SIDES, LIVE_LINKS, LIVE_SIDES, CHILD_VALUES, PARENT_VALUES, BAND = range(19, 28)
ROOM = 28  # tuples the node has room for
TREE_COLUMNS = 29
MOST_NODES = 256

# What a plain edge keeps a key: KEYS is int32[keys, 4].
SUPPORT, CHILD_HEAD, PARENT_HEAD, PARENT_TAIL = range(4)

APART = -1  # in place of a link back: the tuple stands in no chain of parents now

ABSENT, PRESENT, ALIVE, LIVE = range(4)  # status
INNER, SEMI, ANTI, LEFT = range(4)  # kind
KINDS = {"inner": INNER, "semi": SEMI, "anti": ANTI, "left": LEFT}

# Comparison of the parent's value with the child's. Greater is less with both values turned around (~).
NONE, LESS, AT_MOST, UNEQUAL = range(4)

# In BAND: no other comparison says how far the child's value may lie beyond the parent's.
ANY_DISTANCE = -1

# An assertion: two paths of nodes down from the tuple it is checked on, then a lane at the end of each.
CHECK_STEPS = 8
CHECK_COLUMNS = 2 * (CHECK_STEPS + 2)

# Work done, for the proofs of cost: counters changed, keys whose support flipped.
COUNTED, FLIPPED = 0, 1
