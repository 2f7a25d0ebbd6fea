"""Functions of real numbers: logarithms, powers of e, trigonometry. They are computed in doubles with the C library, so
the last digit may differ from Java's.

A logarithm that is undefined is NULL, as in Spark, not an error and not NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.nulls import IF_ANY_OR_ELSE
from freshet.scalar.functions.registry import Function, Resolver, Step, Strict, declare, refuse, resolve
from freshet.scalar.functions.rows import both, every
from freshet.scalar.functions.text_calls import is_number
from freshet.scalar.types import BIGINT, DOUBLE, INT
from freshet.state.arrays import Bools

Doubles = npt.NDArray[np.float64]

_MOST_BUCKETS = 2**63 - 1
_FACTORIALS = np.array([math.factorial(n) for n in range(21)], np.int64)


def _doubles(name: str, args: tuple[Expression, ...], count: int) -> tuple[Expression, ...]:
    if len(args) != count or not all(a.type.is_numeric or a.type.name in ("STRING", "VOID") for a in args):
        raise refuse(name, args)
    return tuple(cast(a, DOUBLE) for a in args)


def _resolve_one(name: str, args: tuple[Expression, ...]) -> Expression:
    return Call(DOUBLE, name, _doubles(name, args, 1))


def _resolve_sign(name: str, args: tuple[Expression, ...]) -> Expression:
    is_interval = len(args) == 1 and args[0].type.is_interval
    return Call(DOUBLE, "sign", args if is_interval else _doubles(name, args, 1))


def _resolve_pair(name: str, args: tuple[Expression, ...]) -> Expression:
    return Call(DOUBLE, name, _doubles(name, args, 2))


def _resolve_log(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) == 1:
        return resolve("ln", args)
    return Call(DOUBLE, name, _doubles(name, args, 2))


def _resolve_constant(value: float) -> Resolver:
    def resolver(name: str, args: tuple[Expression, ...]) -> Expression:
        if args:
            raise refuse(name, args)
        return Literal(DOUBLE, value)

    return resolver


def _resolve_factorial(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1 or not (args[0].type.is_numeric or args[0].type.name in ("STRING", "VOID")):
        raise refuse(name, args)
    return Call(BIGINT, name, (cast(args[0], INT),))


def _resolve_bucket(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 4 or not is_number(args[3].type):
        raise refuse(name, args)
    return Call(BIGINT, name, (*_doubles(name, args[:3], 3), cast(args[3], BIGINT)))


# Computing ------------------------------------------------------------------------------------------------------


def _one(operation: Callable[[Doubles], Any]) -> Strict:
    def step(a: Column) -> Column:
        with np.errstate(all="ignore"):
            return Column(DOUBLE, operation(np.asarray(a.data, np.float64)), a.valid)

    return lambda call: step


def _pair(operation: Callable[[Doubles, Doubles], Any]) -> Strict:
    def step(a: Column, b: Column) -> Column:
        with np.errstate(all="ignore"):
            return Column(DOUBLE, operation(a.data, b.data), both(a.valid, b.valid))

    return lambda call: step


def _known(valid: Bools | None, has: Bools) -> Bools | None:
    return valid if has.all() else has if valid is None else valid & has


def _logarithm(operation: Callable[[Doubles], Any], none: float = 0.0) -> Strict:
    """`none`: the greatest number without a logarithm."""

    def step(a: Column) -> Column:
        with np.errstate(all="ignore"):
            return Column(DOUBLE, operation(a.data), _known(a.valid, ~(a.data <= none)))

    return lambda call: step


def _log(call: Call) -> Step:
    def step(a: Column, b: Column) -> Column:
        with np.errstate(all="ignore"):
            made = np.log(b.data) / np.log(a.data)
        return Column(DOUBLE, made, _known(both(a.valid, b.valid), ~(a.data <= 0) & ~(b.data <= 0)))

    return step


def _factorial(call: Call) -> Step:
    def step(a: Column) -> Column:
        has = (a.data >= 0) & (a.data <= 20)
        return Column(BIGINT, _FACTORIALS[np.where(has, a.data, 0)], _known(a.valid, has))

    return step


def _width_bucket(call: Call) -> Step:
    """Buckets from 1 on, ascending or descending like the bounds; 0 before the first, one more than their number beyond
    the last."""

    def step(a: Column, low: Column, high: Column, many: Column) -> Column:
        v, b, e = (np.asarray(c.data, np.float64) for c in (a, low, high))
        count = np.asarray(many.data, np.int64)
        has = (count > 0) & (count < _MOST_BUCKETS) & np.isfinite(b) & np.isfinite(e) & (b != e) & ~np.isnan(v)
        up = b < e
        with np.errstate(all="ignore"):
            inside = count * np.abs(v - b) / np.abs(e - b)
            before, beyond = np.where(up, v < b, v > b), np.where(up, v >= e, v <= e)
            bucket = np.where(has & ~before & ~beyond, inside, 0).astype(np.int64) + 1
        data = np.where(before, 0, np.where(beyond, np.where(has, count, 0) + 1, bucket))
        return Column(BIGINT, np.where(has, data, 0), _known(every((a, low, high, many)), has))

    return step


# NaN --------------------------------------------------------------------------------------------------------------


def _resolve_nanvl(name: str, args: tuple[Expression, ...]) -> Expression:
    a, b = _doubles(name, args, 2)
    return resolve("case", (resolve("isnan", (a,)), b, a))


def _resolve_isnan(name: str, args: tuple[Expression, ...]) -> Expression:
    (a,) = _doubles(name, args, 1)
    return resolve("not_distinct", (a, Literal(DOUBLE, math.nan)))


def _resolve_pmod(name: str, args: tuple[Expression, ...]) -> Expression:
    """The remainder that is not negative where the divisor is positive."""
    if len(args) != 2 or not all(is_number(a.type) for a in args):
        raise refuse(name, args)
    rest = resolve("modulo", args)
    assert isinstance(rest, Call)
    divisor = rest.args[1]
    moved = resolve("add", (rest, divisor))
    if moved.type.scale < rest.type.scale:
        raise refuse(name, args)
    again = cast(resolve("modulo", (moved, divisor)), rest.type)
    zero = Literal(rest.type, 0.0 if rest.type.is_fraction else 0)
    return resolve("case", (resolve("lt", (rest, zero)), again, rest))


_OPERATIONS: dict[str, Callable[[Doubles], Any]] = {
    "exp": np.exp, "expm1": np.expm1, "cbrt": np.cbrt, "rint": np.rint,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "degrees": np.degrees, "radians": np.radians,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "cot": lambda x: 1 / np.tan(x),
    "sec": lambda x: 1 / np.cos(x), "csc": lambda x: 1 / np.sin(x),
}  # fmt: skip


def _log_of(name: str, strict: Strict) -> Function:
    return Function(name, "a number", _resolve_one, strict, nulls=IF_ANY_OR_ELSE, total=True)


declare(
    *(Function(name, "a number", _resolve_one, _one(of), total=True) for name, of in _OPERATIONS.items()),
    Function("sign", "a number", _resolve_sign, _one(np.sign), also=("signum",), total=True),
    _log_of("ln", _logarithm(np.log)),
    _log_of("log10", _logarithm(np.log10)),
    _log_of("log2", _logarithm(np.log2)),
    _log_of("log1p", _logarithm(np.log1p, none=-1.0)),
    # Spark treats -0.0 as 0.0 here
    Function("atan2", "two numbers", _resolve_pair, _pair(lambda y, x: np.arctan2(y + 0.0, x + 0.0)), total=True),
    Function("hypot", "two numbers", _resolve_pair, _pair(np.hypot), total=True),
    Function("log", "a number, or a base and a number", _resolve_log, _log, nulls=IF_ANY_OR_ELSE, total=True),
    Function("pi", "nothing", _resolve_constant(math.pi)),
    Function("e", "nothing", _resolve_constant(math.e)),
    Function("factorial", "an INT from 0 to 20", _resolve_factorial, _factorial, nulls=IF_ANY_OR_ELSE, total=True),
    Function(
        "width_bucket",
        "a number, two bounds and how many buckets lie between them",
        _resolve_bucket,
        _width_bucket,
        nulls=IF_ANY_OR_ELSE,
        total=True,
    ),
    Function("nanvl", "two doubles: the second where the first is NaN", _resolve_nanvl),
    Function("isnan", "a number", _resolve_isnan),
    Function("pmod", "two numbers, decimals of at most 37 digits", _resolve_pmod),
)
