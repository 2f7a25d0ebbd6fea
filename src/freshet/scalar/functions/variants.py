"""VARIANT: a value of JSON whose type is its own, as Spark reads and casts it.

Law: a VARIANT is stored as text, in one form for each value: without blanks, members sorted by name, whole numbers and
decimals without trailing zeros, and doubles with an exponent, which distinguishes them. `shown` writes it as TO_JSON
does. Values are not compared, as in Spark; they exist in expressions only, and are cast or written as JSON to leave
them.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshet.errors import EvaluationError, SqlError, brief
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions import text_casts
from freshet.scalar.functions.casting import can_cast, cast
from freshet.scalar.functions.json_texts import double_text
from freshet.scalar.functions.json_values import column_of
from freshet.scalar.functions.json_written import escaped
from freshet.scalar.functions.nulls import IF_ANY_OR_ELSE, NEVER
from freshet.scalar.functions.registry import FUNCTIONS, Function, Step, declare, refuse
from freshet.scalar.functions.rows import text_or_null
from freshet.scalar.functions.text_calls import in_python, literal
from freshet.scalar.types import BIGINT, BOOLEAN, DOUBLE, INTEGER_RANGE, STRING, VARIANT, Type, decimal

_MOST_DIGITS, _LONGEST_NUMBER = 38, 1000
_BLANKS = " \t\r\n"
_STEP = re.compile(r"\.([^.\[]+)|\['([^']*)'\]|\[\"([^\"]*)\"\]|\[(\d{1,9})\]", re.ASCII)
_ALIKE = ("BOOLEAN", "STRING", "DATE", "TIMESTAMP", "DECIMAL")  # types, besides numbers, that a value is cast to


class _NotJsonError(Exception):
    pass


# Reading and writing --------------------------------------------------------------------------------------------


def _whole(text: str) -> Any:
    if len(text) > _LONGEST_NUMBER:
        raise EvaluationError(f"a number of more than {_LONGEST_NUMBER:,} digits in JSON; write it as a text")
    number = int(text)
    if INTEGER_RANGE["BIGINT"][0] <= number <= INTEGER_RANGE["BIGINT"][1]:
        return number
    return Decimal(number) if len(str(abs(number))) <= _MOST_DIGITS else float(text)


def _fraction(text: str) -> Any:
    if "e" in text or "E" in text:
        return float(text)
    whole, _, places = text.lstrip("-").partition(".")
    if len(places) > _MOST_DIGITS or len(f"{whole}{places}".lstrip("0")) > _MOST_DIGITS:
        return float(text)
    return _settled(Decimal(text))


def _settled(number: Decimal) -> Any:
    """A decimal without trailing zeros, a whole number if it is one."""
    written = f"{number:f}"
    written = written.rstrip("0").rstrip(".") if "." in written else written
    return Decimal(written) if "." in written else _whole(written)


def _no_number(text: str) -> Any:
    raise _NotJsonError


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Sorted as Java sorts texts."""
    made = dict(sorted(pairs, key=lambda pair: pair[0].encode("utf-16-be", "surrogatepass")))
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise EvaluationError(f"an object of JSON with two members {brief(twice)}; give each its own name")
    return made


_DECODER = json.JSONDecoder(
    object_pairs_hook=_members, parse_int=_whole, parse_float=_fraction, parse_constant=_no_number
)


def _read(text: str) -> Any:
    """The first value of a text; whatever follows is ignored, as in Spark."""
    begin = text.lstrip(_BLANKS)
    try:
        value, end = _DECODER.raw_decode(begin)
    except RecursionError:
        raise EvaluationError("JSON in too many levels; make it flatter") from None
    except ValueError:
        raise _NotJsonError from None
    if not isinstance(value, (dict, list, str)) and begin[end : end + 1].strip(_BLANKS + ",]}"):
        raise _NotJsonError  # a number or a word that goes on
    return value


def _written(value: Any, number: Callable[[float], str]) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{escaped(name)}:{_written(each, number)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_written(each, number) for each in value) + "]"
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, float):
        return number(value)
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _kept_double(value: float) -> str:
    if value in (float("inf"), float("-inf")):
        return f"{'-' if value < 0 else ''}1E999"
    written = double_text(value)
    return written if "E" in written else f"{written}E0"


def _kept(value: Any) -> str:
    made = _written(value, _kept_double)
    try:
        made.encode()
    except UnicodeEncodeError:
        raise EvaluationError("half of a character (\\ud800 to \\udfff alone) in JSON; write both halves") from None
    return made


def shown(text: str) -> str:
    """A value as TO_JSON writes it."""
    return _written(_DECODER.decode(text), double_text) if "E" in text else text


def _parse(text: str) -> str:
    made = _try_parse(text)
    if made is None:
        raise EvaluationError(f"{brief(text)} is not JSON; correct it, or write TRY_PARSE_JSON for NULL")
    return made


def _try_parse(text: str) -> str | None:
    try:
        return _kept(_read(text))
    except _NotJsonError:
        return None
    except RecursionError:
        raise EvaluationError("JSON in too many levels; make it flatter") from None


def _try_parse_any(text: str) -> str | None:
    """NULL also for JSON that has no VARIANT: members of one name, halves of characters, too large numbers."""
    try:
        return _try_parse(text)
    except EvaluationError:
        return None


# Paths and casts ------------------------------------------------------------------------------------------------


@cache
def _path(text: str) -> tuple[str | int, ...]:
    steps: list[str | int] = []
    place = 1
    while place < len(text):
        step = _STEP.match(text, place)
        if step is None or not text.startswith("$"):
            break
        name = next((each for each in step.groups()[:3] if each is not None), None)
        steps.append(int(step[4]) if name is None else name)
        place = step.end()
    if place < len(text) or not text.startswith("$"):
        raise SqlError(f"{brief(text)} is not a path into a VARIANT; write for example '$.items[0].name'")
    return tuple(steps)


_NOTHING = object()


def _at(value: Any, steps: tuple[str | int, ...]) -> Any:
    """What a path leads to: `_NOTHING` is not the null of JSON."""
    for step in steps:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else _NOTHING
        else:
            value = value.get(step, _NOTHING) if isinstance(value, dict) else _NOTHING
    return value


@dataclass(slots=True, eq=False)
class _Leaf:
    """A value that is to be cast, of the VARIANT at a place; `value` is the result once it is."""

    row: int
    value: Any


class _Casts:
    """Casts values to a type: all values of one type together."""

    def __init__(self) -> None:
        self._parts: defaultdict[tuple[Type, Type], list[_Leaf]] = defaultdict(list)
        self.failed: dict[int, str] = {}  # the values that could not be cast, by place

    def take(self, row: int, value: Any, to: Type) -> Any:
        """What stands for the result until `run`."""
        if value is None or value is _NOTHING:
            return None
        if to.is_nested:
            return self._nested(row, value, to)
        if isinstance(value, (dict, list)):
            if to != STRING:
                return self._fail(row, value, to)
            return _written(value, double_text)
        source = _type_of(value)
        if source == to == STRING:
            return value
        if not can_cast(source, to):
            return self._fail(row, value, to)
        part = _Leaf(row, value)
        self._parts[source, to].append(part)
        return part

    def _nested(self, row: int, value: Any, to: Type) -> Any:
        if to.name == "ARRAY" and isinstance(value, list):
            return [self.take(row, each, to.parts[0]) for each in value]
        if to.name == "MAP" and isinstance(value, dict):
            return [[name, self.take(row, each, to.parts[1])] for name, each in value.items()]
        if to.name == "STRUCT" and isinstance(value, dict):
            return {name: self.take(row, value.get(name), part) for name, part in to.fields}
        return self._fail(row, value, to)

    def _fail(self, row: int, value: Any, to: Type) -> None:
        self.failed.setdefault(row, f"the variant value {brief(_written(value, double_text))} cannot be cast to {to}")

    def run(self) -> None:
        for (source, to), parts in self._parts.items():
            given = column_of([part.value for part in parts], source)
            values = _plain(_attempt(source, to)(given, given))
            for part, value in zip(parts, values, strict=True):
                if value is None:
                    self._fail(part.row, part.value, to)
                part.value = value


def _type_of(value: Any) -> Type:
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        scale = -int(exponent)
        return decimal(max(len(digits), scale, 1), scale)
    return {int: BIGINT, float: DOUBLE, str: STRING}[type(value)]


def _attempt(source: Type, to: Type) -> Step:
    strict = FUNCTIONS["try"].strict
    assert strict is not None
    if source == to:
        return lambda _, given: given
    return strict(Call(to, "try", (Literal(STRING, "cast"), Literal(source, None))))


def _plain(column: Column) -> list[Any]:
    """The values of a column, as `column_of` takes them."""
    if column.type.pooled or column.type.name == "DECIMAL":
        values = [
            text and (Decimal(text) if column.type.name == "DECIMAL" else text) for text in _texts(column).to_pylist()
        ]
    else:
        values = column.data.tolist()
    there = np.broadcast_to(True if column.valid is None else column.valid, len(column)).tolist()
    return [value if is_there else None for value, is_there in zip(values, there, strict=True)]


def _texts(column: Column) -> pa.Array:
    """The values cast to text, null where they are NULL."""
    as_text = column if column.type.pooled else text_casts.writer(column.type, STRING)(column)
    return text_or_null(as_text, column.valid)


def _finished(value: Any) -> Any:
    if isinstance(value, _Leaf):
        return value.value
    if isinstance(value, dict):
        return {name: _finished(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finished(each) for each in value]
    return value


def _get(call: Call) -> Step:
    """One part of each VARIANT, cast: computed once for each distinct VARIANT."""
    steps, to, strict = _path(str(literal(call.args[1]))), call.type, call.name == "variant_get"

    def step(a: Column, _: Column) -> Column:
        codes = text_or_null(a, a.valid).dictionary_encode()
        found = [_at(_DECODER.decode(text), steps) for text in codes.dictionary.to_pylist()]
        which = codes.indices.fill_null(len(found)).to_numpy(zero_copy_only=False)
        if to == VARIANT:
            return column_of([*(None if each is _NOTHING else _kept(each) for each in found), None], to).take(which)
        casts = _Casts()
        made = [casts.take(row, each, to) for row, each in enumerate(found)]
        casts.run()
        if strict and casts.failed:
            row = min(casts.failed, key=lambda failed: int((which == failed).argmax()))
            reason = f"{casts.failed[row]}; use TRY_VARIANT_GET, or TRY_CAST, for NULL"
            raise EvaluationError(reason, int((which == row).argmax()))
        return column_of([*map(_finished, made), None], to).take(which)

    return step


# Typing ---------------------------------------------------------------------------------------------------------


def _resolve_get(name: str, args: tuple[Expression, ...]) -> Expression:
    """The third argument is NULL of the type to cast to."""
    if len(args) not in (2, 3) or args[0].type.name not in ("VARIANT", "VOID"):
        raise refuse(name, args)
    path = literal(args[1])
    to = VARIANT if len(args) == 2 else args[2].type
    if not isinstance(path, str) or not _is_target(to, outermost=True):
        raise refuse(name, args)
    if args[0].type.name == "VOID":
        return Literal(to, None)
    _path(path)
    return Call(to, name, args[:2])


def _is_target(to: Type, outermost: bool = False) -> bool:
    if to.name == "VARIANT":
        return outermost
    if to.is_nested:
        named = to.name != "MAP" or to.parts[0].name == "STRING"
        return named and all(_is_target(part) for part in (to.parts[1:] if to.name == "MAP" else to.parts))
    return (to.is_numeric or to.name in _ALIKE) and to.length is None


def _resolve_text(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1 or args[0].type.name not in ("STRING", "VOID"):
        raise refuse(name, args)
    return Call(VARIANT, name, (cast(args[0], STRING),))


def _resolve_json(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1 or args[0].type != VARIANT:
        raise refuse(name, args)
    return Call(STRING, name, args)


def _resolve_is_null(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1 or args[0].type.name not in ("VARIANT", "VOID"):
        raise refuse(name, args)
    return Call(BOOLEAN, name, args) if args[0].type == VARIANT else Literal(BOOLEAN, False)


def _is_null(call: Call) -> Step:
    def step(a: Column) -> Column:
        found = pc.equal(text_or_null(a, a.valid), "null").fill_null(False)
        return Column(BOOLEAN, found.to_numpy(zero_copy_only=False).astype(np.int64))

    return step


def _resolve_value(name: str, args: tuple[Expression, ...]) -> Expression:
    """Numbers, texts and BOOLEANs as VARIANTs."""
    if len(args) != 1:
        raise refuse(name, args)
    (value,) = args
    if value.type.name in ("VARIANT", "VOID"):
        return value if value.type == VARIANT else Literal(VARIANT, None)
    if not (value.type.is_integer or value.type.name in ("BOOLEAN", "STRING", "DECIMAL", "DOUBLE")):
        raise refuse(name, args)
    return Call(VARIANT, name, args)


def _value(call: Call) -> Step:
    read = _READ.get(call.args[0].type.name, _exact)

    def step(a: Column) -> Column:
        codes = _texts(a).dictionary_encode()
        which = codes.indices.fill_null(len(codes.dictionary)).to_numpy(zero_copy_only=False)
        kept = [_kept(read(text)) for text in codes.dictionary.to_pylist()]
        return column_of([*kept, None], VARIANT).take(which)

    return step


def _exact(text: str) -> Any:
    return _settled(Decimal(text))


def _number(text: str) -> float:
    if text == "NaN":
        raise EvaluationError("NaN is not a value of VARIANT; use NULL, or the text 'NaN'")
    return float(text)


#: How a value is read from its text, for types other than exact numbers.
_READ: dict[str, Callable[[str], Any]] = {"BOOLEAN": lambda text: text == "true", "STRING": str, "DOUBLE": _number}
_PART = "a VARIANT, a path and the type of the result"
declare(
    Function("parse_json", "a text", _resolve_text, lambda call: in_python(VARIANT, _parse)),
    Function("try_parse_json", "a text", _resolve_text, lambda call: in_python(VARIANT, _try_parse_any),
             nulls=IF_ANY_OR_ELSE, total=True),
    Function("variant_get", _PART, _resolve_get, _get, nulls=IF_ANY_OR_ELSE, nested=True, variants=True),
    Function("try_variant_get", _PART, _resolve_get, _get, nulls=IF_ANY_OR_ELSE, nested=True, total=True,
             variants=True),
    Function("is_variant_null", "a VARIANT", _resolve_is_null, _is_null, nulls=NEVER, total=True, variants=True),
    Function("variant_json", "a VARIANT", _resolve_json, lambda call: in_python(STRING, shown),
             spelled=False, total=True, variants=True),
    Function("to_variant", "a number, a text or a BOOLEAN", _resolve_value, _value, spelled=False, variants=True),
)  # fmt: skip
