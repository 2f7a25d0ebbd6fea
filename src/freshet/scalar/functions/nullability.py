"""Whether an expression can be NULL, derived from its columns, literals and functions."""

from __future__ import annotations

from freshet.scalar.expression import Call, Expression, Literal, Named
from freshet.scalar.functions.registry import function_of


def nullable(expression: Expression) -> bool:
    if isinstance(expression, Literal):
        return expression.value is None
    if isinstance(expression, Named):
        return expression.nullable
    assert isinstance(expression, Call)
    return function_of(expression).nulls.may([nullable(a) for a in expression.args])
