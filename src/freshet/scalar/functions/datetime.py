"""Dates and timestamps: parts, sums and differences. Days and microseconds since 1970-01-01 in UTC, Gregorian."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sqlglot import exp

from freshet.errors import SqlError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.registry import BOTH, FUNCTIONS, THIS, Function, Step, Strict, declare, refuse, resolve
from freshet.scalar.functions.rows import both, first_bad, out_of_years, within_years
from freshet.scalar.types import DATE, INT, STRING, TIMESTAMP, Type
from freshet.state.arrays import Bools, Int64s

DAY = 86_400_000_000
#: More months, or microseconds, than there are between any two dates; sums with fewer do not overflow.
MOST_MONTHS, _MOST_MICROS = 12 * 10_000, 366 * 10_000 * DAY


def months(days: Int64s) -> Int64s:
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64)


def first_day(months: Int64s) -> Int64s:
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def day_of_month(days: Int64s) -> Int64s:
    return days - first_day(months(days)) + 1


def year_start(days: Int64s) -> Int64s:
    return first_day(months(days) // 12 * 12)


def _day_of_year(days: Int64s) -> Int64s:
    return days - year_start(days) + 1


#: The first day of the unit that contains a day, and the length of units within a day.
_DATE_UNITS: dict[str, Callable[[Int64s], Int64s]] = {
    "year": year_start,
    "quarter": lambda d: first_day(months(d) // 3 * 3),
    "month": lambda d: first_day(months(d)),
    "week": lambda d: d - (d + 3) % 7,
}
_TIME_UNITS = {"day": DAY, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "millisecond": 1_000}
_SHORT = {"yyyy": "year", "yy": "year", "mon": "month", "mm": "month", "dd": "day"}
WHEN = ("DATE", "TIMESTAMP", "STRING", "VOID")


def _resolve_date_part(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1 or args[0].type.name not in WHEN:
        raise refuse(name, args)
    return Call(INT, FUNCTIONS[name].name, (cast(args[0], DATE),))


def _resolve_time_part(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1 or args[0].type.name not in WHEN:
        raise refuse(name, args)
    return Call(INT, name, (cast(args[0], TIMESTAMP),))


def _resolve_days(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 2 or args[0].type.name not in WHEN or not _is_int(args[1]):
        raise refuse(name, args)
    days = cast(args[1], INT)
    return Call(DATE, "date_add", (cast(args[0], DATE), days if name != "date_sub" else _negative(days)))


def _negative(days: Expression) -> Expression:
    if isinstance(days, Literal) and isinstance(days.value, int):
        return Literal(days.type, -days.value)
    return resolve("negate", (days,))


def _is_int(argument: Expression) -> bool:
    return argument.type.name in ("TINYINT", "SMALLINT", "INT", "STRING", "VOID")


def _resolve_datediff(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 2 or any(a.type.name not in WHEN for a in args):
        raise refuse(name, args)
    return Call(INT, "datediff", (cast(args[0], DATE), cast(args[1], DATE)))


def _resolve_add_months(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 2 or args[0].type.name not in WHEN or not _is_int(args[1]):
        raise refuse(name, args)
    return Call(DATE, name, (cast(args[0], DATE), cast(args[1], INT)))


def _resolve_last_day(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1 or args[0].type.name not in WHEN:
        raise refuse(name, args)
    return Call(DATE, name, (cast(args[0], DATE),))


def _resolve_date_trunc(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 2 or args[1].type.name not in WHEN:
        raise refuse(name, args)
    unit = _unit(name, args[0], (*_DATE_UNITS, *_TIME_UNITS))
    return Call(TIMESTAMP, name, (Literal(STRING, unit), cast(args[1], TIMESTAMP)))


def _resolve_trunc(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 2 or args[0].type.name not in WHEN:
        raise refuse(name, args)
    return Call(DATE, name, (cast(args[0], DATE), Literal(STRING, _unit(name, args[1], tuple(_DATE_UNITS)))))


def _unit(name: str, argument: Expression, known: tuple[str, ...]) -> str:
    given = argument.value if isinstance(argument, Literal) else None
    word = str(given).lower()
    unit = _SHORT.get(word, word)
    if unit not in known:
        shown = "NULL" if given is None else repr(given)
        raise SqlError(f"{name.upper()} has no unit {shown}; its units are {', '.join(known)}, as literals")
    return unit


def _resolve_interval(name: str, args: tuple[Expression, ...]) -> Expression:
    """A DATE stays one when months or an INTERVAL DAY are added, and becomes a TIMESTAMP otherwise."""
    when, interval = args
    if when.type.name == "DATE" and interval.type.name == "MONTHS":
        return Call(DATE, "add_months", (when, interval))
    if when.type.name == "DATE" and interval.type.span == "DAY":
        return Call(DATE, "date_add", (when, cast(interval, INT)))
    return Call(TIMESTAMP, name, (cast(when, TIMESTAMP), interval))


# Computing ------------------------------------------------------------------------------------------------------


def _part(of: Callable[[Int64s], Int64s]) -> Strict:
    return lambda call: lambda a: Column(INT, of(a.data), a.valid)


def _date_add(call: Call) -> Step:
    return lambda a, b: within_years(a.data + b.data, both(a.valid, b.valid), DATE)


def _datediff(call: Call) -> Step:
    return lambda a, b: Column(INT, a.data - b.data, both(a.valid, b.valid))


def moved(days: Int64s, by: Int64s) -> Int64s:
    """The same day some months later, or the last day of a shorter month; at most MOST_MONTHS."""
    month = months(days) + by
    first = first_day(month)
    last: Int64s = first_day(month + 1) - first - 1
    return first + np.minimum(day_of_month(days) - 1, last)


def plus_months(days: Int64s, by: Int64s, valid: Bools | None, type: Type) -> Int64s:
    """Some months later; a number that leads out of the valid years from any date is an error."""
    return moved(days, _bounded(by, days, MOST_MONTHS, valid, type))


def _bounded(by: Int64s, to: Int64s, most: int, valid: Bools | None, type: Type) -> Int64s:
    by, _ = np.broadcast_arrays(by, to)
    far = (by > most) | (by < -most)
    bad = first_bad(far, valid)
    if bad >= 0:
        raise out_of_years(type, bad)
    return np.where(far, 0, by)


def _add_months(call: Call) -> Step:
    def step(a: Column, b: Column) -> Column:
        valid = both(a.valid, b.valid)
        return within_years(plus_months(a.data, b.data, valid, DATE), valid, DATE)

    return step


def _last_day(call: Call) -> Step:
    return lambda a: Column(DATE, first_day(months(a.data) + 1) - 1, a.valid)


def _trunc(call: Call) -> Step:
    first = _DATE_UNITS[_word(call.args[1])]
    return lambda a, _: Column(DATE, first(a.data), a.valid)


def _date_trunc(call: Call) -> Step:
    unit = _word(call.args[0])
    first, length = _DATE_UNITS.get(unit), _TIME_UNITS.get(unit, DAY)
    if first is None:
        return lambda _, a: Column(TIMESTAMP, a.data // length * length, a.valid)
    return lambda _, a: Column(TIMESTAMP, first(a.data // DAY) * DAY, a.valid)


def _word(argument: Expression) -> str:
    assert isinstance(argument, Literal) and isinstance(argument.value, str)
    return argument.value


def _plus_interval(call: Call) -> Step:
    in_micros = call.args[1].type.name == "MICROS"

    def step(a: Column, b: Column) -> Column:
        valid = both(a.valid, b.valid)
        if in_micros:
            return within_years(a.data + _bounded(b.data, a.data, _MOST_MICROS, valid, TIMESTAMP), valid, TIMESTAMP)
        days = plus_months(a.data // DAY, b.data, valid, TIMESTAMP)
        return within_years(days * DAY + a.data % DAY, valid, TIMESTAMP)

    return step


_ADDED: dict[type[exp.Expr], None] = {exp.TsOrDsAdd: None, exp.TimestampAdd: None}

declare(
    Function(
        "date_add", "a DATE and a number of days (INT)", _resolve_days, _date_add, also=("dateadd",), parsed=_ADDED
    ),
    Function("date_sub", "a DATE and a number of days (INT)", _resolve_days, parsed=_ADDED),
    Function(
        "datediff",
        "two DATEs: end and start",
        _resolve_datediff,
        _datediff,
        also=("date_diff",),
        parsed={exp.DateDiff: None},
        total=True,
    ),
    Function(
        "add_months",
        "a DATE and a number of months (INT)",
        _resolve_add_months,
        _add_months,
        parsed={exp.AddMonths: BOTH},
    ),
    Function("last_day", "a DATE", _resolve_last_day, _last_day, parsed={exp.LastDay: THIS}, total=True),
    Function("date_trunc", "a literal unit and a TIMESTAMP", _resolve_date_trunc, _date_trunc, total=True),
    Function("trunc", "a DATE and a literal unit", _resolve_trunc, _trunc, total=True),
    Function("plus_interval", "a DATE or TIMESTAMP and an INTERVAL", _resolve_interval, _plus_interval, spelled=False),
    *(
        Function(
            name, "a DATE or TIMESTAMP", _resolve_date_part, _part(of), parsed=dict.fromkeys(nodes, THIS), total=True
        )
        for name, of, nodes in (
            ("year", lambda d: months(d) // 12 + 1970, (exp.Year,)),
            ("quarter", lambda d: months(d) % 12 // 3 + 1, (exp.Quarter,)),
            ("month", lambda d: months(d) % 12 + 1, (exp.Month,)),
            ("dayofyear", _day_of_year, (exp.DayOfYear,)),
            ("dayofweek", lambda d: (d + 4) % 7 + 1, (exp.DayOfWeek,)),  # 1970-01-01 was a Thursday; Sunday is 1
            ("weekday", lambda d: (d + 3) % 7, ()),  # Monday is 0
        )
    ),
    Function(
        "day",
        "a DATE or TIMESTAMP",
        _resolve_date_part,
        _part(day_of_month),
        also=("dayofmonth",),
        parsed={exp.Day: THIS, exp.DayOfMonth: THIS},
        total=True,
    ),
    *(
        Function(name, "a TIMESTAMP", _resolve_time_part, _part(of), parsed={node: THIS}, total=True)
        for name, of, node in (
            ("hour", lambda t: t // 3_600_000_000 % 24, exp.Hour),
            ("minute", lambda t: t // 60_000_000 % 60, exp.Minute),
            ("second", lambda t: t // 1_000_000 % 60, exp.Second),
        )
    ),
)
