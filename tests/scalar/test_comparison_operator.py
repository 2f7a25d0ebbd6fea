"""Comparison operators, compared with those of Python."""

from __future__ import annotations

import operator
from itertools import product

import pytest

from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.functions import FUNCTIONS

PYTHON = {
    ComparisonOperator.EQUAL: operator.eq,
    ComparisonOperator.UNEQUAL: operator.ne,
    ComparisonOperator.LESS: operator.lt,
    ComparisonOperator.AT_MOST: operator.le,
    ComparisonOperator.GREATER: operator.gt,
    ComparisonOperator.AT_LEAST: operator.ge,
}


@pytest.mark.parametrize("comparison", ComparisonOperator)
def test_an_operator_is_what_it_says(comparison: ComparisonOperator) -> None:
    holds = PYTHON[comparison]
    for a, b in product(range(3), repeat=2):
        assert PYTHON[comparison.flipped](b, a) == holds(a, b)
        assert PYTHON[comparison.negated](a, b) != holds(a, b)
    assert comparison.is_order == (holds(0, 1) != holds(1, 0))
    assert comparison.is_upward == (comparison.is_order and holds(0, 1))
    assert comparison.is_strict != holds(0, 0)
    assert FUNCTIONS[comparison.function].comparison is comparison
    assert comparison.function == holds.__name__
