"""Expressions over lanes as flat data, run a chunk of rows at a time: integers, decimals, dates, comparisons, NULL.

Law: a value is an integer of 128 bits (two lanes, the lower unsigned) and whether it is NULL, under which both lanes
are 0. A code is a list of steps, each of which fills one register for all rows. If the value of some row does not fit,
or needs more than these steps can do, the whole run fails without naming the row: the caller then evaluates the rows in
another way (scalar/evaluate), which reports it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.kernel import inlined
from freshet.state.wide import multiply_high

# Columns of a step. A value must lie within its limit: from -limit, or -limit - 1 where INTEGER, to limit.
OP, OUT, A, B, LIMIT_LOW, LIMIT_HIGH, INTEGER, X = range(8)
CODE_WIDTH = 8

# What steps do. LOAD: A is the first lane, B the null lane (-1: never NULL), X the bit there, INTEGER how many lanes.
(
    LOAD, CONSTANT, ADD, SUBTRACT, MULTIPLY, NEGATE, FIT, EQUAL, LESS, AT_MOST, AND, OR, NOT, IS_NULL, FIRST,
) = range(15)  # fmt: skip


@inlined
def _below(low: Any, high: Any, other_low: Any, other_high: Any) -> Any:
    """Whether one value is less than another."""
    return high < other_high or (high == other_high and np.uint64(low) < np.uint64(other_low))


@inlined
def _fits(low: Any, high: Any, limit_low: Any, limit_high: Any, integer: Any) -> Any:
    if high < 0:  # its magnitude minus one if negative, because the range reaches one further below zero
        low, high = ~low, ~high
        if integer == 0:
            low += 1
            high += low == 0
            if high < 0:
                return False
    return not _below(limit_low, limit_high, low, high)


@inlined
def run_code(code: Any, steps: Any, data: Any, stride: Any, at: Any, low: Any, high: Any, null: Any) -> Any:
    """Runs the steps over rows `at` of `data`, of `stride` lanes each; false if some value does not fit."""
    n = at.size
    for i in range(steps):
        step = i * CODE_WIDTH
        op, out, a, b = code[step + OP], code[step + OUT], code[step + A], code[step + B]
        limit_low, limit_high, integer = code[step + LIMIT_LOW], code[step + LIMIT_HIGH], code[step + INTEGER]
        if op == LOAD:
            for j in range(n):
                row = np.int64(at[j]) * stride
                value = data[row + a]
                low[out, j] = value
                high[out, j] = data[row + a + 1] if integer == 2 else value >> 63
                null[out, j] = b >= 0 and ((data[row + b] >> code[step + X]) & 1) == 1
        elif op == CONSTANT:
            for j in range(n):
                low[out, j], high[out, j], null[out, j] = limit_low, limit_high, a != 0
        elif op in (ADD, SUBTRACT):
            for j in range(n):
                null[out, j] = null[a, j] or null[b, j]
                x, y, top, other = low[a, j], low[b, j], high[a, j], high[b, j]
                if op == SUBTRACT:
                    total = x - y
                    over = top - other - (np.uint64(x) < np.uint64(y))
                    wrapped = ((top ^ other) & (top ^ over)) < 0
                else:
                    total = x + y
                    over = top + other + (np.uint64(total) < np.uint64(x))
                    wrapped = (~(top ^ other) & (top ^ over)) < 0
                if null[out, j]:
                    total, over = np.int64(0), np.int64(0)
                elif wrapped or not _fits(total, over, limit_low, limit_high, integer):
                    return False
                low[out, j], high[out, j] = total, over
        elif op == MULTIPLY:
            for j in range(n):
                null[out, j] = null[a, j] or null[b, j]
                x, y = low[a, j], low[b, j]
                if null[out, j]:
                    low[out, j], high[out, j] = 0, 0
                    continue
                if high[a, j] != x >> 63 or high[b, j] != y >> 63:
                    return False
                total, over = x * y, multiply_high(x, y)
                if not _fits(total, over, limit_low, limit_high, integer):
                    return False
                low[out, j], high[out, j] = total, over
        elif op == NEGATE:
            for j in range(n):
                null[out, j] = null[a, j]
                low[out, j] = -low[a, j]
                high[out, j] = ~high[a, j] + (low[a, j] == 0)
                if not null[out, j] and not _fits(low[out, j], high[out, j], limit_low, limit_high, integer):
                    return False
        elif op == FIT:
            for j in range(n):
                low[out, j], high[out, j], null[out, j] = low[a, j], high[a, j], null[a, j]
                if not null[a, j] and not _fits(low[a, j], high[a, j], limit_low, limit_high, integer):
                    return False
        elif op in (EQUAL, LESS, AT_MOST):
            for j in range(n):
                null[out, j] = null[a, j] or null[b, j]
                x, y, top, other = low[a, j], low[b, j], high[a, j], high[b, j]
                if op == EQUAL:
                    holds = x == y and top == other
                elif op == LESS:
                    holds = _below(x, top, y, other)
                else:
                    holds = not _below(y, other, x, top)
                low[out, j] = holds and not null[out, j]
                high[out, j] = 0
        elif op in (AND, OR):
            decides = op == OR
            for j in range(n):
                x, y = low[a, j] != 0, low[b, j] != 0
                decided = (not null[a, j] and x == decides) or (not null[b, j] and y == decides)
                null[out, j] = not decided and (null[a, j] or null[b, j])
                low[out, j] = not null[out, j] and decided == decides
                high[out, j] = 0
        elif op == NOT:
            for j in range(n):
                null[out, j] = null[a, j]
                low[out, j] = not null[a, j] and low[a, j] == 0
                high[out, j] = 0
        elif op == IS_NULL:
            for j in range(n):
                low[out, j], high[out, j], null[out, j] = null[a, j], 0, False
        else:  # FIRST: the first of two that is not NULL
            for j in range(n):
                which = b if null[a, j] else a
                low[out, j], high[out, j], null[out, j] = low[which, j], high[which, j], null[which, j]
    return True


@inlined
def pack_registers(fields: Any, n: Any, values: Any, low: Any, high: Any, null: Any, rows: Any, first: Any) -> None:
    """Rows of lanes (scalar/lanes) of registers, from row `first` on. `fields`: register and lanes of each column;
    `values`: lanes before those of NULLs."""
    for j in range(low.shape[1]):
        for lane in range(values, rows.shape[1]):
            rows[first + j, lane] = 0
    at = np.int64(0)
    for i in range(n):
        register, count = fields[2 * i], fields[2 * i + 1]
        null_lane, bit = values + i // 63, np.int64(1) << (i % 63)
        for j in range(low.shape[1]):
            if null[register, j]:
                rows[first + j, null_lane] |= bit
            rows[first + j, at] = low[register, j]
            if count == 2:
                rows[first + j, at + 1] = high[register, j]
        at += count
