"""Expressions as readable text, for explain and error messages."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from freshet.scalar.expression import AggregateCall, Call, ColumnRef, Expression, Literal, Named
from freshet.scalar.functions.registry import function_of
from freshet.scalar.interval import interval_text


def describe(expression: Expression, names: Callable[[ColumnRef], str] | None = None) -> str:
    """Readable SQL-like text, for explain and error messages. `names`: the names of columns of relations."""
    if isinstance(expression, ColumnRef) and names is not None:
        return names(expression)
    if isinstance(expression, Named):
        return expression.name
    if isinstance(expression, Literal):
        return _literal(expression)
    assert isinstance(expression, Call)
    args = [describe(a, names) for a in expression.args]
    return function_of(expression).text(expression, args)


def describe_aggregate(call: AggregateCall) -> str:
    inside = ", ".join(describe(a) for a in call.args) or "*"
    return f"{call.function}({'DISTINCT ' if call.distinct else ''}{inside})"


def _literal(literal: Literal) -> str:
    value: Any = literal.value
    if value is None:
        return "NULL"
    if literal.type.name == "STRING":
        return "'" + str(value).replace("'", "''") + "'"
    if literal.type.name == "BINARY":
        return f"X'{value.hex().upper()}'"
    if literal.type.name == "BOOLEAN":
        return "TRUE" if value else "FALSE"
    if literal.type.name == "DECIMAL":
        digits, scale = str(abs(value)).rjust(literal.type.scale + 1, "0"), literal.type.scale
        return ("-" if value < 0 else "") + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)
    if literal.type.name == "DATE":
        return f"DATE '{datetime.date(1970, 1, 1) + datetime.timedelta(days=value)}'"
    if literal.type.name == "TIMESTAMP":
        return f"TIMESTAMP '{datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=value)}'"
    if literal.type.is_interval:
        return interval_text(value, literal.type)
    return str(value)
