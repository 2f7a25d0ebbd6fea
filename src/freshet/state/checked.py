"""64-bit arithmetic that detects results outside of [least, greatest].

Each kernel fills `out` for the valid rows and returns the first valid row whose result does not fit, or -1. Operands of
length one are repeated for every row.

Sums and products are taken unsigned: signed overflow is undefined, so the compiler would remove the test for it.
"""

from __future__ import annotations

import numpy as np

from freshet.state.arrays import Bools, Int64s
from freshet.state.kernel import kernel

_SIGNATURE = "i8(i8[::1], i8[::1], b1[::1], i8, i8, i8[::1])"
_LEAST = np.int64(-(2**63))
_SMALL = np.int64(2**31)


@kernel(_SIGNATURE)
def add(a: Int64s, b: Int64s, valid: Bools, least: int, greatest: int, out: Int64s) -> int:
    sa, sb, sv = min(a.size - 1, 1), min(b.size - 1, 1), min(valid.size - 1, 1)
    for i in range(out.size):
        x, y = a[i * sa], b[i * sb]
        r = np.int64(np.uint64(x) + np.uint64(y))
        out[i] = r
        if (((x ^ r) & (y ^ r)) < 0 or r < least or r > greatest) and valid[i * sv]:
            return i
    return -1


@kernel(_SIGNATURE)
def subtract(a: Int64s, b: Int64s, valid: Bools, least: int, greatest: int, out: Int64s) -> int:
    sa, sb, sv = min(a.size - 1, 1), min(b.size - 1, 1), min(valid.size - 1, 1)
    for i in range(out.size):
        x, y = a[i * sa], b[i * sb]
        r = np.int64(np.uint64(x) - np.uint64(y))
        out[i] = r
        if (((x ^ y) & (x ^ r)) < 0 or r < least or r > greatest) and valid[i * sv]:
            return i
    return -1


@kernel(_SIGNATURE)
def multiply(a: Int64s, b: Int64s, valid: Bools, least: int, greatest: int, out: Int64s) -> int:
    sa, sb, sv = min(a.size - 1, 1), min(b.size - 1, 1), min(valid.size - 1, 1)
    for i in range(out.size):
        x, y = a[i * sa], b[i * sb]
        r = np.int64(np.uint64(x) * np.uint64(y))
        out[i] = r
        fits = bool(least <= r <= greatest)
        if fits and not (-_SMALL < x < _SMALL and -_SMALL < y < _SMALL) and x != 0:
            # Only a large factor can wrap around, which dividing back detects. -1 * least wraps and divides back to
            # itself.
            fits = not (x == -1 and y == _LEAST) and not (y == -1 and x == _LEAST) and r // x == y and r % x == 0
        if not fits and valid[i * sv]:
            return i
    return -1


@kernel(_SIGNATURE)
def quotient(a: Int64s, b: Int64s, valid: Bools, least: int, greatest: int, out: Int64s) -> int:
    """Towards zero. A zero divisor, like the one quotient that overflows, is a row without a result."""
    sa, sb, sv = min(a.size - 1, 1), min(b.size - 1, 1), min(valid.size - 1, 1)
    for i in range(out.size):
        x, y = a[i * sa], b[i * sb]
        if y == 0 or (y == -1 and x == _LEAST):
            out[i] = 0
            if valid[i * sv]:
                return i
            continue
        r = x // y
        if r < 0 and r * y != x:
            r += 1
        out[i] = r
        if (r < least or r > greatest) and valid[i * sv]:
            return i
    return -1


@kernel(_SIGNATURE)
def remainder(a: Int64s, b: Int64s, valid: Bools, least: int, greatest: int, out: Int64s) -> int:
    """With the sign of the dividend. Only a zero divisor leaves a row without a result."""
    sa, sb, sv = min(a.size - 1, 1), min(b.size - 1, 1), min(valid.size - 1, 1)
    for i in range(out.size):
        x, y = a[i * sa], b[i * sb]
        if y == 0:
            out[i] = 0
            if valid[i * sv]:
                return i
            continue
        if y == -1:
            out[i] = 0
            continue
        r = x % y
        if r != 0 and (r < 0) != (x < 0):
            r -= y
        out[i] = r
    return -1
