"""Native steps of a join: tuples enter or leave it, and their results are enumerated (descriptions.py states the
law)."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from freshet.engine.descriptions import (
    ASSIGN_COUNT,
    ASSIGN_WIDTH,
    ASSIGNED,
    ASSIGNS,
    CHECKS,
    CHOOSE,
    CHUNK,
    CHUNK_AT,
    CHUNK_WEIGHTS,
    CHUNK_WIDTH,
    CURSOR,
    ENTRY,
    EVALUATE,
    FILTER,
    FILTER_OUT,
    FILTER_STEPS,
    FIRST_NODE,
    FROM,
    HEAVIEST,
    JOIN,
    JOIN_WORK,
    LANES,
    LEFT_AT,
    LOOK,
    MISSING,
    NODES,
    NULLS,
    OF,
    ORDER,
    ORIGIN,
    OUTLET,
    OVERWEIGHT,
    PARTIAL,
    PENDING,
    RAW,
    REMOVED,
    RESULT,
    ROLE_COUNT,
    ROLE_NODE,
    ROLE_ORDER,
    ROLE_WIDTH,
    ROLES,
    ROWS_AT,
    SELECT,
    SELECT_AT,
    SINK,
    SLOTS_AT,
    STEP_COUNT,
    STEPS,
    STRIDE,
    TO_GROUPS,
    TO_PENDING,
    TO_RAW,
    TREE,
    USERS,
    WANTED,
    WANTED_COUNT,
    WEIGHTS_AT,
    ask,
    assign,
    halves,
    outlives,
    table_of,
    words,
)
from freshet.engine.group_steps import buffer_room, into_groups
from freshet.engine.work import JOINED
from freshet.state.enumeration import DONE, MOST_COPIES, enumerate_rows, gather
from freshet.state.kernel import as_int32, as_int64, inlined
from freshet.state.lane_code import run_code
from freshet.state.rows import BUFFER_COUNT, BUFFER_LANES, BUFFER_WEIGHTS
from freshet.state.tree import carry, enter_level, find_members, go_out, live_parents
from freshet.state.tree_table import WEIGHT, column


@inlined
def deliver(run: Any, join: Any, order: Any, n: Any) -> Any:
    """Passes results, whose slots are in the buffers of the order, to their sink."""
    s = as_int64(join[SELECT_AT])
    as_int64(join[JOIN_WORK])[JOINED] += n
    width, steps = join[CHUNK_WIDTH], table_of(order[STEPS], order[STEP_COUNT], 3)
    slots = numba.carray(as_int32(order[SLOTS_AT]), (n, order[STEP_COUNT]))
    wanted = table_of(order[WANTED], order[WANTED_COUNT], 5)
    sink = s[SINK]
    if sink in (TO_RAW, TO_PENDING):
        b = as_int64(s[RAW] if sink == TO_RAW else s[PENDING])
        if not buffer_room(run, b, n):
            return False
        first = b[BUFFER_COUNT]
        lanes = table_of(b[BUFFER_LANES] + 8 * width * first, n, width)
        gather(join[TREE], steps, slots, n, wanted, join[NULLS], lanes)
        given, kept = as_int64(join[CHUNK_WEIGHTS]), as_int64(b[BUFFER_WEIGHTS])
        for j in range(n):
            kept[first + j] = given[j]
        b[BUFFER_COUNT] += n
        return True
    gather(join[TREE], steps, slots, n, wanted, join[NULLS], table_of(join[CHUNK_AT], n, width))
    if sink == TO_GROUPS:
        return into_groups(run, s, join[CHUNK_AT], join[CHUNK_WEIGHTS], width, n)
    run[ROWS_AT], run[WEIGHTS_AT] = join[CHUNK_AT], join[CHUNK_WEIGHTS]
    return ask(run, EVALUATE, s[SELECT], n)


@inlined
def weighs_much(join: Any) -> Any:
    """Whether the weights of some result might multiply to more than 64 bits; then Python checks them."""
    t, greatest, most = as_int64(join[TREE]), as_int64(join[HEAVIEST]), 1.0
    for e in range(join[NODES]):
        if column(t, e, WEIGHT) != 0 and greatest[e] != 0:
            most *= max(as_int64(greatest[e])[0], 1)
    return most > MOST_COPIES


@inlined
def collect(run: Any, join: Any, order: Any, tuples: Any, sign: Any) -> Any:
    """Enumerates the results that tuples are part of (Join._collect)."""
    t = as_int64(join[TREE])
    stored, chunk = column(t, order[FIRST_NODE], WEIGHT), join[CHUNK]
    weights = np.empty(tuples.size, np.int64)
    for j in range(tuples.size):
        weights[j] = as_int64(stored)[tuples[j]] * sign if stored != 0 else sign
    width = order[STEP_COUNT]
    heavy = weighs_much(join)
    steps, progress = table_of(order[STEPS], width, 3), np.zeros(3, np.int64)
    while progress[DONE] == 0:
        slots = numba.carray(as_int32(order[SLOTS_AT]), (chunk, width))
        out = words(join[CHUNK_WEIGHTS], chunk)
        n = enumerate_rows(
            join[TREE], steps, tuples, weights, halves(order[CURSOR], width), words(order[PARTIAL], width), progress,
            slots, out,
        )  # fmt: skip
        if n > 0:
            if heavy:
                run[ROWS_AT], run[WEIGHTS_AT] = tuples.ctypes.data, weights.ctypes.data
                found = (np.int64(n) << 32) | tuples.size
                if not outlives(tuples, weights, ask(run, OVERWEIGHT, order[ORDER], found)):
                    return False
            if not deliver(run, join, order, np.int64(n)):
                return False
        if n == chunk and not ask(run, LOOK, 0, 0):
            return False
    return True


@inlined
def change(run: Any, join: Any, role: Any, tuples: Any, sign: Any) -> Any:
    """Propagates tuples of a role that have become alive, or are about to die (Join._change)."""
    t, checks = as_int64(join[TREE]), as_int64(join[CHECKS])
    work, order = words(join[JOIN_WORK], 2), as_int64(role[ROLE_ORDER])
    seen = as_int64(as_int64(join[SELECT_AT])[OUTLET])[0] != 0
    node, way, own = np.int64(role[ROLE_NODE]), np.int64(sign), True
    origin = np.int64(role[ORIGIN]) if seen else np.int64(-1)  # nothing stops where no results are needed
    while node != origin:
        node, way, tuples, _, _ = carry(t, checks, node, tuples, way, origin, own, work)
        own = False
        if node < 0:
            return True
    if way < 0 and not collect(run, join, order, tuples, way):
        return False
    _, _, _, left, keys = carry(t, checks, node, tuples, way, np.int64(-1), own, work)
    if way > 0 and not collect(run, join, order, tuples, way):
        return False
    if left >= 0:
        parents = live_parents(join[TREE], left, keys)
        if parents.size > 0:
            return collect(run, join, as_int64(as_int64(join[MISSING])[left]), parents, -way)
    return True


@inlined
def filtered(run: Any, entry: Any, r: Any, slots: Any, members: Any) -> Any:
    """Lists the tuples of a table that take part in role r; returns their number, or -1 if a request failed."""
    t, role, n, m = as_int64(entry[OF]), as_int64(entry[ROLES] + 8 * ROLE_WIDTH * r), slots.size, 0
    steps, out = role[FILTER_STEPS], role[FILTER_OUT]
    if role[FILTER] != -1:
        low, high = np.empty((steps, n), np.int64), np.empty((steps, n), np.int64)
        null = np.empty((steps, n), np.bool_)
        if run_code(as_int64(role[FILTER]), steps, as_int64(t[LANES]), t[STRIDE], slots, low, high, null):
            for j in range(n):
                if low[out, j] != 0 and not null[out, j]:
                    members[m] = slots[j]
                    m += 1
            return np.int64(m)
    run[ROWS_AT], run[WEIGHTS_AT] = slots.ctypes.data, members.ctypes.data
    return run[RESULT] if ask(run, CHOOSE, entry[ENTRY], (np.int64(r) << 32) | np.int64(n)) else np.int64(-1)


@inlined
def enter_source(run: Any, entry: Any, slots: Any) -> Any:
    """Tuples that were added to a source (Join.insert)."""
    n, roles, assigns = slots.size, entry[ROLES], as_int64(entry[ASSIGNS])
    join = as_int64(entry[JOIN])
    t, checks = as_int64(join[TREE]), as_int64(join[CHECKS])
    count, keys = entry[ROLE_COUNT], entry[ASSIGN_COUNT]
    members = np.empty((count, n), np.int32)
    ends = np.empty(count, np.int64)
    for r in range(count):
        role = as_int64(roles + 8 * ROLE_WIDTH * r)
        if role[FILTER] == 0:
            members[r, :] = slots
            ends[r] = n
            continue
        ends[r] = filtered(run, entry, r, slots, members[r])
        if ends[r] < 0:
            return False
    fresh, made = np.empty((max(keys, 1), n), np.int32), np.empty(max(keys, 1), np.int64)
    for i in range(keys):
        at = i * ASSIGN_WIDTH
        source, users = assigns[at + FROM], assigns[at + USERS]
        given = fresh[source][: made[source]] if source >= 0 else united(slots, members, ends, users)
        made[i] = assign(run, as_int64(assigns[at + ASSIGNED]), given, fresh[i]) if given.size > 0 else np.int64(0)
        if made[i] < 0:
            return False
    for r in range(count):
        if ends[r] == 0:
            continue
        role = as_int64(roles + 8 * ROLE_WIDTH * r)
        alive = enter_level(t, checks, np.int64(role[ROLE_NODE]), members[r][: ends[r]])
        if alive.size > 0 and not change(run, join, role, alive, np.int64(1)):
            return False
    return True


@inlined
def united(slots: Any, members: Any, ends: Any, users: Any) -> Any:
    """The tuples of some roles, one bit each in `users`; each role lists them in the order of the slots."""
    most, only, several = np.int64(-1), np.int64(-1), 0
    for r in range(ends.size):
        if (users >> r) & 1 and (most < 0 or ends[r] > ends[most]):
            most = np.int64(r)
        if (users >> r) & 1:
            several += 1
            only = np.int64(r)
    if several == 1:
        return members[only][: ends[only]]
    if ends[most] == slots.size:
        return slots
    at = np.zeros(ends.size, np.int64)
    out = np.empty(slots.size, np.int32)
    n = 0
    for j in range(slots.size):
        found = False
        for r in range(ends.size):
            if (users >> r) & 1 and at[r] < ends[r] and members[r, at[r]] == slots[j]:
                at[r] += 1
                found = True
        if found:
            out[n] = slots[j]
            n += 1
    return out[:n]


@inlined
def leave_source(run: Any, entry: Any, slots: Any) -> Any:
    """Tuples that are about to be removed from a source (Join.remove)."""
    join = as_int64(entry[JOIN])
    t, s = as_int64(join[TREE]), as_int64(join[SELECT_AT])
    s[LEFT_AT] = 1
    assigns = as_int64(entry[ASSIGNS])
    for i in range(entry[ASSIGN_COUNT]):
        if assigns[i * ASSIGN_WIDTH + FROM] < 0:
            as_int64(as_int64(assigns[i * ASSIGN_WIDTH + ASSIGNED])[REMOVED])[0] += slots.size
    for r in range(entry[ROLE_COUNT]):
        role = as_int64(entry[ROLES] + 8 * ROLE_WIDTH * r)
        node = np.int64(role[ROLE_NODE])
        members, alive = find_members(t, node, slots)
        if members.size == 0:
            continue
        if alive.size > 0 and not change(run, join, role, alive, np.int64(-1)):
            return False
        go_out(t, node, members)
    return True
