"""VARIANCE and STDDEV from sums that are already there. No SQL names these: plans put them together.

`square` and `square_rest` are the two doubles that add up to a square; `var_samp_of` and its like take a count, the two
doubles of a sum and the two of the sum of squares, and are to the bit what the aggregate makes of the same rows.
"""

from __future__ import annotations

import numpy as np

from freshet.column import Column
from freshet.sql.expression import Call
from freshet.sql.functions.registry import Step, strict
from freshet.sql.functions.rows import both, every, longest
from freshet.state import spread
from freshet.types import DOUBLE

#: Aggregate → whether a sample's, and whether the root.
FORMS = {
    "var_samp": (True, False),
    "var_pop": (False, False),
    "stddev_samp": (True, True),
    "stddev_pop": (False, True),
}


def of_sums(function: str) -> str:
    """The function of sums that gives what the aggregate gives."""
    return f"{function}_of"


@strict("square", "square_rest", total=True)
def _square(call: Call) -> Step:
    place = ("square", "square_rest").index(call.name)

    def step(a: Column) -> Column:
        values = np.ascontiguousarray(a.data, np.float64)
        pair = np.empty(len(values)), np.empty(len(values))
        spread.squares(values, *pair)
        return Column(DOUBLE, pair[place], a.valid)

    return step


@strict(*map(of_sums, FORMS), total=True)
def _of_sums(call: Call) -> Step:
    sample, root = next(form for function, form in FORMS.items() if of_sums(function) == call.name)

    def step(count: Column, *sums: Column) -> Column:
        n = longest(count, *sums)
        counts = np.ascontiguousarray(np.broadcast_to(count.data, n), np.int64)
        pairs = np.empty((n, len(sums)))
        for i, column in enumerate(sums):
            pairs[:, i] = column.data
        out = np.empty(n)
        spread.spreads(counts, pairs, sample, root, out)
        return Column(DOUBLE, out, both(counts > (1 if sample else 0), every((count, *sums))))

    return step
