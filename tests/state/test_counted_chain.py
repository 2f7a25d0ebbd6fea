"""Sorted chains whose tuples are counted, compared with lists."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from freshet.state.counted_chain import count_above, refresh_counts
from freshet.state.kernel import as_int32, as_int64, kernel
from freshet.state.sorted_chain import add_sorted, remove_sorted

SLOTS = 60
ADDING, REMOVING, WEIGHING = range(3)


@kernel("void(i8, i8, i8, i8, i8, i8, i8, i8)")
def change(ends: Any, links: Any, sides: Any, values: Any, weights: Any, counts: Any, s: Any, what: Any) -> None:
    e, x, v = as_int32(ends), as_int32(sides), as_int64(values)
    if what == ADDING:
        add_sorted(e, np.int64(0), as_int32(links), x, v, s)
    elif what == REMOVING:
        remove_sorted(e, np.int64(0), as_int32(links), x, v, s)
    refresh_counts(e, np.int64(0), x, v, weights, as_int64(counts), s)


@kernel("i8(i8, i8, i8, i8, i8, i8, i8, b1)")
def above(ends: Any, sides: Any, values: Any, weights: Any, counts: Any, high: Any, low: Any, inclusive: Any) -> Any:
    e, x, v = as_int32(ends), as_int32(sides), as_int64(values)
    return count_above(e, np.int64(0), x, v, weights, as_int64(counts), (high, low), inclusive)[0]


@given(
    st.lists(st.tuples(st.integers(0, SLOTS - 1), st.integers(-6, 6), st.integers(1, 9)), max_size=120),
    st.integers(-7, 7),
    st.booleans(),
    st.booleans(),
)
def test_like_a_list(steps: list[tuple[int, int, int]], bound: int, inclusive: bool, weighted: bool) -> None:
    ends, links, sides = np.zeros(3, np.int32), np.zeros((SLOTS, 2), np.int32), np.zeros((SLOTS, 2), np.int32)
    values, weights, counts = np.zeros((SLOTS, 2), np.int64), np.ones(SLOTS, np.int64), np.zeros(SLOTS, np.int64)
    chain, tree = (ends.ctypes.data, links.ctypes.data), (sides.ctypes.data, values.ctypes.data)
    more = (weights.ctypes.data if weighted else 0, counts.ctypes.data)
    held: set[int] = set()
    for slot, value, weight in steps:
        if slot not in held:
            values[slot], weights[slot] = (value >> 1, value & 1), weight if weighted else 1
            held.add(slot)
            change(*chain, *tree, *more, slot, ADDING)
        elif weighted and weight % 2:
            weights[slot] = weight
            change(*chain, *tree, *more, slot, WEIGHING)
        else:
            held.remove(slot)
            change(*chain, *tree, *more, slot, REMOVING)
    least = (bound >> 1, bound & 1)
    wanted = [s for s in held if tuple(values[s]) > least or (inclusive and tuple(values[s]) == least)]
    found = above(ends.ctypes.data, *tree, *more, *least, inclusive)
    assert found == int(weights[wanted].sum())
