"""Sorted chains with a second value, compared with lists that are searched one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from freshet.state.kernel import as_int32, as_int64, kernel
from freshet.state.second_value import first_after, last_before, refresh_best
from freshet.state.sorted_chain import add_sorted, remove_sorted

SLOTS = 60


@kernel("void(i8, i8, i8, i8, i8, i8, i8, b1)")
def change(ends: Any, links: Any, sides: Any, values: Any, seconds: Any, best: Any, s: Any, adding: Any) -> None:
    e, x, v = as_int32(ends), as_int32(sides), as_int64(values)
    if adding:
        add_sorted(e, np.int64(0), as_int32(links), x, v, s)
    else:
        remove_sorted(e, np.int64(0), as_int32(links), x, v, s)
    refresh_best(e, np.int64(0), x, v, as_int64(seconds), as_int64(best), s)


@kernel("UniTuple(i8, 2)(i8, i8, i8, i8, i8, i8, i8)")
def around(ends: Any, sides: Any, values: Any, seconds: Any, best: Any, s: Any, least: Any) -> Any:
    e, x, v = as_int32(ends), as_int32(sides), as_int64(values)
    a, b = as_int64(seconds), as_int64(best)
    before, _ = last_before(e, np.int64(0), x, v, a, b, s, least)
    after, _ = first_after(e, np.int64(0), x, v, a, b, s, least)
    return before, after


@given(
    st.lists(st.tuples(st.integers(0, SLOTS - 1), st.integers(-6, 6), st.integers(-3, 3)), max_size=120),
    st.integers(-4, 4),
)
def test_like_a_list(steps: list[tuple[int, int, int]], least: int) -> None:
    ends, links, sides = np.zeros(3, np.int32), np.zeros((SLOTS, 2), np.int32), np.zeros((SLOTS, 2), np.int32)
    values, seconds, best = np.zeros((SLOTS, 2), np.int64), np.zeros(SLOTS, np.int64), np.zeros(SLOTS, np.int64)
    chain, tree = (ends.ctypes.data, links.ctypes.data), (sides.ctypes.data, values.ctypes.data)
    more = (seconds.ctypes.data, best.ctypes.data)
    held: set[int] = set()
    for slot, value, second in steps:
        if slot in held:
            held.remove(slot)
            change(*chain, *tree, *more, slot, False)
        else:
            values[slot], seconds[slot] = (value >> 1, value & 1), second
            held.add(slot)
            change(*chain, *tree, *more, slot, True)
    order = sorted(held, key=lambda s: (*values[s], s))
    for place, s in enumerate(order):
        before = [x for x in order[:place] if seconds[x] >= least]
        after = [x for x in order[place + 1 :] if seconds[x] >= least]
        found = around(ends.ctypes.data, *tree, *more, s, least)
        assert found == (before[-1] if before else -1, after[0] if after else -1)
