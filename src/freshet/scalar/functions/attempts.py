"""TRY_CAST and the TRY_ operators: NULL if the plain form is an error. Errors inside their arguments stay errors,
unless the operator itself reads text as a number.

Failing rows are found by halving the batch, so nothing is computed twice if no row fails.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from freshet.errors import EvaluationError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.casting import can_cast, cast
from freshet.scalar.functions.compiled import fold
from freshet.scalar.functions.nulls import IF_ANY_OR_ELSE
from freshet.scalar.functions.registry import FUNCTIONS, Function, Resolver, Step, declare, refuse, resolve
from freshet.scalar.functions.rows import gather, longest, spread
from freshet.scalar.types import BIGINT, DOUBLE, STRING, Type
from freshet.state.arrays import Int64s


def attempt(plain: Expression) -> Expression:
    assert isinstance(plain, Call)
    return Call(plain.type, "try", (Literal(STRING, plain.name), *plain.args))


def try_cast(expression: Expression, type: Type) -> Expression:
    known = isinstance(expression, Literal) and expression.value is None
    if expression.type.name == "BINARY":  # bytes that are not text are not NULL in Spark either
        return cast(expression, type)
    if expression.type == type or known or not can_cast(expression.type, type):
        return cast(expression, type)
    return fold(attempt(Call(type, "cast", (expression,))))


def _attempted(plain: str) -> Resolver:
    def resolver(name: str, args: tuple[Expression, ...]) -> Expression:
        if len(args) != 2:
            raise refuse(name, args)
        number = next((a.type for a in args if a.type.is_numeric), None)
        if number is not None:  # text combined with a number is read as one, which is attempted too
            read = BIGINT if number.is_integer else DOUBLE
            args = tuple(try_cast(a, read) if a.type.name == "STRING" else a for a in args)
        return attempt(resolve(plain, args))

    return resolver


def _try(call: Call) -> Step:
    named, *args = call.args
    assert isinstance(named, Literal)
    strict = FUNCTIONS[str(named.value)].strict
    assert strict is not None
    plain = strict(Call(call.type, str(named.value), tuple(args)))

    def parts(columns: Sequence[Column], rows: Int64s) -> list[tuple[Int64s, Column]]:
        try:
            return [(rows, plain(*(c.take(rows) for c in columns)))]
        except EvaluationError:
            half = len(rows) // 2
            return [] if not half else [*parts(columns, rows[:half]), *parts(columns, rows[half:])]

    def step(_: Column, *columns: Column) -> Column:
        try:
            return plain(*columns)
        except EvaluationError:
            rows = longest(*columns)
            return gather(call.type, parts([spread(c, rows) for c in columns], np.arange(rows)), rows)

    return step


declare(
    Function("try", strict=_try, nulls=IF_ANY_OR_ELSE, total=True),
    Function("try_add", "two numbers", _attempted("add")),
    Function("try_subtract", "two numbers", _attempted("subtract")),
    Function("try_multiply", "two numbers", _attempted("multiply")),
    Function("try_divide", "two numbers", _attempted("divide")),
    Function("try_mod", "two numbers", _attempted("modulo")),
)
