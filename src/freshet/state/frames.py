"""Aggregates of frames: for each row, of the rows from lo[row] up to hi[row].

Neither bound ever goes back from one row to the next. So the extreme of each frame comes from a queue of rows that may
still become it, O(1) amortized a row; sums of whole numbers are differences of prefix sums and need no kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.kernel import inlined, kernel


@kernel("void(i8[::1], b1[::1], i8[::1], i8[::1], b1, i8[::1])")
def extremes(values: Any, valid: Any, lo: Any, hi: Any, greatest: Any, out: Any) -> None:
    """The row with the least (or greatest) value of each frame, the first of several; -1 where none is valid."""
    queue = np.empty(len(values), np.int64)
    first, last, taken = 0, 0, 0
    for i in range(len(lo)):
        for j in range(max(taken, lo[i]), hi[i]):
            if valid[j]:
                if greatest:
                    while last > first and values[queue[last - 1]] < values[j]:
                        last -= 1
                else:
                    while last > first and values[queue[last - 1]] > values[j]:
                        last -= 1
                queue[last] = j
                last += 1
        taken = max(taken, hi[i])
        while first < last and queue[first] < lo[i]:
            first += 1
        out[i] = queue[first] if first < last and lo[i] < hi[i] else -1


@inlined
def _add(total: Any, lost: Any, value: Any) -> Any:
    """A sum and what it lost to rounding, with one value more."""
    more = total + value
    if abs(total) >= abs(value):
        lost += (total - more) + value
    else:
        lost += (value - more) + total
    return more, lost


@kernel("void(f8[::1], b1[::1], i8[::1], i8[::1], f8[::1])")
def double_sums(values: Any, valid: Any, lo: Any, hi: Any, out: Any) -> None:
    """The sum of each frame. A frame that only grows is added to; any other is summed anew, so that nothing that left
    it leaves a trace."""
    total, lost, start, end = 0.0, 0.0, 0, 0
    for i in range(len(lo)):
        if lo[i] != start or hi[i] < end or lo[i] >= end:
            total, lost, start, end = 0.0, 0.0, lo[i], lo[i]
        for j in range(end, hi[i]):
            if valid[j]:
                total, lost = _add(total, lost, values[j])
        end = max(end, hi[i])
        out[i] = total + lost if np.isfinite(total) else total
