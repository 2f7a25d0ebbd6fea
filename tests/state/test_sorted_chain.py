from __future__ import annotations

from bisect import insort
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from freshet.state.kernel import as_int32, as_int64, kernel
from freshet.state.sorted_chain import HEAD, TAIL, add_sorted, first_from, remove_sorted


@kernel("void(i8, i8, i8, i8, i8, i8, b1)")
def change(ends: Any, links: Any, sides: Any, values: Any, key: Any, slot: Any, adding: Any) -> None:
    if adding:
        add_sorted(as_int32(ends), 3 * key, as_int32(links), as_int32(sides), as_int64(values), slot)
    else:
        remove_sorted(as_int32(ends), 3 * key, as_int32(links), as_int32(sides), as_int64(values), slot)


@kernel("i8(i8, i8, i8, i8, i8, b1)")
def first(ends: Any, sides: Any, values: Any, key: Any, value: Any, inclusive: Any) -> Any:
    pair = (value >> 1, value & 1)
    return first_from(as_int32(ends), 3 * key, as_int32(sides), as_int64(values), pair, inclusive)[0]


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 1), st.integers(-3, 3)), max_size=80))
def test_like_sorted_lists(steps: list[tuple[int, int, int]]) -> None:
    ends, links, sides = np.zeros((2, 3), np.int32), np.zeros((20, 2), np.int32), np.zeros((20, 2), np.int32)
    values, whole = np.zeros((20, 2), np.int64), np.zeros(20, np.int64)
    place: dict[int, int] = {}
    twin: list[list[tuple[int, int]]] = [[], []]
    at = (ends.ctypes.data, links.ctypes.data, sides.ctypes.data, values.ctypes.data)
    for slot, key, value in steps:
        if slot in place:
            old = place.pop(slot)
            change(*at, old, slot, False)
            twin[old].remove((int(whole[slot]), slot))
        else:
            values[slot], whole[slot], place[slot] = (value >> 1, value & 1), value, key
            change(*at, key, slot, True)
            insort(twin[key], (value, slot))
        for k in (0, 1):
            assert _walk(ends[k, HEAD], links[:, 0]) == [s for _, s in twin[k]]
            assert _walk(ends[k, TAIL], links[:, 1]) == [s for _, s in reversed(twin[k])]
            for value in range(-4, 5):
                for inclusive in (False, True):
                    wanted = [s for v, s in twin[k] if v > value or (inclusive and v == value)]
                    position = first(at[0], at[2], at[3], k, value, inclusive)
                    assert position - 1 == (wanted[0] if wanted else -1)


def _walk(start: int, links: Any) -> list[int]:
    out = []
    while start:
        out.append(int(start) - 1)
        start = links[start - 1]
    return out
