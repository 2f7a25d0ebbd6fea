"""VARIANCE and STDDEV from exact sums of values and of their squares.

n Σx² − (Σx)² loses all digits to cancellation where the mean is large against the spread. So both sums are read as
pairs of doubles, the rounded sum and the rest, and the difference is taken in pairs: twice the digits. The square of
a value is itself a pair, added to the exact sum of squares part by part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.engine.lanes import double_bits
from freshet.state.exact_sum import Floats
from freshet.state.kernel import inlined, kernel

_SPLIT = 134217729.0  # 2**27 + 1: cuts a double into two halves of 26 bits

#: Function → whether the sample's, and whether its root.
FORMS = {
    "var_samp": (True, False),
    "var_pop": (False, False),
    "stddev_samp": (True, True),
    "stddev_pop": (False, True),
}


@inlined
def _rest(a: Any, b: Any, product: Any) -> Any:
    """What the product of two doubles lost to rounding, exactly."""
    a_high = _SPLIT * a
    a_high -= a_high - a
    b_high = _SPLIT * b
    b_high -= b_high - b
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@kernel("void(f8[::1], f8[::1], f8[::1])")
def squares(values: Any, out: Any, rests: Any) -> None:
    """The square of each value and its rest; 0 for the rest of what does not fit."""
    for i in range(len(values)):
        out[i] = values[i] * values[i]
        rest = _rest(values[i], values[i], out[i])
        rests[i] = rest if np.isfinite(rest) and np.isfinite(out[i]) else 0.0


@kernel("void(i4[::1], f8[:,::1], f8[:,::1], i8[:,::1], i8, b1, b1, i8[:,::1], i8, i8, i8)")
def finish_variances(
    groups: Any, sums: Any, square_sums: Any, state: Any, count_lane: Any, sample: Any, root: Any, out: Any, lane: Any,
    null_lane: Any, bit: Any,
) -> None:  # fmt: skip
    for i in range(len(groups)):
        count = state[groups[i], count_lane]
        if count <= (1 if sample else 0):
            out[i, lane] = 0
            out[i, null_lane] |= bit
            continue
        n = np.float64(count)
        left, right = n * square_sums[i, 0], sums[i, 0] * sums[i, 0]
        if np.isfinite(left) and np.isfinite(right):
            low = _rest(n, square_sums[i, 0], left) + n * square_sums[i, 1]
            low -= _rest(sums[i, 0], sums[i, 0], right) + 2.0 * sums[i, 0] * sums[i, 1]
            spread = max((left - right) + low, 0.0)
        else:
            spread = np.nan
        value = spread / n / (n - 1.0 if sample else n)
        out[i, lane] = double_bits(np.sqrt(value) if root else value)


def squared(values: Floats) -> tuple[Floats, Floats]:
    """Squares as pairs of doubles."""
    out, rests = np.empty(len(values)), np.empty(len(values))
    squares(np.ascontiguousarray(values), out, rests)
    return out, rests
