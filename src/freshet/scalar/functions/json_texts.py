"""JSON in texts: GET_JSON_OBJECT, JSON_ARRAY_LENGTH, JSON_OBJECT_KEYS.

Law: a text is read as Spark's reader does: single quotes and control characters are allowed in strings, and whatever
follows the first value is ignored. A text that is not JSON has no value: NULL. Objects keep all members in their order,
also those of one name.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.errors import EvaluationError, UnsupportedError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression
from freshet.scalar.functions.nulls import IF_ANY_OR_ELSE
from freshet.scalar.functions.registry import Function, Step, declare
from freshet.scalar.functions.rows import text_of
from freshet.scalar.functions.text_calls import in_python, literal, signature, typed
from freshet.scalar.nested import Lists, ends, make_lists
from freshet.scalar.types import INT, STRING, array_of
from freshet.state.arrays import TEXT

#: Numbers are their texts as they are written again, objects are lists of names and values.
Value = Any
_DEEPEST, _LONGEST_NUMBER = 500, 1000
_TOKEN = re.compile(
    r"""[ \t\n\r]*(?:(?P<mark>[{}\[\]:,])|"(?P<double>(?:[^"\\]++|\\.)*+)"|'(?P<single>(?:[^'\\]++|\\.)*+)'"""
    r"""|(?P<number>-?(?:0|[1-9][0-9]*)(?P<fraction>(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?))"""
    r"""|(?P<word>true|false|null|(?P<odd>NaN|-?Infinity))(?![0-9A-Za-z_$]))""",
    re.DOTALL,
)
_CONTROL = re.compile(r"[\x00-\x1f]")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WRITTEN = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SPECIAL = re.compile(r'["\\\x00-\x1f]|[^\x00-\uffff]')
_STEP = re.compile(
    r"\s*(?P<every>\.\*|\['\*'\])|\.\s*(?P<name>[^.\[]+)|\s*\['\s*(?P<quoted>[^']+)'\]|\[(?:\s*(?P<place>\d+)|\*)\]",
    re.ASCII,
)


class NotJsonError(Exception):
    pass


class JsonNumber(str):
    """A number as JSON writes it again; `raw`: as it was written."""

    raw: str

    @classmethod
    def of(cls, written: str, raw: str) -> JsonNumber:
        made = cls(written)
        made.raw = raw
        return made


class JsonObject(list[tuple[str, Value]]):
    """An object."""

    __slots__ = ()


def read(text: str, strict: bool = False) -> Value:
    """The first value of a text. Strictly, strings have no control characters, and NaN and infinities are numbers, as
    FROM_JSON reads them."""
    stack: list[tuple[Any, str | None]] = []  # open arrays and objects, with the name that a member is to get
    place, expected = 0, "value"
    while True:
        token = _TOKEN.match(text, place)
        if token is None:
            raise NotJsonError
        place = token.end()
        mark = token["mark"]
        if mark in ("}", "]"):
            if not stack or (mark == "}") != isinstance(stack[-1][0], JsonObject) or expected not in ("first", "next"):
                raise NotJsonError
            value, _ = stack.pop()
        elif mark == ",":
            if expected != "next":
                raise NotJsonError
            expected = "name" if isinstance(stack[-1][0], JsonObject) else "value"
            continue
        elif mark == ":":
            if expected != "colon":
                raise NotJsonError
            expected = "value"
            continue
        elif expected in ("name", "first") and stack and isinstance(stack[-1][0], JsonObject):
            stack[-1] = (stack[-1][0], _string(token, strict))
            expected = "colon"
            continue
        elif expected not in ("value", "first"):
            raise NotJsonError
        elif mark is not None:
            if len(stack) >= _DEEPEST:
                raise EvaluationError(f"JSON in more than {_DEEPEST} levels; make it flatter")
            stack.append((JsonObject() if mark == "{" else [], None))
            expected = "first"
            continue
        else:
            value = _scalar(token, strict)
            if not stack and token["number"] and text[place : place + 1].strip(" \t\r\n"):
                raise NotJsonError
        if not stack:
            return value
        around, name = stack[-1]
        around.append(value if name is None else (name, value))
        expected = "next"


def _scalar(token: re.Match[str], strict: bool) -> Value:
    if token["odd"]:
        if not strict:
            raise NotJsonError
        return JsonNumber.of(f'"{token["odd"]}"', token["odd"].replace("Infinity", "inf"))
    if token["number"] is None:
        return {"true": True, "false": False, "null": None}[token["word"]] if token["word"] else _string(token, strict)
    if len(token["number"]) > _LONGEST_NUMBER:
        raise EvaluationError(f"a number of more than {_LONGEST_NUMBER:,} digits in JSON; write it as a text")
    written = double_text(float(token["number"])) if token["fraction"] else str(int(token["number"]))
    return JsonNumber.of(written, token["number"])


def _string(token: re.Match[str], strict: bool) -> str:
    raw = token["double"] if token["double"] is not None else token["single"]
    if raw is None or (strict and _CONTROL.search(raw)):
        raise NotJsonError
    if "\\" not in raw:
        return raw
    text = _ESCAPE.sub(_unescaped, raw)
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise EvaluationError("half of a character (\\ud800 to \\udfff alone) in JSON; write both halves") from None


def _unescaped(escape: re.Match[str]) -> str:
    if escape[1]:
        return chr(int(escape[1], 16))
    if escape[2] not in _ESCAPED:
        raise NotJsonError
    return _ESCAPED[escape[2]]


def double_text(value: float) -> str:
    """A double as Java writes it; beyond all numbers it is a text."""
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first = "-" if sign else ""
    if value == 0:
        return f"{first}0.0"
    places = "".join(map(str, digits))
    power = exponent + len(places) - 1
    if -3 <= power < 7:
        plain = f"{Decimal((0, digits, exponent)):f}"
        return first + (plain if "." in plain else f"{plain}.0")
    return f"{first}{places[0]}.{places[1:] or '0'}E{power}"


def write(value: Value) -> str:
    """A value as compact JSON. Characters beyond U+FFFF are escaped, as Spark does here."""
    parts: list[str] = []
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, _Punctuation):
            parts.append(part)
        elif isinstance(part, JsonObject):
            parts.append("{")
            left.append(_Punctuation("}"))
            for i, (name, inner) in reversed(list(enumerate(part))):
                left += [inner, _Punctuation(f"{',' if i else ''}{quoted(name)}:")]
        elif isinstance(part, list):
            parts.append("[")
            left.append(_Punctuation("]"))
            for i, inner in reversed(list(enumerate(part))):
                left += [inner, _Punctuation("," if i else "")]
        else:
            parts.append(_words(part))
    return "".join(parts)


class _Punctuation(str):
    __slots__ = ()


def _words(value: Value) -> str:
    if isinstance(value, JsonNumber):
        return value
    return quoted(value) if isinstance(value, str) else {True: "true", False: "false", None: "null"}[value]


def quoted(text: str) -> str:
    return f'"{_SPECIAL.sub(_as_written, text)}"'


def _as_written(special: re.Match[str]) -> str:
    character = special[0]
    if character in _WRITTEN:
        return _WRITTEN[character]
    halves = character.encode("utf-16-be").hex().upper()
    return "".join(f"\\u{halves[i : i + 4]}" for i in range(0, len(halves), 4))


# Paths ----------------------------------------------------------------------------------------------------------


@cache
def _path(text: str) -> tuple[str | int, ...] | None:
    """The names and places of a path; None if it is not a valid one."""
    if not text.startswith("$"):
        return None
    steps: list[str | int] = []
    place = 1
    while text[place:].strip():
        step = _STEP.match(text, place)
        if step is None:
            return None
        if step["every"] or step[0] == "[*]":
            raise UnsupportedError(f"* in the path {text!r} is not supported; name what it stands for")
        steps.append(int(step["place"]) if step["place"] else step["name"] or step["quoted"])
        place = step.end()
    return tuple(steps)


_NOTHING = object()


def _at(value: Value, steps: tuple[str | int, ...]) -> Value:
    """What a path leads to. Of members of one name, the first that leads to something other than NULL."""
    if not steps:
        return value
    first, rest = steps[0], steps[1:]
    if isinstance(first, int):
        is_there = isinstance(value, list) and not isinstance(value, JsonObject) and first < len(value)
        return _at(value[first], rest) if is_there else _NOTHING
    for name, inner in value if isinstance(value, JsonObject) else ():
        if name == first and inner is not None:
            found = _at(inner, rest)
            if found is not _NOTHING:
                return found
    return _NOTHING


def _get(text: str, path: str) -> str | None:
    try:
        steps = _path(path)
    except UnsupportedError as e:
        raise EvaluationError(str(e)) from None
    if steps is None:
        return None
    try:
        found = _at(read(text), steps)
    except NotJsonError:
        return None
    if found is _NOTHING:
        return None
    return str(found) if isinstance(found, str) else write(found)


def _resolve_get(name: str, args: tuple[Expression, ...]) -> Expression:
    text, path = signature("t", "t")(name, args)
    if isinstance(literal(path), str):
        _path(str(literal(path)))  # refused when the view is created
    return Call(STRING, name, (text, path))


def _array_length(text: str) -> int | None:
    try:
        value = read(text)
    except NotJsonError:
        return None
    return len(value) if isinstance(value, list) and not isinstance(value, JsonObject) else None


def _object_keys(call: Call) -> Step:
    def step(a: Column) -> Column:
        texts = text_of(a).to_pylist() if a.valid is None else text_of(a).filter(pa.array(a.valid)).to_pylist()
        keys = {text: _keys(text) for text in dict.fromkeys(texts) if text is not None}
        made = iter(texts)
        there = np.ones(len(a), np.bool_) if a.valid is None else a.valid
        shown = [keys.get(next(made)) if is_there else None for is_there in there.tolist()]
        offsets = ends(np.array([len(k or ()) for k in shown], np.int64))
        items = Column(STRING, pa.array([name for k in shown for name in k or ()], TEXT))
        known = np.array([k is not None for k in shown], np.bool_)
        return make_lists(call.type, Lists(offsets, (items,)), None if known.all() else known)

    return step


def _keys(text: str) -> list[str] | None:
    try:
        value = read(text)
    except NotJsonError:
        return None
    return [name for name, _ in value] if isinstance(value, JsonObject) else None


declare(
    Function("get_json_object", "a text and a path", _resolve_get, lambda call: in_python(STRING, _get),
             nulls=IF_ANY_OR_ELSE),
    Function("json_array_length", "a text", typed(INT, "t"), lambda call: in_python(INT, _array_length),
             nulls=IF_ANY_OR_ELSE),
    Function("json_object_keys", "a text", typed(array_of(STRING), "t"), _object_keys, nulls=IF_ANY_OR_ELSE),
)  # fmt: skip
