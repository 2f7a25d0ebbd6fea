"""Text to values and values to text, as Spark parses and formats them.

Parsing tries the plain form of a whole column at once with Arrow; text in one of the rarer forms that Spark accepts,
and invalid text, is parsed row by row, which also finds the row to name in the error.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from freshet.errors import EvaluationError, brief
from freshet.scalar.column import Column
from freshet.scalar.functions import interval_texts
from freshet.scalar.functions.padding import padded
from freshet.scalar.functions.registry import Step
from freshet.scalar.functions.rows import flags, joined, strings, text_of, text_or_null, truth, within_years
from freshet.scalar.types import INT, INTEGER_RANGE, STRING, TIME_RANGE, Type
from freshet.scalar.zone_rules import zone_rules
from freshet.state import wide
from freshet.state.arrays import TEXT, Int64s, values_of

CONTEXT = Context(prec=400, rounding=ROUND_HALF_UP)
_EPOCH = dt.date(1970, 1, 1).toordinal()
_SECOND = 1_000_000
_LONGEST_INTEGER = 19  # digits
_TRUE, _FALSE = {"t", "true", "y", "yes", "1"}, {"f", "false", "n", "no", "0"}
_NUMBER = r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?"
_DOUBLE = re.compile(rf"{_NUMBER}[dDfF]?|[+-]?(inf|infinity)|nan", re.IGNORECASE)
_DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})"  # a date, or its first parts
    r"(?:[ T](?:(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?\s*(\S.*)?)?)?)?)?)?)?"  # a time; a zone after seconds
)
#: The forms that Arrow parses exactly as Spark does.
_PLAIN_DOUBLE = r"^-?\d+(\.\d+)?([eE][+-]?\d+)?$"
_PLAIN_DATE = r"^\d{4}-\d{2}-\d{2}$"
PLAIN_TIMESTAMP = r"^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d{1,6})?$"


# Reading --------------------------------------------------------------------------------------------------------


def reader(target: Type) -> Step:
    if target.name == "STRING":
        return _bounded(target)
    plain, arrow, one = _reading(target)
    kind = np.float64 if target.is_fraction else np.int64

    def step(a: Column) -> Column:
        text = strings(text_of(a))
        if plain is not None and arrow is not None:
            matches = flags(pc.match_substring_regex(text, plain))
            if matches.all() or (text.null_count == 0 and a.valid is not None and (matches | ~a.valid).all()):
                try:
                    return arrow(text, a)
                except (pa.ArrowInvalid, EvaluationError):
                    pass  # a date that does not exist: the row-by-row parser finds it
        return _each(text.to_pylist(), a, one, target, kind)

    return step


def _each(texts: list[str | None], a: Column, one: Callable[[str], Any], target: Type, kind: Any) -> Column:
    data = np.zeros(len(texts), kind)
    hi = np.zeros(len(texts), np.int64) if target.name == "DECIMAL" else None
    known = None if a.valid is None else np.broadcast_to(a.valid, len(texts))
    for row, text in enumerate(texts):
        if text is None or (known is not None and not known[row]):
            continue
        value = one(text)
        if value is None:
            reason = f"{brief(text)} is not a value of {target}; correct the text or use a wider type"
            raise EvaluationError(reason, row)
        if hi is not None:
            hi[row], data[row] = wide.split(value)
        else:
            data[row] = value
    return Column(target, data, a.valid, None if hi is None else wide.narrow(data, hi))


def _reading(target: Type) -> tuple[str | None, Callable[[pa.Array, Column], Column] | None, Callable[[str], Any]]:
    """The plain form, how Arrow parses a column of it, and how one text of any form is parsed (None: it is invalid)."""

    def through(arrow: pa.DataType, then: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Any:
        def read(text: pa.Array, a: Column) -> Column:
            made = pc.cast(text, arrow)
            made = made.fill_null(0) if made.null_count else made
            return Column(target, then(values_of(made)), a.valid)

        return read

    if target.is_integer:
        digits = len(str(INTEGER_RANGE[target.name][1])) - 1
        return rf"^-?\d{{1,{digits}}}$", through(pa.int64(), np.array), lambda text: read_integer(text, target)
    if target.is_fraction:
        single = target.name == "FLOAT"
        shorten = (lambda x: x.astype(np.float32).astype(np.float64)) if single else np.array
        return _PLAIN_DOUBLE, through(pa.float64(), shorten), lambda text: read_double(text, single)
    if target.name == "DATE":
        return _PLAIN_DATE, _read_dates(target), read_date
    if target.name == "TIMESTAMP":
        return PLAIN_TIMESTAMP, _read_timestamps(target), read_timestamp
    if target.name == "BOOLEAN":
        return None, None, read_boolean
    if target.is_interval:
        return None, None, lambda text: interval_texts.read(text, target)
    return None, None, lambda text: read_decimal(text, target)


def _read_dates(target: Type) -> Callable[[pa.Array, Column], Column]:
    def read(text: pa.Array, a: Column) -> Column:
        days = pc.cast(pc.cast(text, pa.date32()), pa.int32())
        days = days.fill_null(0) if days.null_count else days
        return within_years(values_of(days).astype(np.int64), a.valid, target)

    return read


def _read_timestamps(target: Type) -> Callable[[pa.Array, Column], Column]:
    def read(text: pa.Array, a: Column) -> Column:
        micros = pc.cast(pc.cast(text, pa.timestamp("us")), pa.int64())
        micros = micros.fill_null(0) if micros.null_count else micros
        return within_years(values_of(micros), a.valid, target)

    return read


def read_integer(text: str, target: Type) -> int | None:
    text = text.strip()
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        return None
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > _LONGEST_INTEGER:
        return None
    value, (least, greatest) = int(digits or "0") * (-1 if text[0] == "-" else 1), INTEGER_RANGE[target.name]
    return value if least <= value <= greatest else None


def read_double(text: str, single: bool = False) -> float | None:
    text = text.strip()
    if not _DOUBLE.fullmatch(text) or not text.isascii():
        return None
    value = float(text if text[-1] not in "dDfF" or text.lower().endswith("inf") else text[:-1])
    return float(np.float32(value)) if single else value


def read_decimal(text: str, target: Type) -> int | None:
    text = text.strip()
    if not re.fullmatch(_NUMBER, text, re.ASCII):
        return None
    try:
        value = int(Decimal(text).scaleb(target.scale, CONTEXT).quantize(Decimal(1), ROUND_HALF_UP, CONTEXT))
    except ArithmeticError:  # its exponent is beyond all limits
        return None
    return value if abs(value) < 10**target.precision else None


def read_boolean(text: str) -> int | None:
    word = text.strip().lower()
    return 1 if word in _TRUE else 0 if word in _FALSE else None


def read_date(text: str) -> int | None:
    match = _DATE.fullmatch(text.strip())
    return None if match is None else _days(match[1], match[2], match[3])


def _days(year: str, month: str | None, day: str | None) -> int | None:
    try:
        return dt.date(int(year), int(month or 1), int(day or 1)).toordinal() - _EPOCH
    except ValueError:
        return None


def read_timestamp(text: str) -> int | None:
    """Microseconds in UTC."""
    found = _local_time(text)
    if found is None or found[1] is None:
        return None if found is None else found[0]
    rules = zone_rules(found[1])
    return None if rules is None else _in_range(int(rules.to_utc(np.array([found[0]]))[0]))


def read_timestamp_ntz(text: str) -> int | None:
    """Microseconds of the local time, whatever zone is written after it."""
    found = _local_time(text)
    if found is None or (found[1] is not None and zone_rules(found[1]) is None):
        return None
    return _in_range(found[0])


def _local_time(text: str) -> tuple[int, str | None] | None:
    """Microseconds since 1970, and the zone."""
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        return None
    days = _days(match[1], match[2], match[3])
    hour, minute, second = (int(match[i] or 0) for i in (4, 5, 6))
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    micros = int((match[7] or "")[:6].ljust(6, "0"))
    found_at = ((days * 24 + hour) * 60 + minute) * 60 * _SECOND + second * _SECOND + micros
    return found_at, None if match[8] is None else match[8].strip()


def _in_range(micros: int) -> int | None:
    least, greatest = TIME_RANGE["TIMESTAMP"]
    return micros if least <= micros <= greatest else None


def _bounded(target: Type) -> Step:
    """VARCHAR(n) and CHAR(n): spaces beyond the bound are dropped, other text beyond it is an error; CHAR is padded."""
    length = target.length
    if length is None:
        return lambda a: Column(target, a.data, a.valid, pool=a.pool)

    width = Column(INT, np.array([length]))

    def step(a: Column) -> Column:
        text = strings(text_of(a))
        if len(text) and (pc.max(pc.utf8_length(text)).as_py() or 0) > length:
            long = flags(pc.greater(pc.utf8_length(pc.utf8_rtrim(text, " ")), length))
            if a.valid is not None:
                long = long & a.valid
            if long.any():
                row = int(long.argmax())
                shown = text[row].as_py()
                raise EvaluationError(f"{brief(shown)} has {len(shown):,} characters; {target} holds {length:,}", row)
            text = pc.utf8_slice_codeunits(text, 0, length)
        if target.char:
            text = padded(str(target), False, Column(STRING, strings(text), a.valid), width)
        return Column(target, strings(text), a.valid)

    return step


# Writing --------------------------------------------------------------------------------------------------------


def writer(source: Type, target: Type) -> Step:
    if source.name == "BINARY":
        bound = _bounded(target)
        return lambda a: bound(_decoded(a))
    write = _writing(source)
    if target.length is None:
        return lambda a: Column(target, write(a), a.valid)
    bound = _bounded(target)
    return lambda a: bound(Column(STRING, write(a), a.valid))


def _writing(source: Type) -> Callable[[Column], pa.LargeStringArray]:
    if source.name == "VOID":
        return lambda a: pa.nulls(len(a), TEXT)
    if source.name == "BOOLEAN":
        return lambda a: strings(pc.if_else(pa.array(truth(a)), "true", "false"))
    if source.is_integer:
        return lambda a: pc.cast(pa.array(a.data), TEXT)
    if source.name == "DECIMAL":
        return lambda a: decimals(a, source.scale)
    if source.is_fraction:
        return lambda a: pa.array([java_double(x, source) for x in a.data.tolist()], TEXT)
    if source.is_interval:
        return interval_texts.written
    if source.name == "DATE":
        return lambda a: pa.array(np.datetime_as_string(a.data.astype("M8[D]")).astype(object), TEXT)
    return lambda a: _timestamps(a.data)


def _decoded(a: Column) -> Column:
    """Bytes as UTF-8 text. Spark makes a text of any bytes, and shows other characters than it holds; here every text
    is valid."""
    texts = text_or_null(a, a.valid)
    try:
        text = strings(texts)
    except pa.ArrowInvalid:
        row = next(i for i, each in enumerate(texts.to_pylist()) if each is not None and not _is_text(each))
        remedy = "show it with HEX or BASE64, or correct it"
        raise EvaluationError(f"{brief(texts[row].as_py())} is not text in UTF-8; {remedy}", row) from None
    return Column(STRING, text, a.valid) if a.pool is None else Column(STRING, a.data, a.valid, pool=a.pool)


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def decimals(a: Column, scale: int) -> pa.LargeStringArray:
    """Plain digits, never an exponent."""
    if a.hi is None:
        digits: Any = pc.cast(pa.array(a.data), TEXT)
    else:
        lanes = np.empty((len(a), 2), np.int64)
        lanes[:, 0], lanes[:, 1] = a.data, a.hi
        digits = pa.Array.from_buffers(pa.decimal128(38, 0), len(a), [None, pa.py_buffer(lanes)])
        digits = pc.cast(digits, TEXT)
    if scale == 0:
        return strings(digits)
    sign = pc.if_else(pc.starts_with(digits, "-"), "-", "")
    size = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), scale + 1, "0")
    whole, part = pc.utf8_slice_codeunits(size, 0, -scale), pc.utf8_slice_codeunits(size, -scale)
    return joined(sign, whole, ".", part)


def decimal_text(a: Column, scale: int, row: int) -> str:
    at = np.array([0 if len(a) == 1 else row])
    if scale < 0:  # Arrow may return such a form, but Spark does not write these zeros
        return f"{decimal_text(a, 0, row)}E+{-scale}"
    return str(decimals(Column(a.type, a.data[at], None, None if a.hi is None else a.hi[at]), scale)[0].as_py())


def java_double(value: float, source: Type) -> str:
    """The shortest digits that read back as the same number, with an exponent outside [0.001, 10**7)."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    shortest = str(np.float32(value)) if source.name == "FLOAT" else repr(float(value))
    sign, digits, exponent = Decimal(shortest).as_tuple()
    assert isinstance(exponent, int)
    mark = "-" if sign else ""
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return mark + "0.0"
    point = len(text) + exponent  # digits before the decimal point
    text = text.rstrip("0") or "0"
    if -3 < point <= 7:
        if point <= 0:
            return f"{mark}0.{'0' * -point}{text}"
        return f"{mark}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"
    return f"{mark}{text[0]}.{text[1:] or '0'}E{point - 1}"


def _timestamps(data: Int64s) -> pa.LargeStringArray:
    text: Any = pa.array(np.datetime_as_string(data.astype("M8[us]")).astype(object), TEXT)
    text = pc.replace_substring_regex(pc.replace_substring(text, "T", " "), r"^(\d{5,}-)", r"+\1")
    return strings(pc.replace_substring_regex(text, r"\.?0*$", "")) if len(text) else text
