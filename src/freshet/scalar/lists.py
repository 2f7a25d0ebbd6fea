"""Groups of consecutive texts, each joined into one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshet.state.arrays import BYTES, TEXT, Int64s, is_bytes


def join_texts(texts: pa.Array, sizes: Int64s, separator: str | bytes) -> pa.Array:
    """Groups of consecutive texts, or values of BINARY, each joined into one."""
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    kind = BYTES if is_bytes(texts.type) else TEXT
    between = pa.scalar(separator.encode() if isinstance(separator, str) else separator, BYTES).cast(kind)
    return pc.binary_join(pa.LargeListArray.from_arrays(pa.array(offsets), texts.cast(kind)), between)
