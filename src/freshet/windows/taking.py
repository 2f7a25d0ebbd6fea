"""Values taken from other rows: rows that FILTER or IGNORE NULLS excludes are not visible, and the others are numbered
without them."""

from __future__ import annotations

import numpy as np

from freshet.scalar.column import Column
from freshet.state.arrays import Bools, Int64s


def numbered(seen: Bools) -> tuple[Int64s, Int64s]:
    """The positions of the visible rows, and how many of them come before each row."""
    return np.flatnonzero(seen), np.concatenate([np.zeros(1, np.int64), np.cumsum(seen)])


def places_of(numbers: Int64s, places: Int64s, exists: Bools) -> Int64s:
    """The positions of the visible rows that have these numbers; -1 if there is none."""
    if not len(places):
        return np.full(len(numbers), -1, np.int64)
    return np.where(exists, places[np.where(exists, numbers, 0)], -1)


def taken(column: Column, places: Int64s) -> Column:
    """The column's values at positions; NULL at -1."""
    if not len(column):
        return column
    values = column.take(np.maximum(places, 0))
    missing = places < 0
    if missing.any():
        values.valid = ~missing if values.valid is None else values.valid & ~missing
    return values
