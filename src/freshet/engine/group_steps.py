"""Native steps above a join: results enter groups, and the outputs of groups are computed (descriptions.py states the
law)."""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.aggregates.whole_sum import STEP_WIDTH, add_whole, add_wide, finish
from freshet.engine.aggregate import compare_answers, emit_changes, touch
from freshet.engine.descriptions import (
    ANSWER_META,
    ANSWER_NULLS,
    ANSWER_WIDTH,
    ANSWERS,
    BROKEN,
    CHANGED,
    CODE,
    CODE_STEPS,
    CONDITION_COUNT,
    CONDITION_STEPS,
    CONDITIONS,
    COPIES,
    EVALUATE,
    FEED_ARGUMENT,
    FEED_COUNT,
    FEED_FILTER,
    FEED_LANE,
    FEED_LANES,
    FEED_WIDE,
    FEED_WIDTH,
    FEEDS,
    FLAGS,
    GROUP_ROOM,
    GROUPS,
    GROW_BUFFER,
    GROW_GROUPS,
    KEY_COUNT,
    KEY_FIELDS,
    KEY_VALUES,
    LANES,
    LISTED,
    META,
    NO_VALUE,
    PENDING,
    PROGRAM,
    PROGRAM_STEPS,
    ROOM,
    ROWS_AT,
    SELECT,
    SHOW,
    SHOWN_CODE,
    SHOWN_COUNT,
    SHOWN_FIELDS,
    SHOWN_STEPS,
    SHOWN_VALUES,
    STATE,
    STATE_WIDTH,
    STRIDE,
    TOUCHED,
    TOUCHED_ROOM,
    WEIGHTS_AT,
    WIDTH,
    WORK_STEPS,
    ask,
    drop,
    flags_of,
    halves,
    outlives,
    store,
    table_of,
    words,
)
from freshet.engine.work import CHECKED, GROUPED
from freshet.state.enumeration import consolidate
from freshet.state.kernel import as_int64, inlined
from freshet.state.lane_code import pack_registers, run_code
from freshet.state.rows import BUFFER_COUNT, BUFFER_LANES, BUFFER_NUMBER, BUFFER_ROOM, BUFFER_WEIGHTS, BUFFER_WIDTH
from freshet.state.tuples import USED


@inlined
def buffer_room(run: Any, b: Any, n: Any) -> Any:
    return b[BUFFER_COUNT] + n <= b[BUFFER_ROOM] or ask(run, GROW_BUFFER, b[BUFFER_NUMBER], n)


@inlined
def add_up(run: Any, b: Any) -> Any:
    """Adds up equal rows of a buffer."""
    n = b[BUFFER_COUNT]
    rows, weights = table_of(b[BUFFER_LANES], n, b[BUFFER_WIDTH]), words(b[BUFFER_WEIGHTS], n)
    chosen = np.empty(n, np.int64)
    m = consolidate(rows, weights, chosen)
    if m < 0:
        return ask(run, COPIES, 0, 0)
    for i in range(m):
        j = chosen[i]
        if i != j:
            weights[i] = weights[j]
            for lane in range(rows.shape[1]):
                rows[i, lane] = rows[j, lane]
    b[BUFFER_COUNT] = m
    return True


@inlined
def chosen_rows(registers: Any, count: Any, low: Any, null: Any, n: Any) -> Any:
    """The rows on which all conditions hold."""
    at = np.empty(n, np.int32)
    m = 0
    for j in range(n):
        holds = True
        for i in range(count):
            holds &= low[registers[i], j] != 0 and not null[registers[i], j]
        if holds:
            at[m] = j
            m += 1
    return at[:m]


@inlined
def every(n: Any) -> Any:
    at = np.empty(n, np.int32)
    for j in range(n):
        at[j] = j
    return at


@inlined
def into_groups(run: Any, s: Any, rows_at: Any, weights_at: Any, width: Any, n: Any) -> Any:
    """Passes join results on to groups (Select._pass_on)."""
    steps, code = as_int64(s[WORK_STEPS]), as_int64(s[CODE])
    total, checked, registers = s[CODE_STEPS], s[CONDITION_STEPS], max(s[CODE_STEPS], 1)
    data, given = as_int64(rows_at), as_int64(weights_at)
    at = every(n)
    low, high = np.empty((registers, n), np.int64), np.empty((registers, n), np.int64)
    null = np.empty((registers, n), np.bool_)
    fits = run_code(code, checked if s[CONDITION_COUNT] > 0 else total, data, width, at, low, high, null)
    if fits and s[CONDITION_COUNT] > 0:
        at = chosen_rows(as_int64(s[CONDITIONS]), s[CONDITION_COUNT], low, null, n)
        if at.size > 0:
            low, high = np.empty((registers, at.size), np.int64), np.empty((registers, at.size), np.int64)
            null = np.empty((registers, at.size), np.bool_)
            fits = run_code(code, total, data, width, at, low, high, null)
    if not fits:
        run[ROWS_AT], run[WEIGHTS_AT] = rows_at, weights_at
        return ask(run, EVALUATE, s[SELECT], n)
    if s[CONDITION_COUNT] > 0:
        steps[CHECKED] += n
    m = np.int64(at.size)
    if m == 0:
        return True
    steps[GROUPED] += m
    s[CHANGED] = 1
    weights = np.empty(m, np.int64)
    for j in range(m):
        weights[j] = given[at[j]]
    groups = np.zeros(m, np.int32)
    if s[GROUPS] != 0:
        t = as_int64(s[GROUPS])
        keys, fresh = np.empty((m, t[WIDTH]), np.int64), np.empty(m, np.bool_)
        pack_registers(as_int64(s[KEY_FIELDS]), s[KEY_COUNT], s[KEY_VALUES], low, high, null, keys, 0)
        if not store(run, t, keys, groups, fresh):
            return False
        if as_int64(t[META])[USED] > s[GROUP_ROOM] and not ask(run, GROW_GROUPS, s[SELECT], 0):
            return False
    listed = as_int64(s[LISTED])
    if listed[0] + m > s[TOUCHED_ROOM] and not ask(run, GROW_GROUPS, s[SELECT], m):
        return False
    state = table_of(s[STATE], s[GROUP_ROOM], s[STATE_WIDTH])
    flags, touched = flags_of(s[FLAGS], s[GROUP_ROOM]), halves(s[TOUCHED], s[TOUCHED_ROOM])
    listed[0] = touch(groups, weights, state, flags, touched, listed[0])
    feeds = as_int64(s[FEEDS])
    for f in range(s[FEED_COUNT]):
        feed = f * FEED_WIDTH
        argument, where = feeds[feed + FEED_ARGUMENT], feeds[feed + FEED_FILTER]
        counted = np.empty(m, np.int64)
        for j in range(m):
            without = argument >= 0 and null[argument, j]
            without |= where >= 0 and (null[where, j] or low[where, j] == 0)
            counted[j] = 0 if without else weights[j]
        lane = feeds[feed + FEED_LANE]
        if feeds[feed + FEED_LANES] == 1:
            for j in range(m):
                state[groups[j], lane] += counted[j]
        elif feeds[feed + FEED_WIDE] != 0:
            add_wide(groups, low[argument], high[argument], counted, state, lane)
        else:
            add_whole(groups, low[argument], counted, state, lane)
    return True


@inlined
def flush(run: Any, s: Any) -> Any:
    """Emits the changes of the answers of touched groups (Aggregate.flush), as outputs of the select."""
    listed, room = as_int64(s[LISTED]), s[GROUP_ROOM]
    n = listed[0]
    groups = halves(s[TOUCHED], s[TOUCHED_ROOM])[:n]
    state = table_of(s[STATE], room, s[STATE_WIDTH])
    answers, flags = table_of(s[ANSWERS], room, s[ANSWER_WIDTH]), flags_of(s[FLAGS], room)
    always = s[GROUPS] == 0
    fresh = np.empty((n, s[ANSWER_WIDTH]), np.int64)
    for i in range(n):
        for lane in range(s[ANSWER_NULLS], s[ANSWER_WIDTH]):
            fresh[i, lane] = 0
    wrong = finish(groups, state, table_of(s[PROGRAM], s[PROGRAM_STEPS], STEP_WIDTH), fresh)
    if wrong >= 0:
        return ask(run, NO_VALUE, s[SELECT], wrong)
    found = np.zeros(2, np.int64)
    if compare_answers(groups, state, flags, answers, fresh, always, found) >= 0:
        return ask(run, BROKEN, s[SELECT], 0)
    old, changed = found[0], found[0] + found[1]
    key_width = np.int64(0)
    keys = table_of(s[STATE], 0, 0)
    if not always:
        t = as_int64(s[GROUPS])
        key_width = t[WIDTH]
        keys = table_of(t[LANES], t[ROOM], t[STRIDE])
    out_keys, out = np.empty((changed, key_width), np.int64), np.empty((changed, s[ANSWER_WIDTH]), np.int64)
    emptied = np.empty(n, np.int32)
    deleted = emit_changes(groups, state, flags, answers, fresh, keys, always, old, out_keys, out, emptied)
    if deleted > 0:
        drop(as_int64(s[GROUPS]), emptied[:deleted])
    listed[0], s[CHANGED] = 0, 0
    as_int64(s[ANSWER_META])[0] += found[1] - found[0]
    return changed == 0 or show(run, s, out_keys, out, old)


@inlined
def show(run: Any, s: Any, keys: Any, answers: Any, old: Any) -> Any:
    """Appends the outputs of groups to the delta; the first `old` rows are retractions."""
    n, width = keys.shape[0], keys.shape[1] + answers.shape[1]
    rows = np.empty((n, width), np.int64)
    for i in range(n):
        for lane in range(keys.shape[1]):
            rows[i, lane] = keys[i, lane]
        for lane in range(answers.shape[1]):
            rows[i, keys.shape[1] + lane] = answers[i, lane]
    registers = max(s[SHOWN_STEPS], 1)
    data, code = as_int64(rows.ctypes.data), as_int64(s[SHOWN_CODE])
    low, high = np.empty((registers, n), np.int64), np.empty((registers, n), np.int64)
    null = np.empty((registers, n), np.bool_)
    at = every(n)
    if not run_code(code, s[SHOWN_STEPS], data, width, at, low, high, null):
        weights = np.ones(n, np.int64)
        weights[:old] = -1
        run[ROWS_AT], run[WEIGHTS_AT] = rows.ctypes.data, weights.ctypes.data
        return outlives(rows, weights, ask(run, SHOW, s[SELECT], n))
    b = as_int64(s[PENDING])
    if not buffer_room(run, b, n):
        return False
    shown, weights = table_of(b[BUFFER_LANES], b[BUFFER_ROOM], b[BUFFER_WIDTH]), as_int64(b[BUFFER_WEIGHTS])
    first = b[BUFFER_COUNT]
    pack_registers(as_int64(s[SHOWN_FIELDS]), s[SHOWN_COUNT], s[SHOWN_VALUES], low, high, null, shown, first)
    for i in range(n):
        weights[first + i] = -1 if i < old else 1
    b[BUFFER_COUNT] += n
    return True
