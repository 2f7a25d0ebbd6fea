"""VARIANCE and STDDEV of groups, from exact sums of values and of their squares (see `state.spread`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.scalar.lanes import double_bits
from freshet.state.arena import Scope
from freshet.state.arrays import Int64s
from freshet.state.exact_sum import ExactSum, Floats
from freshet.state.kernel import kernel
from freshet.state.spread import HUGE, SHRINK_DIGITS, spread, squares
from freshet.state.tuples import Slots


@kernel("void(i4[::1], f8[:,::1], i8[:,::1], i8, b1, b1, i8[:,::1], i8, i8, i8)")
def finish_variances(
    groups: Any, sums: Any, state: Any, count_lane: Any, sample: Any, root: Any, out: Any, lane: Any, null_lane: Any,
    bit: Any,
) -> None:  # fmt: skip
    """For groups whose sums have the form that `state.spread.spreads` takes."""
    for i in range(len(groups)):
        count = state[groups[i], count_lane]
        if count <= (1 if sample else 0):
            out[i, lane] = 0
            out[i, null_lane] |= bit
            continue
        out[i, lane] = double_bits(spread(count, sums[i], sample, root))


class Squares:
    """The sums of squares of each group's values; those of huge values, which real data do not have, separately."""

    def __init__(self, scope: Scope) -> None:
        self._plain, self._huge = ExactSum(scope), ExactSum(scope.scope("huge"))

    def reserve(self, groups: int) -> None:
        self._plain.reserve(groups)
        self._huge.reserve(groups)

    def add(self, groups: Slots, values: Floats, weights: Int64s) -> None:
        values = np.ascontiguousarray(values)
        for part in squared(values, False):
            self._plain.add(groups, part, weights)
        if has_huge(values):
            for part in squared(values, True):
                self._huge.add(groups, part, weights)

    def sums(self, groups: Slots, values: ExactSum) -> Floats:
        """Together with the sums of the values themselves, in the form that `spreads` takes."""
        shrunk = values.terms(groups, 2, SHRINK_DIGITS)
        parts = [values.terms(groups, 2), self._plain.terms(groups, 3), shrunk, self._huge.terms(groups, 3)]
        return np.concatenate(parts, axis=1)

    def clear(self, groups: Slots) -> None:
        self._plain.clear(groups)
        self._huge.clear(groups)

    def reset(self) -> None:
        self._plain.reset()
        self._huge.reset()


def has_huge(values: Floats) -> bool:
    with np.errstate(invalid="ignore"):
        size = np.abs(values)
        return bool(((size >= HUGE) & (size < np.inf)).any())


def squared(values: Floats, huge: bool) -> tuple[Floats, Floats]:
    """Squares as pairs of doubles: of huge values, or of the others."""
    out, rests = np.empty(len(values)), np.empty(len(values))
    squares(np.ascontiguousarray(values), huge, out, rests)
    return out, rests
