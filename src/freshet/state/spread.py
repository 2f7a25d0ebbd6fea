"""How far values lie apart, from exact sums of them and of their squares.

n Σx² − (Σx)² loses all digits to cancellation where the mean is large against the spread. So both sums come as pairs of
doubles, the rounded sum and the rest, and the difference is taken in pairs: twice the digits. The square of a value
is itself a pair.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.kernel import inlined, kernel

_SPLIT = 134217729.0  # 2**27 + 1: cuts a double into two halves of 26 bits


@inlined
def _rest(a: Any, b: Any, product: Any) -> Any:
    """What the product of two doubles lost to rounding, exactly."""
    a_high = _SPLIT * a
    a_high -= a_high - a
    b_high = _SPLIT * b
    b_high -= b_high - b
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@inlined
def spread(count: Any, sum: Any, sum_rest: Any, squares: Any, squares_rest: Any, sample: Any, root: Any) -> Any:
    """The variance, or its root, of `count` values, or of a sample of them."""
    n = np.float64(count)
    left, right = n * squares, sum * sum
    if np.isfinite(left) and np.isfinite(right):
        low = _rest(n, squares, left) + n * squares_rest
        low -= _rest(sum, sum, right) + 2.0 * sum * sum_rest
        apart = max((left - right) + low, 0.0)
    else:
        apart = np.nan
    value = apart / n / (n - 1.0 if sample else n)
    return np.sqrt(value) if root else value


@kernel("void(f8[::1], f8[::1], f8[::1])")
def squares(values: Any, out: Any, rests: Any) -> None:
    """The square of each value and its rest; 0 for the rest of what does not fit."""
    for i in range(len(values)):
        out[i] = values[i] * values[i]
        rest = _rest(values[i], values[i], out[i])
        rests[i] = rest if np.isfinite(rest) and np.isfinite(out[i]) else 0.0


@kernel("void(i8[::1], f8[:,::1], b1, b1, f8[::1])")
def spreads(counts: Any, sums: Any, sample: Any, root: Any, out: Any) -> None:
    """Row by row; `sums` has the sum, its rest, that of the squares, and its rest."""
    for i in range(len(counts)):
        if counts[i] > (1 if sample else 0):
            out[i] = spread(counts[i], sums[i, 0], sums[i, 1], sums[i, 2], sums[i, 3], sample, root)
        else:
            out[i] = 0.0
