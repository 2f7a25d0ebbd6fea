"""Dates and timestamps written as text, by a pattern."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.binary import written_as
from freshet.scalar.functions.calendar import only
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.date_patterns import DAYS, MONTHS, Piece, cut, literal_pattern, unknown
from freshet.scalar.functions.datetime import DAY, WHEN, day_of_month, months, year_start
from freshet.scalar.functions.registry import Function, Step, declare, refuse
from freshet.scalar.functions.rows import joined
from freshet.scalar.functions.text_calls import is_number
from freshet.scalar.types import BIGINT, STRING, TIMESTAMP
from freshet.state.arrays import TEXT, Int64s


def _number(width: int, part: Callable[[Int64s], Int64s]) -> Callable[[Int64s], Any]:
    """Digits, padded with zeros to a width."""

    def write(t: Int64s) -> Any:
        text = pc.cast(pa.array(part(t)), TEXT)
        return pc.utf8_lpad(text, width, "0") if width > 1 else text

    return write


def _named(names: Sequence[str], part: Callable[[Int64s], Int64s], letters: int | None) -> Callable[[Int64s], Any]:
    # Created at first use: pyarrow's first array of a list imports pandas, which takes longer than Freshet itself.
    known = cache(lambda: pa.array([n[:letters] for n in names], TEXT))
    return lambda t: known().take(pa.array(part(t)))


def _date_part(part: Callable[[Int64s], Int64s]) -> Callable[[Int64s], Int64s]:
    return lambda t: part(t // DAY)


def _time_part(size: int, many: int, first: int = 0) -> Callable[[Int64s], Int64s]:
    """A unit of time counted from `first` on."""
    return lambda t: (t // size - first) % many + first


_YEAR = _date_part(lambda d: months(d) // 12 + 1970)
_MONTH = _date_part(lambda d: months(d) % 12)
_DAY_OF_WEEK = _date_part(lambda d: (d + 3) % 7)
_HOUR, _MINUTE, _SECOND = 3_600_000_000, 60_000_000, 1_000_000
#: Numeric fields, and their maximal number of letters.
_NUMBERS: dict[str, tuple[Callable[[Int64s], Int64s], int]] = {
    "y": (_YEAR, 6), "M": (lambda t: _MONTH(t) + 1, 2), "L": (lambda t: _MONTH(t) + 1, 2),
    "d": (_date_part(day_of_month), 2), "D": (_date_part(lambda d: d - year_start(d) + 1), 3),
    "Q": (lambda t: _MONTH(t) // 3 + 1, 2), "q": (lambda t: _MONTH(t) // 3 + 1, 2),
    "F": (_date_part(lambda d: (day_of_month(d) - 1) % 7 + 1), 1), "g": (_date_part(lambda d: d + 40_587), 1),
    "H": (_time_part(_HOUR, 24), 2), "k": (_time_part(_HOUR, 24, 1), 2), "K": (_time_part(_HOUR, 12), 2),
    "h": (_time_part(_HOUR, 12, 1), 2), "m": (_time_part(_MINUTE, 60), 2), "s": (_time_part(_SECOND, 60), 2),
}  # fmt: skip
_QUARTERS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
#: Fields that are constant in UTC, by their letters.
_CONSTANT = {
    **dict.fromkeys(("G", "GG", "GGG"), "AD"), "GGGG": "Anno Domini",
    **dict.fromkeys(("VV", "z", "zz", "zzz", "v"), "UTC"), "zzzz": "Coordinated Universal Time",
    **dict.fromkeys(("O", "OOOO", "ZZZZ"), "GMT"),
    **dict.fromkeys(("X", "XX", "XXX", "XXXX", "XXXXX", "ZZZZZ"), "Z"), "x": "+00",
    **dict.fromkeys(("xx", "xxxx", "Z", "ZZ", "ZZZ"), "+0000"), **dict.fromkeys(("xxx", "xxxxx"), "+00:00"),
}  # fmt: skip
_LETTERS = "y M L d D g Q q F E H k K h m s S a G V z v O X x Z"


def _writer(name: str, piece: Piece) -> str | Callable[[Int64s], Any]:
    """The formatter of a piece of a pattern: a text, or a function of timestamps."""
    letter, count = piece.letter, piece.count
    if not letter:
        return piece.text
    if piece.is_bracket:
        return ""
    if piece.text in _CONSTANT:
        return _CONSTANT[piece.text]
    if piece.text == "yy":
        return _number(2, lambda t: _YEAR(t) % 100)
    if letter in _NUMBERS and count <= _NUMBERS[letter][1]:
        return _number(count, _NUMBERS[letter][0])
    if letter in "ML" and count in (3, 4):
        return _named(MONTHS, _MONTH, 3 if count == 3 else None)
    if letter in "Qq" and count in (3, 4):
        names = ("Q1", "Q2", "Q3", "Q4") if count == 3 else _QUARTERS
        return _named(names, lambda t: _MONTH(t) // 3, None)
    if letter == "E" and count <= 4:
        return _named(DAYS, _DAY_OF_WEEK, 3 if count < 4 else None)
    if piece.text == "a":
        return _named(("AM", "PM"), lambda t: t // _HOUR % 24 // 12, None)
    if letter == "S" and count <= 9:
        return _number(count, lambda t: t % _SECOND * 10 ** max(count - 6, 0) // 10 ** max(6 - count, 0))
    raise unknown(name, piece, _LETTERS)


def _writers(name: str, pattern: str) -> list[str | Callable[[Int64s], Any]]:
    return [_writer(name, piece) for piece in cut(name, pattern)]


def _format(name: str, moment: Expression, pattern: Expression) -> Expression:
    given = literal_pattern(name, pattern)
    if given.value is None:
        return given
    _writers(name, str(given.value))
    return Call(STRING, "date_format", (cast(moment, TIMESTAMP), given))


def _resolve_format(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 2 or args[0].type.name not in WHEN:
        raise refuse(name, args)
    return _format(name, *args)


def _resolve_to_char(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) == 2 and args[0].type.name == "BINARY":
        return written_as(name, *args)
    if len(args) != 2 or args[0].type.name not in ("DATE", "TIMESTAMP"):
        raise refuse(name, args)
    return _format(name, *args)


def _resolve_from_unixtime(name: str, args: tuple[Expression, ...]) -> Expression:
    if not 1 <= len(args) <= 2 or not is_number(args[0].type):
        raise refuse(name, args)
    pattern = args[1] if len(args) == 2 else Literal(STRING, "yyyy-MM-dd HH:mm:ss")
    return _format(name, Call(TIMESTAMP, "timestamp_seconds", (cast(args[0], BIGINT),)), pattern)


def _date_format(call: Call) -> Step:
    assert isinstance(call.args[1], Literal)
    writers = _writers("date_format", str(call.args[1].value))

    def step(a: Column, _: Column) -> Column:
        texts: list[Any] = [w if isinstance(w, str) else w(a.data) for w in writers]
        if all(isinstance(t, str) for t in texts):
            return Column(STRING, pa.array(["".join(texts)] * len(a), TEXT), a.valid)
        return Column(STRING, joined(*texts), a.valid)

    return step


def _resolve_named(name: str, args: tuple[Expression, ...]) -> Expression:
    only(name, args, WHEN)
    pattern = Literal(STRING, "MMM" if name == "monthname" else "EEE")
    return Call(STRING, "date_format", (cast(args[0], TIMESTAMP), pattern))


declare(
    Function("date_format", "a DATE or TIMESTAMP and a literal pattern", _resolve_format, _date_format, total=True),
    Function(
        "to_char",
        "a DATE or TIMESTAMP and a literal pattern, or BINARY and 'hex', 'base64' or 'utf-8'; "
        "cast numbers to STRING instead",
        _resolve_to_char,
        also=("to_varchar",),
    ),
    Function("from_unixtime", "seconds since 1970-01-01, and optionally a literal pattern", _resolve_from_unixtime),
    *(Function(name, "a DATE", _resolve_named) for name in ("monthname", "dayname")),
)
