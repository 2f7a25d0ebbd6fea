"""Whether an expression can be NULL: only where one of its inputs can, save for the functions named here."""

from __future__ import annotations

from freshet.scalar.expression import Call, Expression, Literal, Reference

_NEVER = {"is_null", "is_not_null", "not_distinct", "distinct_from", "nulls_first_lt"}
_WHEN_ALL = {"coalesce", "greatest", "least"}
#: Functions that are NULL for some arguments that are not; their families add them.
MAY_BE_NULL: set[str] = set()


def nullable(expression: Expression) -> bool:
    if isinstance(expression, Literal):
        return expression.value is None
    if isinstance(expression, Reference):
        return expression.nullable
    assert isinstance(expression, Call)
    if expression.name in _NEVER:
        return False
    if expression.name in MAY_BE_NULL:
        return True
    if expression.name == "concat_ws":  # it skips all but its separator
        return nullable(expression.args[0])
    if expression.name in _WHEN_ALL:
        return all(nullable(a) for a in expression.args)
    if expression.name == "case":  # a condition that is NULL only sends the row on
        return any(nullable(a) for a in (*expression.args[1::2], expression.args[-1]))
    return any(nullable(a) for a in expression.args)
