"""Aggregates of frames: for each row, of the rows from lo[row] up to hi[row].

Neither bound decreases from one row to the next. So the extreme of each frame comes from a queue of rows that may still
become it, and its sum of doubles from two partial sums, O(1) amortized a row; sums of whole numbers are differences of
prefix sums and need no kernel.
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
    """Adds a value to a sum and its rounding error."""
    more = total + value
    if abs(total) >= abs(value):
        lost += (total - more) + value
    else:
        lost += (value - more) + total
    return more, lost


@kernel("void(f8[:,::1], b1[::1], i8[::1], i8[::1], f8[:,::1])")
def frame_sums(values: Any, valid: Any, lo: Any, hi: Any, out: Any) -> None:
    """The sum of each column over each frame, and its rounding error: two columns of `out` for one of `values`.

    A row that leaves the frame must leave no rounding error behind, so nothing is ever subtracted: `tails` has the sums
    from a row up to `middle`, `sums` that of the rows from there on. When the frame starts beyond the middle, its rows
    become tails: each row is added at most twice."""
    many = values.shape[1]
    tails, sums = np.empty((len(values) + 1, 2 * many)), np.zeros(2 * many)
    middle, end = 0, 0
    for i in range(len(lo)):
        start = lo[i]
        if start >= end:
            middle, end = start, start
            sums[:] = 0.0
        elif start > middle:
            middle = end
            tails[end, :] = 0.0
            for j in range(end - 1, start - 1, -1):
                for k in range(many):
                    total, lost = tails[j + 1, 2 * k], tails[j + 1, 2 * k + 1]
                    if valid[j]:
                        total, lost = _add(total, lost, values[j, k])
                    tails[j, 2 * k], tails[j, 2 * k + 1] = total, lost
            sums[:] = 0.0
        for j in range(end, hi[i]):
            if valid[j]:
                for k in range(many):
                    sums[2 * k], sums[2 * k + 1] = _add(sums[2 * k], sums[2 * k + 1], values[j, k])
        end = max(end, hi[i])
        for k in range(many):
            total, lost = sums[2 * k], sums[2 * k + 1]
            if start < middle:
                total, lost = _add(total, lost + tails[start, 2 * k + 1], tails[start, 2 * k])
            out[i, 2 * k], out[i, 2 * k + 1] = total, lost


@kernel("void(i8[::1], i8[::1], i8[::1], i8[::1], b1, i8[::1])")
def reach(keys: Any, bounds: Any, starts: Any, ends: Any, beyond: Any, out: Any) -> None:
    """For each row the first from starts[row] on whose key is not before its bound, or is beyond it; ends[row] where
    there is none. Rows with the same start have keys and bounds in order."""
    at = 0
    for i in range(len(starts)):
        at = max(at, starts[i])
        while at < ends[i] and (keys[at] < bounds[i] or (beyond and keys[at] == bounds[i])):
            at += 1
        out[i] = at
