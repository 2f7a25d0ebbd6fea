"""Functions of real numbers: logarithms, powers of e, angles. Computed in doubles; the last digit may differ from
Java's, as the C library's does.

A logarithm of what has none is NULL, as in Spark, not an error and not NaN.
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
from freshet.scalar.functions.nullability import MAY_BE_NULL
from freshet.scalar.functions.registry import Step, refuse, resolve, resolves, strict
from freshet.scalar.functions.rows import both, every
from freshet.scalar.functions.text_calls import is_number
from freshet.scalar.types import BIGINT, DOUBLE, INT
from freshet.state.arrays import Bools

Doubles = npt.NDArray[np.float64]

_ALWAYS: dict[str, Callable[[Doubles], Any]] = {
    "exp": np.exp, "expm1": np.expm1, "cbrt": np.cbrt, "rint": np.rint, "sign": np.sign,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "degrees": np.degrees, "radians": np.radians,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "cot": lambda x: 1 / np.tan(x),
    "sec": lambda x: 1 / np.cos(x), "csc": lambda x: 1 / np.sin(x),
}  # fmt: skip
#: With each logarithm, the greatest number that has none.
_LOGARITHMS: dict[str, tuple[Callable[[Doubles], Any], float]] = {
    "ln": (np.log, 0.0), "log10": (np.log10, 0.0), "log2": (np.log2, 0.0), "log1p": (np.log1p, -1.0),
}  # fmt: skip
_PAIRS: dict[str, Callable[[Doubles, Doubles], Any]] = {
    "atan2": lambda y, x: np.arctan2(y + 0.0, x + 0.0),  # -0.0 is 0.0 to Spark here
    "hypot": np.hypot,
}
_MOST_BUCKETS = 2**63 - 1
_FACTORIALS = np.array([math.factorial(n) for n in range(21)], np.int64)
MAY_BE_NULL.update(_LOGARITHMS, ("log", "factorial", "width_bucket"))


def _doubles(name: str, args: tuple[Expression, ...], count: int) -> tuple[Expression, ...]:
    if len(args) != count or not all(a.type.is_numeric or a.type.name in ("STRING", "VOID") for a in args):
        raise refuse(name, args)
    return tuple(cast(a, DOUBLE) for a in args)


@resolves(*_ALWAYS, *_LOGARITHMS, "signum", takes="a number")
def _resolve_one(name: str, args: tuple[Expression, ...]) -> Expression:
    if name in ("sign", "signum") and len(args) == 1 and args[0].type.is_interval:
        return Call(DOUBLE, "sign", args)
    return Call(DOUBLE, "sign" if name == "signum" else name, _doubles(name, args, 1))


@resolves(*_PAIRS, takes="two numbers")
def _resolve_pair(name: str, args: tuple[Expression, ...]) -> Expression:
    return Call(DOUBLE, name, _doubles(name, args, 2))


@resolves("log", takes="a number, or a base and a number")
def _resolve_log(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) == 1:
        return resolve("ln", args)
    return Call(DOUBLE, name, _doubles(name, args, 2))


@resolves("pi", "e", takes="nothing")
def _resolve_constant(name: str, args: tuple[Expression, ...]) -> Expression:
    if args:
        raise refuse(name, args)
    return Literal(DOUBLE, math.pi if name == "pi" else math.e)


@resolves("factorial", takes="an INT from 0 to 20")
def _resolve_factorial(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1 or not (args[0].type.is_numeric or args[0].type.name in ("STRING", "VOID")):
        raise refuse(name, args)
    return Call(BIGINT, name, (cast(args[0], INT),))


@resolves("width_bucket", takes="a number, two bounds and how many buckets lie between them")
def _resolve_bucket(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 4 or not is_number(args[3].type):
        raise refuse(name, args)
    return Call(BIGINT, name, (*_doubles(name, args[:3], 3), cast(args[3], BIGINT)))


# Computing ------------------------------------------------------------------------------------------------------


@strict(*_ALWAYS, total=True)
def _one(call: Call) -> Step:
    function = _ALWAYS[call.name]

    def step(a: Column) -> Column:
        with np.errstate(all="ignore"):
            return Column(DOUBLE, function(np.asarray(a.data, np.float64)), a.valid)

    return step


@strict(*_PAIRS, total=True)
def _pair(call: Call) -> Step:
    function = _PAIRS[call.name]

    def step(a: Column, b: Column) -> Column:
        with np.errstate(all="ignore"):
            return Column(DOUBLE, function(a.data, b.data), both(a.valid, b.valid))

    return step


def _known(valid: Bools | None, has: Bools) -> Bools | None:
    return valid if has.all() else has if valid is None else valid & has


@strict(*_LOGARITHMS, total=True)
def _logarithm(call: Call) -> Step:
    function, none = _LOGARITHMS[call.name]

    def step(a: Column) -> Column:
        with np.errstate(all="ignore"):
            return Column(DOUBLE, function(a.data), _known(a.valid, ~(a.data <= none)))

    return step


@strict("log", total=True)
def _log(call: Call) -> Step:
    def step(a: Column, b: Column) -> Column:
        with np.errstate(all="ignore"):
            made = np.log(b.data) / np.log(a.data)
        return Column(DOUBLE, made, _known(both(a.valid, b.valid), ~(a.data <= 0) & ~(b.data <= 0)))

    return step


@strict("factorial", total=True)
def _factorial(call: Call) -> Step:
    def step(a: Column) -> Column:
        has = (a.data >= 0) & (a.data <= 20)
        return Column(BIGINT, _FACTORIALS[np.where(has, a.data, 0)], _known(a.valid, has))

    return step


@strict("width_bucket", total=True)
def _width_bucket(call: Call) -> Step:
    """From 1 on, upwards or downwards as the bounds go; 0 before the first, one more than there are beyond the last."""

    def step(a: Column, low: Column, high: Column, many: Column) -> Column:
        v, b, e = (np.asarray(c.data, np.float64) for c in (a, low, high))
        count = np.asarray(many.data, np.int64)
        has = (count > 0) & (count < _MOST_BUCKETS) & np.isfinite(b) & np.isfinite(e) & (b != e) & ~np.isnan(v)
        up = b < e
        with np.errstate(all="ignore"):
            inside = count * np.abs(v - b) / np.abs(e - b)
            before, beyond = np.where(up, v < b, v > b), np.where(up, v >= e, v <= e)
            found = np.where(has & ~before & ~beyond, inside, 0).astype(np.int64) + 1
        data = np.where(before, 0, np.where(beyond, np.where(has, count, 0) + 1, found))
        return Column(BIGINT, np.where(has, data, 0), _known(every((a, low, high, many)), has))

    return step


# Doubles that are no numbers --------------------------------------------------------------------------------------


@resolves("nanvl", takes="two doubles: the second where the first is NaN")
def _resolve_nanvl(name: str, args: tuple[Expression, ...]) -> Expression:
    a, b = _doubles(name, args, 2)
    return resolve("case", (resolve("isnan", (a,)), b, a))


@resolves("isnan", takes="a number")
def _resolve_isnan(name: str, args: tuple[Expression, ...]) -> Expression:
    (a,) = _doubles(name, args, 1)
    return resolve("not_distinct", (a, Literal(DOUBLE, math.nan)))


@resolves("pmod", takes="two numbers, decimals of at most 37 digits")
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
