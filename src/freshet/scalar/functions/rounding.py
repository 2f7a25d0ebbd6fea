"""ROUND (HALF_UP), BROUND (HALF_EVEN), CEIL, FLOOR, SQRT and POWER."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from freshet.errors import EvaluationError, SqlError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.casting import cast, rescaled, unfit
from freshet.scalar.functions.coercion import MOST_DIGITS
from freshet.scalar.functions.registry import BOTH, THIS, Function, Step, declare, refuse
from freshet.scalar.functions.rows import both, first_bad
from freshet.scalar.functions.text_casts import CONTEXT, decimal_text, java_double
from freshet.scalar.types import BIGINT, DOUBLE, INT, INTEGER_RANGE, Type, decimal
from freshet.state import wide

_SAFE = 1e12
#: Beyond this many digits on either side of the point no number changes, or the result is 0.
_MOST_PLACES = 400
_LANE_DIGITS = 17  # this many zeros and their double fit a lane


def _is_number(argument: Expression) -> bool:
    """Whether Spark casts it to a number implicitly."""
    return argument.type.is_numeric or argument.type.name in ("STRING", "VOID")


def _digits(name: str, args: tuple[Expression, ...]) -> int:
    if len(args) == 1:
        return 0
    places = cast(args[1], INT)
    if not isinstance(places, Literal) or not isinstance(places.value, int):
        raise SqlError(f"the number of digits of {name.upper()} must be a literal; write one")
    return max(-_MOST_PLACES, min(places.value, _MOST_PLACES))


def _resolve_round(name: str, args: tuple[Expression, ...]) -> Expression:
    if not 1 <= len(args) <= 2 or not _is_number(args[0]):
        raise refuse(name, args)
    places = _digits(name, args)
    a = args[0] if args[0].type.is_numeric else cast(args[0], DOUBLE)
    t = a.type
    if t.name == "DECIMAL":
        whole = t.precision - t.scale + 1
        scale = max(min(t.scale, places), 0)
        t = decimal(min(max(whole, 1 - places) + scale, MOST_DIGITS), scale)
    return Call(t, name, (a, Literal(INT, places)))


def _resolve_whole(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1 or not _is_number(args[0]):
        raise refuse(name, args)
    a, name = args[0], "ceil" if name == "ceiling" else name
    if a.type.name == "DECIMAL":
        digits = a.type.precision - a.type.scale + (1 if a.type.scale else 0)
        return Call(decimal(min(digits, MOST_DIGITS), 0), name, (a,))
    return Call(BIGINT, name, (cast(a, BIGINT if a.type.is_integer else DOUBLE),))


def _resolve_sqrt(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1 or not _is_number(args[0]):
        raise refuse(name, args)
    return Call(DOUBLE, name, (cast(args[0], DOUBLE),))


def _resolve_power(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 2 or not all(map(_is_number, args)):
        raise refuse(name, args)
    return Call(DOUBLE, "power", (cast(args[0], DOUBLE), cast(args[1], DOUBLE)))


def _sqrt(call: Call) -> Step:
    def step(a: Column) -> Column:
        with np.errstate(invalid="ignore"):
            return Column(DOUBLE, np.sqrt(a.data), a.valid)

    return step


def _power(call: Call) -> Step:
    def step(a: Column, b: Column) -> Column:
        with np.errstate(all="ignore"):
            return Column(DOUBLE, np.power(a.data, b.data), both(a.valid, b.valid))

    return step


def _whole(call: Call) -> Step:
    source, target, up = call.args[0].type, call.type, call.name == "ceil"
    if source.is_integer:
        return lambda a: a
    if source.name == "DECIMAL":
        return lambda a: rescaled(a, source.scale, target, wide.CEILING if up else wide.FLOOR, source.precision)

    def step(a: Column) -> Column:
        rounded = np.ceil(a.data) if up else np.floor(a.data)
        rounded = np.where(np.isnan(rounded), 0, rounded)  # as in Java's conversion
        outside = (rounded >= 2.0**63) | (rounded < -(2.0**63))
        bad = first_bad(outside, a.valid)
        if bad >= 0:
            raise unfit(java_double(a.data[bad], source), target, bad)
        return Column(target, np.where(outside, 0, rounded).astype(np.int64), a.valid)

    return step


def _bround(call: Call) -> Step:
    """A value halfway between two is rounded to the even one."""
    source, target, digits = call.args[0].type, call.type, call.args[1]
    assert isinstance(digits, Literal) and isinstance(digits.value, int)
    places = digits.value
    if source.is_fraction:
        return lambda a, _: Column(target, round_doubles(a.data, places, target, ROUND_HALF_EVEN), a.valid)
    dropped = source.scale - places
    if dropped <= 0:
        return lambda a, _: Column(target, a.data, a.valid, a.hi)
    return lambda a, _: _to_even(a, dropped, max(-places, 0), target)


def _to_even(a: Column, dropped: int, zeros: int, target: Type) -> Column:
    """Integers rounded to drop some of their last digits, then with zeros in their place."""
    if target.is_integer:
        least, greatest = INTEGER_RANGE[target.name]
    else:
        greatest = 10**target.precision - 1
        least = -greatest
    if a.hi is None and dropped <= _LANE_DIGITS and (not zeros or greatest < 2**63):
        unit = np.int64(10**dropped)
        floor = a.data // unit
        twice = 2 * (a.data - floor * unit) - unit
        near = floor + ((twice > 0) | ((twice == 0) & (floor & 1 == 1)))
        most = min(greatest // 10**zeros, 2**63 - 1)
        bad = first_bad((near > most) | (near < -most), a.valid)
        if bad >= 0:
            raise _too_large(a, bad, target)
        return Column(target, near * 10**zeros, a.valid)
    lanes = np.zeros((2, len(a)), np.int64)
    known = np.ones(len(a), np.bool_) if a.valid is None else np.broadcast_to(a.valid, len(a))
    for row in np.flatnonzero(known).tolist():
        value = int(a.data[row]) if a.hi is None else (int(a.hi[row]) << 64) + (int(a.data[row]) & (2**64 - 1))
        floor, left = divmod(value, 10**dropped)
        made = (floor + (2 * left > 10**dropped or (2 * left == 10**dropped and floor % 2 == 1))) * 10**zeros
        if not least <= made <= greatest:
            raise _too_large(a, row, target)
        lanes[:, row] = wide.split(made)
    return Column(target, lanes[1], a.valid, wide.narrow(lanes[1], lanes[0]))


def _too_large(a: Column, row: int, target: Type) -> EvaluationError:
    shown = decimal_text(a, a.type.scale, row)
    return EvaluationError(f"BROUND of {shown} does not fit {target}; use a wider type", row)


def _round(call: Call) -> Step:
    source, target, digits = call.args[0].type, call.type, call.args[1]
    assert isinstance(digits, Literal) and isinstance(digits.value, int)
    places = digits.value
    if source.name == "DECIMAL":
        return _round_decimal(source, target, places)
    if source.is_fraction:
        return lambda a, _: Column(target, round_doubles(a.data, places, target), a.valid)
    return _round_integer(target, places)


def _round_decimal(source: Type, target: Type, places: int) -> Step:
    if places >= 0:
        return lambda a, _: rescaled(a, source.scale, target, digits=source.precision)
    # To tens or hundreds: drop the digits, then put zeros back.
    places = max(places, -MOST_DIGITS - 1)
    tens = decimal(MOST_DIGITS, places)
    return lambda a, _: rescaled(rescaled(a, source.scale, tens), places, target)


def _round_integer(target: Type, places: int) -> Step:
    if places >= 0:
        return lambda a, _: a
    places = max(places, -MOST_DIGITS - 1)
    tens, exact = decimal(MOST_DIGITS, places), decimal(MOST_DIGITS, 0)
    least, greatest = INTEGER_RANGE[target.name]

    def step(a: Column, _: Column) -> Column:
        made = rescaled(rescaled(a, 0, tens), places, exact)
        bad = first_bad((made.data < least) | (made.data > greatest), a.valid)
        if made.hi is not None:
            bad = first_bad(made.hi != made.data >> 63, a.valid)
        if bad >= 0:
            raise EvaluationError(f"ROUND({a.data[bad]}, {places}) does not fit {target}; use a wider type", bad)
        return Column(target, made.data, a.valid)

    return step


def round_doubles(
    data: npt.NDArray[np.float64], places: int, type: Type, rounding: str = ROUND_HALF_UP
) -> npt.NDArray[np.float64]:
    """HALF_UP, or as `rounding` says, on the shortest decimal text of each number. Scaling decides, except near a half
    or for large numbers, where its own rounding could change the result: those few are rounded by their text."""
    if abs(places) >= _MOST_PLACES:
        return data + 0.0 if places > 0 else np.where(np.isfinite(data), 0.0, data)
    with np.errstate(all="ignore"):
        scaled = np.abs(data) * np.float64(10) ** places
        base = np.floor(scaled)
        fraction = scaled - base
        out = np.where(fraction >= 0.5, base + 1, base)
        unit = np.float64(10) ** abs(places)
        out = np.copysign(out / unit if places >= 0 else out * unit, data)
        out = np.where(out == 0, 0.0, out)
    doubtful = (np.abs(fraction - 0.5) <= 1e-3) | ~(scaled < _SAFE) | (abs(places) > 22)
    for row in np.flatnonzero(doubtful).tolist():
        value = data[row]
        if not np.isfinite(value):
            out[row] = value
            continue
        text = str(np.float32(value)) if type.name == "FLOAT" else repr(float(value))
        exact = Decimal(text)
        exponent = exact.as_tuple().exponent
        assert isinstance(exponent, int)  # the number is finite
        if exponent < -places:
            exact = exact.quantize(Decimal(1).scaleb(-places), rounding, CONTEXT)
        out[row] = float(exact) + 0.0
    return out.astype(np.float32).astype(np.float64) if type.name == "FLOAT" else out


declare(
    Function(
        "round",
        "a number, and optionally a literal number of digits",
        _resolve_round,
        _round,
        parsed={exp.Round: ("this", "decimals")},
    ),
    Function("bround", "a number, and optionally a literal number of digits", _resolve_round, _bround),
    Function("ceil", "a number", _resolve_whole, _whole, also=("ceiling",), parsed={exp.Ceil: ("this", "decimals")}),
    Function("floor", "a number", _resolve_whole, _whole, parsed={exp.Floor: ("this", "decimals")}),
    Function("sqrt", "a number", _resolve_sqrt, _sqrt, parsed={exp.Sqrt: THIS}, total=True),
    Function("power", "two numbers", _resolve_power, _power, also=("pow",), parsed={exp.Pow: BOTH}, total=True),
)
