"""VARIANCE and STDDEV from given sums. These functions have no SQL names: plans compose them.

`square` and `square_rest` are the two doubles that add up to a square; for huge values those are 0, and `huge_square`
and `huge_square_rest` are the square of the value `shrunk` (see state/spread). `var_samp_of` and similar functions take
a count and the doubles of sums: of values, of squares and, if values can be huge, of shrunk values and huge squares.
Their results equal those of the aggregates over the same rows bit by bit.
"""

from __future__ import annotations

import numpy as np

from freshet.scalar.column import Column
from freshet.scalar.expression import Call
from freshet.scalar.functions.nulls import IF_ANY_OR_ELSE
from freshet.scalar.functions.registry import Function, Step, Strict, declare
from freshet.scalar.functions.rows import both, every, longest
from freshet.scalar.types import DOUBLE
from freshet.state import spread
from freshet.state.arrays import taken


def of_sums(function: str) -> str:
    """The function of sums that has the value of the aggregate."""
    return f"{function}_of"


def _square(huge: bool, place: int) -> Strict:
    def step(a: Column) -> Column:
        values = taken(a.data.astype(np.float64, copy=False))
        pair = np.empty(len(values)), np.empty(len(values))
        spread.squares(values, huge, *pair)
        return Column(DOUBLE, pair[place], a.valid)

    return lambda call: step


def _shrunk(call: Call) -> Step:
    return lambda a: Column(DOUBLE, a.data * spread.SHRINK, a.valid)


def _of_sums(sample: bool, root: bool) -> Strict:
    def step(count: Column, *sums: Column) -> Column:
        n = longest(count, *sums)
        counts = taken(np.broadcast_to(count.data, n).astype(np.int64, copy=False))
        pairs = np.zeros((n, spread.SUMS))
        for i, column in enumerate(sums):
            pairs[:, i] = column.data
        out = np.empty(n)
        spread.spreads(counts, pairs, sample, root, out)
        return Column(DOUBLE, out, both(counts > (1 if sample else 0), every((count, *sums))))

    return lambda call: step


declare(
    Function("square", strict=_square(False, 0), total=True),
    Function("square_rest", strict=_square(False, 1), total=True),
    Function("huge_square", strict=_square(True, 0), total=True),
    Function("huge_square_rest", strict=_square(True, 1), total=True),
    Function("shrunk", strict=_shrunk, total=True),
    Function(of_sums("var_samp"), strict=_of_sums(True, False), nulls=IF_ANY_OR_ELSE, total=True),
    Function(of_sums("var_pop"), strict=_of_sums(False, False), total=True),
    Function(of_sums("stddev_samp"), strict=_of_sums(True, True), nulls=IF_ANY_OR_ELSE, total=True),
    Function(of_sums("stddev_pop"), strict=_of_sums(False, True), total=True),
)
