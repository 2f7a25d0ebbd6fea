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

from freshet.column import Bools, Column
from freshet.sql.expression import Call, Expression, Literal
from freshet.sql.functions.casting import cast
from freshet.sql.functions.nullability import MAY_BE_NULL
from freshet.sql.functions.registry import Step, refuse, resolve, resolves, strict
from freshet.sql.functions.rows import both
from freshet.types import BIGINT, DOUBLE, INT

Doubles = npt.NDArray[np.float64]

_ALWAYS: dict[str, Callable[[Doubles], Any]] = {
    "exp": np.exp, "expm1": np.expm1, "cbrt": np.cbrt, "rint": np.rint, "sign": np.sign,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "degrees": np.degrees, "radians": np.radians,
}  # fmt: skip
#: With each logarithm, the greatest number that has none.
_LOGARITHMS: dict[str, tuple[Callable[[Doubles], Any], float]] = {
    "ln": (np.log, 0.0), "log10": (np.log10, 0.0), "log2": (np.log2, 0.0), "log1p": (np.log1p, -1.0),
}  # fmt: skip
_PAIRS: dict[str, Callable[[Doubles, Doubles], Any]] = {
    "atan2": lambda y, x: np.arctan2(y + 0.0, x + 0.0),  # -0.0 is 0.0 to Spark here
    "hypot": np.hypot,
}
_FACTORIALS = np.array([math.factorial(n) for n in range(21)], np.int64)
MAY_BE_NULL.update(_LOGARITHMS, ("log", "factorial"))


def _doubles(name: str, args: tuple[Expression, ...], count: int) -> tuple[Expression, ...]:
    if len(args) != count or not all(a.type.is_numeric or a.type.name in ("STRING", "VOID") for a in args):
        raise refuse(name, args)
    return tuple(cast(a, DOUBLE) for a in args)


@resolves(*_ALWAYS, *_LOGARITHMS, "signum", takes="a number")
def _resolve_one(name: str, args: tuple[Expression, ...]) -> Expression:
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


# Computing ------------------------------------------------------------------------------------------------------


@strict(*_ALWAYS, total=True)
def _one(call: Call) -> Step:
    function = _ALWAYS[call.name]

    def step(a: Column) -> Column:
        with np.errstate(all="ignore"):
            return Column(DOUBLE, function(a.data), a.valid)

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


# Doubles that are no numbers --------------------------------------------------------------------------------------


@resolves("nanvl", takes="two doubles: the second where the first is NaN")
def _resolve_nanvl(name: str, args: tuple[Expression, ...]) -> Expression:
    a, b = _doubles(name, args, 2)
    return resolve("case", (resolve("isnan", (a,)), b, a))


@resolves("isnan", takes="a number")
def _resolve_isnan(name: str, args: tuple[Expression, ...]) -> Expression:
    (a,) = _doubles(name, args, 1)
    return resolve("not_distinct", (a, Literal(DOUBLE, math.nan)))


@resolves("pmod", takes="two integers, or two doubles")
def _resolve_pmod(name: str, args: tuple[Expression, ...]) -> Expression:
    """The remainder that is not negative where the divisor is positive."""
    if len(args) != 2 or any(a.type.name == "DECIMAL" for a in args):
        raise refuse(name, args)
    rest = resolve("modulo", args)
    assert isinstance(rest, Call)
    divisor = rest.args[1]
    again = resolve("modulo", (resolve("add", (rest, divisor)), divisor))
    zero = Literal(rest.type, 0.0 if rest.type.is_fraction else 0)
    return resolve("case", (resolve("lt", (rest, zero)), again, rest))
