"""Exact sums compared with fractions: for any changes in any order, reading rounds the exact sum once."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from freshet.state import exact_sum
from freshet.state.arena import Arena
from freshet.state.exact_sum import ExactSum

FLOATS = st.one_of(
    st.floats(),
    st.floats(-1e6, 1e6),
    st.sampled_from([0.1, -0.1, 1.0, 1e300, -1e300, 5e-324, 2.0**53, 1.0 + 2**-52, 2.0**-1022, 1.7976931348623157e308]),
)
WEIGHTS = st.one_of(st.integers(-3, 3), st.sampled_from([2**31, -(2**31) - 1, 2**40 + 12345, -(2**50) + 7]))
ROWS = st.lists(st.tuples(st.integers(0, 2), FLOATS, WEIGHTS), max_size=12)


def true_sum(rows: list[tuple[int, float, int]], group: int) -> float:
    total, nans, plus, minus = Fraction(0), 0, 0, 0
    for g, value, weight in rows:
        if g != group:
            continue
        if math.isnan(value):
            nans += weight
        elif math.isinf(value):
            plus, minus = (plus + weight, minus) if value > 0 else (plus, minus + weight)
        else:
            total += Fraction(value) * weight
    if nans or (plus and minus):
        return math.nan
    if plus or minus:
        return math.inf if plus else -math.inf
    try:
        return total.numerator / total.denominator
    except OverflowError:
        return math.inf if total > 0 else -math.inf


@given(ROWS)
def test_terms_add_up_to_the_sum(rows: list[tuple[int, float, int]]) -> None:
    rows = [r for r in rows if math.isfinite(r[1]) and abs(r[1]) < 1e290 and abs(r[2]) < 2**32]
    sums = ExactSum(Arena().scope("s"))
    sums.reserve(3)
    if rows:
        add(sums, rows)
    for group in range(3):
        true = sum((Fraction(value) * weight for g, value, weight in rows if g == group), Fraction(0))
        terms = sums.terms(np.array([group], np.int32), 60)[0]  # more than the greatest span of doubles needs
        assert sum(map(Fraction, terms.tolist())) == true
        rest = true
        for term in terms[:4].tolist():
            assert term == rest.numerator / rest.denominator
            rest -= Fraction(term)


def add(sums: ExactSum, rows: list[tuple[int, float, int]]) -> None:
    sums.add(
        np.array([r[0] for r in rows], np.int32), np.array([r[1] for r in rows], float), np.array([r[2] for r in rows])
    )


@given(st.lists(ROWS, max_size=4))
def test_reads_the_true_sum_rounded_once(batches: list[list[tuple[int, float, int]]]) -> None:
    sums = ExactSum(Arena().scope("s"))
    sums.reserve(3)
    rows: list[tuple[int, float, int]] = []
    for batch in batches:
        if batch:
            add(sums, batch)
        rows += batch
        expected = [true_sum(rows, g) for g in range(3)]
        np.testing.assert_array_equal(sums.sums(np.arange(3, dtype=np.int32)), expected)


def test_comes_back_to_zero_and_agrees_with_fsum() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=5000) * 10.0 ** rng.integers(-20, 20, 5000)
    groups, ones = np.zeros(5000, np.int32), np.ones(5000, np.int64)
    sums = ExactSum(Arena().scope("s"))
    sums.reserve(1)
    sums.add(groups, values, ones)
    assert sums.sums(groups[:1])[0] == math.fsum(values)
    sums.add(groups, rng.permutation(values), -ones)
    assert sums.sums(groups[:1])[0] == 0.0


def test_many_additions_normalize_before_a_lane_overflows() -> None:
    sums = ExactSum(Arena().scope("s"))
    sums.reserve(2)
    add(sums, [(0, 1.5, 3), (1, -2.25, 2)])
    meta = sums._meta.data
    meta[exact_sum.ADDED] = exact_sum._ADDITIONS
    add(sums, [(0, 1e-3, 1), (1, 1e-3, 1)])
    assert meta[exact_sum.ADDED] == 2
    np.testing.assert_array_equal(sums.sums(np.arange(2, dtype=np.int32)), [4.501, -4.499])


def test_cleared_groups_start_empty_and_room_grows() -> None:
    sums = ExactSum(Arena().scope("s"))
    sums.reserve(1)
    add(sums, [(0, math.inf, 1), (0, 3.0, 1)])
    sums.reserve(1000)
    add(sums, [(999, 7.0, 1), (999, 1e200, 1), (999, 1e200, -1)])
    sums.clear(np.array([0], np.int32))
    assert sums.sums(np.array([0, 999], np.int32)).tolist() == [0.0, 7.0]
