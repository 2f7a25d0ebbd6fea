"""Native step of a select over a single query, whose rows pass through it (engine/passing; descriptions.py states the
law)."""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.engine.descriptions import (
    EVALUATE,
    MOST_ROWS,
    OUTLET,
    PASS_CODE,
    PASS_COLUMNS,
    PASS_CONDITION_COUNT,
    PASS_CONDITIONS,
    PASS_COUNT,
    PASS_ON,
    PASS_SELECT,
    PASS_STEPS,
    PASS_VALUES,
    PASS_WIDTH,
    PENDING,
    RAW,
    ROWS_AT,
    SELECT,
    SINK,
    TO_GROUPS,
    TO_PENDING,
    TO_RAW,
    WEIGHTS_AT,
    WORK_STEPS,
    ask,
    outlives,
    table_of,
)
from freshet.engine.group_steps import buffer_room, chosen_rows, every, into_groups
from freshet.engine.work import CHECKED, FED
from freshet.state.kernel import as_int64, inlined
from freshet.state.lane_code import pack_registers, run_code
from freshet.state.rows import BUFFER_COUNT, BUFFER_LANES, BUFFER_WEIGHTS, BUFFER_WIDTH


@inlined
def pass_rows(run: Any, p: Any, rows_at: Any, weights_at: Any, width: Any, n: Any) -> Any:
    """Passes the rows that satisfy the conditions on to the select's sink."""
    s, registers = as_int64(p[PASS_SELECT]), max(p[PASS_STEPS], 1)
    low, high = np.empty((registers, n), np.int64), np.empty((registers, n), np.int64)
    null = np.empty((registers, n), np.bool_)
    at = every(n)
    if not run_code(as_int64(p[PASS_CODE]), p[PASS_STEPS], as_int64(rows_at), width, at, low, high, null):
        run[ROWS_AT], run[WEIGHTS_AT] = rows_at, weights_at
        return ask(run, PASS_ON, width, n)
    if p[PASS_CONDITION_COUNT] > 0:
        as_int64(s[WORK_STEPS])[CHECKED] += n
        at = chosen_rows(as_int64(p[PASS_CONDITIONS]), p[PASS_CONDITION_COUNT], low, null, n)
    m, given = np.int64(at.size), as_int64(weights_at)
    if m == 0:
        return True
    packed = np.empty((n, p[PASS_WIDTH]), np.int64)
    pack_registers(as_int64(p[PASS_COLUMNS]), p[PASS_COUNT], p[PASS_VALUES], low, high, null, packed, 0)
    weights = np.empty(m, np.int64)
    for i in range(m):
        weights[i] = given[at[i]]
        if at[i] != i:
            packed[i, :] = packed[at[i], :]
    sink = s[SINK]
    if sink in (TO_RAW, TO_PENDING):
        b = as_int64(s[RAW] if sink == TO_RAW else s[PENDING])
        if not buffer_room(run, b, m):
            return False
        first = b[BUFFER_COUNT]
        rows, kept = table_of(b[BUFFER_LANES], first + m, b[BUFFER_WIDTH]), as_int64(b[BUFFER_WEIGHTS])
        for i in range(m):
            rows[first + i, :] = packed[i, :]
            kept[first + i] = weights[i]
        b[BUFFER_COUNT] += m
        return True
    if sink == TO_GROUPS:
        grouped = into_groups(run, s, packed.ctypes.data, weights.ctypes.data, p[PASS_WIDTH], m)
        return outlives(packed, weights, grouped)
    run[ROWS_AT], run[WEIGHTS_AT] = packed.ctypes.data, weights.ctypes.data
    return outlives(packed, weights, ask(run, EVALUATE, s[SELECT], m))


@inlined
def pass_finished(run: Any, p: Any, source: Any) -> Any:
    """Passes the delta of a nested query on (Select._take)."""
    b = as_int64(source[PENDING])
    n, width, at = b[BUFFER_COUNT], b[BUFFER_WIDTH], np.int64(0)
    if n == 0:
        return True
    b[BUFFER_COUNT] = 0
    s = as_int64(p[PASS_SELECT])
    as_int64(s[WORK_STEPS])[FED] += n
    if as_int64(s[OUTLET])[0] == 0:
        return True
    while at < n:
        part = min(np.int64(MOST_ROWS), n - at)
        rows_at, weights_at = b[BUFFER_LANES] + 8 * width * at, b[BUFFER_WEIGHTS] + 8 * at
        if not pass_rows(run, p, rows_at, weights_at, width, part):
            return False
        at += part
    return True
