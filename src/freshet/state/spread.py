"""Variance and standard deviation, from exact sums of values and of their squares.

n Σx² − (Σx)² loses all digits to cancellation where the mean is large against the spread. So each sum is given as
several doubles, the rounded sum, the rounded remainder, and so on; every product is computed with its rounding error,
and all terms are added from the greatest down, with errors summed separately. The square of a value is itself two
doubles.

Squares of huge values fit no double. They are summed separately, with values divided by 2**608; and so are all values,
whose sum may not fit either. If a group has huge values, its result is computed from the shrunk values and scaled back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.kernel import inlined, kernel

_SPLIT = 134217729.0  # 2**27 + 1: cuts a double into two halves of 26 bits
#: From here on a value is huge: below it the squares of sums of 2**63 values fit.
HUGE = 2.0**400
#: What shrinks values: so many digits of an exact sum.
SHRINK_DIGITS = 19
SHRINK = 2.0 ** (-32 * SHRINK_DIGITS)
#: The doubles that make up the sums of a group: two of its values, three of their squares, and the same of shrunk
#: values and of huge squares.
VALUES, SQUARES, SHRUNK, HUGE_SQUARES, SUMS = 0, 2, 5, 7, 10


@inlined
def product_error(a: Any, b: Any, product: Any) -> Any:
    """The exact rounding error of the product of two doubles."""
    a_high = _SPLIT * a
    a_high -= a_high - a
    b_high = _SPLIT * b
    b_high -= b_high - b
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@inlined
def _plus(sum: Any, error: Any, term: Any) -> Any:
    """Adds a term to a sum, and to its accumulated rounding error."""
    total = sum + term
    back = total - sum
    return total, error + ((sum - (total - back)) + (term - back))


@inlined
def _plus_product(sum: Any, error: Any, a: Any, b: Any) -> Any:
    product = a * b
    sum, error = _plus(sum, error, product)
    return _plus(sum, error, product_error(a, b, product))


@inlined
def spread(count: Any, sums: Any, sample: Any, root: Any) -> Any:
    """The variance, or its root, of `count` values, or of a sample of them; `sums` as said at SUMS."""
    n, shrunk = np.float64(count), sums[HUGE_SQUARES] != 0.0
    x, rest = sums[SHRUNK if shrunk else VALUES], sums[(SHRUNK if shrunk else VALUES) + 1]
    first = HUGE_SQUARES if shrunk else SQUARES
    if not (np.isfinite(n * sums[first]) and np.isfinite(x * x) and np.isfinite(sums[SQUARES])):
        return np.nan  # of infinities and NaN
    product = n * sums[first]
    apart, error = _plus(product, 0.0, -x * x)
    apart, error = _plus(apart, error, product_error(n, sums[first], product))
    apart, error = _plus(apart, error, -product_error(x, x, x * x))
    apart, error = _plus_product(apart, error, n, sums[first + 1])
    apart, error = _plus_product(apart, error, -2.0 * x, rest)
    apart, error = _plus(apart, error, n * sums[first + 2] - rest * rest)
    if shrunk:
        for k in range(SQUARES, SQUARES + 3):
            apart, error = _plus_product(apart, error, n, sums[k] * SHRINK * SHRINK)
    value = max(apart + error, 0.0) / n / (n - 1.0 if sample else n)
    if shrunk:
        value = value / SHRINK / SHRINK
    return np.sqrt(value) if root else value


@kernel("void(f8[::1], b1, f8[::1], f8[::1])")
def squares(values: Any, huge: Any, out: Any, rests: Any) -> None:
    """The square of each value and its rounding error, either of the huge values, shrunk, or of the others; 0 for the
    rest."""
    for i in range(len(values)):
        value, is_huge = values[i], HUGE <= abs(values[i]) < np.inf
        out[i], rests[i] = 0.0, 0.0
        if huge == is_huge:
            value = value * SHRINK if huge else value
            out[i] = value * value
            rests[i] = product_error(value, value, out[i]) if np.isfinite(out[i]) else 0.0


@kernel("void(i8[::1], f8[:,::1], b1, b1, f8[::1])")
def spreads(counts: Any, sums: Any, sample: Any, root: Any, out: Any) -> None:
    """Row by row."""
    for i in range(len(counts)):
        out[i] = spread(counts[i], sums[i], sample, root) if counts[i] > (1 if sample else 0) else 0.0
