"""A column of values as the engine computes with it.

Integers, booleans (0/1), dates (days), timestamps (microseconds) and decimals (unscaled) are int64 in `data`. A decimal
whose values do not all fit one lane also has `hi`, and is hi * 2**64 + unsigned(data). FLOAT and DOUBLE are float64.
Text is either a pyarrow array of TEXT in `data`, which may hold more than 2 GiB, or, with `pool` set, int64 ids of that
pool: text from state stays ids until a function needs the characters. `valid` is None if no value is NULL; the data
under a NULL is meaningless.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from freshet.errors import TooMuchTextError
from freshet.scalar.types import Type
from freshet.state.arrays import Bools, Int64s
from freshet.state.strings import StringPool

#: The limit for the bytes of text in a column that functions compute; see `scalar.functions.bounds`.
MOST_TEXT = (1 << 31) - 1


def take_text(text: pa.LargeStringArray, rows: npt.NDArray[Any]) -> pa.LargeStringArray:
    """The texts of some rows, which may be repeated."""
    if text.nbytes * len(rows) > MOST_TEXT:
        offsets = np.frombuffer(text.buffers()[1], np.int64)[text.offset : text.offset + len(text) + 1]
        total = int(np.diff(offsets)[rows].sum())
        if total > MOST_TEXT:
            reason = f"{total:,} bytes of text for {len(rows):,} rows; the limit is {MOST_TEXT:,}"
            raise TooMuchTextError(f"{reason}: make the texts shorter, or apply fewer rows at a time")
    return text.take(pa.array(rows))


@dataclass(slots=True)
class Column:
    type: Type
    data: Any
    valid: Bools | None = None
    hi: Int64s | None = None
    pool: StringPool | None = None

    def __len__(self) -> int:
        return len(self.data)

    def take(self, rows: npt.NDArray[Any]) -> Column:
        """The given rows, by index or by boolean mask."""
        if isinstance(self.data, np.ndarray):
            data = self.data[rows]
        else:
            data = take_text(self.data, np.flatnonzero(rows) if rows.dtype == np.bool_ else rows)
        return Column(
            self.type,
            data,
            None if self.valid is None else self.valid[rows],
            None if self.hi is None else self.hi[rows],
            self.pool,
        )
