"""TO_JSON: arrays, structs and maps as JSON, as Spark writes them: without the fields of structs that are NULL."""

from __future__ import annotations

import re
from base64 import b64encode

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression
from freshet.scalar.functions.json_texts import quoted
from freshet.scalar.functions.registry import Function, Step, declare, refuse, resolve
from freshet.scalar.functions.rows import strings, text_of
from freshet.scalar.functions.text_casts import writer
from freshet.scalar.lists import join_texts
from freshet.scalar.nested import fields_of, lists_of, valid_of
from freshet.scalar.types import DATE, STRING, TIMESTAMP, VARIANT, Type
from freshet.state.arrays import TEXT, one_text

_PLAIN = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "VOID")
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\b", "\\b"), ("\f", "\\f"))
_NOTHING, _QUOTE = one_text("", TEXT)[0], one_text('"', TEXT)[0]
_SMALL = re.compile(r"(-?)0\.0{6,}")  # decimals that Java writes with an exponent


def _resolve(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) == 1 and args[0].type == VARIANT:
        return resolve("variant_json", args)
    if len(args) != 1 or args[0].type.name not in ("ARRAY", "STRUCT", "MAP") or not _is_writable(args[0].type):
        raise refuse(name, args)
    return Call(STRING, name, args)


def _is_writable(type: Type) -> bool:
    """Whether all parts have a form in JSON; the keys of maps are texts or whole numbers."""
    if type.name == "MAP" and type.parts[0].name not in ("STRING", "VOID", "TINYINT", "SMALLINT", "INT", "BIGINT"):
        return False
    if type.is_nested:
        return all(map(_is_writable, type.parts))
    return type.name in (*_PLAIN, "STRING", "BINARY", "DATE", "TIMESTAMP") or type.is_fraction


def _to_json(call: Call) -> Step:
    def step(a: Column) -> Column:
        return Column(STRING, _texts(a), valid_of(a))

    return step


def _texts(column: Column) -> pa.Array:
    """The values as JSON; those of NULLs do not matter."""
    type = column.type
    if type.name == "STRUCT":
        return _structs(column)
    if type.is_nested:
        return _lists(column)
    if type.name == "STRING":
        return _quoted(text_of(column).fill_null(""))
    if type.name == "TIMESTAMP":
        return _times(column)
    if type.name == "BINARY":
        encoded = [b64encode(each or b"").decode() for each in text_of(column).to_pylist()]
        return _around(_QUOTE, pa.array(encoded, TEXT), _QUOTE)
    made = writer(type, STRING)(column) if type.name != "VOID" else Column(STRING, pa.repeat(_NOTHING, len(column)))
    texts = (strings(made.data) if made.pool is None else text_of(made)).fill_null("")
    if type == DATE:
        return _around(_QUOTE, texts, _QUOTE)
    if type.is_fraction:
        is_number = pc.match_substring_regex(texts, "[0-9]")
        return pc.if_else(is_number, texts, _around(_QUOTE, texts, _QUOTE))
    if type.name == "DECIMAL" and type.scale > 6:
        return pa.array([_decimal(text) for text in texts.to_pylist()], TEXT)
    return texts


def _around(first: pa.Array | pa.Scalar, texts: pa.Array, last: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(first, texts, last, _NOTHING)


def _quoted(texts: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(texts, r"[\x00-\x07\x0b\x0e-\x1f]")).as_py():
        return pa.array([escaped(text) for text in texts.to_pylist()], TEXT)
    for character, written in _ESCAPES:
        if pc.any(pc.match_substring(texts, character)).as_py():
            texts = pc.replace_substring(texts, character, written)
    return _around(_QUOTE, texts, _QUOTE)


def escaped(text: str) -> str:
    return "".join(c if c > "\uffff" else quoted(c)[1:-1] for c in text).join('""')


def _decimal(text: str) -> str:
    """A small decimal as Java's BigDecimal writes it: with an exponent below 1E-6."""
    small = _SMALL.match(text)
    if small is None:
        return text
    scale, digits = len(text) - text.index(".") - 1, text[small.end() :]
    if not digits:
        return f"0E-{scale}"
    power = scale - len(digits) + 1
    return f"{small[1]}{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}E-{power}"


def _times(column: Column) -> pa.Array:
    """2024-02-29T12:30:00.500Z"""
    seconds = Column(TIMESTAMP, column.data - column.data % 1_000_000, column.valid)
    whole = strings(writer(TIMESTAMP, STRING)(seconds).data).fill_null("")
    millis = pa.array(column.data % 1_000_000 // 1_000 + 1_000).cast(TEXT)
    parts = [_QUOTE, pc.replace_substring(whole, " ", "T"), pa.scalar(".", TEXT)]
    return pc.binary_join_element_wise(*parts, pc.utf8_slice_codeunits(millis, 1), pa.scalar('Z"', TEXT), _NOTHING)


def _present(column: Column) -> tuple[pa.Array, pa.Array]:
    """The values as JSON, and where they are not NULL."""
    valid = valid_of(column) if column.type.pooled else column.valid
    there = np.ones(len(column), np.bool_) if valid is None else valid
    return _texts(column), pa.array(there & (column.type.name != "VOID"))


def _structs(column: Column) -> pa.Array:
    parts = []
    for (name, _), inner in zip(column.type.fields, fields_of(column), strict=True):
        texts, there = _present(inner)
        named = pc.binary_join_element_wise(pa.scalar(f",{escaped(name)}:", TEXT), texts, _NOTHING)
        parts.append(pc.if_else(there, named, _NOTHING))
    if not parts:
        return pa.repeat(pa.scalar("{}", TEXT), len(column))
    members = pc.binary_join_element_wise(*parts, _NOTHING)
    return _around(pa.scalar("{", TEXT), pc.utf8_slice_codeunits(members, 1), pa.scalar("}", TEXT))


def _lists(column: Column) -> pa.Array:
    lists = lists_of(column)
    texts, there = _present(lists.items)
    texts = pc.if_else(there, texts, pa.scalar("null", TEXT))
    first, last = "[]" if column.type.name == "ARRAY" else "{}"
    if column.type.name == "MAP":
        keys = _texts(lists.columns[0])
        keys = keys if column.type.parts[0].name == "STRING" else _around(_QUOTE, keys, _QUOTE)
        texts = pc.binary_join_element_wise(keys, texts, pa.scalar(":", TEXT))
    return _around(pa.scalar(first, TEXT), join_texts(texts, lists.sizes, ","), pa.scalar(last, TEXT))


declare(
    Function(
        "to_json",
        "a VARIANT, or an array, a struct or a map without intervals",
        _resolve,
        _to_json,
        nested=True,
        total=True,
        variants=True,
    )
)
