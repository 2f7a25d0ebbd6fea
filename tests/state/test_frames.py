"""Aggregates of frames compared with simple twins, and that rows of a wide frame are not added repeatedly."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from freshet.state.arrays import Bools, Int64s
from freshet.state.frames import extremes, frame_sums, reach
from tests import counted


@st.composite
def frames(draw: st.DrawFn) -> tuple[Int64s, Int64s, int]:
    """Bounds that never decrease, over a number of rows."""
    rows = draw(st.integers(1, 30))
    places = st.lists(st.integers(0, rows), min_size=rows, max_size=rows)
    low = np.sort(np.array(draw(places), np.int64))
    return low, np.maximum(low, np.sort(np.array(draw(places), np.int64))), rows


def flags(draw: st.DataObject, rows: int) -> Bools:
    return np.array(draw.draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), np.bool_)


numbers = st.sampled_from((0.0, 1.0, 0.1, -0.1, 1e16, -1e16, 1e300, -1e300, 3.5))
odd = st.sampled_from((0.5, math.inf, -math.inf, math.nan))


@given(frames(), st.data())
def test_sums_are_those_of_the_rows_in_the_frame(made: tuple[Int64s, Int64s, int], data: st.DataObject) -> None:
    low, high, rows = made
    kinds = st.lists(st.one_of(numbers, odd), min_size=rows, max_size=rows)
    values = np.column_stack([np.array(data.draw(kinds)) for _ in range(2)])
    valid, out = flags(data, rows), np.empty((rows, 4))
    frame_sums(values, valid, low, high, out)
    for i in range(rows):
        seen = [j for j in range(low[i], high[i]) if valid[j]]
        for k in range(2):
            inside, total = [float(values[j, k]) for j in seen], float(out[i, 2 * k])
            if all(map(math.isfinite, inside)):
                near = 1e-25 * math.fsum(map(abs, inside))
                assert math.isclose(total + float(out[i, 2 * k + 1]), math.fsum(inside), rel_tol=1e-15, abs_tol=near)
            else:
                plain = sum(inside)
                assert total == plain or (math.isnan(total) and math.isnan(plain))


@given(frames(), st.data(), st.booleans())
def test_the_extreme_is_the_first_of_its_kind(
    made: tuple[Int64s, Int64s, int], data: st.DataObject, greatest: bool
) -> None:
    low, high, rows = made
    values = np.array(data.draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows)), np.int64)
    valid, out = flags(data, rows), np.empty(rows, np.int64)
    extremes(values, valid, low, high, greatest, out)
    for i in range(rows):
        seen = [j for j in range(low[i], high[i]) if valid[j]]
        best = min(seen, key=lambda j: (-values[j] if greatest else values[j], j), default=-1)
        assert out[i] == best


@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6)), st.booleans())
def test_a_walk_finds_what_a_search_does(runs: list[list[tuple[int, int]]], beyond: bool) -> None:
    keys = np.array([k for run in runs for k in sorted(k for k, _ in run)], np.int64)
    bounds = np.array([b for run in runs for b in sorted(b for _, b in run)], np.int64)
    ends = np.cumsum([len(run) for run in runs], dtype=np.int64)
    of_run = np.repeat(np.arange(len(runs)), [len(run) for run in runs])
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)[of_run] if runs else np.zeros(0, np.int64)
    ends, out = ends[of_run] if runs else np.zeros(0, np.int64), np.empty(len(keys), np.int64)
    reach(keys, bounds, starts, ends, beyond, out)
    for i, bound in enumerate(bounds):
        position = np.searchsorted(keys[starts[i] : ends[i]], bound, "right" if beyond else "left")
        assert out[i] == starts[i] + position


def test_wide_frames_cost_a_constant_a_row() -> None:
    costs = []
    for rows in (1_000, 10_000):
        here = np.arange(rows)
        low, high = np.maximum(here - rows // 2, 0), here + 1
        ticks = counted.steps(frame_sums, np.ones((rows, 1)), np.ones(rows, np.bool_), low, high, np.empty((rows, 2)))
        costs.append(ticks / rows)
    assert costs[1] < 1.1 * costs[0], costs
