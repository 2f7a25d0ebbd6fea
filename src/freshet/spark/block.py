"""Blocks: columns of signed rows as bytes, the form in which rows are shuffled and logged.

A block is an Arrow IPC stream of one batch. Values have the form that the engine stores, integers in the narrowest type
that fits all of them; weights are left out if every row has +1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from freshet.scalar.arrow import from_arrow
from freshet.scalar.column import Column
from freshet.scalar.functions.rows import text_of
from freshet.scalar.lanes import pack
from freshet.scalar.types import BINARY, STRING, Type
from freshet.state import wide
from freshet.state.arena import Arena
from freshet.state.arrays import Bools, Int64s, is_text
from freshet.state.enumeration import consolidate
from freshet.state.strings import StringPool

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
_NARROW = (np.int8, np.int16, np.int32)


@dataclass(slots=True)
class Signed:
    """Rows as columns, with the weight of each."""

    columns: list[Column]
    weights: Int64s

    def __len__(self) -> int:
        return len(self.weights)

    def take(self, rows: npt.NDArray[Any]) -> Signed:
        return Signed([c.take(rows) for c in self.columns], self.weights[rows])


def to_block(rows: Signed) -> bytes:
    arrays: list[pa.Array] = []
    names: list[str] = []
    for i, column in enumerate(rows.columns):
        mask = None if column.valid is None else ~column.valid
        if column.type.pooled:
            text = text_of(column)
            if mask is not None and text.null_count != np.count_nonzero(mask):
                text = pa.compute.if_else(pa.array(column.valid), text, pa.scalar(None, text.type))
            arrays.append(_compact(text))
        elif column.type.is_fraction:
            arrays.append(pa.array(np.ascontiguousarray(column.data), mask=mask))
        else:
            arrays.append(pa.array(_narrow(column.data, column.valid), mask=mask))
        names.append(str(i))
        if column.hi is not None:
            arrays.append(pa.array(_narrow(column.hi, column.valid)))
            names.append(f"{i}h")
    if len(rows) == 0 or (rows.weights != 1).any() or not arrays:
        arrays.append(pa.array(_narrow(rows.weights, None)))
        names.append("w")
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def from_block(payload: bytes, types: Sequence[Type]) -> Signed:
    with pa.ipc.open_stream(payload) as reader:
        batch = reader.read_next_batch()
    names = {name: i for i, name in enumerate(batch.schema.names)}
    columns = []
    for i, type_ in enumerate(types):
        array = batch.column(names[str(i)])
        if type_.pooled:
            columns.append(_text(array, type_))
            continue
        valid = None if array.null_count == 0 else np.array(array.is_valid().to_numpy(zero_copy_only=False))
        data = _numbers(array, valid)
        if type_.is_fraction:
            columns.append(Column(type_, data.astype(np.float64, copy=False), valid))
            continue
        hi = batch.column(names[f"{i}h"]) if f"{i}h" in names else None
        low = data.astype(np.int64, copy=False)
        columns.append(Column(type_, low, valid, None if hi is None else _numbers(hi, None).astype(np.int64)))
    if "w" in names:
        weights = _numbers(batch.column(names["w"]), None).astype(np.int64)
    else:
        weights = np.ones(batch.num_rows, np.int64)
    return Signed(columns, weights)


def joined(parts: Sequence[Signed], types: Sequence[Type]) -> Signed:
    """All rows of several blocks."""
    if len(parts) == 1:
        return parts[0]
    columns = []
    for i, type_ in enumerate(types):
        own = [p.columns[i] for p in parts]
        valid: Bools | None = None
        if any(c.valid is not None for c in own):
            valid = np.concatenate([np.ones(len(c), np.bool_) if c.valid is None else c.valid for c in own])
        if type_.pooled:
            columns.append(Column(type_, pa.concat_arrays([text_of(c) for c in own]), valid))
            continue
        hi = None
        if any(c.hi is not None for c in own):
            hi = np.concatenate([wide.high(c.data, c.hi) for c in own])
        columns.append(Column(type_, np.concatenate([c.data for c in own]), valid, hi))
    return Signed(columns, np.concatenate([p.weights for p in parts]))


def _text(array: pa.Array, type_: Type) -> Column:
    """Text, bytes, or types that are stored as text; the values were validated on input."""
    column = from_arrow(array, BINARY if type_ == BINARY or type_.is_nested else STRING)
    return Column(type_, column.data, column.valid)


def _numbers(array: pa.Array, valid: Bools | None) -> npt.NDArray[Any]:
    """The values, 0 for NULL, copied so that kernels can use them."""
    filled = array if valid is None else array.fill_null(0)
    return np.array(filled.to_numpy(zero_copy_only=False))


def _narrow(data: Int64s, valid: Bools | None) -> npt.NDArray[Any]:
    if len(data) == 0:
        return data.astype(np.int8)
    if valid is not None:
        data = np.where(valid, data, 0)
    least, greatest = int(data.min()), int(data.max())
    for dtype in _NARROW:
        bound = np.iinfo(dtype)
        if bound.min <= least and greatest <= bound.max:
            return data.astype(dtype)
    return np.ascontiguousarray(data)


def _compact(text: pa.Array) -> pa.Array:
    """The array without the data outside of its slice, as plain strings or binaries if they can hold it."""
    whole = pa.concat_arrays([text]) if text.offset == 0 else pa.concat_arrays([text, text[:0]])
    return whole.cast(pa.string() if is_text(whole.type) else pa.binary()) if whole.nbytes < 2**31 else whole


def summed(rows: Signed) -> Signed:
    """Each row once, with the sum of its weights where that is not 0."""
    pool, weights = StringPool(Arena().scope("text")), rows.weights.copy()
    chosen = np.empty(len(rows), np.int64)
    chosen = chosen[: consolidate(pack(rows.columns, pool, len(rows)), weights, chosen)]
    return Signed([c.take(chosen) for c in rows.columns], weights[chosen])
