"""Sorted chains with several further values, compared with lists that are searched one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshet.state.further_values import next_with_all, refresh_bests
from freshet.state.kernel import as_int32, as_int64, kernel
from freshet.state.sorted_chain import add_sorted, remove_sorted

SLOTS = 60
LEFT, RIGHT = 0, 1


@kernel("void(i8, i8, i8, i8, i8, i8, i8, i8, b1)")
def change(
    ends: Any, links: Any, sides: Any, values: Any, further: Any, best: Any, many: Any, s: Any, adding: Any
) -> None:
    e, x, v = as_int32(ends), as_int32(sides), as_int64(values)
    if adding:
        add_sorted(e, np.int64(0), as_int32(links), x, v, s)
    else:
        remove_sorted(e, np.int64(0), as_int32(links), x, v, s)
    refresh_bests(e, np.int64(0), x, v, as_int64(further), as_int64(best), many, s)


@kernel("i8(i8, i8, i8, i8, i8, i8, i8, i8, i8, i8, i8, b1)")
def nearest(
    ends: Any, sides: Any, values: Any, further: Any, best: Any, needed: Any, many: Any, strict: Any, s: Any, side: Any,
    bound: Any, inclusive: Any,
) -> Any:  # fmt: skip
    found, _, _ = next_with_all(
        as_int32(ends), np.int64(0), as_int32(sides), as_int64(values), as_int64(further), as_int64(best),
        as_int64(needed), np.int64(0), many, strict, s, side, (bound, np.int64(0)), inclusive,
    )  # fmt: skip
    return found


@pytest.mark.parametrize("many", [2, 3])
@given(st.data())
def test_like_a_list(many: int, data: st.DataObject) -> None:
    numbers = st.lists(st.integers(-3, 3), min_size=many, max_size=many)
    steps = data.draw(st.lists(st.tuples(st.integers(0, SLOTS - 1), st.integers(-6, 6), numbers), max_size=90))
    least, strict = np.array([data.draw(numbers)]), data.draw(st.integers(0, (1 << many) - 1))
    bound, inclusive = data.draw(st.integers(-7, 7)), data.draw(st.booleans())
    ends, links, sides = np.zeros(3, np.int32), np.zeros((SLOTS, 2), np.int32), np.zeros((SLOTS, 2), np.int32)
    values, needed = np.zeros((SLOTS, 2), np.int64), ~least
    further, best = np.zeros((SLOTS, many), np.int64), np.zeros((SLOTS, many), np.int64)
    chain, tree = (ends.ctypes.data, links.ctypes.data), (sides.ctypes.data, values.ctypes.data)
    more = (further.ctypes.data, best.ctypes.data)
    held: set[int] = set()
    for slot, value, numbers_of in steps:
        if slot in held:
            held.remove(slot)
            change(*chain, *tree, *more, many, slot, False)
        else:
            values[slot, 0], further[slot] = value, numbers_of
            held.add(slot)
            change(*chain, *tree, *more, many, slot, True)
    order = sorted(held, key=lambda s: (values[s, 0], s))

    def enough(x: int) -> bool:
        return all(
            own > low or (own == low and not strict >> d & 1)
            for d, (own, low) in enumerate(zip(further[x], least[0], strict=True))
        )

    for place, s in enumerate(order):
        for side, others in ((LEFT, order[:place][::-1]), (RIGHT, order[place + 1 :])):
            within = []
            for x in others:
                own = values[x, 0]
                if (own < bound if side == LEFT else own > bound) or (own == bound and not inclusive):
                    break
                within.append(x)
            wanted = next((x for x in within if enough(x)), -1)
            given = nearest(ends.ctypes.data, *tree, *more, needed.ctypes.data, many, strict, s, side, bound, inclusive)
            assert given == wanted
