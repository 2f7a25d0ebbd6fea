"""The first rows of an order, found without sorting all, are those of the whole order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from freshet.engine.sorted import first_places, sorted_places
from freshet.scalar import types
from freshet.scalar.arrow import from_arrow
from freshet.scalar.expression import SortKey

TYPES: dict[str, tuple[Any, Any, list[Any]]] = {
    "whole": (types.BIGINT, pa.int64(), [1, 2, 3, -(2**63), 2**63 - 1]),
    "text": (types.STRING, pa.string(), ["", "a", "ä", "b", "ab"]),
    "fraction": (types.DOUBLE, pa.float64(), [0.0, -0.0, float("nan"), float("inf"), -1.5]),
    "decimal": (types.decimal(38, 0), pa.decimal128(38, 0), [0, -(10**30), 10**30, 1, 7]),
}


@pytest.mark.parametrize("seed", range(60))
def test_first_places(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 200))
    columns = []
    for name in rng.choice(list(TYPES), 3):
        type_, arrow, values = TYPES[name]
        drawn = [values[i] if rng.random() < 0.8 else None for i in rng.integers(0, len(values), rows)]
        columns.append(from_arrow(pa.array(drawn, arrow), type_))
    order = [
        SortKey(int(c), bool(rng.integers(2)), bool(rng.integers(2))) for c in rng.integers(0, 3, rng.integers(1, 4))
    ]
    for most in (1, 2, rows // 9, rows // 2, rows, rows + 5):
        if most:
            assert first_places(columns, order, most).tolist() == sorted_places(columns, order)[:most].tolist()
