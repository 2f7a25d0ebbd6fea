"""Arrays as text: one list of values is one text, so that arrays are stored, hashed and compared like texts.

Each element is the text of its value after a separator; separators inside texts are escaped, and BINARY is written in
digits. The empty list is the empty text. There are no NULLs among the elements: aggregates leave them out.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshet.scalar.hexadecimal import digits, from_digits
from freshet.state.arrays import BYTES, TEXT, Int64s, is_bytes

_MARK, _ESCAPE = "\x1f", "\x1b"
_ESCAPED = ((_ESCAPE, _ESCAPE + "e"), (_MARK, _ESCAPE + "m"))


def list_elements(values: pa.Array) -> pa.LargeStringArray:
    """The part of each value in the text of a list."""
    elements = digits(values) if is_bytes(values.type) else values.cast(TEXT)
    if values.type in (pa.string(), TEXT):
        for plain, escaped in _ESCAPED:
            elements = pc.replace_substring(elements, plain, escaped)
    return pc.binary_join_element_wise(pa.scalar(_MARK, TEXT), elements, pa.scalar("", TEXT))


def join_texts(texts: pa.Array, sizes: Int64s, separator: str | bytes) -> pa.Array:
    """Groups of consecutive texts, or values of BINARY, each joined into one."""
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    kind = BYTES if is_bytes(texts.type) else TEXT
    between = pa.scalar(separator.encode() if isinstance(separator, str) else separator, BYTES).cast(kind)
    return pc.binary_join(pa.LargeListArray.from_arrays(pa.array(offsets), texts.cast(kind)), between)


def read_lists(texts: pa.Array, items: pa.DataType) -> pa.Array:
    """The lists that texts represent; NULL where a text is."""
    valid = texts.is_valid().to_numpy(zero_copy_only=False)
    parts = pc.split_pattern(texts.fill_null(""), _MARK)
    offsets = parts.offsets.to_numpy()
    before = np.zeros(len(parts.values), np.bool_)
    before[offsets[:-1]] = True  # the empty part before the first separator
    values = parts.values.filter(pa.array(~before))
    if pa.types.is_string(items):
        for plain, escaped in reversed(_ESCAPED):
            values = pc.replace_substring(values, escaped, plain)
    if pa.types.is_binary(items):
        values = from_digits(values)
    starts = pa.array(offsets - np.arange(len(offsets)), pa.int32())
    return pa.ListArray.from_arrays(starts, values.cast(items), mask=None if valid.all() else pa.array(~valid))
