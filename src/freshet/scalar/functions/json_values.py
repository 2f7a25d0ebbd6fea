"""FROM_JSON: a text of JSON as a value of a given type, as Spark reads it.

What does not fit its type is NULL: a field alone, an array or map as a whole. A text that is not JSON is a struct of
NULLs, or NULL where the type is not a struct.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.errors import EvaluationError, UnsupportedError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.elements import check_keys
from freshet.scalar.functions.json_texts import JsonNumber, JsonObject, NotJsonError, Value, read, write
from freshet.scalar.functions.nulls import IF_ANY_OR_ELSE
from freshet.scalar.functions.registry import Function, Step, declare, refuse
from freshet.scalar.functions.rows import text_or_null
from freshet.scalar.nested import Lists, ends, make_lists, make_structs
from freshet.scalar.types import INTEGER_RANGE, Type
from freshet.state import wide

Read = Callable[[Value], Any]

_MISFIT = object()
_WORDS = {"NaN": "nan", "INF": "inf", "+INF": "inf", "+Infinity": "inf", "Infinity": "inf", "-INF": "-inf"}
_WORDS["-Infinity"] = "-inf"
_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_EXACT = Context(prec=2000)
_NONE = np.empty(0, np.int64)


def _resolve(name: str, args: tuple[Expression, ...]) -> Expression:
    """The second argument is NULL of the type to read."""
    if len(args) != 2 or args[0].type.name not in ("STRING", "VOID") or not isinstance(args[1], Literal):
        raise refuse(name, args)
    type = args[1].type
    if not type.is_nested:
        raise refuse(name, args)
    _reader(type)
    return Call(type, name, args[:1])


def _from_json(call: Call) -> Step:
    reads, type = _root(call.type), call.type

    def step(a: Column) -> Column:
        codes = text_or_null(a, a.valid).dictionary_encode()
        values = [*map(reads, codes.dictionary.to_pylist()), None]  # the last one for NULL
        which = codes.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False)
        try:
            return column_of(values, type).take(which)
        except EvaluationError as e:
            raise EvaluationError(e.reason, int((which == e.row).argmax())) from None

    return step


def column_of(values: list[Any], type: Type) -> Column:
    """Values of Python as a column: dicts as structs, lists of pairs as maps."""
    known = np.array([v is not None for v in values], np.bool_)
    valid = None if known.all() else known
    if type.name == "STRUCT":
        fields = [column_of([v and v[name] for v in values], part) for name, part in type.fields]
        return make_structs(type, fields, valid, len(values))
    if type.is_nested:
        offsets = ends(np.array([len(v or ()) for v in values], np.int64))
        items = [item for v in values for item in v or ()]
        pairs = [[item] for item in items] if type.name == "ARRAY" else items
        columns = (column_of([pair[i] for pair in pairs], part) for i, part in enumerate(type.parts))
        lists = Lists(offsets, tuple(columns))
        if type.name == "MAP":
            check_keys(lists, valid)
        return make_lists(type, lists, valid)
    if type.pooled:
        return Column(type, pa.array(values, type.pooled), valid)
    if type.is_fraction:
        doubles = np.array([0.0 if v is None else v for v in values], np.float64)
        return Column(type, doubles.astype(np.float32).astype(np.float64) if type.name == "FLOAT" else doubles, valid)
    if type.name == "DECIMAL":
        halves = [wide.split(0 if v is None else int(v.scaleb(type.scale, _EXACT))) for v in values]
        high, low = (np.array(half, np.int64) for half in zip(*halves, strict=True)) if halves else (_NONE, _NONE)
        return Column(type, low, valid, high if type.lanes == 2 else None)
    return Column(type, np.array([0 if v is None else v for v in values], np.int64), valid)


def _root(type: Type) -> Callable[[str], Any]:
    reads = _reader(type)
    nothing: Any = dict.fromkeys([name for name, _ in type.fields]) if type.name == "STRUCT" else None

    def root(text: str) -> Any:
        if not text.strip(" \t\r\n"):
            return None
        try:
            value = read(text, strict=True)
        except NotJsonError:
            return nothing
        if type.items is not None and type.items.name == "STRUCT" and isinstance(value, JsonObject):
            value = [value]
        made = _MISFIT if value is None else reads(value)
        return nothing if made is _MISFIT else made

    return root


def _reader(type: Type) -> Read:
    """What reads a value that is not null; it returns `_MISFIT` for one that does not fit."""
    if type.name == "STRUCT":
        return _struct({name: _reader(part) for name, part in type.fields})
    if type.name == "ARRAY":
        return _array(_reader(type.parts[0]))
    if type.name == "MAP" and type.parts[0].name == "STRING":
        return _map(_reader(type.parts[1]))
    if type.name in INTEGER_RANGE:
        return _integer(*INTEGER_RANGE[type.name])
    if type.name == "DECIMAL":
        return _decimal(type)
    if type.is_fraction:
        return _fraction
    if type.name == "BOOLEAN":
        return lambda value: value if isinstance(value, bool) else _MISFIT
    if type.name == "STRING" and type.length is None:
        return lambda value: value if _is_text(value) else write(value)
    raise UnsupportedError(f"FROM_JSON with {type} is not supported; read STRING, and CAST it")


def _is_text(value: Value) -> bool:
    return isinstance(value, str) and not isinstance(value, JsonNumber)


def _struct(fields: dict[str, Read]) -> Read:
    def reads(value: Value) -> Any:
        if not isinstance(value, JsonObject):
            return _MISFIT
        made: dict[str, Any] = dict.fromkeys(fields)
        for name, inner in value:
            if name in fields:
                part = None if inner is None else fields[name](inner)
                made[name] = made[name] if part is _MISFIT else part
        return made

    return reads


def _array(item: Read) -> Read:
    def reads(value: Value) -> Any:
        if not isinstance(value, list) or isinstance(value, JsonObject):
            return _MISFIT
        made = [None if inner is None else item(inner) for inner in value]
        return _MISFIT if any(part is _MISFIT for part in made) else made

    return reads


def _map(item: Read) -> Read:
    def reads(value: Value) -> Any:
        if not isinstance(value, JsonObject):
            return _MISFIT
        made = [(name, None if inner is None else item(inner)) for name, inner in value]
        return _MISFIT if any(part is _MISFIT for _, part in made) else made

    return reads


def _integer(least: int, greatest: int) -> Read:
    def reads(value: Value) -> Any:
        if not isinstance(value, JsonNumber) or not value.raw.removeprefix("-").isdigit():
            return _MISFIT
        number = int(value.raw)
        return number if least <= number <= greatest else _MISFIT

    return reads


def _fraction(value: Value) -> Any:
    if isinstance(value, JsonNumber):
        return float(value.raw)
    return float(_WORDS[value]) if isinstance(value, str) and value in _WORDS else _MISFIT


def _decimal(type: Type) -> Read:
    unit = Decimal(1).scaleb(-type.scale)

    def reads(value: Value) -> Any:
        text = value.raw if isinstance(value, JsonNumber) else value.replace(",", "") if isinstance(value, str) else ""
        if _DECIMAL.fullmatch(text) is None:
            return _MISFIT
        try:
            made = Decimal(text).quantize(unit, ROUND_HALF_UP, _EXACT)
        except InvalidOperation:
            return _MISFIT
        return made if abs(made) < Decimal(10) ** (type.precision - type.scale) else _MISFIT

    return reads


declare(Function("from_json", "a text, and a constant schema that is a struct, an array or a map", _resolve, _from_json,
                 nulls=IF_ANY_OR_ELSE, nested=True))  # fmt: skip
