"""Calendar functions of dates and timestamps: weeks, parts by name, epochs, differences and sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sqlglot import exp

from freshet.errors import EvaluationError, SqlError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.date_patterns import DAYS
from freshet.scalar.functions.datetime import DAY, WHEN, day_of_month, first_day, months, plus_months, year_start
from freshet.scalar.functions.intervals import part
from freshet.scalar.functions.registry import Function, Step, Strict, declare, refuse, resolve
from freshet.scalar.functions.rows import both, every, first_bad, out_of_years, within_years
from freshet.scalar.types import BIGINT, DATE, DOUBLE, INT, STRING, TIMESTAMP, decimal
from freshet.state.arrays import Bools, Int64s

_UNITS = {"microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000,
          "day": DAY, "week": 7 * DAY}  # fmt: skip
_MONTH_UNITS = {"month": 1, "quarter": 3, "year": 12}


def only(name: str, args: tuple[Expression, ...], *kinds: tuple[str, ...]) -> None:
    if len(args) != len(kinds) or any(a.type.name not in k for a, k in zip(args, kinds, strict=True)):
        raise refuse(name, args)


def _thursday(days: Int64s) -> Int64s:
    """The Thursday of a day's week, which determines the year of the week."""
    return days - (days + 3) % 7 + 3


def _week(days: Int64s) -> Int64s:
    thursday = _thursday(days)
    return (thursday - year_start(thursday)) // 7 + 1


def _year_of_week(days: Int64s) -> Int64s:
    return months(_thursday(days)) // 12 + 1970


def _monday_first(days: Int64s) -> Int64s:
    return (days + 3) % 7 + 1


def _resolve_part(name: str, args: tuple[Expression, ...]) -> Expression:
    only(name, args, WHEN)
    return Call(INT, name, (cast(args[0], DATE),))


def _part(of: Callable[[Int64s], Int64s]) -> Strict:
    return lambda call: lambda a: Column(INT, of(a.data), a.valid)


def _resolve_seconds(name: str, args: tuple[Expression, ...]) -> Expression:
    """EXTRACT(SECOND): with the fraction."""
    only(name, args, WHEN)
    return Call(decimal(8, 6), name, (cast(args[0], TIMESTAMP),))


def _seconds(call: Call) -> Step:
    return lambda a: Column(call.type, a.data % 60_000_000, a.valid)


#: The parts that EXTRACT and DATE_PART know, and their other names.
_FIELDS = {
    "year": "year years y yr yrs", "yearofweek": "yearofweek", "quarter": "quarter qtr",
    "month": "month months mon mons", "weekofyear": "week weeks w", "day": "day days d",
    "dayofweek": "dayofweek dow", "dayofweek_iso": "dayofweek_iso dow_iso", "dayofyear": "doy",
    "hour": "hour hours h hr hrs", "minute": "minute minutes m min mins", "seconds": "second seconds s sec secs",
}  # fmt: skip
_FIELD = {written: name for name, words in _FIELDS.items() for written in words.split()}


def _resolve_date_part(name: str, args: tuple[Expression, ...]) -> Expression:
    given = str(args[0].value).lower() if args and isinstance(args[0], Literal) else ""
    if len(args) == 2 and args[1].type.is_interval:
        field = _FIELD.get(given, given)
        return part({"seconds": "second"}.get(field, field), args[1])
    only(name, args, ("STRING",), WHEN)
    if given not in _FIELD:
        known = ", ".join(words.split()[0].upper() for words in _FIELDS.values())
        raise SqlError(f"EXTRACT has no part {given.upper()}; the parts are {known}")
    return resolve(_FIELD[given], args[1:])


# Epochs -----------------------------------------------------------------------------------------------------------


def _resolve_since(name: str, args: tuple[Expression, ...]) -> Expression:
    only(name, args, ("TIMESTAMP", "VOID"))
    return Call(BIGINT, name, (cast(args[0], TIMESTAMP),))


def seconds_since(call: Call) -> Step:
    """Unlike UNIX_SECONDS it drops the fraction of a second before 1970, too."""
    return lambda a: Column(BIGINT, _towards_zero(a.data, 1_000_000), a.valid)


def _since(unit: int) -> Strict:
    return lambda call: lambda a: Column(BIGINT, a.data // unit, a.valid)


def _resolve_instant(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1 or not (args[0].type.is_integer or args[0].type.name == "VOID"):
        raise refuse(name, args)
    return Call(TIMESTAMP, name, (cast(args[0], BIGINT),))


def _instant(unit: int) -> Strict:
    return lambda call: lambda a: within_years(_micros(a.data, unit, a.valid), a.valid, TIMESTAMP)


def _micros(count: Int64s, unit: int, valid: Bools | None) -> Int64s:
    """A number of units as microseconds; values that do not fit are far outside of the range of timestamps."""
    most = (1 << 62) // unit
    outside = (count > most) | (count < -most)
    far = first_bad(outside, valid)
    if far >= 0:
        raise out_of_years(TIMESTAMP, far)
    return np.where(outside, 0, count) * unit


def _resolve_unix_date(name: str, args: tuple[Expression, ...]) -> Expression:
    only(name, args, ("DATE", "VOID"))
    return Call(INT, name, (cast(args[0], DATE),))


def _unix_date(call: Call) -> Step:
    return lambda a: Column(INT, a.data, a.valid)


def _resolve_from_days(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1 or not (args[0].type.is_integer or args[0].type.name == "VOID"):
        raise refuse(name, args)
    return Call(DATE, name, (cast(args[0], INT),))


def _from_days(call: Call) -> Step:
    return lambda a: within_years(a.data, a.valid, DATE)


def _resolve_make_date(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 3 or not all(a.type.is_integer or a.type.name == "VOID" for a in args):
        raise refuse(name, args)
    return Call(DATE, name, tuple(cast(a, INT) for a in args))


def _make_date(call: Call) -> Step:
    def step(year: Column, month: Column, day: Column) -> Column:
        valid = every((year, month, day))
        y, m, d = np.broadcast_arrays(year.data, month.data, day.data)
        wrong = (y < 1) | (y > 9999) | (m < 1) | (m > 12) | (d < 1)
        count = (np.where(wrong, 1970, y) - 1970) * 12 + np.where(wrong, 1, m) - 1
        first = first_day(count)
        bad = first_bad(wrong | (d > first_day(count + 1) - first), valid)
        if bad >= 0:
            raise EvaluationError(f"{y[bad]}-{m[bad]}-{d[bad]} is not a date; correct the numbers", bad)
        return Column(DATE, first + d - 1, valid)

    return step


# Two timestamps----------------------------------------------------------------------------------------------------


def _unit(name: str, argument: Expression) -> str:
    given = str(argument.value).lower() if isinstance(argument, Literal) else ""
    if given not in _UNITS and given not in _MONTH_UNITS:
        known = ", ".join(u.upper() for u in (*_UNITS, *_MONTH_UNITS))
        raise SqlError(f"{name.upper()} has no unit {given.upper()}; its units are {known}")
    return given


def _resolve_between(name: str, args: tuple[Expression, ...]) -> Expression:
    only(name, args, ("STRING",), WHEN, WHEN)
    return Call(BIGINT, name, (Literal(STRING, _unit(name, args[0])), *(cast(a, TIMESTAMP) for a in args[1:])))


def _between(call: Call) -> Step:
    """Whole units, towards zero."""
    assert isinstance(call.args[0], Literal)
    unit = str(call.args[0].value)
    of_month = _MONTH_UNITS.get(unit)

    def step(_: Column, a: Column, b: Column) -> Column:
        valid = both(a.valid, b.valid)
        if of_month is None:
            return Column(BIGINT, _towards_zero(b.data - a.data, _UNITS[unit]), valid)
        (first, first_time), (last, last_time) = np.divmod(a.data, DAY), np.divmod(b.data, DAY)
        last = last - ((last > first) & (last_time < first_time)) + ((last < first) & (last_time > first_time))
        apart = _packed(last) - _packed(first)
        return Column(BIGINT, _towards_zero(_towards_zero(apart, 32), of_month), valid)

    return step


def _packed(days: Int64s) -> Int64s:
    """Months and the day in one number, in the same order."""
    return months(days) * 32 + day_of_month(days)


def _towards_zero(data: Int64s, by: int) -> Int64s:
    return np.where(data < 0, -(-data // by), data // by)


def _resolve_add(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 3 or args[2].type.name not in WHEN or not args[1].type.is_integer:
        raise refuse(name, args)
    return Call(TIMESTAMP, name, (Literal(STRING, _unit(name, args[0])), cast(args[1], INT), cast(args[2], TIMESTAMP)))


def _add(call: Call) -> Step:
    assert isinstance(call.args[0], Literal)
    unit = str(call.args[0].value)
    of_month = _MONTH_UNITS.get(unit)

    def step(_: Column, count: Column, a: Column) -> Column:
        valid = both(count.valid, a.valid)
        if of_month is None:
            return within_years(a.data + _micros(count.data, _UNITS[unit], valid), valid, TIMESTAMP)
        days = plus_months(a.data // DAY, count.data * of_month, valid, TIMESTAMP)
        return within_years(days * DAY + a.data % DAY, valid, TIMESTAMP)

    return step


def _resolve_months_between(name: str, args: tuple[Expression, ...]) -> Expression:
    only(name, args, WHEN, WHEN)
    return Call(DOUBLE, name, tuple(cast(a, TIMESTAMP) for a in args))


def _months_between(call: Call) -> Step:
    """Whole months between equal days of the month, and between last days; otherwise a month has 31 days. Eight
    digits."""

    def step(a: Column, b: Column) -> Column:
        (x, x_time), (y, y_time) = np.divmod(a.data, DAY), np.divmod(b.data, DAY)
        x_day, y_day, apart = day_of_month(x), day_of_month(y), months(x) - months(y)
        whole = (x_day == y_day) | (_is_last(x) & _is_last(y))
        seconds = (x_day - y_day) * 86_400 + x_time // 1_000_000 - y_time // 1_000_000
        exact = apart + seconds / (31 * 86_400)
        rounded = np.floor(exact * 1e8 + 0.5) / 1e8
        return Column(DOUBLE, np.where(whole, apart.astype(np.float64), rounded), both(a.valid, b.valid))

    return step


def _is_last(days: Int64s) -> Any:
    return day_of_month(days + 1) == 1


def _resolve_next_day(name: str, args: tuple[Expression, ...]) -> Expression:
    only(name, args, WHEN, ("STRING",))
    given = str(args[1].value).strip().lower() if isinstance(args[1], Literal) else ""
    for i, day in enumerate(DAYS):
        if given in (day.lower(), day[:3].lower(), day[:2].lower()):
            return Call(DATE, name, (cast(args[0], DATE), Literal(INT, i)))
    raise SqlError(f"NEXT_DAY has no day {given!r}; write one of {', '.join(DAYS)} as a literal")


def _next_day(call: Call) -> Step:
    return lambda a, day: within_years(a.data + 1 + (day.data - a.data - 4) % 7, a.valid, DATE)


declare(
    Function("seconds", "a TIMESTAMP", _resolve_seconds, _seconds, spelled=False, total=True),
    Function("date_part", "a literal part and a DATE or TIMESTAMP", _resolve_date_part, also=("datepart",)),
    Function("unix_date", "a DATE", _resolve_unix_date, _unix_date, total=True),
    Function("date_from_unix_date", "an INT, the days since 1970-01-01", _resolve_from_days, _from_days),
    Function("make_date", "a year, a month and a day (INT)", _resolve_make_date, _make_date),
    Function(
        "timestampdiff",
        "a unit, a start and an end",
        _resolve_between,
        _between,
        parsed={exp.TimestampDiff: None},
        total=True,
    ),
    Function(
        "timestampadd",
        "a unit, a number of them (INT) and a TIMESTAMP",
        _resolve_add,
        _add,
        parsed={exp.TimestampAdd: None},
    ),
    Function(
        "months_between", "two DATEs or TIMESTAMPs: end and start", _resolve_months_between, _months_between, total=True
    ),
    Function("next_day", "a DATE and a literal day of the week", _resolve_next_day, _next_day),
    Function("weekofyear", "a DATE or TIMESTAMP", _resolve_part, _part(_week), total=True),
    Function("yearofweek", "a DATE or TIMESTAMP", _resolve_part, _part(_year_of_week), spelled=False, total=True),
    Function("dayofweek_iso", "a DATE or TIMESTAMP", _resolve_part, _part(_monday_first), spelled=False, total=True),
    Function("unix_seconds", "a TIMESTAMP", _resolve_since, _since(1_000_000), total=True),
    Function("unix_millis", "a TIMESTAMP", _resolve_since, _since(1_000), total=True),
    Function("unix_micros", "a TIMESTAMP", _resolve_since, _since(1), total=True),
    Function("timestamp_seconds", "an integer since 1970-01-01", _resolve_instant, _instant(1_000_000)),
    Function("timestamp_millis", "an integer since 1970-01-01", _resolve_instant, _instant(1_000)),
    Function("timestamp_micros", "an integer since 1970-01-01", _resolve_instant, _instant(1)),
)
