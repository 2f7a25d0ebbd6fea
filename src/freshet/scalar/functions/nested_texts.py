"""Nested values as text, as Spark casts them: [1, 2], {1, a}, {a -> 1}; NULL inside of them is null."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from freshet.scalar.column import Column
from freshet.scalar.functions.rows import strings, text_of
from freshet.scalar.functions.text_casts import writer
from freshet.scalar.lists import join_texts
from freshet.scalar.nested import fields_of, lists_of, valid_of
from freshet.scalar.types import STRING
from freshet.state.arrays import TEXT


def nested_texts(column: Column) -> Column:
    """The texts of arrays, structs or maps."""
    return Column(STRING, _text(column), valid_of(column))


def _text(column: Column) -> pa.Array:
    type = column.type
    if type.name == "STRUCT":
        parts = [pa.scalar("{", TEXT), *_separated([shown_texts(c) for c in fields_of(column)]), pa.scalar("}", TEXT)]
        if not type.fields:
            return pa.repeat(pa.scalar("{}", TEXT), len(column))
        return pc.binary_join_element_wise(*parts, pa.scalar("", TEXT))
    lists = lists_of(column)
    shown = [shown_texts(c) for c in lists.columns]
    texts = shown[0] if len(shown) == 1 else pc.binary_join_element_wise(*shown, pa.scalar(" -> ", TEXT))
    first, last = "[]" if type.name == "ARRAY" else "{}"
    joined = join_texts(texts, lists.sizes, ", ")
    return pc.binary_join_element_wise(pa.scalar(first, TEXT), joined, pa.scalar(last, TEXT), pa.scalar("", TEXT))


def _separated(texts: list[pa.Array]) -> list[pa.Array]:
    between = pa.scalar(", ", TEXT)
    return [part for text in texts for part in (between, text)][1:]


def shown_texts(column: Column) -> pa.Array:
    """The texts of parts; there are no NULLs among them."""
    if column.type.is_nested:
        texts, valid = _text(column), valid_of(column)
    elif column.type.name == "STRING":
        texts, valid = text_of(column), column.valid
    else:
        made = writer(column.type, STRING)(column)
        texts, valid = strings(made.data) if made.pool is None else text_of(made), column.valid
    if valid is not None:
        texts = pc.if_else(pa.array(valid), texts, pa.scalar(None, TEXT))
    return texts.fill_null("null")
