"""Exact sums of integers and decimals in lanes of a state row, and the results of SUM and AVG.

A sum of one-lane values takes two lanes: 2**63 copies of a 63-bit value stay within 127 bits. A sum of two-lane values
takes three. So nothing wraps around, whatever rows are inserted and deleted, and overflow of the result is detected
exactly, when it is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from freshet.scalar.lanes import double_bits
from freshet.scalar.types import Type
from freshet.state import wide
from freshet.state.kernel import inlined, intrinsic, kernel

# The operations of finishing steps, and the positions of their parameters in a row of the program.
COUNT, SUM, AVERAGE_DOUBLE, AVERAGE_DECIMAL = range(4)
OP, STATE, WIDE, OUT, OUT_LANES, NULL_LANE, NULL_BIT, POWER, LIMIT_LOW, LIMIT_HIGH = range(10)
STEP_WIDTH = 10


def sum_step(divided: bool, type: Type, argument: Type, lane: int, out: int, null: tuple[int, int]) -> list[int]:
    """The step that computes SUM or AVG from a count and a sum that begin at a lane of the state row."""
    step = [0] * STEP_WIDTH
    step[OP], step[STATE], step[WIDE] = SUM, lane, int(argument.lanes == 2)
    step[OUT], step[OUT_LANES] = out, type.lanes
    step[NULL_LANE], step[NULL_BIT] = null
    limit = 10**type.precision - 1 if type.name == "DECIMAL" else 2**31 - 1 if type.name == "MONTHS" else 2**63 - 1
    step[LIMIT_HIGH], step[LIMIT_LOW] = wide.split(limit)
    if divided:
        step[OP] = AVERAGE_DOUBLE if type.is_fraction else AVERAGE_DECIMAL
        step[POWER] = 10 ** (type.scale - argument.scale) if type.name == "DECIMAL" else 1
    return step


def count_step(lane: int, out: int) -> list[int]:
    """The step that reads a count."""
    step = [0] * STEP_WIDTH
    step[OP], step[STATE], step[OUT], step[OUT_LANES] = COUNT, lane, out, 1
    return step


@intrinsic
def multiply_high(typing_context: Any, a: Any, b: Any) -> Any:
    """The upper 64 bits of the 128-bit product of two int64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.sext(args[0], wide), builder.sext(args[1], wide))
        return builder.trunc(builder.ashr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.int64(types.int64, types.int64), codegen


@kernel("void(i4[::1], i8[::1], i8[::1], i8[:,::1], i8)")
def add_whole(groups: Any, values: Any, weights: Any, state: Any, lane: Any) -> None:
    """Adds to a count lane and the two sum lanes after it."""
    for i in range(len(groups)):
        weight = weights[i]
        group = groups[i]
        low = np.uint64(values[i] * weight)
        total = np.uint64(state[group, lane + 1]) + low
        state[group, lane] += weight
        state[group, lane + 1] = np.int64(total)
        state[group, lane + 2] += multiply_high(values[i], weight) + (1 if total < low else 0)


@kernel("void(i4[::1], i8[::1], i8[::1], i8[::1], i8[:,::1], i8)")
def add_wide(groups: Any, lows: Any, highs: Any, weights: Any, state: Any, lane: Any) -> None:
    """Adds to a count lane and the three sum lanes after it."""
    for i in range(len(groups)):
        weight = weights[i]
        group = groups[i]
        low, high = lows[i], highs[i]
        first = np.uint64(low * weight)
        carried = multiply_high(low, weight) + (weight if low < 0 else 0)  # low is unsigned
        second = np.uint64(carried) + np.uint64(high * weight)
        third = multiply_high(high, weight) + (carried >> 63) + (1 if second < np.uint64(carried) else 0)
        state[group, lane] += weight
        total = np.uint64(state[group, lane + 1]) + first
        state[group, lane + 1] = np.int64(total)
        if total < first:
            second += np.uint64(1)
            if second == np.uint64(0):
                third += 1
        total = np.uint64(state[group, lane + 2]) + second
        state[group, lane + 2] = np.int64(total)
        state[group, lane + 3] += third + (1 if total < second else 0)


@inlined
def _to_double(low: Any, high: Any) -> Any:
    """The double nearest to an unsigned 128-bit number, ties to even."""
    if high == np.uint64(0):
        return np.float64(low)
    shift = 0
    while high != np.uint64(0):
        low = (low >> np.uint64(1)) | (low & np.uint64(1)) | (high << np.uint64(63))  # the lowest bit is sticky
        high >>= np.uint64(1)
        shift += 1
    return np.float64(low) * 2.0**shift


@inlined
def _divide(digits: Any, divisor: Any) -> Any:
    """Divides base 2**32 digits in place by a positive int64, rounding half up."""
    rest = np.uint64(0)
    d = np.uint64(divisor)
    if divisor < 1 << 32:
        for k in range(len(digits) - 1, -1, -1):
            part = (rest << np.uint64(32)) | digits[k]
            digits[k] = part // d
            rest = part % d
    else:
        for k in range(len(digits) - 1, -1, -1):
            quotient = np.uint64(0)
            for bit in range(31, -1, -1):
                rest = (rest << np.uint64(1)) | ((digits[k] >> np.uint64(bit)) & np.uint64(1))
                quotient <<= np.uint64(1)
                if rest >= d:
                    rest -= d
                    quotient |= np.uint64(1)
            digits[k] = quotient
    if rest >= d - rest:
        for k in range(len(digits)):
            digits[k] += np.uint64(1)
            if digits[k] <= np.uint64(0xFFFFFFFF):
                break
            digits[k] = np.uint64(0)


@inlined
def _average(low: Any, high: Any, top: Any, power: Any, count: Any, digits: Any) -> Any:
    """(low, high, top) times `power` over `count`, half up, as (low, high) of 128 bits, and whether it fits them."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    digits[0], digits[1] = low & mask, low >> half
    digits[2], digits[3] = high & mask, high >> half
    digits[4], digits[5] = top & mask, top >> half
    digits[6] = np.uint64(0)
    carry = np.uint64(0)
    for k in range(7):
        product = digits[k] * np.uint64(power) + carry
        digits[k] = product & mask
        carry = product >> half
    _divide(digits, count)
    fits = digits[4] | digits[5] | digits[6] == np.uint64(0)
    return digits[0] | (digits[1] << half), digits[2] | (digits[3] << half), fits


@kernel("i8(i4[::1], i8[:,::1], i8[:,::1], i8[:,::1])")
def finish(groups: Any, state: Any, program: Any, out: Any) -> Any:
    """Runs every step of the program on every group; returns the first step whose result does not fit, or -1."""
    digits = np.empty(7, np.uint64)
    for s in range(len(program)):
        step = program[s]
        op, lane, target = step[OP], step[STATE], step[OUT]
        if op == COUNT:
            for i in range(len(groups)):
                out[i, target] = state[groups[i], lane]
            continue
        limit_low, limit_high = np.uint64(step[LIMIT_LOW]), np.uint64(step[LIMIT_HIGH])
        for i in range(len(groups)):
            group = groups[i]
            count = state[group, lane]
            if count <= 0:
                out[i, step[NULL_LANE]] |= step[NULL_BIT]
                for k in range(step[OUT_LANES]):
                    out[i, target + k] = 0
                continue
            low, high = np.uint64(state[group, lane + 1]), np.uint64(state[group, lane + 2])
            top = np.uint64(state[group, lane + 3] if step[WIDE] != 0 else np.int64(high) >> 63)
            negative = np.int64(top) < 0
            if negative:
                low, high, top = ~low + np.uint64(1), ~high, ~top
                if low == np.uint64(0):
                    high += np.uint64(1)
                    if high == np.uint64(0):
                        top += np.uint64(1)
            if op == AVERAGE_DOUBLE:
                mean = _to_double(low, high) / np.float64(count)
                out[i, target] = double_bits(-mean if negative else mean)
                continue
            fits = top == np.uint64(0)
            if op == AVERAGE_DECIMAL:
                low, high, fits = _average(low, high, top, step[POWER], count, digits)
            if not fits or high > limit_high or (high == limit_high and low > limit_low):
                least = (
                    limit_low == np.uint64(0x7FFFFFFFFFFFFFFF)
                    and high == np.uint64(0)
                    and low == limit_low + np.uint64(1)
                )
                if not (least and negative and fits):  # BIGINT reaches one further below zero than above it
                    return s
            if negative:
                low, high = ~low + np.uint64(1), ~high
                if low == np.uint64(0):
                    high += np.uint64(1)
            out[i, target] = np.int64(low)
            if step[OUT_LANES] == 2:
                out[i, target + 1] = np.int64(high)
    return -1
