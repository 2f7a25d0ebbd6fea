"""Exact 128-bit integers over columns of lanes, with room for every intermediate result of SQL decimals.

A value is hi * 2**64 + unsigned(lo). Two laws cover all decimal arithmetic on unscaled values:

    ratio:  round(a * b * 10**up / (10**down * d))      product, quotient and change of scale
    blend:  round((a * 10**up_a ± b * 10**up_b) / 10**down)      sum and difference of two scales

Both are computed on magnitudes in 32-bit limbs, wide enough (448 bits) that nothing is lost before the one rounding.
HALF_UP looks at the first dropped digit only, so dropping `down - 1` digits first and rounding then is exact.
Operands of length one are repeated for every row. A kernel returns the first valid row without a result, or -1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types

from freshet.state.arrays import Bools, Int64s
from freshet.state.kernel import inlined, intrinsic, kernel

HALF_UP, DOWN, FLOOR, CEILING, REMAINDER = range(5)
LIMBS = 14
_MASK = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_TENS = np.array([10**k for k in range(10)], np.uint64)
#: 10**k as four 32-bit limbs, k up to 38: the first magnitude that k digits cannot hold.
_POWERS = np.array([[(10**k >> (32 * i)) & 0xFFFFFFFF for i in range(4)] for k in range(39)], np.uint64)


@intrinsic
def multiply_high(typing_context: Any, a: Any, b: Any) -> Any:
    """The upper 64 bits of the 128-bit product of two int64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.sext(args[0], wide), builder.sext(args[1], wide))
        return builder.trunc(builder.ashr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.int64(types.int64, types.int64), codegen


@inlined
def _load(hi: int, lo: int, limbs: npt.NDArray[np.uint64]) -> bool:
    """Fills limbs with the magnitude; True when the value is negative."""
    low, high = np.uint64(lo), np.uint64(hi)
    negative = hi < 0
    if negative:
        low, high = ~low + _ONE, ~high
        if low == _ZERO:
            high += _ONE
    limbs[:] = _ZERO
    limbs[0], limbs[1] = low & _MASK, low >> _HALF
    limbs[2], limbs[3] = high & _MASK, high >> _HALF
    return negative


@inlined
def _length(limbs: npt.NDArray[np.uint64]) -> int:
    n = LIMBS
    while n > 0 and limbs[n - 1] == _ZERO:
        n -= 1
    return n


@inlined
def _scale_up(limbs: npt.NDArray[np.uint64], digits: int) -> None:
    while digits > 0:
        step = min(digits, 9)
        factor, carry = _TENS[step], _ZERO
        for i in range(LIMBS):
            t = limbs[i] * factor + carry
            limbs[i], carry = t & _MASK, t >> _HALF
        digits -= step


@inlined
def _scale_down(limbs: npt.NDArray[np.uint64], digits: int) -> bool:
    """Divides by 10**digits, towards zero; True when something was dropped."""
    dropped = False
    while digits > 0:
        step = min(digits, 9)
        divisor, rest = _TENS[step], _ZERO
        for i in range(LIMBS - 1, -1, -1):
            t = (rest << _HALF) | limbs[i]
            limbs[i], rest = t // divisor, t % divisor
        dropped = dropped or rest != _ZERO
        digits -= step
    return dropped


@inlined
def _increment(limbs: npt.NDArray[np.uint64], by: np.uint64) -> None:
    carry = by
    for i in range(LIMBS):
        if carry == _ZERO:
            break
        t = limbs[i] + carry
        limbs[i], carry = t & _MASK, t >> _HALF


@inlined
def _multiply(a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64], out: npt.NDArray[np.uint64]) -> None:
    out[:] = _ZERO
    m, n = _length(a), _length(b)
    for i in range(m):
        carry = _ZERO
        for j in range(n):
            if i + j < LIMBS:
                t = a[i] * b[j] + out[i + j] + carry
                out[i + j], carry = t & _MASK, t >> _HALF
        if i + n < LIMBS:
            out[i + n] = carry


@inlined
def _compare(a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64]) -> int:
    for i in range(LIMBS - 1, -1, -1):
        if a[i] != b[i]:
            return 1 if a[i] > b[i] else -1
    return 0


@inlined
def _take_away(a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64], out: npt.NDArray[np.uint64]) -> None:
    """out = a - b, where a >= b."""
    borrow = _ZERO
    for i in range(LIMBS):
        t = a[i] - b[i] - borrow
        out[i], borrow = t & _MASK, (t >> _HALF) & _ONE


@inlined
def _divide(u: npt.NDArray[np.uint64], v: npt.NDArray[np.uint64], q: npt.NDArray[np.uint64]) -> None:
    """q = u // v, and u becomes the remainder. Schoolbook long division in base 2**32, v normalized so that a guessed
    digit is at most two too large."""
    q[:] = _ZERO
    n, m = _length(v), _length(u)
    if n == 1:
        rest = _ZERO
        for i in range(m - 1, -1, -1):
            t = (rest << _HALF) | u[i]
            q[i], rest = t // v[0], t % v[0]
        u[:] = _ZERO
        u[0] = rest
        return
    if m < n:
        return
    shift, top = _ZERO, v[n - 1]
    while top < np.uint64(0x80000000):
        top <<= _ONE
        shift += _ONE
    back = _HALF - shift
    for i in range(n - 1, 0, -1):
        v[i] = ((v[i] << shift) | (v[i - 1] >> back)) & _MASK
    v[0] = (v[0] << shift) & _MASK
    u[m] = u[m - 1] >> back
    for i in range(m - 1, 0, -1):
        u[i] = ((u[i] << shift) | (u[i - 1] >> back)) & _MASK
    u[0] = (u[0] << shift) & _MASK
    base = np.uint64(1) << _HALF
    for j in range(m - n, -1, -1):
        head = (u[j + n] << _HALF) | u[j + n - 1]
        guess, rest = head // v[n - 1], head % v[n - 1]
        while guess >= base or guess * v[n - 2] > ((rest << _HALF) | u[j + n - 2]):
            guess -= _ONE
            rest += v[n - 1]
            if rest >= base:
                break
        borrow, carry = _ZERO, _ZERO
        for i in range(n):
            p = guess * v[i] + carry
            carry = p >> _HALF
            t = u[i + j] - (p & _MASK) - borrow
            u[i + j], borrow = t & _MASK, (t >> _HALF) & _ONE
        t = u[j + n] - carry - borrow
        u[j + n], borrow = t & _MASK, (t >> _HALF) & _ONE
        if borrow != _ZERO:
            guess -= _ONE
            carry = _ZERO
            for i in range(n):
                t = u[i + j] + v[i] + carry
                u[i + j], carry = t & _MASK, t >> _HALF
            u[j + n] = (u[j + n] + carry) & _MASK
        q[j] = guess
    for i in range(n):
        u[i] = ((u[i] >> shift) | (u[i + 1] << back)) & _MASK
    u[n:] = _ZERO


@inlined
def _store(
    limbs: npt.NDArray[np.uint64], negative: bool, digits: int, out_hi: Int64s, out_lo: Int64s, row: int
) -> bool:
    """False when the magnitude needs more than `digits` decimal digits."""
    if _length(limbs) > 4:
        return False
    for i in range(3, -1, -1):
        if limbs[i] != _POWERS[digits, i]:
            if limbs[i] > _POWERS[digits, i]:
                return False
            break
        if i == 0:
            return False
    low, high = limbs[0] | (limbs[1] << _HALF), limbs[2] | (limbs[3] << _HALF)
    if negative:
        low, high = ~low + _ONE, ~high
        if low == _ZERO:
            high += _ONE
    out_hi[row], out_lo[row] = np.int64(high), np.int64(low)
    return True


@kernel("i8(i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], b1[::1], i8, i8, i8, i8, i8[::1], i8[::1])")
def ratio(
    a_hi: Int64s,
    a_lo: Int64s,
    b_hi: Int64s,
    b_lo: Int64s,
    d_hi: Int64s,
    d_lo: Int64s,
    valid: Bools,
    up: int,
    down: int,
    mode: int,
    digits: int,
    out_hi: Int64s,
    out_lo: Int64s,
) -> int:
    """round(a * b * 10**up / (10**down * d)) in `digits` digits; with REMAINDER, what is left, sign of a * b."""
    sa, sb = min(a_lo.size - 1, 1), min(b_lo.size - 1, 1)
    sd, sv = min(d_lo.size - 1, 1), min(valid.size - 1, 1)
    a, b, u = np.empty(LIMBS, np.uint64), np.empty(LIMBS, np.uint64), np.empty(LIMBS, np.uint64)
    v, q = np.empty(LIMBS, np.uint64), np.empty(LIMBS, np.uint64)
    for row in range(out_lo.size):
        if not valid[row * sv]:
            out_hi[row], out_lo[row] = 0, 0
            continue
        negative = _load(a_hi[row * sa], a_lo[row * sa], a)
        negative ^= _load(b_hi[row * sb], b_lo[row * sb], b)
        negative_divisor = _load(d_hi[row * sd], d_lo[row * sd], v)
        if _length(v) == 0:
            return row
        _multiply(a, b, u)
        _scale_up(u, up)
        if mode == REMAINDER:
            _scale_up(v, down)
            _divide(u, v, q)
            if not _store(u, negative, digits, out_hi, out_lo, row):
                return row
            continue
        negative ^= negative_divisor
        # One digit more than asked stays in the quotient: it alone decides HALF_UP.
        sticky = False
        if down > 0:
            sticky = _scale_down(u, down - 1)
        else:
            _scale_up(u, 1)
        if _length(v) == 1 and v[0] == _ONE:
            q[:] = u
        else:
            _divide(u, v, q)
            sticky = sticky or _length(u) > 0
        if mode == HALF_UP:
            _increment(q, np.uint64(5))
            _scale_down(q, 1)
        else:
            sticky = _scale_down(q, 1) or sticky
            if sticky and ((mode == FLOOR and negative) or (mode == CEILING and not negative)):
                _increment(q, _ONE)
        if not _store(q, negative, digits, out_hi, out_lo, row):
            return row
    return -1


@kernel("i8(i8[::1], i8[::1], i8[::1], i8[::1], b1[::1], i8, i8, i8, i8, i8, i8[::1], i8[::1])")
def blend(
    a_hi: Int64s,
    a_lo: Int64s,
    b_hi: Int64s,
    b_lo: Int64s,
    valid: Bools,
    sign: int,
    up_a: int,
    up_b: int,
    down: int,
    digits: int,
    out_hi: Int64s,
    out_lo: Int64s,
) -> int:
    """round((a * 10**up_a + sign * b * 10**up_b) / 10**down), HALF_UP, in `digits` digits."""
    sa, sb, sv = min(a_lo.size - 1, 1), min(b_lo.size - 1, 1), min(valid.size - 1, 1)
    a, b, u = np.empty(LIMBS, np.uint64), np.empty(LIMBS, np.uint64), np.empty(LIMBS, np.uint64)
    for row in range(out_lo.size):
        if not valid[row * sv]:
            out_hi[row], out_lo[row] = 0, 0
            continue
        negative = _load(a_hi[row * sa], a_lo[row * sa], a)
        other = _load(b_hi[row * sb], b_lo[row * sb], b) ^ (sign < 0)
        _scale_up(a, up_a)
        _scale_up(b, up_b)
        if negative == other:
            carry = _ZERO
            for i in range(LIMBS):
                t = a[i] + b[i] + carry
                u[i], carry = t & _MASK, t >> _HALF
        elif _compare(a, b) >= 0:
            _take_away(a, b, u)
        else:
            _take_away(b, a, u)
            negative = other
        if down > 0:
            _scale_down(u, down - 1)
            _increment(u, np.uint64(5))
            _scale_down(u, 1)
        if not _store(u, negative, digits, out_hi, out_lo, row):
            return row
    return -1


def high(lo: Int64s, hi: Int64s | None) -> Int64s:
    """The upper lane, by sign extension where there is none."""
    return np.ascontiguousarray(hi) if hi is not None else lo >> 63


def narrow(lo: Int64s, hi: Int64s) -> Int64s | None:
    """None if every value fits one lane, that is, if the upper lane only repeats the sign."""
    return None if np.array_equal(hi, lo >> 63) else hi


def less(a_hi: Int64s, a_lo: Int64s, b_hi: Int64s, b_lo: Int64s) -> Bools:
    below: Bools = (a_hi < b_hi) | ((a_hi == b_hi) & (a_lo.view(np.uint64) < b_lo.view(np.uint64)))
    return below


def split(value: int) -> tuple[int, int]:
    """A Python integer as (hi, lo) lanes."""
    low = value & 0xFFFFFFFFFFFFFFFF
    return value >> 64, low - (1 << 64) if low >> 63 else low


def joined(hi: int, lo: int) -> int:
    """The Python integer of two lanes."""
    return (int(hi) << 64) + (int(lo) & 0xFFFFFFFFFFFFFFFF)
