"""TRY_CAST and the TRY_ operators: NULL where the plain form is an error. Errors inside their arguments stay errors,
except where they read text as a number themselves.

Whoever fails is found by halving the batch: nothing is computed twice where nothing fails.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from freshet.column import Column, Int64s
from freshet.errors import EvaluationError
from freshet.sql.expression import Call, Expression, Literal
from freshet.sql.functions.casting import can_cast, cast
from freshet.sql.functions.compiled import fold
from freshet.sql.functions.nullability import MAY_BE_NULL
from freshet.sql.functions.registry import STRICT, Step, refuse, resolve, resolves, strict
from freshet.sql.functions.rows import gather, longest, spread
from freshet.types import BIGINT, DOUBLE, STRING, Type

_PLAIN = {"try_add": "add", "try_subtract": "subtract", "try_multiply": "multiply", "try_divide": "divide",
          "try_mod": "modulo"}  # fmt: skip
MAY_BE_NULL.add("try")


def _attempt(plain: Expression) -> Expression:
    assert isinstance(plain, Call)
    return Call(plain.type, "try", (Literal(STRING, plain.name), *plain.args))


def try_cast(expression: Expression, type: Type) -> Expression:
    known = isinstance(expression, Literal) and expression.value is None
    if expression.type == type or known or not can_cast(expression.type, type):
        return cast(expression, type)
    return fold(_attempt(Call(type, "cast", (expression,))))


@resolves(*_PLAIN, takes="two numbers")
def _resolve(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 2 or any(a.type.name in ("MONTHS", "MICROS") for a in args):
        raise refuse(name, args)
    number = next((a.type for a in args if a.type.is_numeric), None)
    if number is not None:  # text beside a number is read as one, which is attempted too
        read = BIGINT if number.is_integer else DOUBLE
        args = tuple(try_cast(a, read) if a.type.name == "STRING" else a for a in args)
    return _attempt(resolve(_PLAIN[name], args))


@strict("try", total=True)
def _try(call: Call) -> Step:
    named, *args = call.args
    assert isinstance(named, Literal)
    plain = STRICT[str(named.value)](Call(call.type, str(named.value), tuple(args)))

    def attempt(columns: Sequence[Column], rows: Int64s) -> list[tuple[Int64s, Column]]:
        try:
            return [(rows, plain(*(c.take(rows) for c in columns)))]
        except EvaluationError:
            half = len(rows) // 2
            return [] if not half else [*attempt(columns, rows[:half]), *attempt(columns, rows[half:])]

    def step(_: Column, *columns: Column) -> Column:
        try:
            return plain(*columns)
        except EvaluationError:
            rows = longest(*columns)
            return gather(call.type, attempt([spread(c, rows) for c in columns], np.arange(rows)), rows)

    return step
