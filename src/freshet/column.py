"""A column of values as the engine computes with it.

Integers, booleans (0/1), dates (days), timestamps (microseconds) and decimals (unscaled) are int64 in `data`. A decimal
whose values do not all fit one lane also has `hi`, and is hi * 2**64 + unsigned(data). FLOAT and DOUBLE are float64.
Text is either a pyarrow string array in `data` or, with `pool` set, int64 ids of that pool: what comes from state stays
ids until a function needs the characters. `valid` is None when nothing is NULL; what lies under a NULL is meaningless.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from freshet.types import Type

if TYPE_CHECKING:
    from freshet.state.strings import StringPool

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


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
            data = self.data.take(np.flatnonzero(rows) if rows.dtype == np.bool_ else rows)
        return Column(
            self.type,
            data,
            None if self.valid is None else self.valid[rows],
            None if self.hi is None else self.hi[rows],
            self.pool,
        )
