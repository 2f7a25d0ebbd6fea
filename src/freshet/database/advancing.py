"""Times as users give them to the clock."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

from freshet.errors import ChangeError, SqlError, brief
from freshet.scalar import functions, types
from freshet.scalar.expression import Literal

#: What `Database.advance` takes.
Time = datetime | date | timedelta | str

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def time_of(to: Any, now: int) -> int:
    """A time in microseconds; `now` is that of the clock."""
    time = _read(to, now)
    least, most = types.TIME_RANGE["TIMESTAMP"]
    if not least <= time <= most:
        raise ChangeError(f"{brief(to)} leads to a time outside the years 1 to 9999; give one within")
    return time


def _read(to: Any, now: int) -> int:
    if isinstance(to, timedelta):
        return now + to // _MICROSECOND
    if isinstance(to, datetime) and to == to:  # not the NaT of pandas
        return ((to.replace(tzinfo=UTC) if to.tzinfo is None else to) - _EPOCH) // _MICROSECOND
    if isinstance(to, date) and to == to:
        return (datetime(to.year, to.month, to.day, tzinfo=UTC) - _EPOCH) // _MICROSECOND
    if isinstance(to, str):
        try:
            made = functions.cast(Literal(types.STRING, to), types.TIMESTAMP)
        except (SqlError, UnicodeEncodeError):
            made = None
        if isinstance(made, Literal) and isinstance(made.value, int):
            return made.value
    remedy = "give a datetime, a date, a timedelta, or a text such as '2026-01-31 12:00:00'"
    raise ChangeError(f"{brief(to)} is not a time; {remedy}")


def shown(time: int) -> str:
    """A time as messages show it."""
    try:
        return f"{_EPOCH + time * _MICROSECOND:%Y-%m-%d %H:%M:%S.%f}".removesuffix(".000000")
    except OverflowError:
        return f"{time} microseconds"
