"""Bytes as hexadecimal digits: for lists, which are stored as text, for HEX, and for display, as in Spark."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from freshet.state.arrays import BYTES, TEXT


def digits(data: pa.Array) -> pa.Array:
    """The digits of each value, in upper case, as TEXT; NULL for NULL."""
    return _rewritten(data.cast(BYTES), TEXT, lambda whole: whole.hex().upper().encode(), np.multiply)


def from_digits(texts: pa.Array) -> pa.Array:
    """BYTES from the digits made by `digits`."""
    return _rewritten(texts.cast(TEXT), BYTES, lambda whole: bytes.fromhex(whole.decode()), np.floor_divide)


def _rewritten(array: pa.Array, kind: pa.DataType, rewrite: Any, scale: Any) -> pa.Array:
    """Processes all values at once: one byte is two digits, at any position."""
    if not len(array):
        return array.cast(BYTES).cast(kind)
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    data = array.buffers()[2]
    whole = b"" if data is None else rewrite(data[int(offsets[0]) : int(offsets[-1])].to_pybytes())
    valid = None if array.null_count == 0 else np.array(array.is_valid().to_numpy(zero_copy_only=False))
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    made = scale(offsets - offsets[0], 2)
    return pa.Array.from_buffers(kind, len(array), [bitmap, pa.py_buffer(made), pa.py_buffer(whole)])


def shown(value: bytes) -> str:
    """As Spark shows it: [DE AD]."""
    return f"[{value.hex(' ').upper()}]"
