"""Columns to rows of 64-bit lanes and back: the one form in which keys are hashed, compared and stored.

A row holds each column's lanes in turn (two for a wide decimal: low, high), then one null lane for every 63 columns,
with bit j set where column j is NULL. Two rows are the same key exactly when their lanes are: under a NULL the value
lanes are 0, -0.0 is 0.0, there is one NaN, and texts are ids of the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.scalar.column import Column
from freshet.scalar.types import Type
from freshet.state import wide
from freshet.state.arrays import BYTES, Bools, Int64s, taken
from freshet.state.arrow_rows import WrittenRows
from freshet.state.kernel import inlined, kernel
from freshet.state.strings import StringPool

NULLS = 63  # columns per null lane

_ALL_VALID = np.empty(0, np.bool_)


def layout(types: Sequence[Type]) -> list[int]:
    """The first lane of each column."""
    firsts, at = [], 0
    for type in types:
        firsts.append(at)
        at += type.lanes
    return firsts


def value_lanes(types: Sequence[Type]) -> int:
    """How many lanes hold values, which is the number of the first null lane."""
    return sum(type.lanes for type in types)


def width(types: Sequence[Type]) -> int:
    """How many lanes a row has, null lanes included."""
    return value_lanes(types) + -(-len(types) // NULLS)


@inlined
def double_bits(value: Any) -> Any:
    """Bits of a double such that equal keys have equal bits."""
    if value == 0.0:
        return np.int64(0)
    if value != value:
        return np.int64(0x7FF8000000000000)
    return np.float64(value).view(np.int64)


@kernel("void(i8[:,::1], i8, i8[::1], b1[::1], i8, i8)")
def put_nullable(out: Any, lane: Any, data: Any, valid: Any, null_lane: Any, bit: Any) -> None:
    for i in range(len(data)):
        if valid[i]:
            out[i, lane] = data[i]
        else:
            out[i, lane] = 0
            out[i, null_lane] |= bit


@kernel("void(i8[:,::1], i8, f8[::1], b1[::1], i8, i8)")
def put_doubles(out: Any, lane: Any, data: Any, valid: Any, null_lane: Any, bit: Any) -> None:
    for i in range(len(data)):
        if len(valid) == 0 or valid[i]:
            out[i, lane] = double_bits(data[i])
        else:
            out[i, lane] = 0
            out[i, null_lane] |= bit


def integers(column: Column, pool: StringPool) -> Int64s:
    """A column's (low) lane, unless it is FLOAT or DOUBLE: texts become ids of `pool`."""
    data: Any = column.data
    if not column.type.pooled:
        return np.ascontiguousarray(data, np.int64)
    if column.pool is None:
        return pool.intern(data)
    return np.ascontiguousarray(data) if column.pool is pool else pool.intern(column.pool.text(data, kind=BYTES))


def pack(columns: Sequence[Column], pool: StringPool, rows: int, lead: int = 0) -> Int64s:
    """Rows of lanes, after `lead` lanes that the caller sets."""
    values = lead
    for column in columns:
        values += column.type.lanes
    out = np.empty((rows, values + -(-len(columns) // NULLS)), np.int64)
    out[:, values:] = 0
    lane = lead
    for j, column in enumerate(columns):
        valid, null_lane, bit = column.valid, values + j // NULLS, 1 << j % NULLS
        if column.type.is_fraction:
            put_doubles(out, lane, taken(column.data), _contiguous(valid), null_lane, bit)
            lane += 1
            continue
        data = integers(column, pool)
        if valid is None:
            out[:, lane] = data
        else:
            put_nullable(out, lane, taken(data), _contiguous(valid), null_lane, bit)
        lane += 1
        if column.type.lanes == 2:
            high = wide.high(data, column.hi)
            if valid is None:
                out[:, lane] = high
            else:
                put_nullable(out, lane, taken(high), _contiguous(valid), null_lane, bit)
            lane += 1
    return out


def _contiguous(valid: Bools | None) -> Bools:
    return _ALL_VALID if valid is None else taken(valid)


def values(column: Column, pool: StringPool) -> Int64s:
    """The value lanes of one column, int64[n, lanes], without nulls; the values under a NULL are meaningless."""
    if column.type.is_fraction:
        out = np.empty((len(column), 1), np.int64)
        put_doubles(out, 0, taken(column.data), _ALL_VALID, 0, 0)
        return out
    low = integers(column, pool)
    return low.reshape(-1, 1) if column.type.lanes == 1 else np.stack((low, wide.high(low, column.hi)), axis=1)


def unpack(rows: Int64s, types: Sequence[Type], pool: StringPool) -> list[Column]:
    """The columns of rows of lanes."""
    null_lane = value_lanes(types)
    columns: list[Column] = []
    lane = 0
    nulls: Int64s | None = None
    for j, type in enumerate(types):
        if j % NULLS == 0:
            nulls = np.ascontiguousarray(rows[:, null_lane + j // NULLS])
            if not np.count_nonzero(nulls):
                nulls = None
        valid = None
        if nulls is not None:
            valid = nulls & (1 << j % NULLS) == 0
            if valid.all():
                valid = None
        data = np.ascontiguousarray(rows[:, lane])
        if type.is_fraction:
            columns.append(Column(type, data.view(np.float64), valid))
        elif type.pooled:
            columns.append(Column(type, data, valid, None, pool))
        elif type.lanes == 2:
            high = np.ascontiguousarray(rows[:, lane + 1])
            columns.append(Column(type, data, valid, wide.narrow(data, high)))
        else:
            columns.append(Column(type, data, valid))
        lane += type.lanes
    return columns


def leading(rows: Int64s, types: Sequence[Type], columns: int) -> Int64s:
    """Rows of lanes with only their first `columns` columns."""
    if columns == len(types):
        return rows
    values, nulls = value_lanes(types[:columns]), value_lanes(types)
    out = np.empty((len(rows), width(types[:columns])), np.int64)
    out[:, :values] = rows[:, :values]
    out[:, values:] = rows[:, nulls : nulls + out.shape[1] - values]
    if columns % NULLS:
        out[:, -1] &= (1 << columns % NULLS) - 1
    return out


def written_rows(types: Sequence[Type], schema: pa.Schema) -> WrittenRows | None:
    """How rows of these types become tables of a schema at once; None if they cannot."""
    sizes = [_SIZES.get(type.name) for type in types]
    parts = [[size, lane, t.lanes] for size, lane, t in zip(sizes, layout(types), types, strict=True) if size]
    return WrittenRows(parts, schema) if None not in sizes else None


#: The bytes of a value in Arrow, where that is the lanes, or the low part of a lane.
_SIZES = {
    "TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8, "DOUBLE": 8, "DATE": 4, "TIMESTAMP": 8, "DECIMAL": 16,
    "MONTHS": 4, "MICROS": 8,
}  # fmt: skip
