"""Packing and unpacking are inverse, and equal lanes mean equal keys."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from freshet.scalar import lanes
from freshet.scalar.column import Column
from freshet.scalar.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, Type, decimal
from freshet.state.arena import Arena
from freshet.state.strings import StringPool
from tests.engine.plain import column, normal, plain

WIDE = decimal(30, 2)
VALUES = {
    BIGINT: st.sampled_from([None, 0, -1, 2**63 - 1, -(2**63)]),
    DATE: st.sampled_from([None, 0, 20000]),
    BOOLEAN: st.sampled_from([None, 0, 1]),
    DOUBLE: st.sampled_from([None, 0.0, -0.0, 1.5, math.nan, -math.inf]),
    STRING: st.sampled_from([None, "", "a", "ß"]),
    WIDE: st.sampled_from([None, 0, -1, 10**29, -(10**29), 2**63]),
}


@given(st.data(), st.lists(st.sampled_from(list(VALUES)), max_size=5), st.integers(0, 6))
def test_round_trip(data: st.DataObject, types: list[Type], rows: int) -> None:
    pool = StringPool(Arena().scope("pool"))
    values = [data.draw(st.lists(VALUES[t], min_size=rows, max_size=rows)) for t in types]
    packed = lanes.pack([column(t, v) for t, v in zip(types, values, strict=True)], pool, rows)
    assert packed.shape == (rows, lanes.width(types))
    keys = [tuple(normal(t, v[i]) for t, v in zip(types, values, strict=True)) for i in range(rows)]
    for i in range(rows):
        for j in range(rows):
            assert (keys[i] == keys[j]) == (packed[i] == packed[j]).all()
    unpacked = lanes.unpack(packed, types, pool)
    assert [c.type for c in unpacked] == types
    if types:
        assert plain(unpacked) == keys


def test_more_columns_than_one_null_lane_holds() -> None:
    pool = StringPool(Arena().scope("pool"))
    types = [BIGINT] * 70
    columns = [column(BIGINT, [None if (i + r) % 3 else i for r in range(4)]) for i in range(70)]
    packed = lanes.pack(columns, pool, 4)
    assert packed.shape == (4, 72) == (4, lanes.width(types))
    assert plain(lanes.unpack(packed, types, pool)) == plain(columns)


def test_texts_of_another_pool_become_ids_of_this_one() -> None:
    arena = Arena()
    pool, other = StringPool(arena.scope("p")), StringPool(arena.scope("o"))
    other.intern(pa.array(["pad"]))
    ids = other.intern(pa.array(["x", "y"]))
    foreign = Column(STRING, ids, None, None, other)
    own = Column(STRING, pool.intern(pa.array(["x", "y"])), None, None, pool)
    assert (lanes.pack([foreign], pool, 2) == lanes.pack([own], pool, 2)).all()
    assert (lanes.values(foreign, pool)[:, 0] == own.data).all()


def test_lead_lanes_are_left_to_the_caller() -> None:
    pool = StringPool(Arena().scope("pool"))
    packed = lanes.pack([column(BIGINT, [5, None])], pool, 2, lead=1)
    packed[:, 0] = 9
    assert packed.tolist() == [[9, 5, 0], [9, 0, 1]]
    assert lanes.layout([BIGINT, WIDE, STRING]) == [0, 1, 3]
    assert np.array_equal(lanes.values(column(WIDE, [-1, 2**64]), pool), [[-1, -1], [0, 1]])
