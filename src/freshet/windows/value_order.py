"""Integers that sort like the values of a column of any type, and are equal if these are."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from freshet.scalar.column import Column
from freshet.scalar.lanes import values
from freshet.state.arrays import BYTES, Bools, Int64s
from freshet.state.ordered import fraction_order
from freshet.state.strings import StringPool


def valid_rows(column: Column) -> Bools:
    return np.ones(len(column), np.bool_) if column.valid is None else np.ascontiguousarray(column.valid)


def codes(column: Column, pool: StringPool) -> Int64s:
    """The integer for a NULL is meaningless."""
    lanes = values(column, pool)
    if column.type.is_fraction:
        return fraction_order(np.ascontiguousarray(lanes[:, 0]))
    if column.type.pooled:
        valid, order = valid_rows(column), np.zeros(len(column), np.int64)
        ids, which = np.unique(lanes[valid, 0], return_inverse=True)
        ranks = np.empty(len(ids), np.int64)
        ranks[pc.sort_indices(pool.text(ids, kind=BYTES)).to_numpy()] = np.arange(len(ids))
        order[valid] = ranks[which]
        return order
    if column.type.lanes == 2:
        order = np.lexsort((lanes[:, 0].view(np.uint64), lanes[:, 1]))
        differs = (lanes[order[1:]] != lanes[order[:-1]]).any(axis=1)
        ranks = np.empty(len(lanes), np.int64)
        ranks[order] = np.concatenate([np.zeros(min(len(order), 1), np.int64), np.cumsum(differs)])
        return ranks
    return np.ascontiguousarray(lanes[:, 0])
