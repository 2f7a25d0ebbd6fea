"""Arrays, structs and maps as values: taken apart into columns, and put together from them.

Law: a nested value is bytes that determine it and sort as it does (state/nested.py has their form), so it is stored,
hashed, grouped and compared like BINARY. The entries of a map stay in their order, so two maps may have different bytes
although they have the same entries: maps are not compared.

Taking apart and putting together are batch operations over all values of a column. A column of the state has the same
value many times, under one id of the pool: there each distinct value is taken apart once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from freshet.scalar.column import Column
from freshet.scalar.types import Type
from freshet.state import nested as form
from freshet.state import wide
from freshet.state.arrays import BYTES, TEXT, Bools, Int64s, one_text, values_of

_WIDTHS = {"VOID": 0, "BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "DATE": 4, "MONTHS": 4}
_NULL, _VALUE, _END = (one_text(bytes([part]), BYTES)[0] for part in (form.NULL_PART, form.VALUE_PART, form.END))
_NOTHING = one_text(b"", BYTES)[0]
_NO_SPANS = np.empty((0, 2), np.int64)
_NO_BYTES = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class Lists:
    """Elements of lists, or entries of maps, one after another: those of row i are from offsets[i] to offsets[i + 1]. A
    list has one column of elements, a map one of keys and one of values."""

    offsets: Int64s
    columns: tuple[Column, ...]

    @property
    def items(self) -> Column:
        return self.columns[-1]

    @property
    def sizes(self) -> Int64s:
        return np.diff(self.offsets)

    @property
    def rows(self) -> Int64s:
        """The row that each element belongs to."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.sizes)

    def take(self, rows: npt.NDArray[Any]) -> Lists:
        """The lists of some rows, by index."""
        sizes = self.sizes[rows]
        offsets = ends(sizes)
        elements = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][rows] - offsets[:-1], sizes)
        return Lists(offsets, tuple(c.take(elements) for c in self.columns))


def ends(sizes: Int64s) -> Int64s:
    """The offsets of lists of these sizes."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


# Taking apart -----------------------------------------------------------------------------------------------------


def lists_of(column: Column) -> Lists:
    """The elements of a column of arrays, or the entries of one of maps; none where it is NULL."""
    values, which = distinct(column)
    data, starts = _bodies(values)
    offsets, spans = _split(data, starts, column.type)
    types = column.type.parts
    parts = [np.ascontiguousarray(spans[i :: len(types)]) for i in range(len(types))]
    made = Lists(offsets // len(types), tuple(_read(data, own, type) for own, type in zip(parts, types, strict=True)))
    return made if which is None else made.take(which)


def fields_of(column: Column) -> tuple[Column, ...]:
    """The fields of a column of structs; NULL where it is NULL."""
    values, which = distinct(column)
    data, starts = _bodies(values)
    _, spans = _split(data, starts, column.type)
    there = starts >= 0
    columns = []
    for i, type in enumerate(column.type.parts):
        own = np.full((len(starts), 2), -1, np.int64)
        own[there] = spans[i :: len(column.type.parts)]
        columns.append(_read(data, own, type))
    return tuple(columns) if which is None else tuple(c.take(which) for c in columns)


def distinct(column: Column) -> tuple[Column, Int64s | None]:
    """A column with each value of the pool once, and which of them each row has; the column itself if it has no ids or
    few repeat."""
    if column.pool is None:
        return column, None
    ids = column.data if column.valid is None else np.where(column.valid, column.data, -1)
    unique, which = np.unique(ids, return_inverse=True)
    if 2 * len(unique) > len(ids):
        return column, None
    known = unique >= 0
    return Column(column.type, np.maximum(unique, 0), None if known.all() else known, pool=column.pool), which


def _bodies(column: Column) -> tuple[pa.Array, Int64s]:
    """The values' bytes, and where in them each value begins; -1 where it is NULL."""
    data = column.data if column.pool is None else column.pool.text(column.data, column.valid, BYTES)
    if not len(data):
        return data, np.empty(0, np.int64)
    starts = np.frombuffer(data.buffers()[1], np.int64)[data.offset : data.offset + len(data)]
    valid = None if data.null_count == 0 else values_of(data.is_valid())
    if column.valid is not None:
        valid = column.valid if valid is None else valid & column.valid
    return data, np.array(starts) if valid is None else np.where(valid, starts, -1)


def _address(data: pa.Array) -> int:
    buffer = data.buffers()[2]
    return 0 if buffer is None else int(buffer.address)


def _split(data: pa.Array, starts: Int64s, type: Type) -> tuple[Int64s, Int64s]:
    program, offsets = _program(type), np.empty(len(starts) + 1, np.int64)
    parts = form.split(_address(data), starts, program, offsets, _NO_SPANS)
    spans = np.empty((parts, 2), np.int64)
    if parts:
        form.split(_address(data), starts, program, offsets, spans)
    return offsets, spans


def _read(data: pa.Array, spans: Int64s, type: Type) -> Column:
    """The column of the bodies within spans."""
    valid: Bools | None = spans[:, 0] >= 0
    if valid is not None and valid.all():
        valid = None
    if type.pooled:
        offsets = np.empty(len(spans) + 1, np.int64)
        is_text = not type.is_nested
        size = form.read_bytes(_address(data), spans, is_text, offsets, _NO_BYTES)
        out = np.empty(size, np.uint8)
        if size:
            form.read_bytes(_address(data), spans, is_text, offsets, out)
        bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
        buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(out)]
        return Column(type, pa.Array.from_buffers(type.pooled, len(spans), buffers), valid)
    starts = np.ascontiguousarray(spans[:, 0])
    if type.lanes == 2:
        high = _numbers(data, starts, 8, True)
        low = _numbers(data, np.where(starts < 0, -1, starts + 8), 8, False)
        return Column(type, low, valid, wide.narrow(low, high))
    numbers = _numbers(data, starts, width(type), True)
    return Column(type, _from_ordered(numbers) if type.is_fraction else numbers, valid)


def _numbers(data: pa.Array, starts: Int64s, bytes: int, signed: bool) -> Int64s:
    out = np.zeros(len(starts), np.int64)
    if bytes:
        form.read_numbers(_address(data), starts, bytes, signed, out)
    return out


def valid_of(column: Column) -> Bools | None:
    """Where a column of text, bytes or nested values is not NULL; None if it nowhere is."""
    if column.valid is not None or column.pool is not None or not column.data.null_count:
        return column.valid
    known: Bools = values_of(column.data.is_valid())
    return known


# Putting together -------------------------------------------------------------------------------------------------


def make_lists(type: Type, lists: Lists, valid: Bools | None = None) -> Column:
    """A column of arrays or maps; what rows that are not valid have does not matter."""
    parts = [parts_of(column) for column in lists.columns]
    entries = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, _NOTHING)
    return Column(type, lists_of_parts(entries, lists.sizes), valid)


def lists_of_parts(parts: pa.Array, sizes: Int64s) -> pa.Array:
    """Lists of so many consecutive parts each."""
    bodies = pc.binary_join(pa.LargeListArray.from_arrays(pa.array(ends(sizes)), parts), _NOTHING)
    return pc.binary_join_element_wise(bodies, _END, _NOTHING)


def make_structs(type: Type, fields: Sequence[Column], valid: Bools | None = None, rows: int | None = None) -> Column:
    """A column of structs with a column for each field, all of one length."""
    if not fields:
        return Column(type, pa.repeat(_NOTHING, rows or 0), valid)
    return Column(type, pc.binary_join_element_wise(*map(parts_of, fields), _NOTHING), valid)


def parts_of(column: Column) -> pa.Array:
    """A column as parts of nested values: the bytes of each value with what says that it is one, or is NULL."""
    type, valid = column.type, column.valid
    if not type.pooled:
        return _fixed_parts(column)
    data = column.data if column.pool is None else column.pool.text(column.data, column.valid, type.pooled)
    if data.null_count:
        known = values_of(data.is_valid())
        valid = known if valid is None else valid & known
        data = data.fill_null(b"" if type.pooled == BYTES else "")
    data = data.cast(BYTES) if type.pooled == TEXT else data
    if type.is_nested:
        parts = pc.binary_join_element_wise(_VALUE, data, _NOTHING)
    else:
        if pc.any(pc.match_substring(data, b"\0")).as_py():
            data = pc.replace_substring(data, b"\0", b"\0\xff")
        parts = pc.binary_join_element_wise(_VALUE, data, pa.scalar(b"\0\0", BYTES), _NOTHING)
    return parts if valid is None else pc.if_else(pa.array(valid), parts, _NULL)


def _fixed_parts(column: Column) -> pa.Array:
    type, rows, bytes = column.type, len(column), width(column.type)
    matrix = np.empty((rows, 1 + bytes), np.uint8)
    matrix[:, 0] = form.VALUE_PART
    data: Any = column.data
    if type.lanes == 2:
        matrix[:, 1:9] = _digits(wide.high(data, column.hi), 8)
        matrix[:, 9:] = _digits(data, 8)
    elif type.is_fraction:
        matrix[:, 1:] = _digits(_to_ordered(data), 8)
    elif bytes:
        matrix[:, 1:] = _digits(data, bytes)
    if bytes:
        matrix[:, 1] ^= 0x80
    if column.valid is None:
        offsets = np.arange(rows + 1, dtype=np.int64) * (1 + bytes)
        return pa.Array.from_buffers(BYTES, rows, [None, pa.py_buffer(offsets), pa.py_buffer(matrix.reshape(-1))])
    matrix[~column.valid, 0] = form.NULL_PART
    kept = np.ones(matrix.shape, np.bool_)
    kept[:, 1:] = column.valid[:, np.newaxis]
    offsets = ends(np.where(column.valid, 1 + bytes, 1))
    return pa.Array.from_buffers(BYTES, rows, [None, pa.py_buffer(offsets), pa.py_buffer(matrix[kept])])


def _digits(data: Any, bytes: int) -> npt.NDArray[np.uint8]:
    """The last bytes of integers, the most significant first."""
    whole = np.ascontiguousarray(data, np.int64).astype(">i8")
    return whole.view(np.uint8).reshape(-1, 8)[:, 8 - bytes :]


def _to_ordered(doubles: npt.NDArray[np.float64]) -> Int64s:
    """Integers in the order of doubles, equal where these are: 0.0 is -0.0, and there is one NaN, after all numbers."""
    plain = np.where(np.isnan(doubles), np.nan, doubles + 0.0)
    return _mirrored(np.where(plain == 0.0, 0.0, plain).view(np.int64))


def _from_ordered(numbers: Int64s) -> npt.NDArray[np.float64]:
    return _mirrored(numbers).view(np.float64)


def _mirrored(bits: Int64s) -> Int64s:
    """Reverses the order of negative numbers: bits of doubles to integers in their order, and back."""
    return bits ^ ((bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))


# Types ------------------------------------------------------------------------------------------------------------


def width(type: Type) -> int:
    """The bytes of a number's body."""
    return 16 if type.lanes == 2 else _WIDTHS.get(type.name, 8)


@cache
def _program(type: Type) -> Int64s:
    return np.array(_lines(type), np.int64)


def _lines(type: Type) -> list[tuple[int, int, int]]:
    if not type.is_nested:
        return [(form.BYTES_OF_TEXT, 0, 1) if type.pooled else (form.NUMBER, width(type), 1)]
    inside = [line for part in type.parts for line in _lines(part)]
    kind = form.STRUCT if type.name == "STRUCT" else form.LIST
    return [(kind, len(type.parts), 1 + len(inside)), *inside]


def depth(type: Type) -> int:
    return 1 + max(map(depth, type.parts), default=0)
