"""Sums of doubles over rows with many copies, and of products of doubles: only plans use these functions."""

from __future__ import annotations

import numpy as np

from freshet.errors import EvaluationError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Literal
from freshet.scalar.functions.registry import Function, Step, declare
from freshet.scalar.functions.rows import every, longest, spread
from freshet.state.arena import Arena
from freshet.state.arrays import taken
from freshet.state.exact_sum import ExactSum
from freshet.state.sum_products import TERMS, multiply_sums


def _exact_total(call: Call) -> Step:
    """The first argument is the number of copies of the following ones, which add up to the sum of one copy. The last
    is a literal: the number of the double to return, of those that represent the whole sum."""
    term = call.args[-1]
    assert isinstance(term, Literal)
    place = int(term.value)  # type: ignore[arg-type]

    def step(copies: Column, *terms: Column) -> Column:
        rows = longest(copies, *terms)
        columns = [spread(c, rows) for c in (copies, *terms[:-1])]
        valid = every(columns)
        weights = np.ascontiguousarray(columns[0].data, np.int64)
        if valid is not None:
            weights = np.where(valid, weights, 0)
        groups, sums = np.arange(rows, dtype=np.int32), ExactSum(Arena().scope("sums"))
        sums.reserve(rows)
        for c in columns[1:]:
            sums.add(groups, taken(np.asarray(c.data, np.float64)), weights)
        return Column(call.type, np.ascontiguousarray(sums.terms(groups, place + 1)[:, place]), valid)

    return step


def _product_of_sums(call: Call) -> Step:
    """The arguments are columns of groups, as `sum_products` takes them; the last is a literal: the number of the
    double to return."""
    term = call.args[-1]
    assert isinstance(term, Literal)
    place = int(term.value)  # type: ignore[arg-type]

    def step(*columns: Column) -> Column:
        n = longest(*columns)
        valid = every(columns)
        rows, out = np.empty((n, len(columns) - 1)), np.empty((n, TERMS))
        for i, column in enumerate(columns[:-1]):
            rows[:, i] = column.data
        known = np.ones(n, np.bool_)
        if valid is not None:
            known &= valid
        bad = multiply_sums(rows, known, out)
        if bad >= 0:
            raise EvaluationError(
                "a sum of factors inside SUM does not fit DOUBLE; divide the factors by a constant", bad
            )
        return Column(call.type, np.ascontiguousarray(out[:, place]), valid)

    return step


declare(
    Function("exact_total", strict=_exact_total, total=True),
    Function("product_of_sums", strict=_product_of_sums),
)
