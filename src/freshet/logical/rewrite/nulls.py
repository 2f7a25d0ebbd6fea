"""The value of a predicate on rows whose columns of some relations are all NULL."""

from __future__ import annotations

from freshet.scalar.expression import Call, ColumnRef, Expression, Literal, Reference, Variable
from freshet.scalar.functions.registry import function_of


def surely_null(expression: Expression, relations: frozenset[int]) -> bool:
    """Whether the expression is NULL on every row where these relations' columns are."""
    if isinstance(expression, ColumnRef):
        return expression.relation in relations
    if isinstance(expression, (Reference, Variable)):
        return False
    if isinstance(expression, Literal):
        return expression.value is None
    assert isinstance(expression, Call)
    return function_of(expression).nulls.surely([surely_null(a, relations) for a in expression.args])


def rejects(predicate: Expression, relations: frozenset[int]) -> bool:
    """Whether the predicate is never TRUE on a row where these relations' columns are all NULL."""
    if isinstance(predicate, Literal):
        return not predicate.value
    if isinstance(predicate, Call):
        if predicate.name == "and":
            return any(rejects(a, relations) for a in predicate.args)
        if predicate.name == "or":
            return all(rejects(a, relations) for a in predicate.args)
        if predicate.name == "is_not_null":
            return surely_null(predicate.args[0], relations)
    return surely_null(predicate, relations)
