"""Runs the native steps of a select in a transaction (descriptions.py states the law)."""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.engine.descriptions import (
    BROKEN,
    CHANGE_OF,
    CHANGE_WEIGHTS,
    CHANGED,
    COME,
    COME_AT,
    COME_ROWS,
    COME_WEIGHTS,
    DISTINGUISHES,
    DROP,
    ENTER,
    ENTRY,
    FINISH,
    FIRST,
    GONE,
    GONE_AT,
    GONE_ROWS,
    GONE_WEIGHTS,
    GREATEST,
    JOIN,
    LANES,
    LEAVE,
    LEFT_AT,
    LIST_AT,
    LIST_LENGTH,
    MOST_ROWS,
    OF,
    OP,
    PASS,
    PENDING,
    PLACE_COUNT,
    PLACES,
    RAW,
    REWEIGHED,
    ROOM,
    ROWS_AT,
    RUN,
    SECOND,
    SELECT,
    SELECT_AT,
    STORE,
    STRIDE,
    SWEEP,
    SWEPT,
    SWEPT_COUNT,
    SWEPT_REMOVED,
    SWEPT_WAIT,
    SWEPT_WIDTH,
    TAKE,
    WEIGHTS,
    WEIGHTS_AT,
    WIDTH,
    WORK_STEPS,
    ask,
    drop,
    halves,
    outlives,
    put,
    store,
    table_of,
    words,
)
from freshet.engine.group_steps import add_up, flush, into_groups
from freshet.engine.join_steps import enter_source, leave_source
from freshet.engine.pass_steps import pass_finished
from freshet.engine.settle import settle
from freshet.engine.work import FED
from freshet.state.kernel import as_int64, inlined, kernel
from freshet.state.rows import BUFFER_COUNT, BUFFER_LANES, BUFFER_WEIGHTS, BUFFER_WIDTH


@inlined
def take_in(run: Any, entry: Any, rows: Any, weights: Any) -> Any:
    """Applies the delta of a nested query (Select._take)."""
    t, n, width = as_int64(entry[OF]), rows.shape[0], rows.shape[1]
    removed, changed = np.empty(n, np.int32), np.empty(n, np.int32)
    added, after, changed_to = np.empty((n, width), np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    places, lanes = words(t[PLACES], t[PLACE_COUNT]), table_of(t[LANES], t[ROOM], t[STRIDE])
    stored = words(t[WEIGHTS], t[ROOM])
    gone, come, kept = settle(places, lanes, stored, rows, weights, removed, added, after, changed, changed_to)
    if gone < 0:
        return ask(run, BROKEN, -1, 0)
    if gone > 0:
        if not leave_source(run, entry, removed[:gone]):
            return False
        drop(t, removed[:gone])
        stored = words(t[WEIGHTS], t[ROOM])
        for i in range(gone):
            stored[removed[i]] = 0
    if kept > 0:
        run[ROWS_AT], run[WEIGHTS_AT] = changed.ctypes.data, changed_to.ctypes.data
        if not outlives(changed, changed_to, ask(run, CHANGE_WEIGHTS, entry[ENTRY], kept)):
            return False
    if come == 0:
        return True
    slots, fresh = np.empty(come, np.int32), np.empty(come, np.bool_)
    if not store(run, t, added[:come], slots, fresh):
        return False
    stored, most = words(t[WEIGHTS], t[ROOM]), np.int64(0)
    for i in range(come):
        stored[slots[i]] = after[i]
        most = max(most, np.int64(after[i]))
    greatest = as_int64(t[GREATEST])
    if most > max(greatest[0], 1):
        known = greatest[0]
        greatest[0] = most
        if known == 0 and not ask(run, REWEIGHED, entry[ENTRY], 0):
            return False
    return enter_source(run, entry, slots)


@inlined
def finish_select(run: Any, s: Any) -> Any:
    """Ends a transaction (Select.finish): the delta is in its buffer."""
    raw, pending = as_int64(s[RAW]), as_int64(s[PENDING])
    if raw[BUFFER_COUNT] > 0:
        if not add_up(run, raw):
            return False
        n, width, at = raw[BUFFER_COUNT], raw[BUFFER_WIDTH], np.int64(0)
        raw[BUFFER_COUNT] = 0
        while at < n:
            part = min(MOST_ROWS, n - at)
            rows_at, weights_at = raw[BUFFER_LANES] + 8 * width * at, raw[BUFFER_WEIGHTS] + 8 * at
            if not into_groups(run, s, rows_at, weights_at, width, part):
                return False
            at += part
    if s[CHANGED] != 0 and not flush(run, s):
        return False
    if s[LEFT_AT] != 0:
        s[LEFT_AT] = 0
        swept = as_int64(s[SWEPT])
        for i in range(s[SWEPT_COUNT]):
            row = i * SWEPT_WIDTH
            gone = as_int64(swept[row + SWEPT_REMOVED])[0]
            if gone > swept[row + SWEPT_WAIT] and not ask(run, SWEEP, s[SELECT], 0):
                return False
    return pending[BUFFER_COUNT] < 2 or s[DISTINGUISHES] != 0 or add_up(run, pending)


@inlined
def take_finished(run: Any, entry: Any, source: Any) -> Any:
    b = as_int64(source[PENDING])
    n = b[BUFFER_COUNT]
    if n == 0:
        return True
    as_int64(as_int64(as_int64(entry[JOIN])[SELECT_AT])[WORK_STEPS])[FED] += n
    b[BUFFER_COUNT] = 0
    return take_in(run, entry, table_of(b[BUFFER_LANES], n, b[BUFFER_WIDTH]), words(b[BUFFER_WEIGHTS], n))


@kernel("b1(i8[::1], i4[::1], i8[:,::1], i8[::1], i4[::1], i8[:,::1], i8[::1])")
def describe_change(
    change: Any, removed: Any, added: Any, weights: Any, slots: Any, kept: Any, kept_weights: Any
) -> Any:
    """Describes the change of a table. False if rows of the table have copies for the first time, of which its readers
    have to be notified."""
    change[GONE_AT], change[GONE] = removed.ctypes.data, removed.size
    change[COME_AT], change[COME] = slots.ctypes.data, slots.size
    change[COME_ROWS], change[COME_WEIGHTS] = added.ctypes.data, weights.ctypes.data
    change[GONE_ROWS], change[GONE_WEIGHTS] = kept.ctypes.data, kept_weights.ctypes.data
    t = as_int64(change[CHANGE_OF])
    if t[WEIGHTS] != 0 and as_int64(t[GREATEST])[0] == 0:
        for i in range(weights.size):
            if weights[i] > 1:
                return False
    return True


@inlined
def drop_rows(change: Any) -> None:
    """Removes rows from their table, and keeps them."""
    t, n = as_int64(change[CHANGE_OF]), change[GONE]
    if n == 0:
        return
    slots, lanes, width = halves(change[GONE_AT], n), table_of(t[LANES], t[ROOM], t[STRIDE]), t[WIDTH]
    kept, kept_weights = table_of(change[GONE_ROWS], n, width), words(change[GONE_WEIGHTS], n)
    for i in range(n):
        for lane in range(width):
            kept[i, lane] = lanes[slots[i], lane]
    drop(t, slots)
    if t[WEIGHTS] != 0:
        stored = words(t[WEIGHTS], t[ROOM])
        for i in range(n):
            kept_weights[i] = stored[slots[i]]
            stored[slots[i]] = 0


@inlined
def store_rows(change: Any) -> None:
    """Adds rows to their table, which has room for them."""
    t, n = as_int64(change[CHANGE_OF]), change[COME]
    if n == 0:
        return
    slots, weights = halves(change[COME_AT], n), words(change[COME_WEIGHTS], n)
    put(t, table_of(change[COME_ROWS], n, t[WIDTH]), slots, np.empty(n, np.bool_))
    if t[WEIGHTS] != 0:
        stored, greatest = words(t[WEIGHTS], t[ROOM]), as_int64(t[GREATEST])
        for i in range(n):
            stored[slots[i]] = weights[i]
            if weights[i] > max(greatest[0], 1):
                greatest[0] = weights[i]


@kernel("i8(i8[:,::1])")
def run_steps(steps: Any) -> Any:
    """Runs steps one after the other. Returns the step that failed, or -1."""
    for i in range(steps.shape[0]):
        run, op = as_int64(steps[i, RUN]), steps[i, OP]
        first, second = as_int64(steps[i, FIRST]), as_int64(steps[i, SECOND])
        ok = True
        if op == ENTER:
            if second[LIST_LENGTH] > 0:
                ok = enter_source(run, first, halves(second[LIST_AT], second[LIST_LENGTH]))
        elif op == LEAVE:
            if second[LIST_LENGTH] > 0:
                ok = leave_source(run, first, halves(second[LIST_AT], second[LIST_LENGTH]))
        elif op == FINISH:
            ok = finish_select(run, first)
        elif op == TAKE:
            ok = take_finished(run, first, second)
        elif op == PASS:
            ok = pass_finished(run, first, second)
        elif op == DROP:
            drop_rows(first)
        elif op == STORE:
            store_rows(first)
        if not ok:
            return np.int64(i)
    return np.int64(-1)
