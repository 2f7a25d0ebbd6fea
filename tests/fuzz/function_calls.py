"""Random calls of scalar functions, with arguments at the limits of their types.

A call has a few rows; each argument is a column or, the same for all rows, a literal. Values have the form of a
Literal: unscaled integers for decimals, days, microseconds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.errors import SqlError
from freshet.scalar.arrow import from_arrow
from freshet.scalar.column import Column
from freshet.scalar.expression import ColumnRef, Expression, Literal
from freshet.scalar.functions import FUNCTIONS, build, names, try_cast
from freshet.scalar.functions.rows import text_of
from freshet.scalar.functions.time_windows import WINDOW
from freshet.scalar.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTEGER_RANGE,
    MICROS,
    MONTHS,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    VARIANT,
    VOID,
    Type,
    array_of,
    decimal,
    map_of,
    struct_of,
)
from freshet.state import wide
from freshet.state.arrays import TEXT
from tests.fuzz.choices import Choices

FIRST_DAY, LAST_DAY, DAY = -719_162, 2_932_896, 86_400_000_000
PLANNED = {"plus_interval", "single", "only_row", "field"}  # no SQL names them
_NUMBERS = (0, 1, -1, 2, 3, -7, 10, 100, 255, 1000, -(10**9), 2 * 10**9, 10**18, 31, 12, 1970, 2024, 9999, 10_000)
_DOUBLES = (
    0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 0.1, 2.675, 1e-5, 1e7, 1e15, 1e22, 123456789.123, 1e301, -1e301, 5e-324,
    1.7976931348623157e308, 9.223372036854775807e18, -9.3e18, math.inf, -math.inf, math.nan, 3.4028235e38, 1e-45,
)  # fmt: skip
_TEXTS = (
    "", " ", "a", "A", "abc", "ab,cd,,ab", "hello wörld", "ß", "İı", "ΑΣ", "😀", "a😀é", "\0", "\x1f\x1b", "a\nb\r\n",
    "'", "\\", "%", "_", "a%b_c\\%", "-12", " 42 ", "1.5", "1e3", "NaN", "inf", "1e999999999", "99999999999999999999",
    "0x1F", "true", "no", "2024-02-29", "2023-02-29", "9999-12-31", "0001-01-01", "2024-02-29 13:14:15.123456",
    "+10000-01-01", "9999-12-31 23:59:59-18:00", "2024-02-29T01:02:03Z", "12:30", "day", "MONTH", "week",
    "yyyy-MM-dd HH:mm:ss", "MMMM d, y", "mo", "Sunday", "aaaaaaaaaa", "  x  ", "\u2028", "é\u0301", "𝔘𝔫𝔦", "utf-8",
)  # fmt: skip
_LONG = (
    ("a", 10_000), ("ab", 50_000), ("a", 1_000_000), ("1", 5_000), ("0", 5_000), ("😀", 20_000), (" ", 100_000),
    ("a,", 20_000), ("%", 2_000), ("ß", 30_000), ("a\n", 5_000),
)  # fmt: skip
_PATTERNS = (
    "a", "a*", "(a+)+$", "(a|aa)+$", "(.*)*", "(a|b|ab)*c", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*a){10}b", "a{1,1000}",
    "(a{1,100}){1,100}", "[^a]", ".", "$", "^", "", "(", "a**", r"\d+", r"(\w+)\s(\w+)", "(?i)HELLO", "(?s).", "x??",
    "(x+x+)+y", "[\\u0000-\\uffff]", r"\b", "(a)|(b)", "[a-z]+[0-9]*", "a|b|c|d|e|f|g", "(?:a?){30}a{30}", r"\\",
    "(a*)b|a", "(?=a)", "a(?!b)", "(?<=a|bc)[^a]", r"(?<!\s)\w+(?=$|\s)", "(?:(?!a.).)+", "(?<=a{0,9})b",
    "(?<=^|,)(?=[,b])",
)  # fmt: skip
_DATE_PATTERNS = (
    "yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd[ HH:mm[:ss[.SSSSSS]]]", "[yyyy-MM-dd][MM/dd/yyyy]", "d/M/y",
    "yyyy-MM-dd'T'HH:mm:ssX", "MMM d, yyyy h:mm a", "D yy", "EEEE MMMM", "yyyyMMdd", "k K h H S", "", "'", "[", "]",
    "d[d]", "G", "XXX", "''yyyy", "Q", "B",
)  # fmt: skip
_DATES = ("29/2/2024", "02/29/2024", "Feb 29, 2024 1:05 PM", "20240229", "60 24", "2024-02-29T13:14:15+02", "1", "12")
_READERS = {"to_date", "to_timestamp", "to_timestamp_ltz", "try_to_date", "try_to_timestamp", "unix_timestamp",
            "to_unix_timestamp", "date_format", "to_char", "to_varchar", "from_unixtime"}  # fmt: skip
_FORMATS = (
    "%s", "%d", "%5d|%s", "%-8s|%.2s", "%05d", "%,d %+d", "%x", "%.2f", "%08.1f", "%2$s %1$s", "%%", "%", "%(d", "% d",
    "a%nb", "%d %d %d", "%q", "%S", "%100000d", "%,.3f",
)  # fmt: skip
_FORMATTERS = {"format_string", "printf"}
_BYTES = (
    b"", b"\0", b"a", b"abc", b"\xff", b"\x7f\x80", b"\xde\xad\xbe\xef", "é😀".encode(), b"\xc3", b"\xed\xa0\x80",
    b"\xc0\x80", b"\xfe\xff\0a", b"\xff\xfea\0", b"\xff\xfe\0\0a\0\0\0", b"\xef\xbb\xbf", bytes(range(256)), b"\0\0",
    b"-12", b"2024-02-29",
)  # fmt: skip
_CHARSETS = ("utf-8", "UTF-8", "utf-16", "UTF-16LE", "utf-16be", "utf-32", "us-ascii", "ISO-8859-1", "latin1", "")
_BINARY_FORMATS = ("hex", "HEX", "base64", "utf-8", "UTF8", "x", "")
_ENCODED = (
    "6162",
    "616",
    "aF",
    "6g",
    " 61",
    "YWJj",
    "YWI=",
    "YW==",
    "YW",
    "Y",
    "YW =",
    "YW==\r\n",
    "YWJj\nYWJj",
    "=",
    "Y*W-J_j",
    "====",
)
_CHOSEN = {"encode": _CHARSETS, "decode": _CHARSETS, "to_binary": _BINARY_FORMATS, "try_to_binary": _BINARY_FORMATS}
_UNITS = (
    "day",
    "DAY",
    "month",
    "week",
    "year",
    "hour",
    "second",
    "microsecond",
    "quarter",
    "dow",
    "doy",
    "mm",
    "x",
    "",
)
_WEEKDAYS = ("mo", "Sunday", "TUE", "x", "")
_WHENS = ((DATE,), (TIMESTAMP,), (STRING,))
#: In the form in which VARIANTs are stored.
_VARIANTS = (
    "null", "true", "false", "0", "1", "-7", "300", "9223372036854775807", "12345678901234567890", "2.5", "-0.001",
    "1.0E10", "1000.0E0", "-1E999", '""', '"x"', '"5"', '"2024-02-29"', '"E"', "[]", "{}", '[1,2.5,"x",null,[true]]',
    '{"a":[1,{"b":"2"}],"b":null}', '{"a":{"a":[]},"é":"😀"}',
)  # fmt: skip
_JSON = (
    *_VARIANTS, " 1 ", "1.50", "1e3", "-0.0", "[1] x", "{", "", "[1,]", '{"a": 1, "a": 2}',
    '{"b": 1, "a": {"c": 0.10}}', '"\\u00e9\\n\\ud83d\\ude00"', '"\\ud83d"', "NaN", "1" * 39, "0." + "1" * 39,
    "1" * 1001, "[" * 3_000, "[" * 200_000,
)  # fmt: skip
_PATHS = ("$", "$.a", "$.a[0]", "$['b']", '$["é"]', "$[3]", "$[0].a.b", "a", "$.", "$[x]", "$[-1]")
_CASTS_OF_VARIANTS = (BOOLEAN, TINYINT, BIGINT, DOUBLE, decimal(5, 2), decimal(38, 10), STRING, DATE, TIMESTAMP)
_OF_VARIANTS: list[tuple[Type, ...]] = [(VARIANT,), (VARIANT, VARIANT), (BOOLEAN, VARIANT, VARIANT)]
_LISTS, _TEXT_LISTS, _MAP = array_of(INT), array_of(STRING), map_of(STRING, INT)
_STRUCT = struct_of([("x", INT), ("y", STRING)])
#: Functions that take a literal word: at which place, which words, and the types of their arguments.
_ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "+05:30", "PST", "UTC", "Nowhere", "-18")
_WORDS: dict[str, tuple[int, tuple[str, ...], list[tuple[Type, ...]]]] = {
    **dict.fromkeys(("date_part", "datepart"), (0, _UNITS, [(STRING, *t) for t in (*_WHENS, (MONTHS,), (MICROS,))])),
    "date_trunc": (0, _UNITS, [(STRING, *t) for t in _WHENS]),
    "trunc": (1, _UNITS, [(*t, STRING) for t in _WHENS]),
    "next_day": (1, _WEEKDAYS, [(*t, STRING) for t in _WHENS]),
    **dict.fromkeys(("from_utc_timestamp", "to_utc_timestamp"), (1, _ZONES, [(*t, STRING) for t in _WHENS])),
    "convert_timezone": (0, _ZONES, [(STRING, *t) for t in _WHENS]),
    **dict.fromkeys(
        ("variant_get", "try_variant_get"),
        (
            1,
            _PATHS,
            [(VARIANT, STRING), *((VARIANT, STRING, t) for t in (*_CASTS_OF_VARIANTS, _LISTS, _STRUCT, _MAP))],
        ),
    ),
    "timestampadd": (0, _UNITS, [(STRING, INT, *t) for t in _WHENS]),
    "timestampdiff": (0, _UNITS, [(STRING, *s, *t) for s in _WHENS for t in _WHENS]),
}
_REPLACEMENTS = ("", "x", "$0", "$1$1", "<$0>", "\\$", "xxxxxxxxxx" * 20)
_CLASSES = (INT, DOUBLE, decimal(38, 10), STRING, BINARY, DATE, TIMESTAMP, BOOLEAN)
_NESTED = (_LISTS, _TEXT_LISTS, array_of(_LISTS), array_of(_STRUCT), array_of(DOUBLE), _STRUCT, _MAP)
#: Types of three arguments that functions of nested values take.
_NESTED_THREE = ((_LISTS, INT, INT), (_TEXT_LISTS, STRING, STRING), (_LISTS, _LISTS, _LISTS))
_INTEGERS = (TINYINT, SMALLINT, INT, BIGINT)
_CASTS = (*_INTEGERS, FLOAT, DOUBLE, decimal(5, 2), decimal(38, 0), decimal(38, 38), STRING, BINARY, DATE, TIMESTAMP,
          BOOLEAN,          Type("STRING", length=3), Type("STRING", length=5, char=True),
          Type("STRING", length=2 * 10**9, char=True))  # fmt: skip


@dataclass(frozen=True)
class Argument:
    type: Type
    values: tuple[Any, ...]  # one for each row, or the literal
    is_literal: bool


@dataclass(frozen=True)
class FunctionCall:
    name: str
    args: tuple[Argument, ...]
    rows: int
    to: Type | None = None  # of a cast

    def expression(self, folded: int | None = None) -> Expression:
        """With its columns, or with one row's values in their place."""
        made: list[Expression] = []
        for i, a in enumerate(self.args):
            row = 0 if a.is_literal else folded
            made.append(ColumnRef(a.type, 0, i, f"c{i}") if row is None else Literal(a.type, a.values[row]))
        if self.name == "try_cast":
            assert self.to is not None
            return try_cast(made[0], self.to)
        return build(self.name, made, type=self.to)

    def columns(self, row: int | None = None) -> list[Column]:
        """The arguments as columns of all rows, or of one."""
        made = []
        for a in self.args:
            values = a.values * self.rows if a.is_literal else a.values
            made.append(as_column(a.type, values if row is None else values[row : row + 1]))
        return made

    def __str__(self) -> str:
        shown = [f"{a.type}{' literal' if a.is_literal else ''} {_short(a.values)}" for a in self.args]
        return f"{self.name}({'; '.join(shown)}){'' if self.to is None else f' to {self.to}'}, {self.rows} rows"


def _short(values: tuple[Any, ...]) -> str:
    return "[" + ", ".join(repr(v) if len(repr(v)) < 80 else f"{v[:20]!r} × {len(v)}" for v in values) + "]"


def as_column(type_: Type, values: Sequence[Any]) -> Column:
    valid = np.array([v is not None for v in values], np.bool_)
    known = None if valid.all() else valid
    if type_.pooled:
        empty = "" if type_.pooled == TEXT else b""
        return Column(type_, pa.array([v or empty for v in values], type_.pooled), known)
    if type_.is_fraction:
        return Column(type_, np.array([0.0 if v is None else v for v in values], np.float64), known)
    pairs = [wide.split(v or 0) for v in values]
    lo, hi = (np.array([p[i] for p in pairs], np.int64) for i in (1, 0))
    return Column(type_, lo, known, wide.narrow(lo, hi) if len(lo) else None)


@cache
def signatures() -> dict[str, list[tuple[Type, ...]]]:
    """Lists of argument types that functions take, for each name."""
    signatures_by_name: dict[str, list[tuple[Type, ...]]] = {
        "cast": [(t,) for t in _CLASSES],
        "try_cast": [(t,) for t in _CLASSES],
    }
    signatures_by_name |= {name: types for name, (_, _, types) in _WORDS.items()}
    for name in names():
        if name in PLANNED or name in _WORDS:
            continue
        if FUNCTIONS[name].variants:
            for types in _OF_VARIANTS:
                if _call_of(name, types) is not None:
                    signatures_by_name.setdefault(name, []).append(types)
        if FUNCTIONS[name].nested:
            for types in _nested_types():
                if _call_of(name, types) is not None:
                    signatures_by_name.setdefault(name, []).append(types)
        for count in range(5):
            classes = (*_CLASSES, MONTHS, MICROS) if count < 3 else _CLASSES if count == 3 else (INT, STRING, BINARY)
            for types in itertools.product(classes, repeat=count):
                if _call_of(name, types) is not None:
                    signatures_by_name.setdefault(name, []).append(types)
    return signatures_by_name


def _nested_types() -> Iterator[tuple[Type, ...]]:
    """Types of arguments, one of which at least is nested."""
    yield from ((t,) for t in (*_NESTED, WINDOW))
    pairs = itertools.product((*_NESTED, INT, STRING, BOOLEAN), repeat=2)
    yield from (pair for pair in pairs if any(t.is_nested for t in pair))
    yield from _NESTED_THREE


def calls_of(name: str) -> list[Expression]:
    """One call of a function for each list of types that it takes."""
    return [call for types in signatures()[name] if (call := _call_of(name, types)) is not None]


def _call_of(name: str, types: tuple[Type, ...]) -> Expression | None:
    """A call with arguments of these types: all of them are columns, or all but the first, or only the first."""
    sample: dict[str, Any] = {"STRING": "(1)" if "regexp" in name else "1", "DOUBLE": 1.0, "BINARY": b"1"}
    sample |= {"ARRAY": b"\0", "MAP": b"\0", "STRUCT": b"\1\1", "VARIANT": "1"}
    if name in _WORDS:
        sample["STRING"] = _WORDS[name][1][0]
    for literals in ((), (0,), range(1, len(types))):
        args = [
            Literal(t, sample.get(t.name, 1)) if i in literals else ColumnRef(t, 0, i, "c") for i, t in enumerate(types)
        ]
        try:
            return build(name, args)
        except SqlError:
            continue
    return None


def draw(choices: Choices, nested: bool = True) -> FunctionCall:
    """`nested`: whether arguments may be arrays, structs or maps."""
    known = signatures()
    if not nested:
        plain = {name: [t for t in types if not any(a.is_nested for a in t)] for name, types in known.items()}
        known = {name: types for name, types in plain.items() if types}
    name = choices.pick(("cast", "add", "subtract")) if choices.chance(8) else choices.pick(sorted(known))
    rows = choices.pick((1, 1, 2, 3, 5, 0))
    types = [_near(choices, t) for t in choices.pick(known[name])]
    args = []
    for place, type_ in enumerate(types):
        word = name in _FORMATTERS if not place else False
        word = word or (name in _WORDS and place == _WORDS[name][0])
        literal = choices.chance(95 if word else 60 if place else 10)
        count = 1 if literal else rows
        args.append(Argument(type_, tuple(_value(choices, name, place, type_) for _ in range(count)), literal))
    to = choices.pick(_CASTS) if name in ("cast", "try_cast") else None
    call = FunctionCall(name, tuple(args), rows, to)
    return call if not rows or any(not a.is_literal for a in call.args) else replace(call, rows=1)


def _near(choices: Choices, type_: Type) -> Type:
    """The type, another of its class, or rarely any."""
    if choices.chance(4):
        return choices.pick((*_CLASSES, VOID, MONTHS, MICROS))
    if type_ is INT:
        return choices.pick((INT, *_INTEGERS))
    if type_ is DOUBLE:
        return choices.pick((DOUBLE, FLOAT))
    if type_.name == "DECIMAL":
        precision = choices.pick((10, 1, 5, 18, 19, 38))
        return decimal(precision, choices.pick((0, 2, precision)) if precision > 1 else 0)
    return type_


def _value(choices: Choices, name: str, place: int, type_: Type) -> Any:
    if choices.chance(8) or type_.name == "VOID":
        return None
    if type_.is_nested:
        array = pa.array([_nested(choices, type_)], type_.to_arrow())
        return text_of(from_arrow(array, type_))[0].as_py()
    if type_ is VARIANT:
        return choices.pick(_VARIANTS)
    if type_.name == "STRING":
        return _text(choices, name, place)
    if type_ is BINARY:
        return _bytes(choices, name, place)
    if type_.is_fraction:
        value = choices.pick(_DOUBLES)
        return (
            float(np.float32(value))
            if type_ is FLOAT and abs(value) < 3.5e38
            else math.inf
            if type_ is FLOAT
            else value
        )
    if type_ is BOOLEAN:
        return choices.below(2)
    if type_ is DATE:
        return choices.pick((0, FIRST_DAY, LAST_DAY, 19_782, -1, 59, LAST_DAY - 30, FIRST_DAY + 31))
    if type_ is TIMESTAMP:
        day = choices.pick((0, FIRST_DAY, LAST_DAY, 19_782, -1))
        return day * DAY + choices.pick((0, 1, DAY - 1, 47_655_123_456))
    if type_ in (MONTHS, MICROS):
        return choices.pick((0, 1, -1, 12, 120_000, -(10**12), 2**31, 2**62, 2**63 - 1, -(2**63)))
    if type_.name == "DECIMAL":
        most = 10**type_.precision - 1
        return choices.pick((0, 1, -1, most, -most, most // 2, min(5, most), -min(15, most), most // 10 + 1))
    least, greatest = INTEGER_RANGE[type_.name]
    return choices.pick((least, greatest, *(n for n in _NUMBERS if least <= n <= greatest)))


def _nested(choices: Choices, type_: Type) -> Any:
    """A value of Python, small enough for any number of them."""
    if type_.name == "ARRAY":
        return [_part(choices, type_.parts[0]) for _ in range(choices.below(4))]
    if type_.name == "MAP":
        return [(key, _part(choices, INT)) for key in ("a", "", "\0")[: choices.below(4)]]
    return {name: _part(choices, t) for name, t in type_.fields}


def _part(choices: Choices, type_: Type) -> Any:
    if choices.chance(20):
        return None
    if type_.is_nested:
        return _nested(choices, type_)
    if type_ is INT:
        return choices.pick((0, 1, 2, -1))
    if type_ is TIMESTAMP:
        return choices.pick((0, 1, DAY, -(10**15)))
    return choices.pick((0.0, 1.5, math.nan, -math.inf)) if type_ is DOUBLE else choices.pick(("", "a", "\0"))


def _bytes(choices: Choices, name: str, place: int) -> bytes:
    if choices.chance(4):
        return choices.pick(_BYTES) * choices.pick((1_000, 100_000))
    return choices.pick(_BYTES) + choices.pick(_BYTES) if choices.chance(15) else choices.pick(_BYTES)


def _text(choices: Choices, name: str, place: int) -> str:
    if name in _WORDS and place == _WORDS[name][0] and choices.chance(90):
        return choices.pick(_WORDS[name][1])
    if name in _CHOSEN and place == 1 and choices.chance(90):
        return choices.pick(_CHOSEN[name])
    if name in ("unhex", "unbase64", "to_binary", "try_to_binary") and not place and choices.chance(80):
        return choices.pick(_ENCODED)
    pattern = "regexp" in name or name == "rlike"
    if pattern and place == 1:
        return choices.pick(_PATTERNS)
    if pattern and place == 2:
        return choices.pick(_REPLACEMENTS)
    if name in _FORMATTERS and not place:
        return choices.pick(_FORMATS)
    if name in ("parse_json", "try_parse_json") and choices.chance(90):
        return choices.pick(_JSON)
    if name in _READERS and choices.chance(80):
        return choices.pick(_DATE_PATTERNS if place else (*_DATES, *_TEXTS))
    if choices.chance(6):
        part, times = choices.pick(_LONG)
        return part * times
    if choices.chance(15):
        return choices.pick(_TEXTS) + choices.pick(_TEXTS)
    return choices.pick(_TEXTS)
