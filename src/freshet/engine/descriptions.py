"""The state of a select as described to native steps: rows of integers, most of them addresses.

Law: a step has the same effect as the corresponding methods of `Join`, `Select` and `Aggregate`, on the same arrays, in
the same order, so native and Python code may alternate between steps and within one: if a step needs something that
only Python can do (more room, an expression that lane code cannot compute, an error message), it sends a request
(`ask`) and continues with the result. Arrays that grow have new addresses: after each request descriptions are read
again.

The steps are in join_steps, pass_steps, group_steps and steps; engine/answers handles the requests.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from freshet.state.kernel import AHEAD, as_int8, as_int32, as_int64, call_back, inlined
from freshet.state.keys import PART_COLUMNS, ROOM_FOR, assign_keys
from freshet.state.places import HEAD, HOMES, PER_ENTRY, SLACK, open_homes
from freshet.state.tuples import LIVE, USED, add_rows, remove_rows

# A run: the function that handles requests, the token that identifies the sender, a number returned by a request, and
# the rows that a request is about.
CALLBACK, TOKEN, RESULT, ROWS_AT, WEIGHTS_AT = range(5)
RUN_WIDTH = 5

# Tuples: state/tuples, and the weights of a bag (0: none).
PLACES, PLACE_COUNT, LANES, ROOM, STRIDE, WIDTH, KEY_LANES, OCCUPIED, FREE, META, WEIGHTS, GREATEST, TUPLES = range(13)
TUPLES_WIDTH = 13

# A key of a source: engine/sources.KeyColumn.
SOURCE, DICTIONARY, PARTS, PART_COUNT, IDS, REMOVED = range(6)
COLUMN_WIDTH = 6

# A join: its tree, and the sink of its results.
(
    TREE, CHECKS, JOIN_WORK, NODES, HEAVIEST, CHUNK_AT, CHUNK_WEIGHTS, CHUNK_WIDTH, NULLS, MISSING, SELECT_AT, CHUNK,
) = range(12)  # fmt: skip
JOIN_WIDTH = 12

# An order of enumeration (engine/orders).
STEPS, STEP_COUNT, WANTED, WANTED_COUNT, SLOTS_AT, CURSOR, PARTIAL, FIRST_NODE, ORDER = range(9)
ORDER_WIDTH = 9

# A source of a join: its roles, and the keys that its tuples need.
JOIN, OF, ROLES, ROLE_COUNT, ASSIGNS, ASSIGN_COUNT, ENTRY = range(7)
ENTRY_WIDTH = 7
# A role: the node, the order in which its changes are enumerated, and its filter (code; 0: none, -1: in Python).
ROLE_NODE, ORIGIN, ROLE_ORDER, FILTER, FILTER_STEPS, FILTER_OUT = range(6)
ROLE_WIDTH = 6
# A key to assign: to the tuples of some roles, one bit each, or (FROM) to the new ids of an earlier key.
ASSIGNED, FROM, USERS = range(3)
ASSIGN_WIDTH = 3

# A select: the sink of results, the conditions on them, the groups they enter, the outputs of groups, and whether its
# outlet is open.
(
    SINK, RAW, PENDING, WORK_STEPS, CODE, CODE_STEPS, CONDITIONS, CONDITION_COUNT, CONDITION_STEPS, KEY_FIELDS,
    KEY_COUNT, KEY_VALUES, FEEDS, FEED_COUNT, GROUPS, STATE, STATE_WIDTH, ANSWERS, ANSWER_WIDTH, FLAGS, ANSWER_META,
    TOUCHED, TOUCHED_ROOM, LISTED, GROUP_ROOM, PROGRAM, PROGRAM_STEPS, ANSWER_NULLS, SHOWN_CODE, SHOWN_STEPS,
    SHOWN_FIELDS, SHOWN_COUNT, SHOWN_VALUES, DISTINGUISHES, SELECT, SWEPT, SWEPT_COUNT, LEFT_AT, CHANGED, OUTLET,
) = range(40)  # fmt: skip
SELECT_WIDTH = 40
TO_RAW, TO_PENDING, TO_GROUPS, TO_PYTHON = range(4)
# A dictionary of keys: where it counts removed tuples, and up to how many of these a sweep does not pay.
SWEPT_REMOVED, SWEPT_WAIT, SWEPT_WIDTH = 0, 1, 2
# A feed: the first lane of its state, the number of its lanes, whether values have two lanes, and the registers of its
# argument and filter (-1: none).
FEED_LANE, FEED_LANES, FEED_WIDE, FEED_ARGUMENT, FEED_FILTER = range(5)
FEED_WIDTH = 5

# A passage: the select that a nested query's rows pass through, the code of its filter and of the columns that pass,
# the registers of the filter's conditions, those of the columns, and the width of the rows that pass.
(
    PASS_SELECT, PASS_CODE, PASS_STEPS, PASS_CONDITIONS, PASS_CONDITION_COUNT, PASS_COLUMNS, PASS_COUNT, PASS_VALUES,
    PASS_WIDTH,
) = range(9)  # fmt: skip
PASSAGE_WIDTH = 9

# Requests.
(
    GROW, GROW_BUFFER, GROW_GROUPS, EVALUATE, SHOW, OVERWEIGHT, REWEIGHED, CHANGE_WEIGHTS, SWEEP, NO_VALUE, BROKEN,
    COPIES, LOOK, CHOOSE, PASS_ON,
) = range(15)  # fmt: skip

# A step: its operation, and the descriptions it applies to. ENTER and LEAVE apply to an entry and a list of slots.
OP, FIRST, SECOND, RUN = range(4)
ENTER, LEAVE, FINISH, TAKE, DROP, STORE, PASS = range(7)
# A list of slots: its address and length.
LIST_AT, LIST_LENGTH, LIST_WIDTH = 0, 1, 2
# A change of a stored table: the list of its slots that become free, that of its new slots, its tuples, the rows that
# get these, with their weights, and where the rows of the others are kept, with theirs.
GONE_AT, GONE, COME_AT, COME, CHANGE_OF, COME_ROWS, COME_WEIGHTS, GONE_ROWS, GONE_WEIGHTS = range(9)
CHANGE_WIDTH = 9

MOST_ROWS = 2048  # results enumerated at a time


@inlined
def ask(run: Any, what: Any, whom: Any, n: Any) -> Any:
    """Whether the request succeeded; all addresses may have changed."""
    return call_back(run[CALLBACK], run[TOKEN], np.int64(what), np.int64(whom), np.int64(n)) != 0


@inlined
def outlives(rows: Any, weights: Any, done: Any) -> Any:
    """`done`. Kernels free an array after its last use, and reading it by its address is none: passed to this function,
    together with the result of a request or step that does so, arrays last until then."""
    return done


@inlined
def table_of(address: Any, rows: Any, columns: Any) -> Any:
    return numba.carray(as_int64(address), (rows, columns))


@inlined
def words(address: Any, n: Any) -> Any:
    return numba.carray(as_int64(address), (n,))


@inlined
def halves(address: Any, n: Any) -> Any:
    return numba.carray(as_int32(address), (n,))


@inlined
def flags_of(address: Any, n: Any) -> Any:
    return numba.carray(as_int8(address), (n,))


@inlined
def make_room(run: Any, t: Any, n: Any) -> Any:
    """Room for n more rows; false if there is none."""
    meta = as_int64(t[META])
    homes = PER_ENTRY * (meta[LIVE] + n)
    if meta[USED] + n > t[ROOM] or HEAD + homes + SLACK > t[PLACE_COUNT]:
        return ask(run, GROW, t[TUPLES], n)
    places = words(t[PLACES], t[PLACE_COUNT])
    if homes > places[HOMES]:
        open_homes(places, homes)
    return True


@inlined
def store(run: Any, t: Any, rows: Any, slots: Any, fresh: Any) -> Any:
    """Slots of rows, and whether each is new."""
    if not make_room(run, t, np.int64(rows.shape[0])):
        return False
    put(t, rows, slots, fresh)
    return True


@inlined
def put(t: Any, rows: Any, slots: Any, fresh: Any) -> None:
    """The same where there is room."""
    add_rows(
        words(t[PLACES], t[PLACE_COUNT]), table_of(t[LANES], t[ROOM], t[STRIDE]), flags_of(t[OCCUPIED], t[ROOM]),
        halves(t[FREE], t[ROOM]), words(t[META], 3), t[KEY_LANES], rows, slots, fresh,
    )  # fmt: skip


@inlined
def drop(t: Any, slots: Any) -> None:
    remove_rows(
        words(t[PLACES], t[PLACE_COUNT]), table_of(t[LANES], t[ROOM], t[STRIDE]), flags_of(t[OCCUPIED], t[ROOM]),
        halves(t[FREE], t[ROOM]), words(t[META], 3), t[KEY_LANES], slots,
    )  # fmt: skip


@inlined
def assign(run: Any, c: Any, slots: Any, fresh: Any) -> Any:
    """Gives tuples their keys (KeyColumn.assign); returns how many keys are new, -1 if there is no room. Room is made
    for some tuples at a time, because many of them may have the same key."""
    t, d, made = as_int64(c[SOURCE]), as_int64(c[DICTIONARY]), np.int64(0)
    rows = np.zeros((min(AHEAD, slots.size), d[WIDTH]), np.int64)
    for start in range(0, slots.size, ROOM_FOR):
        part = slots[start : start + ROOM_FOR]
        if not make_room(run, d, np.int64(part.size)):
            return np.int64(-1)
        made += assign_keys(
            table_of(t[LANES], t[ROOM], t[STRIDE]), part, table_of(c[PARTS], c[PART_COUNT], PART_COLUMNS),
            words(d[PLACES], d[PLACE_COUNT]), table_of(d[LANES], d[ROOM], d[STRIDE]), flags_of(d[OCCUPIED], d[ROOM]),
            halves(d[FREE], d[ROOM]), words(d[META], 3), rows, halves(c[IDS], t[ROOM]), fresh[made:],
        )  # fmt: skip
    return made
