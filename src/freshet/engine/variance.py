"""VARIANCE and STDDEV of groups, from exact sums of values and of their squares (see `state.spread`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.engine.lanes import double_bits
from freshet.state.exact_sum import Floats
from freshet.state.kernel import kernel
from freshet.state.spread import spread, squares


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
        value = spread(count, sums[i, 0], sums[i, 1], square_sums[i, 0], square_sums[i, 1], sample, root)
        out[i, lane] = double_bits(value)


def squared(values: Floats) -> tuple[Floats, Floats]:
    """Squares as pairs of doubles."""
    out, rests = np.empty(len(values)), np.empty(len(values))
    squares(np.ascontiguousarray(values), out, rests)
    return out, rests
