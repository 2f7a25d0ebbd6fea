"""How rows of lanes are compared: an order for state/row_tree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from freshet.scalar.expression import SortKey
from freshet.scalar.lanes import NULLS, layout, value_lanes
from freshet.scalar.types import Type
from freshet.state import ordered
from freshet.state.arrays import Int64s


def order_lines(types: Sequence[Type], keys: Sequence[SortKey]) -> Int64s:
    """The given keys first; then, so that no two different rows are equal, all columns from left to right,
    ascending."""
    rest = [SortKey(i, False, True) for i in range(len(types)) if all(k.column != i for k in keys)]
    firsts, nulls = layout(types), value_lanes(types)
    lines = [
        [
            firsts[k.column],
            _kind(types[k.column]),
            -1 if k.descending else 1,
            nulls + k.column // NULLS,
            k.column % NULLS,
            -1 if k.nulls_first else 1,
        ]
        for k in (*keys, *rest)
    ]
    return np.array(lines, np.int64).reshape(-1, 6)


def _kind(type: Type) -> int:
    if type.is_fraction:
        return ordered.FRACTION
    if type.pooled:
        return ordered.TEXT
    return ordered.WIDE if type.lanes == 2 else ordered.INTEGER
