"""The types of arrays used everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: How Arrow holds text between functions. Answers have plain strings, of which an array holds 2 GiB at most.
TEXT = pa.large_string()
#: The same for bytes that need not be text.
BYTES = pa.large_binary()


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of those of text."""
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of those of bytes that need not be text."""
    is_some = pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind)
    return bool(is_some or pt.is_fixed_size_binary(kind))


def one_text(value: object, kind: pa.DataType) -> pa.Array:
    """An array of one text, or of one value of bytes: the same as pa.array, which imports pandas to check for a Series.
    For constants of modules."""
    if value is None:
        return pa.nulls(1, kind)
    assert isinstance(value, str | bytes)
    data = value.encode() if isinstance(value, str) else value
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(np.array([0, len(data)], np.int64)), pa.py_buffer(data)])


def taken(array: Any) -> Any:
    """The array in the form that kernels are compiled for, contiguous and writable: a copy if necessary, because a call
    with another kind of array would compile the kernel again."""
    return array if array.flags.c_contiguous and array.flags.writeable else np.array(array, order="C")


# pyarrow imports pandas, if it is installed, when it makes an array of Python objects or of a numpy array, and when it
# makes a numpy array: 30 MB that a process may not need otherwise.


def whole_numbers(values: Sequence[int] | Int64s) -> pa.Array:
    """An array of BIGINT."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.array(values, np.int64))])


def texts_of(values: Iterable[str]) -> pa.Array:
    """An array of text."""
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)])
    return pa.Array.from_buffers(TEXT, len(encoded), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))])


def values_of(array: pa.Array | pa.ChunkedArray) -> Any:
    """A numpy array of the values of an array of numbers or booleans without NULLs."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pt.is_boolean(array.type):
        return values_of(array.cast(pa.uint8())).view(np.bool_)
    assert (pt.is_integer(array.type) or pt.is_float64(array.type)) and not array.null_count
    sign = "i" if pt.is_signed_integer(array.type) else "u" if pt.is_integer(array.type) else "f"
    size = array.type.bit_width // 8
    if not len(array):
        return np.empty(0, f"{sign}{size}")
    return np.frombuffer(array.buffers()[1], f"{sign}{size}", len(array), array.offset * size).copy()
