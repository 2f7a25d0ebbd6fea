"""Bytes as hexadecimal digits: for HEX, and for display, as in Spark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from freshet.state.arrays import BYTES, TEXT, values_of


def digits(data: pa.Array) -> pa.Array:
    """The digits of each value, in upper case, as TEXT; NULL for NULL. One byte is two digits, so all values are
    converted at once."""
    data = data.cast(BYTES)
    if not len(data):
        return data.cast(TEXT)
    offsets = np.frombuffer(data.buffers()[1], np.int64)[data.offset : data.offset + len(data) + 1]
    held = data.buffers()[2]
    whole = b"" if held is None else held[int(offsets[0]) : int(offsets[-1])].to_pybytes().hex().upper().encode()
    valid = None if data.null_count == 0 else values_of(data.is_valid())
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(
        TEXT, len(data), [bitmap, pa.py_buffer(2 * (offsets - offsets[0])), pa.py_buffer(whole)]
    )


def shown(value: bytes) -> str:
    """As Spark shows it: [DE AD]."""
    return f"[{value.hex(' ').upper()}]"
