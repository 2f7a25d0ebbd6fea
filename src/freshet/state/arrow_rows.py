"""Packed rows read straight from Arrow's memory, through its C data interface, and written as Arrow's buffers.

A batch is exported as a C structure (length, null count, offset, number of buffers and children, then the addresses of
these); the kernel walks it, so that reading a batch costs one call, however many columns it has.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.state.arrays import Int64s
from freshet.state.kernel import as_int8, as_int16, as_int32, as_int64, inlined, kernel

# Words of the structure.
NULL_COUNT, OFFSET, BUFFERS, CHILDREN = 1, 2, 5, 6

# Columns of a part: place in the batch, bytes of a value (0: text, which is read elsewhere), first lane, lanes, and the
# bounds of values of at most eight bytes.
PART_COLUMNS = 6

MOST_GIVEN = 2**31 - 1  # copies of a row: no sum of weights in a batch leaves 64 bits

_pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_in.restype, _pointer_in.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


@inlined
def is_valid(child: Any, n: Any) -> Any:
    """Whether none of a column's values is NULL."""
    bits = as_int64(child[BUFFERS])[0]
    if child[NULL_COUNT] == 0 or bits == 0:
        return True
    if child[NULL_COUNT] > 0:
        return False
    for i in range(child[OFFSET], child[OFFSET] + n):  # not counted yet
        if not (as_int8(bits)[i >> 3] >> (i & 7)) & 1:
            return False
    return True


@kernel("b1(i8, i8[:,::1], i8, i8[:,::1], i8[::1])")
def read_lanes(exported: Any, parts: Any, weight: Any, rows: Any, weights: Any) -> Any:
    """Fills rows and weights (child `weight`; -1: all are 1). False, with undefined contents, if there are NULLs, or a
    value or weight is out of bounds."""
    n, children = rows.shape[0], as_int64(as_int64(exported)[CHILDREN])
    used = 0
    for i in range(parts.shape[0]):
        child = as_int64(children[parts[i, 0]])
        if not is_valid(child, n):
            return False
        data, start = as_int64(child[BUFFERS])[1], child[OFFSET]
        size, lane, lanes = parts[i, 1], parts[i, 2], parts[i, 3]
        used = max(used, lane + lanes)
        if size == 1:
            for j in range(n):
                rows[j, lane] = as_int8(data)[start + j]
        elif size == 2:
            for j in range(n):
                rows[j, lane] = as_int16(data)[start + j]
        elif size == 4:
            for j in range(n):
                rows[j, lane] = as_int32(data)[start + j]
                if rows[j, lane] < parts[i, 4] or rows[j, lane] > parts[i, 5]:
                    return False
        elif size == 8:
            for j in range(n):
                rows[j, lane] = as_int64(data)[start + j]
                if rows[j, lane] < parts[i, 4] or rows[j, lane] > parts[i, 5]:
                    return False
        elif size == 16:
            for j in range(n):
                for k in range(lanes):
                    rows[j, lane + k] = as_int64(data)[2 * (start + j) + k]
    for j in range(n):
        for lane in range(used, rows.shape[1]):
            rows[j, lane] = 0  # the validity bitmap
    if weight < 0:
        weights[:] = 1
        return True
    child = as_int64(children[weight])
    if not is_valid(child, n):
        return False
    data, start = as_int64(child[BUFFERS])[1], child[OFFSET]
    for j in range(n):
        weights[j] = as_int64(data)[start + j]
        if weights[j] > MOST_GIVEN or weights[j] < -MOST_GIVEN:
            return False
    return True


def read_batch(batch: pa.RecordBatch, parts: Int64s, weight: int, width: int) -> tuple[Int64s, Int64s] | None:
    """Rows and weights of a batch, with the lanes of text unset; None if the batch needs more checks."""
    _, array = batch.__arrow_c_array__()
    n = batch.num_rows
    rows, weights = np.empty((n, width), np.int64), np.empty(n, np.int64)
    return (rows, weights) if read_lanes(_pointer_in(array, b"arrow_array"), parts, weight, rows, weights) else None


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
