from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from freshet.state.arena import Arena
from freshet.state.tuples import Tuples

rows = st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2)), max_size=8)


@given(st.lists(st.tuples(st.booleans(), rows), max_size=30))
def test_like_a_dict(steps: list[tuple[bool, list[tuple[int, int]]]]) -> None:
    tuples = Tuples(Arena().scope("t"), 2)
    twin: dict[tuple[int, int], int] = {}
    for adding, batch in steps:
        wanted = np.array(batch, np.int64).reshape(-1, 2)
        if adding:
            slots, fresh = tuples.add_fresh(wanted)
            for row, slot, new in zip(batch, slots.tolist(), fresh.tolist(), strict=True):
                assert new == (row not in twin)
                assert twin.setdefault(row, slot) == slot
        else:
            gone = sorted({twin.pop(row) for row in set(batch) if row in twin})
            tuples.remove(np.array(gone, np.int32))
        assert tuples.live == len(twin) == len(set(twin.values()))
        assert sorted(twin.values()) == tuples.slots().tolist()
        everything = [(a, b) for a in range(4) for b in range(-2, 3)]
        at = tuples.find(np.array(everything, np.int64))
        assert at.tolist() == [twin.get(row, -1) for row in everything]


def test_churn_keeps_its_size() -> None:
    tuples = Tuples(Arena().scope("t"), 1)
    for start in range(0, 200_000, 1000):
        slots = tuples.add(np.arange(start, start + 1000, dtype=np.int64).reshape(-1, 1))
        tuples.remove(slots)
    assert tuples.used == 1000
    assert len(tuples.table.data) <= 4096


def test_only_key_lanes_identify_rows() -> None:
    tuples = Tuples(Arena().scope("t"), 3, key_lanes=1)
    slots = tuples.add(np.array([[7, 1, 2], [7, 3, 4]], np.int64))
    assert slots.tolist() == [0, 0]
    assert tuples.lanes.data[0].tolist() == [7, 1, 2]
    assert tuples.find(np.array([[7], [8]], np.int64)).tolist() == [0, -1]
