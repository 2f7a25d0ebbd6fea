"""Intervals: of years and months, counted in months, and of days to seconds, counted in microseconds.

An interval's type has its first and last unit (INTERVAL DAY TO SECOND); its value does not depend on these, so two
intervals of one family are compared, added and subtracted as numbers. Rounding is half up.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from freshet.errors import EvaluationError, SqlError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.coercion import common_type
from freshet.scalar.functions.compiled import fold
from freshet.scalar.functions.registry import Function, Step, declare, refuse, resolve
from freshet.scalar.functions.rows import ALL, both, every, first_bad, lane, longest
from freshet.scalar.interval import SIZES
from freshet.scalar.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    INTEGER_RANGE,
    MICROS,
    MONTHS,
    STRING,
    TIMESTAMP,
    TINYINT,
    Type,
    decimal,
    interval,
)
from freshet.state import checked, wide
from freshet.state.arrays import Bools

_MOMENTS = ("DATE", "TIMESTAMP")
_ZERO, _ONE = np.zeros(1, np.int64), np.ones(1, np.int64)


def bounds(type: Type) -> tuple[int, int]:
    """The least and greatest value of an interval type."""
    return INTEGER_RANGE["INT" if type.name == "MONTHS" else "BIGINT"]


# Typing ---------------------------------------------------------------------------------------------------------


def resolve_temporal(name: str, a: Expression, b: Expression) -> Expression:
    """An arithmetic operator with a DATE, a TIMESTAMP or an interval on at least one side."""
    if name == "add" and (b.type.name in _MOMENTS or (a.type.is_interval and b.type.name == "STRING")):
        a, b = b, a
    if a.type.is_interval or b.type.is_interval:
        return _with_interval(name, a, b)
    if name == "subtract":
        if a.type.name == "DATE" and b.type.is_integer:
            return resolve("date_sub", (a, b))
        if all(t.name in (*_MOMENTS, "STRING", "VOID") for t in (a.type, b.type)):
            return _difference(a, b)
    if name == "add" and a.type.name in _MOMENTS:
        if b.type.name == "VOID":
            return Call(TIMESTAMP, "plus_interval", (cast(a, TIMESTAMP), Literal(MICROS, None)))
        if a.type.name == "DATE" and b.type.is_integer:
            return resolve("date_add", (a, b))
    raise refuse(name, (a, b))


def _difference(a: Expression, b: Expression) -> Expression:
    """The whole days between two dates, or the time between two timestamps."""
    if "TIMESTAMP" in (a.type.name, b.type.name):
        return Call(MICROS, "moment_difference", (cast(a, TIMESTAMP), cast(b, TIMESTAMP)))
    return Call(interval("DAY"), "date_difference", (cast(a, DATE), cast(b, DATE)))


def _with_interval(name: str, a: Expression, b: Expression) -> Expression:
    if name in ("add", "subtract"):
        if a.type.name in _MOMENTS and b.type.is_interval:
            return resolve("plus_interval", (a, b if name == "add" else fold(resolve("negate", (b,)))))
        if a.type.name == "STRING":  # a timestamp as text stays text
            return cast(resolve_temporal(name, cast(a, TIMESTAMP), b), STRING)
        common = common_type((a.type, b.type))
        if common is not None and common.is_interval:
            return Call(common, name, (_typed(a, common), _typed(b, common)))
    if name == "multiply" and b.type.is_interval:
        a, b = b, a
    if name in ("multiply", "divide") and a.type.is_interval and not b.type.is_interval:
        whole = MONTHS if a.type.name == "MONTHS" else MICROS
        return Call(whole, "interval_times" if name == "multiply" else "interval_over", (a, _factor(name, a, b)))
    if name == "div" and a.type.name == b.type.name:
        return Call(BIGINT, "interval_div", (a, b))
    raise refuse(name, (a, b))


def _typed(e: Expression, type: Type) -> Expression:
    """A bare NULL as an interval; the units do not matter here."""
    return cast(e, type) if e.type.name == "VOID" else e


def _factor(name: str, a: Expression, b: Expression) -> Expression:
    if b.type.name in ("VOID", "STRING") or b.type.is_fraction:
        return cast(b, DOUBLE)
    if b.type.name == "DECIMAL":
        return b
    if not b.type.is_integer:
        raise refuse(name, (a, b))
    return cast(b, BIGINT)


#: The units that can be extracted: their size in the smallest unit, their number in the next one, and their type.
_PARTS: dict[str, tuple[int, int | None, Type]] = {
    "year": (12, None, INT), "month": (1, 12, TINYINT), "day": (SIZES["DAY"], None, INT),
    "hour": (SIZES["HOUR"], 24, TINYINT), "minute": (SIZES["MINUTE"], 60, TINYINT),
    "second": (1, SIZES["MINUTE"], decimal(8, 6)),
}  # fmt: skip


def part(field: str, e: Expression) -> Expression:
    """EXTRACT(field FROM interval), for the units of the interval's type."""
    within = e.type.units
    if field.upper() not in within:
        known = ", ".join(within)
        raise SqlError(f"{e.type} has no part {field.upper()} to extract; its parts are {known}")
    return Call(_PARTS[field][2], "interval_part", (Literal(STRING, field), e))


def _resolve_days(name: str, args: tuple[Expression, ...]) -> Expression:
    kinds = (INT, INT, INT, decimal(18, 6))
    if len(args) > len(kinds):
        raise refuse(name, args)
    given = [_whole(name, args, a, k) for a, k in zip(args, kinds, strict=False)]
    return Call(MICROS, name, (*given, *(Literal(k, 0) for k in kinds[len(args) :])))


def _resolve_months(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) > 2:
        raise refuse(name, args)
    given = [_whole(name, args, a, INT) for a in args]
    return Call(MONTHS, name, (*given, *(Literal(INT, 0) for _ in range(2 - len(args)))))


def _whole(name: str, args: tuple[Expression, ...], e: Expression, type: Type) -> Expression:
    if not (e.type.is_numeric or e.type.name in ("STRING", "VOID")) or (type == INT and e.type.name == "BIGINT"):
        raise refuse(name, args)
    return cast(e, type)


# Computing ------------------------------------------------------------------------------------------------------


def _too_long(type: Type, row: int) -> EvaluationError:
    return EvaluationError(f"the interval does not fit {type}; use smaller numbers", row)


def _dates(call: Call) -> Step:
    return lambda a, b: Column(call.type, (a.data - b.data) * SIZES["DAY"], both(a.valid, b.valid))


def _moments(call: Call) -> Step:
    return lambda a, b: Column(call.type, a.data - b.data, both(a.valid, b.valid))


def _part(call: Call) -> Step:
    """Truncates towards zero: the parts of a negative interval are negative."""
    assert isinstance(call.args[0], Literal)
    size, many, _ = _PARTS[str(call.args[0].value)]

    def step(_: Column, a: Column) -> Column:
        counts = np.abs(a.data) // size
        return Column(call.type, np.sign(a.data) * (counts if many is None else counts % many), a.valid)

    return step


def _scaled(call: Call) -> Step:
    divides, factor, (least, greatest) = call.name == "interval_over", call.args[1].type, bounds(call.type)

    def step(a: Column, b: Column) -> Column:
        valid = both(a.valid, b.valid)
        if divides:
            nothing = b.data == 0 if b.hi is None else (b.data == 0) & (b.hi == 0)
            bad = first_bad(np.broadcast_to(nothing, longest(a, b)), valid)
            if bad >= 0:
                raise EvaluationError("division by zero in /; guard it with NULLIF(divisor, 0)", bad)
        if factor.is_fraction:
            with np.errstate(all="ignore"):
                exact = a.data / b.data if divides else a.data * b.data
            data, far = _rounded(exact, least, greatest)
        else:
            data, far = _exact(a, b, factor.scale, divides, valid, least, greatest)
        bad = first_bad(far, valid)
        if bad >= 0:
            raise _too_long(call.type, bad)
        return Column(call.type, data, valid)

    return step


def _rounded(exact: npt.NDArray[np.float64], least: int, greatest: int) -> tuple[npt.NDArray[np.int64], Bools]:
    """Doubles rounded to integers, half up, and which do not fit."""
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.rint(exact)
        near = np.where(np.abs(exact - near) == 0.5, exact + np.copysign(0.5, exact), near)
        far = ~((near >= float(least)) & (near < float(greatest + 1)))
        return np.where(far, 0, near).astype(np.int64), far


def _exact(
    a: Column, b: Column, scale: int, divides: bool, valid: Bools | None, least: int, greatest: int
) -> tuple[npt.NDArray[np.int64], Bools]:
    """Division by an integer or a decimal, rounded half up."""
    rows = longest(a, b)
    hi, lo = np.empty(rows, np.int64), np.empty(rows, np.int64)
    x, y = lane(a.data), lane(b.data)
    mine, theirs = (wide.high(x, None), x), (wide.high(y, b.hi), y)
    times, over = ((_ZERO, _ONE), theirs) if divides else (theirs, (_ZERO, _ONE))
    up, down = (scale, 0) if divides else (0, scale)
    known = ALL if valid is None else valid
    bad = wide.ratio(*mine, *times, *over, known, up, down, wide.HALF_UP, 38, hi, lo)
    far = (hi != lo >> 63) | (lo < least) | (lo > greatest)
    if bad >= 0:
        far[bad] = True
    return lo, far


def _quotient(call: Call) -> Step:
    def step(a: Column, b: Column) -> Column:
        valid = both(a.valid, b.valid)
        out = np.empty(longest(a, b), np.int64)
        bad = checked.quotient(lane(a.data), lane(b.data), ALL if valid is None else valid, *bounds(BIGINT), out)
        if bad >= 0:
            raise EvaluationError("division by zero in div; guard it with NULLIF(divisor, 0)", bad)
        return Column(BIGINT, out, valid)

    return step


def _make_days(call: Call) -> Step:
    def step(days: Column, hours: Column, minutes: Column, seconds: Column) -> Column:
        valid = every((days, hours, minutes, seconds))
        rest = hours.data * SIZES["HOUR"] + minutes.data * SIZES["MINUTE"] + seconds.data
        rows = max(len(days), len(rest))
        whole, rest = (np.array(np.broadcast_to(x, rows)) for x in (days.data, rest))
        known, (least, greatest) = ALL if valid is None else valid, bounds(MICROS)
        micros, out = np.empty(len(whole), np.int64), np.empty(len(whole), np.int64)
        bad = checked.multiply(whole, np.full(1, SIZES["DAY"]), known, least, greatest, micros)
        bad = bad if bad >= 0 else checked.add(micros, rest, known, least, greatest, out)
        if bad >= 0:
            raise _too_long(MICROS, bad)
        return Column(MICROS, out, valid)

    return step


def _make_months(call: Call) -> Step:
    def step(years: Column, months: Column) -> Column:
        valid, data = both(years.valid, months.valid), years.data * 12 + months.data
        least, greatest = bounds(MONTHS)
        bad = first_bad((data < least) | (data > greatest), valid)
        if bad >= 0:
            raise _too_long(MONTHS, bad)
        return Column(MONTHS, data, valid)

    return step


declare(
    Function(
        "make_dt_interval",
        "days, hours, minutes (INT) and seconds (DECIMAL), as many as are wanted",
        _resolve_days,
        _make_days,
    ),
    Function("make_ym_interval", "years and months (INT), as many as are wanted", _resolve_months, _make_months),
    Function("date_difference", strict=_dates, total=True),
    Function("moment_difference", strict=_moments, total=True),
    Function("interval_part", strict=_part, total=True),
    *(Function(name, strict=_scaled) for name in ("interval_times", "interval_over")),
    Function("interval_div", strict=_quotient),
)
