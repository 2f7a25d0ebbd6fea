"""Packed rows read straight from Arrow's memory, through its C data interface, and written as Arrow's buffers.

A batch is exported as a C structure (length, null count, offset, number of buffers and children, then the addresses of
these); the kernel walks it, so that reading a batch costs one call, however many columns it has.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.state.arrays import Int64s
from freshet.state.heap import text_lane
from freshet.state.kernel import as_int8, as_int16, as_int32, as_int64, inlined, kernel
from freshet.state.strings import span

# Words of the structure.
NULL_COUNT, OFFSET, BUFFERS, CHILDREN = 1, 2, 5, 6

# Columns of a part: place in the batch, bytes of a value (0: text), first lane, lanes, the bounds of values of one
# lane, and what is known of texts.
PART_COLUMNS = 7

LARGE, CHARACTERS, PLAIN = 1, 2, 4  # offsets of 8 bytes; text rather than bytes; the lane is that of a plain text

_TOGETHER = 256  # rows whose lanes are filled before those of the next, so that they stay in the cache
_BEYOND_ASCII = np.int64(-0x7F7F7F7F7F7F7F80)

MOST_GIVEN = 2**31 - 1  # copies of a row: no sum of weights in a batch leaves 64 bits

_pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_in.restype, _pointer_in.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


@inlined
def _is_valid(child: Any, n: Any, trusted: Any) -> Any:
    """Whether none of a column's values is NULL."""
    bits = as_int64(child[BUFFERS])[0]
    if bits == 0 or (trusted and child[NULL_COUNT] == 0):
        return True
    if child[NULL_COUNT] > 0:
        return False
    for i in range(child[OFFSET], child[OFFSET] + n):  # not counted yet
        if not (as_int8(bits)[i >> 3] >> (i & 7)) & 1:
            return False
    return True


@inlined
def _is_sound(child: Any, n: Any, form: Any) -> Any:
    """Whether the offsets of texts, of which the first and the last are within the buffer, increase; and whether text
    is ASCII."""
    offsets, first, falls = as_int64(child[BUFFERS])[1], child[OFFSET], 0
    if form & LARGE:
        begin, at = as_int64(offsets)[first], as_int64(offsets)[first + n]
        for i in range(first, first + n):
            falls += as_int64(offsets)[i + 1] < as_int64(offsets)[i]
    else:
        begin, at = np.int64(as_int32(offsets)[first]), np.int64(as_int32(offsets)[first + n])
        for i in range(first, first + n):
            falls += as_int32(offsets)[i + 1] < as_int32(offsets)[i]
    if falls:
        return False
    if not form & CHARACTERS:
        return True
    texts, beyond = as_int64(child[BUFFERS])[2], np.int64(0)
    for i in range(begin, at - 7, 8):
        beyond |= as_int64(texts + i)[0]
    for i in range(max(begin, at - 7), at):
        beyond |= np.int64(as_int8(texts)[i]) & 0x80
    return beyond & _BEYOND_ASCII == 0


@inlined
def _fill(child: Any, part: Any, rows: Any, begin: Any, end: Any) -> Any:
    """Fills the lanes of a column's values from one row up to another. False if a value is out of bounds."""
    data, start, stride = as_int64(child[BUFFERS])[1], child[OFFSET], rows.shape[1]
    size, lanes, least, greatest = part[1], part[3], part[4], part[5]
    out = as_int64(rows.ctypes.data + 8 * part[2])  # without the cost of an array's index for each value
    if size == 1:
        for j in range(begin, end):
            out[j * stride] = as_int8(data)[start + j]
    elif size == 2:
        for j in range(begin, end):
            out[j * stride] = as_int16(data)[start + j]
    elif size == 4:
        for j in range(begin, end):
            value = np.int64(as_int32(data)[start + j])
            if value < least or value > greatest:
                return False
            out[j * stride] = value
    elif size == 8:
        for j in range(begin, end):
            value = as_int64(data)[start + j]
            if value < least or value > greatest:
                return False
            out[j * stride] = value
    elif size == 16 and lanes == 1:
        for j in range(begin, end):
            value = as_int64(data)[2 * (start + j)]
            if value < least or value > greatest or as_int64(data)[2 * (start + j) + 1] != value >> 63:
                return False
            out[j * stride] = value
    elif size == 16:
        for j in range(begin, end):
            out[j * stride] = as_int64(data)[2 * (start + j)]
            out[j * stride + 1] = as_int64(data)[2 * (start + j) + 1]
    elif part[6] & PLAIN and end > begin:
        texts, large = as_int64(child[BUFFERS])[2], part[6] & LARGE
        first, _ = span(start, data, large)
        for j in range(begin, end):
            at, length = span(start + j, data, large)
            value = text_lane(texts, at, length, first)
            if value > 0:
                return False
            out[j * stride] = value
    return True


@kernel("b1(i8, i8[:,::1], i8, i8[:,::1], i8[::1], i8[::1], b1)")
def read_lanes(
    exported: Any, parts: Any, weight: Any, rows: Any, weights: Any, bases: Any, trusted: Any
) -> Any:  # fmt: skip
    """Fills rows and weights (child `weight`; -1: all are 1), and the bases of plain texts. False, with undefined
    contents, if there are NULLs, or a value or weight is out of bounds; or, unless the batch is `trusted`, if it might
    be invalid: its values are examined only as far as that costs little."""
    n, children = rows.shape[0], as_int64(as_int64(exported)[CHILDREN])
    used = 0
    for i in range(parts.shape[0]):
        child = as_int64(children[parts[i, 0]])
        if not _is_valid(child, n, trusted):
            return False
        used = max(used, parts[i, 2] + parts[i, 3])
        if parts[i, 1] == 16 and parts[i, 3] == 2 and not trusted:
            return False
        if parts[i, 1] == 0 and n > 0:
            if not trusted and not _is_sound(child, n, parts[i, 6]):
                return False
            first, _ = span(child[OFFSET], as_int64(child[BUFFERS])[1], parts[i, 6] & LARGE)
            bases[parts[i, 2]] = as_int64(child[BUFFERS])[2] + first
    for begin in range(0, n, _TOGETHER):
        end = min(begin + _TOGETHER, n)
        for i in range(parts.shape[0]):
            if not _fill(as_int64(children[parts[i, 0]]), parts[i], rows, begin, end):
                return False
        for j in range(begin, end):
            for lane in range(used, rows.shape[1]):
                rows[j, lane] = 0  # the validity bitmap
    if weight < 0:
        weights[:] = 1
        return True
    child = as_int64(children[weight])
    if not _is_valid(child, n, trusted):
        return False
    data, start = as_int64(child[BUFFERS])[1], child[OFFSET]
    for j in range(n):
        weights[j] = as_int64(data)[start + j]
        if weights[j] > MOST_GIVEN or weights[j] < -MOST_GIVEN:
            return False
    return True


@dataclass(slots=True)
class ReadRows:
    """`bases`: of plain texts, by lane. The lanes of other texts are unset."""

    rows: Int64s
    weights: Int64s
    bases: Int64s


def read_batch(batch: pa.RecordBatch, parts: Int64s, weight: int, width: int, trusted: bool) -> ReadRows | None:
    """The rows of a batch; None if it needs more checks. `trusted`: whether it is valid, rather than that its buffers
    are long enough for it."""
    _, array = batch.__arrow_c_array__()
    n = batch.num_rows
    read = ReadRows(np.empty((n, width), np.int64), np.empty(n, np.int64), np.zeros(width, np.int64))
    done = read_lanes(_pointer_in(array, b"arrow_array"), parts, weight, read.rows, read.weights, read.bases, trusted)
    return read if done else None


# Columns of a written part: bytes of a value, first lane, lanes.
WRITTEN_COLUMNS = 3


@inlined
def padded(nbytes: Any) -> Any:
    return (nbytes + 15) & ~np.int64(15)


@kernel("b1(i8[:,::1], i8[::1], i8[:,::1], i1[::1])")
def write_lanes(rows: Any, weights: Any, parts: Any, out: Any) -> Any:
    """Writes each column after the other, from a multiple of 16 bytes on, and then the weights. False, with undefined
    contents, if there are NULLs."""
    n, at, used = rows.shape[0], np.int64(out.ctypes.data), np.int64(0)
    for i in range(parts.shape[0]):
        used = max(used, parts[i, 1] + parts[i, 2])
    for j in range(n):
        for lane in range(used, rows.shape[1]):
            if rows[j, lane] != 0:
                return False
    for i in range(parts.shape[0]):
        size, lane = parts[i, 0], parts[i, 1]
        if size == 1:
            for j in range(n):
                as_int8(at)[j] = np.int8(rows[j, lane])
        elif size == 2:
            for j in range(n):
                as_int16(at)[j] = np.int16(rows[j, lane])
        elif size == 4:
            for j in range(n):
                as_int32(at)[j] = np.int32(rows[j, lane])
        elif size == 8:
            for j in range(n):
                as_int64(at)[j] = rows[j, lane]
        else:
            for j in range(n):
                as_int64(at)[2 * j] = rows[j, lane]
                as_int64(at)[2 * j + 1] = rows[j, lane + 1] if parts[i, 2] == 2 else rows[j, lane] >> 63
        at += padded(n * size)
    for j in range(n):
        as_int64(at)[j] = weights[j]
    return True


class WrittenRows:
    """Writes rows and their weights as tables of a schema. `parts`: bytes of a value, first lane and lanes of each
    column but the last, the weights."""

    def __init__(self, parts: list[list[int]], schema: pa.Schema) -> None:
        self._parts: Int64s = np.array(parts, np.int64).reshape(-1, WRITTEN_COLUMNS)
        self._schema = schema
        self._columns = [*zip(schema.types, [*(size for size, _, _ in parts), 8], strict=True)]

    def table(self, rows: Int64s, weights: Int64s) -> pa.Table | None:
        """None if there are NULLs."""
        n, nbytes, columns = len(rows), 0, []
        for _, size in self._columns:
            nbytes += n * size + 15 & ~15
        out = np.empty(nbytes, np.int8)
        if not write_lanes(rows, weights, self._parts, out):
            return None
        buffer, at = pa.py_buffer(out), 0
        for kind, size in self._columns:
            columns.append(pa.Array.from_buffers(kind, n, [None, buffer.slice(at, n * size)]))
            at += n * size + 15 & ~15
        return pa.Table.from_arrays(columns, schema=self._schema)
