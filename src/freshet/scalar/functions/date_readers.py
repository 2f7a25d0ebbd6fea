"""Texts parsed as timestamps by a pattern, a whole column at a time.

A pattern becomes one regular expression with a group for each field. Java parses from left to right and never
backtracks; a regular expression does. If that could matter, because an optional part begins like what follows it,
Python matches each distinct text with atomic groups. Repeated fields must agree; missing fields are those of 1970-01-01
00:00.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from freshet.errors import EvaluationError, SqlError, brief
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.attempts import try_cast
from freshet.scalar.functions.calendar import seconds_since
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.date_patterns import MONTHS, Piece, cut, literal_pattern, unknown
from freshet.scalar.functions.datetime import WHEN, first_day
from freshet.scalar.functions.nulls import IF_ANY_OR_ELSE
from freshet.scalar.functions.registry import Function, Step, declare, refuse
from freshet.scalar.functions.rows import both, strings, text_of
from freshet.scalar.types import BIGINT, DATE, STRING, TIME_RANGE, TIMESTAMP
from freshet.state.arrays import TEXT, Bools, Int64s

_LETTERS = "y M L d D H k K h m s S a G O X x Z"
_HALVES, _ERAS = ("am", "pm"), ("bc", "ad")
_ERAS_IN_FULL = ("before christ", "anno domini")
_DIGIT = "0"  # represents every digit among the characters that a piece may begin with
_END = ""
#: Offsets from UTC: the text for a zero offset, and the form of others.
_COLONS = r"([+-])(\d\d):(\d\d)(?::(\d\d))?"
_OFFSETS = {
    "X": r"z|([+-])(\d\d)(\d\d)?()", "XX": r"z|([+-])(\d\d)(\d\d)()", "XXX": r"z|([+-])(\d\d):(\d\d)()",
    "XXXX": r"z|([+-])(\d\d)(\d\d)(\d\d)?", "XXXXX": rf"z|{_COLONS}", "ZZZZZ": rf"z|{_COLONS}",
    "x": r"([+-])(\d\d)(\d\d)?()", "xx": r"([+-])(\d\d)(\d\d)()", "xxx": r"([+-])(\d\d):(\d\d)()",
    "xxxx": r"([+-])(\d\d)(\d\d)(\d\d)?", "xxxxx": _COLONS, "Z": r"([+-])(\d\d)(\d\d)()",
    "O": r"gmt(?:([+-])(\d\d?)(?::(\d\d))?(?::(\d\d))?)?", "OOOO": rf"gmt(?:{_COLONS})?",
}  # fmt: skip
_OFFSETS |= {"ZZ": _OFFSETS["Z"], "ZZZ": _OFFSETS["Z"], "ZZZZ": _OFFSETS["OOOO"]}
_PUNCTUATION = re.compile(r"[!-/:-@[-`{-~]")
_VARIABLE = r"\d{1,18}"


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of a pattern as a regular expression. `begins`: the characters it may begin with; `field`: the meaning of
    its group; `size`: its number of digits, None if it varies."""

    regex: str
    begins: frozenset[str]
    field: str = ""
    size: int | None = None

    @property
    def is_number(self) -> bool:
        return self.begins == {_DIGIT}


def _numbered(letter: str, count: int) -> _Part | None:
    """A field of digits."""
    digits = frozenset((_DIGIT,))
    name = {"L": "M"}.get(letter, letter)
    if letter == "S" and count <= 9:
        return _Part(rf"\d{{1,{count}}}", digits, "S")
    if letter == "y" and count == 2:
        return _Part(r"\d{2}", digits, "yy", 2)
    if letter == "y" and count <= 6:
        return _Part(_VARIABLE if count == 1 else rf"\d{{{count}{',18' if count == 3 else ''}}}", digits, name)
    if letter == "D" and count <= 3:
        return _Part((_VARIABLE, r"\d{2,3}", r"\d{3}")[count - 1], digits, name, 3 if count == 3 else None)
    if letter in "MLdHkKhms" and count <= 2:
        return _Part(_VARIABLE, digits, name) if count == 1 else _Part(r"\d{2}", digits, name, 2)
    return None


def _named(names: tuple[str, ...], field: str) -> _Part:
    return _Part("|".join(n.lower() for n in names), frozenset(n[0].lower() for n in names), field)


def _part(name: str, piece: Piece) -> _Part:
    letter, count = piece.letter, piece.count
    if not letter:
        first = piece.text[0].lower()
        return _Part(_PUNCTUATION.sub(r"\\\g<0>", piece.text), frozenset((_DIGIT if first.isdigit() else first,)))
    part = _numbered(letter, count)
    if part is not None:
        return part
    if letter in "ML" and count in (3, 4):
        return _named(tuple(m[:3] if count == 3 else m for m in MONTHS), f"{'M' * count}")
    if piece.text == "a":
        return _named(_HALVES, "a")
    if letter == "G" and count <= 4:
        return _named(_ERAS if count < 4 else _ERAS_IN_FULL, "G")
    if piece.text in _OFFSETS:
        begins = "g" if letter == "O" or (count == 4 and letter == "Z") else "+-z" if letter != "x" else "+-"
        return _Part(_OFFSETS[piece.text], frozenset(begins), "offset")
    raise unknown(name, piece, _LETTERS)


@dataclass(slots=True)
class _DateReader:
    """The regular expression of a pattern, and the meaning of its groups: a field, or four parts of an offset."""

    pattern: str
    regex: str
    fields: list[str]
    atomic: bool  # whether it has groups that only Python supports

    def groups(self, texts: pa.Array) -> tuple[list[pa.Array], Bools]:
        """The texts of each group, empty if it is missing, and which texts match."""
        if self.atomic:
            return self._groups_in_python(texts)
        if not self.fields:
            fits = pc.fill_null(pc.match_substring_regex(texts, self.regex), False)
            return [], np.array(fits.to_numpy(zero_copy_only=False))
        matches = pc.extract_regex(texts, self.regex)
        columns = [
            pc.fill_null(matches.field(i), "") if matches.null_count else matches.field(i)
            for i in range(len(self.fields))
        ]
        return columns, np.array(matches.is_valid().to_numpy(zero_copy_only=False))

    def _groups_in_python(self, texts: pa.Array) -> tuple[list[pa.Array], Bools]:
        codes = texts.dictionary_encode()
        matches = [re.fullmatch(self.regex, text) for text in codes.dictionary.to_pylist()]
        which = codes.indices.fill_null(len(matches))
        columns = [
            pa.array([(m[f"f{i}"] or "") if m else "" for m in [*matches, None]], TEXT).take(which)
            for i in range(len(self.fields))
        ]
        return columns, np.array([m is not None for m in [*matches, None]])[which.to_numpy(zero_copy_only=False)]


@cache
def _reader(name: str, pattern: str) -> _DateReader:
    pieces = cut(name, pattern)
    parts = [None if p.is_bracket else _part(name, p) for p in pieces]
    atomic = _is_atomic(name, pattern, pieces, parts)
    written, fields = "", list[str]()
    for piece, part in zip(pieces, parts, strict=True):
        if part is None:
            opening, closing = ("(?>(?:", ")?)") if atomic else ("(?:", ")?")
            written += opening if piece.text == "[" else closing
        elif part.field == "offset":
            inside = part.regex
            for name_ in ("sign", "hours", "minutes", "seconds"):
                inside = re.sub(r"(?<!\\)\((?!\?)", f"(?P<f{len(fields)}>", inside, count=1)
                fields.append(name_)
            written += f"(?>{inside})" if atomic else f"(?:{inside})"
        elif part.field:
            written += f"(?P<f{len(fields)}>(?>{part.regex}))" if atomic else f"(?P<f{len(fields)}>{part.regex})"
            fields.append(part.field)
        else:
            written += part.regex
    return _DateReader(pattern, f"(?isa){written}" if atomic else rf"(?is)\A{written}\z", fields, atomic)


def _is_atomic(name: str, pattern: str, pieces: list[Piece], parts: list[_Part | None]) -> bool:
    """Whether Java, which never backtracks, may parse a text differently from a regular expression."""

    def begins(at: int) -> frozenset[str]:
        """The characters with which the rest of a pattern may begin."""
        first: frozenset[str] = frozenset()
        while at < len(pieces):
            part = parts[at]
            if part is not None:
                return first | part.begins
            if pieces[at].text == "[":
                first |= begins(at + 1)
                at = _closing(pieces, at)
            at += 1
        return first | {_END}

    atomic = False
    running = False  # in a number of variable length, which reserves digits for the fields after it
    for at, part in enumerate(parts):
        after = parts[at + 1] if at + 1 < len(parts) else None
        if part is None:
            running = False
            if pieces[at].text == "[" and begins(at + 1) & begins(_closing(pieces, at) + 1):
                atomic = True
            continue
        if not part.is_number or not part.field:
            running = False
            continue
        running = running or (part.size is None and part.field != "S")
        follows = begins(at + 1)
        fixed = after is not None and after.size is not None
        if _DIGIT in follows and ((part.field == "S" or running) and not (fixed and part.field != "S")):
            if after is None:  # a bracket: nothing is reserved for what follows it
                atomic = True
                continue
            what = "a number of variable length is directly before another"
            raise SqlError(f"{what} in the pattern {pattern!r} of {name.upper()}; separate them")
    return atomic


def _closing(pieces: list[Piece], at: int) -> int:
    depth = 0
    for i in range(at, len(pieces)):
        if pieces[i].is_bracket:
            depth += 1 if pieces[i].text == "[" else -1
            if not depth:
                return i
    raise AssertionError("brackets are checked where the pattern is split")


# Typing ---------------------------------------------------------------------------------------------------------

_DEFAULT = Literal(STRING, "yyyy-MM-dd HH:mm:ss")


def _read(name: str, args: tuple[Expression, ...], attempt: bool = False) -> Expression:
    """A text as the TIMESTAMP that a pattern reads."""
    text, pattern = args[0], literal_pattern(name, args[1])
    if pattern.value is None:
        return cast(pattern, TIMESTAMP)
    _reader(name, str(pattern.value))
    return Call(TIMESTAMP, "try_read_timestamp" if attempt else "read_timestamp", (cast(text, STRING), pattern))


def _resolve_moment(name: str, args: tuple[Expression, ...]) -> Expression:
    kind, most = DATE if name in ("to_date", "date") else TIMESTAMP, 1 if name in ("date", "timestamp") else 2
    if not 1 <= len(args) <= most:
        raise refuse(name, args)
    given = args[0].type
    if len(args) == 2 and (given.name in ("STRING", "VOID") or (name == "to_date" and given.name not in WHEN)):
        return cast(_read(name, args), kind)
    if given.name not in WHEN and not (given.is_numeric and len(args) == 1 and kind is TIMESTAMP):
        raise refuse(name, args)
    return cast(args[0], kind)


def _resolve_try(name: str, args: tuple[Expression, ...]) -> Expression:
    if not 1 <= len(args) <= 2 or args[0].type.name not in WHEN:
        raise refuse(name, args)
    kind = DATE if name == "try_to_date" else TIMESTAMP
    if len(args) == 2 and args[0].type.name in ("STRING", "VOID"):
        return cast(_read(name, args, True), kind)
    return try_cast(args[0], kind)


def _resolve_unix(name: str, args: tuple[Expression, ...]) -> Expression:
    texts = all(a.type.name in ("STRING", "VOID") for a in args[1:])
    if not 1 <= len(args) <= 2 or args[0].type.name not in WHEN or not texts:
        raise refuse(name, args)
    if args[0].type.name == "STRING":
        return Call(BIGINT, "unix_timestamp", (_read(name, (args[0], args[1] if len(args) == 2 else _DEFAULT)),))
    return Call(BIGINT, "unix_timestamp", (cast(args[0], TIMESTAMP),))


# Computing ------------------------------------------------------------------------------------------------------


def _compute(call: Call) -> Step:
    assert isinstance(call.args[1], Literal)
    attempt, reader = call.name == "try_read_timestamp", _reader("to_timestamp", str(call.args[1].value))

    def step(text: Column, _: Column) -> Column:
        texts = strings(text_of(text))
        data, good = _moments(reader, texts)
        if attempt:
            return Column(TIMESTAMP, data, both(good, text.valid))
        bad = ~good if text.valid is None else ~good & text.valid
        if bad.any():
            row = int(bad.argmax())
            shown = brief(texts[row].as_py())
            raise EvaluationError(f"{shown} does not match the pattern {reader.pattern!r}; correct one of them", row)
        return Column(TIMESTAMP, data, text.valid)

    return step


class _Fields:
    """The groups of a column of texts as numbers, and where they are present."""

    def __init__(self, reader: _DateReader, texts: pa.Array) -> None:
        groups, self.good = reader.groups(texts)
        good, self.rows = self.good, len(self.good)
        self.values: dict[str, tuple[Int64s, Bools]] = {}
        for name, text in zip(reader.fields, groups, strict=True):
            there = np.asarray(pc.not_equal(text, "")) & good
            numbers = _numbers(name, text)
            self._take({"yy": "y", "MMM": "M", "MMMM": "M"}.get(name, name), numbers, there)

    def _take(self, name: str, numbers: Int64s, there: Bools) -> None:
        if name in self.values:
            before, known = self.values[name]
            self.good &= ~(known & there & (before != numbers))
            numbers, there = np.where(known, before, numbers), known | there
        self.values[name] = numbers, there

    def get(self, name: str, default: int, least: int, most: int) -> Int64s:
        """A field, which is checked to be within bounds if it is present."""
        if name not in self.values:
            return np.full(self.rows, default, np.int64)
        numbers, there = self.values[name]
        self.good &= ~there | ((numbers >= least) & (numbers <= most))
        return np.where(there & (numbers >= least) & (numbers <= most), numbers, default)

    def has(self, name: str) -> Bools:
        return self.values[name][1] if name in self.values else np.zeros(self.rows, np.bool_)


def _numbers(name: str, text: pa.Array) -> Int64s:
    """The texts of a group as numbers; meaningless where it is missing."""
    names = {"MMM": [m[:3].lower() for m in MONTHS], "MMMM": [m.lower() for m in MONTHS], "a": list(_HALVES),
             "sign": ["-", "+"]}.get(name)  # fmt: skip
    if name == "G":
        names = [*_ERAS, *_ERAS_IN_FULL]
    if names is not None:
        places = pc.index_in(pc.utf8_lower(text), pa.array(names, text.type))
        number = np.asarray(pc.fill_null(places, 0)).astype(np.int64)
        return number % 2 if name == "G" else number + (name in ("MMM", "MMMM"))
    if name == "S":
        text = pc.utf8_slice_codeunits(pc.utf8_rpad(text, 6, "0"), 0, 6)
    digits = pc.if_else(pc.equal(text, ""), "0", text)
    numbers = np.asarray(pc.cast(digits, pa.int64()))
    return numbers + 2000 if name == "yy" else numbers


def _moments(reader: _DateReader, texts: pa.Array) -> tuple[Int64s, Bools]:
    fields = _Fields(reader, texts)
    micros = (_days(fields) * 86_400 + _seconds(fields) - _offsets(fields)) * 1_000_000 + fields.get("S", 0, 0, 999_999)
    least, greatest = TIME_RANGE["TIMESTAMP"]
    good = fields.good & (micros >= least) & (micros <= greatest)
    return np.where(good, micros, 0), good


def _days(fields: _Fields) -> Int64s:
    year, month = fields.get("y", 1970, 1, 9999), fields.get("M", 1, 1, 12)
    day, within = fields.get("d", 1, 1, 31), fields.get("D", 1, 1, 366)
    fields.get("G", 1, 1, 1)
    count = (year - 1970) * 12 + month - 1
    days = first_day(count) + day - 1
    fields.good &= fields.has("D") | (day <= first_day(count + 1) - first_day(count))
    start = first_day((year - 1970) * 12)
    by_number = start + within - 1
    fields.good &= ~fields.has("D") | (by_number < first_day((year - 1969) * 12))
    agree = (~fields.has("M") | (_month(by_number) == month)) & (~fields.has("d") | (_day(by_number) == day))
    fields.good &= ~fields.has("D") | agree
    return np.where(fields.has("D"), by_number, days)


def _month(days: Int64s) -> Int64s:
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64) % 12 + 1


def _day(days: Int64s) -> Int64s:
    return days - days.astype("M8[D]").astype("M8[M]").astype("M8[D]").astype(np.int64) + 1


def _seconds(fields: _Fields) -> Int64s:
    """The hour of the day. An hour of 24 takes precedence; one of 12 is in the named half of the day, or in the
    first."""
    half, named = fields.get("a", 0, 0, 1), fields.has("a")
    whole, short = np.full(fields.rows, 0, np.int64), half * 12
    has_whole, has_short = np.zeros(fields.rows, np.bool_), named
    for name, least, most in (("H", 0, 23), ("k", 1, 24)):
        hour, there = fields.get(name, 0, least, most) % 24, fields.has(name)
        fields.good &= ~(there & has_whole & (hour != whole))
        whole, has_whole = np.where(there, hour, whole), has_whole | there
    for name, least, most in (("h", 1, 12), ("K", 0, 11)):
        hour, there = fields.get(name, 0, least, most) % 12, fields.has(name)
        fields.good &= ~(there & (short % 12 != hour) & (short % 12 != 0))
        short, has_short = np.where(there, hour + half * 12, short), has_short | there
    hours = fields.has("h") | fields.has("K")
    fields.good &= ~(has_whole & named & (whole // 12 != half)) & ~(has_whole & hours & (whole % 12 != short % 12))
    hour = np.where(has_whole, whole, np.where(has_short, short, 0))
    return (hour * 60 + fields.get("m", 0, 0, 59)) * 60 + fields.get("s", 0, 0, 59)


def _offsets(fields: _Fields) -> Int64s:
    sign = fields.get("sign", 1, 0, 1) * 2 - 1
    size = fields.get("hours", 0, 0, 18) * 3600 + fields.get("minutes", 0, 0, 59) * 60 + fields.get("seconds", 0, 0, 59)
    fields.good &= size <= 18 * 3600
    return sign * size


_MOMENT = "a DATE, TIMESTAMP or text of one, and optionally a literal pattern"
_UNIX = "a DATE, TIMESTAMP or text, and optionally a literal pattern"

declare(
    Function("to_timestamp", _MOMENT, _resolve_moment, also=("to_timestamp_ltz",)),
    Function("to_date", _MOMENT, _resolve_moment),
    Function("timestamp", _MOMENT, _resolve_moment, parsed={exp.Cast: None}),
    Function("date", _MOMENT, _resolve_moment, parsed={exp.Cast: None}),
    Function("try_to_timestamp", _MOMENT, _resolve_try),
    Function("try_to_date", _MOMENT, _resolve_try),
    Function("unix_timestamp", _UNIX, _resolve_unix, seconds_since, also=("to_unix_timestamp",), total=True),
    Function("read_timestamp", strict=_compute),
    Function("try_read_timestamp", strict=_compute, nulls=IF_ANY_OR_ELSE),
)
