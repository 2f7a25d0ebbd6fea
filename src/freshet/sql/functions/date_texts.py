"""Dates and timestamps as text, by a pattern.

A pattern is a literal of the letters of Java's DateTimeFormatter listed in _WRITTEN; any other letter is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from freshet.column import TEXT, Column, Int64s
from freshet.errors import SqlError, UnsupportedError
from freshet.sql.expression import Call, Expression, Literal
from freshet.sql.functions.calendar import DAYS, only
from freshet.sql.functions.casting import cast
from freshet.sql.functions.datetime import DAY, WHEN, day_of_month, months, year_start
from freshet.sql.functions.registry import Step, refuse, resolves, strict
from freshet.sql.functions.rows import joined
from freshet.types import BIGINT, STRING, TIMESTAMP

_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip


def _number(width: int, part: Callable[[Int64s], Int64s]) -> Callable[[Int64s], Any]:
    """Digits, with zeros before them up to a width."""

    def write(t: Int64s) -> Any:
        text = pc.cast(pa.array(part(t)), TEXT)
        return pc.utf8_lpad(text, width, "0") if width > 1 else text

    return write


def _named(names: tuple[str, ...], part: Callable[[Int64s], Int64s], letters: int | None) -> Callable[[Int64s], Any]:
    # Made at its first use: pyarrow's first array of a list imports pandas, which takes longer than Freshet itself.
    known = cache(lambda: pa.array([n[:letters] for n in names], TEXT))
    return lambda t: known().take(pa.array(part(t)))


def _date_part(part: Callable[[Int64s], Int64s]) -> Callable[[Int64s], Int64s]:
    return lambda t: part(t // DAY)


_YEAR = _date_part(lambda d: months(d) // 12 + 1970)
_MONTH = _date_part(lambda d: months(d) % 12)
_DAY_OF_WEEK = _date_part(lambda d: (d + 3) % 7)
_WRITTEN: dict[str, Callable[[Int64s], Any]] = {
    "yyyy": _number(4, _YEAR), "y": _number(1, _YEAR), "yy": _number(2, lambda t: _YEAR(t) % 100),
    "MM": _number(2, lambda t: _MONTH(t) + 1), "M": _number(1, lambda t: _MONTH(t) + 1),
    "MMM": _named(_MONTHS, _MONTH, 3), "MMMM": _named(_MONTHS, _MONTH, None),
    "dd": _number(2, _date_part(day_of_month)), "d": _number(1, _date_part(day_of_month)),
    "D": _number(1, _date_part(lambda d: d - year_start(d) + 1)),
    "DDD": _number(3, _date_part(lambda d: d - year_start(d) + 1)),
    "E": _named(DAYS, _DAY_OF_WEEK, 3), "EEE": _named(DAYS, _DAY_OF_WEEK, 3),
    "EEEE": _named(DAYS, _DAY_OF_WEEK, None),
    "HH": _number(2, lambda t: t // 3_600_000_000 % 24), "H": _number(1, lambda t: t // 3_600_000_000 % 24),
    "hh": _number(2, lambda t: (t // 3_600_000_000 - 1) % 12 + 1),
    "h": _number(1, lambda t: (t // 3_600_000_000 - 1) % 12 + 1),
    "a": _named(("AM", "PM"), lambda t: t // 3_600_000_000 % 24 // 12, None),
    "mm": _number(2, lambda t: t // 60_000_000 % 60), "m": _number(1, lambda t: t // 60_000_000 % 60),
    "ss": _number(2, lambda t: t // 1_000_000 % 60), "s": _number(1, lambda t: t // 1_000_000 % 60),
    "S": _number(1, lambda t: t // 100_000 % 10), "SS": _number(2, lambda t: t // 10_000 % 100),
    "SSS": _number(3, lambda t: t // 1_000 % 1_000), "SSSSSS": _number(6, lambda t: t % 1_000_000),
    "q": _number(1, lambda t: _MONTH(t) // 3 + 1), "Q": _number(1, lambda t: _MONTH(t) // 3 + 1),
}  # fmt: skip
_LONGEST = 500  # characters of a pattern
_PIECES = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+")


def _pieces(name: str, argument: Expression) -> list[str]:
    """A pattern cut into runs of one letter, and text in quotes."""
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        raise SqlError(f"the pattern of {name.upper()} must be a literal")
    pattern, at, found = argument.value, 0, []
    if len(pattern) > _LONGEST:
        reason = f"the pattern of {name.upper()} has {len(pattern):,} characters; {_LONGEST} are the most"
        raise SqlError(f"{reason}: write it in parts")
    while at < len(pattern):
        piece = _PIECES.match(pattern, at)
        if piece is None:
            raise SqlError(f"the pattern {pattern!r} of {name.upper()} has a quote that is not closed; close it")
        if piece[1] and piece[0] not in _WRITTEN:
            known = " ".join(_WRITTEN)
            raise UnsupportedError(f"{piece[0]} in the pattern of {name.upper()} is not supported; these are: {known}")
        if set(piece[0]) & set("[]{}#"):
            raise UnsupportedError(f"[]{{}}# in the pattern of {name.upper()} are not supported; put them into quotes")
        found.append(piece[0])
        at = piece.end()
    return found


@resolves("date_format", takes="a DATE or TIMESTAMP and a literal pattern")
def _resolve_format(name: str, args: tuple[Expression, ...]) -> Expression:
    only(name, args, WHEN, ("STRING",))
    _pieces(name, args[1])
    return Call(STRING, "date_format", (cast(args[0], TIMESTAMP), args[1]))


@resolves("from_unixtime", takes="seconds since 1970-01-01, and optionally a literal pattern")
def _resolve_from_unixtime(name: str, args: tuple[Expression, ...]) -> Expression:
    if not 1 <= len(args) <= 2 or not (args[0].type.is_integer or args[0].type.name == "VOID"):
        raise refuse(name, args)
    pattern = args[1] if len(args) == 2 else Literal(STRING, "yyyy-MM-dd HH:mm:ss")
    return _resolve_format("date_format", (Call(TIMESTAMP, "timestamp_seconds", (cast(args[0], BIGINT),)), pattern))


@strict("date_format", total=True)
def _date_format(call: Call) -> Step:
    pieces = _pieces("date_format", call.args[1])

    def step(a: Column, _: Column) -> Column:
        if not pieces:
            return Column(STRING, pa.array([""] * len(a), TEXT), a.valid)
        texts: list[Any] = [_written(piece, a.data) for piece in pieces]
        if all(isinstance(t, str) for t in texts):
            return Column(STRING, pa.array(["".join(texts)] * len(a), TEXT), a.valid)
        return Column(STRING, joined(*texts), a.valid)

    return step


def _written(piece: str, data: Int64s) -> Any:
    if piece in _WRITTEN:
        return _WRITTEN[piece](data)
    if piece == "''":
        return "'"
    return piece[1:-1].replace("''", "'") if piece.startswith("'") else piece


@resolves("monthname", "dayname", takes="a DATE")
def _resolve_named(name: str, args: tuple[Expression, ...]) -> Expression:
    only(name, args, WHEN)
    pattern = Literal(STRING, "MMM" if name == "monthname" else "EEE")
    return Call(STRING, "date_format", (cast(args[0], TIMESTAMP), pattern))
