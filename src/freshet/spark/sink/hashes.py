"""The hash of rows in this process.

Law: it is the hash that Spark computes (`spread.hash_sql`), of values with one NaN and no zero below zero. So runs have
the same hashes whoever wrote them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshet.state.arrays import Bools, Int64s
from freshet.state.xxhash import Hashes, hash_numbers, hash_texts

_SEED = 42
_NARROW = 18  # digits of a decimal that Spark hashes as a number
_SIXTEEN = 16  # bytes of a decimal in Arrow


def row_hashes(rows: pa.Table) -> Int64s:
    """The values of a row one after the other, and then which of them are NULL."""
    hashes = np.full(rows.num_rows, _SEED, np.uint64)
    if not rows.num_rows:
        return hashes.view(np.int64)
    everywhere = np.ones(rows.num_rows, np.bool_)
    shape = []
    for column in rows.columns:
        values = pa.concat_arrays(column.chunks)
        valid = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        _add(hashes, values, valid)
        shape.append(~valid)
    for missing in shape:
        hash_numbers(hashes, missing.astype(np.int64), everywhere, short=True)
    return hashes.view(np.int64)


def _add(hashes: Hashes, values: pa.Array, valid: Bools) -> None:
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        hash_texts(hashes, values, valid)
    elif pa.types.is_decimal(kind) and kind.precision > _NARROW:
        hash_texts(hashes, _as_bytes(values), valid)
    else:
        own = np.array(_numbers(values), np.int64)  # Arrow's arrays are read-only
        hash_numbers(hashes, own, valid, kind.bit_width <= np.iinfo(np.int32).bits)


def _numbers(values: pa.Array) -> Int64s:
    kind = values.type
    if pa.types.is_decimal(kind):
        return _words(values)[:, 0]
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif pa.types.is_temporal(kind):
        values = values.view(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    filled = pc.fill_null(values, 0).to_numpy()
    if pa.types.is_floating(kind):
        filled = filled.view(np.int32 if pa.types.is_float32(kind) else np.int64)
    return filled  # type: ignore[no-any-return]


def _words(decimals: pa.Array) -> Int64s:
    """Two words of each, the lower one first; what NULL has there is any number."""
    words = np.frombuffer(decimals.buffers()[1], np.int64).reshape(-1, 2)
    return words[decimals.offset : decimals.offset + len(decimals)]


def _as_bytes(decimals: pa.Array) -> pa.Array:
    """The fewest bytes that hold each in two's complement, the highest first, as Java writes large numbers."""
    each = np.ascontiguousarray(_words(decimals)).view(np.uint8).reshape(-1, _SIXTEEN)[:, ::-1]
    sign = np.where(each[:, :1] >= 1 << 7, np.uint8(0xFF), np.uint8(0))
    # A byte is left out if it and the first bit of the next one are all sign.
    same = (each[:, :-1] == sign) & ((each[:, 1:] ^ sign) < 1 << 7)
    kept = np.ones(each.shape, np.bool_)
    kept[:, :-1] = ~np.logical_and.accumulate(same, axis=1)
    ends = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return pa.Array.from_buffers(
        pa.large_binary(), len(decimals), [None, pa.py_buffer(ends.astype(np.int64)), pa.py_buffer(each[kept])]
    )
