"""Comparisons, IN, and null-safe equality.

Both sides are cast to one type first. NaN equals NaN and is greater than every number; -0.0 equals 0.0. Text is
compared by its bytes. Text from state consists of ids of a pool: equality then compares ids and never reads the
characters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc
from sqlglot import exp

from freshet.scalar.column import Column
from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.coercion import common_type, literal_decimal
from freshet.scalar.functions.compiled import fold
from freshet.scalar.functions.nulls import NEVER, UNLESS_FOUND
from freshet.scalar.functions.registry import FUNCTIONS, Function, Step, declare, refuse, resolve
from freshet.scalar.functions.rows import both, flags, text_of
from freshet.scalar.types import BOOLEAN, INT, STRING
from freshet.state import wide
from freshet.state.arrays import Bools

_NUMPY: dict[str, Callable[[Any, Any], Bools]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_ARROW: dict[str, Callable[[Any, Any], Any]] = {
    "eq": pc.equal,
    "ne": pc.not_equal,
    "lt": pc.less,
    "le": pc.less_equal,
    "gt": pc.greater,
    "ge": pc.greater_equal,
}
_TAKES = "two values of comparable types"


def _resolve(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 2:
        raise refuse(name, args)
    return Call(BOOLEAN, name, aligned(name, args))


def _resolve_in(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) < 2:
        raise refuse(name, args)
    return Call(BOOLEAN, name, aligned(name, args))


def aligned(name: str, args: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """All arguments cast to one type; CHAR(n) next to literals or other CHAR padded to the longest."""
    first = args[0].type
    if first.name == "STRUCT":  # fields with the same types are compared whatever their names are
        args = tuple(cast(a, first) if a.type.name == "STRUCT" and a.type.parts == first.parts else a for a in args)
    has_decimal = any(a.type.name == "DECIMAL" for a in args)
    # A literal takes only the digits it has, so that the column it is compared with need not be cast.
    common = common_type([literal_decimal(a) if has_decimal and a.type.is_integer else a.type for a in args])
    if common is None or not common.is_ordered:
        raise refuse(name, args)
    if common.is_interval:  # whatever their units are
        return tuple(cast(a, common) if a.type.name == "VOID" else a for a in args)
    if common.name == "STRING" and any(a.type.char for a in args):
        args = _padded(args)
    return tuple(cast(a, common) if a.type.name != "STRING" or common.name != "STRING" else a for a in args)


def _padded(args: tuple[Expression, ...]) -> tuple[Expression, ...]:
    if not all(a.type.char or isinstance(a, Literal) for a in args):
        return args
    sizes = [
        a.type.length or 0
        if a.type.char
        else len(str(a.value))
        if isinstance(a, Literal) and a.value is not None
        else 0
        for a in args
    ]
    longest = max(sizes)
    return tuple(
        a
        if size == longest or a.type.name == "VOID"
        else fold(resolve("rpad", (a, Literal(INT, longest), Literal(STRING, " "))))
        for a, size in zip(args, sizes, strict=True)
    )


# Computing ------------------------------------------------------------------------------------------------------


def _compute(call: Call) -> Step:
    compare = comparer(call.name, call.args)

    def step(a: Column, b: Column) -> Column:
        return Column(BOOLEAN, compare(a, b), both(a.valid, b.valid))

    return step


def _safe(call: Call) -> Step:
    equal, same = comparer("eq", call.args), call.name == "not_distinct"

    def step(a: Column, b: Column) -> Column:
        if a.valid is None and b.valid is None:
            data = equal(a, b)
        else:
            x = np.True_ if a.valid is None else a.valid
            y = np.True_ if b.valid is None else b.valid
            data = (equal(a, b) & x & y) | ~(x | y)
        return Column(BOOLEAN, data if same else ~data)

    return step


def _resolve_before(name: str, args: tuple[Expression, ...]) -> Expression:
    """Whether one value is ordered before the other, with NULL first; never NULL."""
    return _resolve(name, args)


def _before(call: Call) -> Step:
    less = comparer("lt", call.args)

    def step(a: Column, b: Column) -> Column:
        data = less(a, b)
        if a.valid is not None:
            data = (data & a.valid) | ~a.valid
        return Column(BOOLEAN, data if b.valid is None else data & b.valid)

    return step


def _in(call: Call) -> Step:
    equals = [comparer("eq", (call.args[0], other)) for other in call.args[1:]]

    def step(a: Column, *others: Column) -> Column:
        matches: Any = np.zeros(len(a), np.bool_)
        unknown: Any = np.zeros(1, np.bool_)
        for equal, other in zip(equals, others, strict=True):
            if other.valid is None:
                matches = matches | equal(a, other)
            else:
                matches = matches | (equal(a, other) & other.valid)
                unknown = unknown | ~other.valid
        valid = a.valid
        if unknown.any():
            valid = both(valid, matches | ~unknown)
        return Column(BOOLEAN, matches, valid)

    return step


def comparer(name: str, args: tuple[Expression, ...]) -> Callable[[Column, Column], Bools]:
    """The comparison of two columns of the arguments' common type, ignoring NULLs."""
    type = args[0].type if args[0].type.name != "VOID" else args[1].type
    if type.pooled:
        return _text(name, args)
    if type.is_fraction:
        return _fractions(name)
    operation = _NUMPY[name]
    if type.name != "DECIMAL":
        return lambda a, b: operation(a.data, b.data)

    def compare(a: Column, b: Column) -> Bools:
        if a.hi is None and b.hi is None:
            return operation(a.data, b.data)
        return _wide(name, a, b)

    return compare


def _wide(name: str, a: Column, b: Column) -> Bools:
    a_hi, b_hi = wide.high(a.data, a.hi), wide.high(b.data, b.hi)
    x, y = np.ascontiguousarray(a.data), np.ascontiguousarray(b.data)
    if name in ("eq", "ne"):
        same: Bools = (a_hi == b_hi) & (x == y)
        return same if name == "eq" else ~same
    if name in ("lt", "ge"):
        below = wide.less(a_hi, x, b_hi, y)
        return below if name == "lt" else ~below
    above = wide.less(b_hi, y, a_hi, x)
    return above if name == "gt" else ~above


def _fractions(name: str) -> Callable[[Column, Column], Bools]:
    operation = _NUMPY[name]
    allows_equal, nan_first = name in ("eq", "le", "ge"), name in ("gt", "ge")

    def compare(a: Column, b: Column) -> Bools:
        x, y = a.data, b.data
        data = operation(x, y)
        x_nan, y_nan = np.isnan(x), np.isnan(y)
        if not (x_nan.any() or y_nan.any()):
            return data
        if name in ("eq", "ne"):
            same: Bools = np.equal(x, y) | (x_nan & y_nan)
            return same if name == "eq" else ~same
        greater, less = (x_nan, y_nan) if nan_first else (y_nan, x_nan)
        return np.where(x_nan & y_nan, allows_equal, (data | greater) & ~(less & ~greater))

    return compare


def _text(name: str, args: tuple[Expression, ...]) -> Callable[[Column, Column], Bools]:
    numpy_operation, arrow_operation = _NUMPY[name], _ARROW[name]
    left, right = (a.value if isinstance(a, Literal) and isinstance(a.value, (str, bytes)) else None for a in args)
    equality = name in ("eq", "ne")

    def compare(a: Column, b: Column) -> Bools:
        if equality and (a.pool is not None or b.pool is not None):
            if a.pool is b.pool:
                return numpy_operation(a.data, b.data)
            if a.pool is not None and right is not None:
                return numpy_operation(a.data, a.pool.find(right))
            if b.pool is not None and left is not None:
                return numpy_operation(b.data, b.pool.find(left))
        x: Any = text_of(a)
        y: Any = text_of(b)
        if len(x) != len(y):
            x, y = (x[0] if len(x) == 1 else x), (y[0] if len(y) == 1 else y)
        return flags(arrow_operation(x, y))

    return compare


def _infix(call: Call, args: Sequence[str]) -> str | None:
    return f"({args[0]} {FUNCTIONS[call.name].sign} {args[1]})"


def _comparison(comparison: ComparisonOperator, parsed: type[exp.Expr]) -> Function:
    return Function(
        comparison.function,
        _TAKES,
        _resolve,
        _compute,
        spelled=False,
        operator=parsed,
        sign=comparison.value,
        total=True,
        duckdb=_infix,
        opposite=comparison.negated.function,
        compares=True,
        comparison=comparison,
        nested=True,
    )


def _null_safe(name: str, operator: type[exp.Expr], sign: str, opposite: str) -> Function:
    return Function(
        name,
        _TAKES,
        _resolve,
        _safe,
        spelled=False,
        operator=operator,
        sign=sign,
        nulls=NEVER,
        total=True,
        duckdb=_infix if sign else None,
        opposite=opposite,
        nested=True,
        compares=True,
    )


declare(
    _comparison(ComparisonOperator.EQUAL, exp.EQ),
    _comparison(ComparisonOperator.UNEQUAL, exp.NEQ),
    _comparison(ComparisonOperator.LESS, exp.LT),
    _comparison(ComparisonOperator.AT_MOST, exp.LTE),
    _comparison(ComparisonOperator.GREATER, exp.GT),
    _comparison(ComparisonOperator.AT_LEAST, exp.GTE),
    _null_safe("not_distinct", exp.NullSafeEQ, "IS NOT DISTINCT FROM", opposite="distinct_from"),
    _null_safe("distinct_from", exp.NullSafeNEQ, "", opposite="not_distinct"),
    Function(
        "in",
        "a value and a list of values of comparable types",
        _resolve_in,
        _in,
        spelled=False,
        nulls=UNLESS_FOUND,
        nested=True,
        total=True,
        duckdb=lambda call, args: f"({args[0]} IN ({', '.join(args[1:])}))",
    ),
    Function("nulls_first_lt", _TAKES, _resolve_before, _before, spelled=False, nulls=NEVER, nested=True, total=True),
)
