"""VARIANCE and STDDEV from sums that are already there. No SQL names these: plans put them together.

`square` and `square_rest` are the two doubles that add up to a square; for huge values those are 0, and `huge_square`
and `huge_square_rest` are the square of the value `shrunk` (see state/spread). `var_samp_of` and its like take a count
and the doubles of sums: of values, of squares and, where values can be huge, of shrunk values and huge squares. They
are to the bit what the aggregate makes of the same rows.
"""

from __future__ import annotations

import numpy as np

from freshet.scalar.column import Column
from freshet.scalar.expression import Call
from freshet.scalar.functions.registry import Step, strict
from freshet.scalar.functions.rows import both, every, longest
from freshet.scalar.types import DOUBLE
from freshet.state import spread
from freshet.state.arrays import taken

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


@strict("square", "square_rest", "huge_square", "huge_square_rest", total=True)
def _square(call: Call) -> Step:
    huge, place = call.name.startswith("huge"), int(call.name.endswith("rest"))

    def step(a: Column) -> Column:
        values = taken(a.data.astype(np.float64, copy=False))
        pair = np.empty(len(values)), np.empty(len(values))
        spread.squares(values, huge, *pair)
        return Column(DOUBLE, pair[place], a.valid)

    return step


@strict("shrunk", total=True)
def _shrunk(call: Call) -> Step:
    return lambda a: Column(DOUBLE, a.data * spread.SHRINK, a.valid)


@strict(*map(of_sums, FORMS), total=True)
def _of_sums(call: Call) -> Step:
    sample, root = next(form for function, form in FORMS.items() if of_sums(function) == call.name)

    def step(count: Column, *sums: Column) -> Column:
        n = longest(count, *sums)
        counts = taken(np.broadcast_to(count.data, n).astype(np.int64, copy=False))
        pairs = np.zeros((n, spread.SUMS))
        for i, column in enumerate(sums):
            pairs[:, i] = column.data
        out = np.empty(n)
        spread.spreads(counts, pairs, sample, root, out)
        return Column(DOUBLE, out, both(counts > (1 if sample else 0), every((count, *sums))))

    return step
