"""The 128-bit kernels and the checked 64-bit ones, against Python's integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from freshet.state import checked, wide
from freshet.state.arrays import Int64s

ALL = np.ones(1, np.bool_)
LIMIT = 10**38
EDGES = [0, 1, 5, 10**9, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**96 - 1, LIMIT // 2, LIMIT - 1]
wides = st.one_of(
    st.sampled_from(EDGES), st.integers(0, 10**20), st.integers(0, LIMIT - 1), st.integers(0, 99)
).flatmap(lambda v: st.sampled_from([v, -v]))
longs = st.one_of(
    st.sampled_from([0, 1, -1, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63)]), st.integers(-(2**63), 2**63 - 1)
)


def lanes(*values: int) -> tuple[Int64s, Int64s]:
    pairs = [wide.split(v) for v in values]
    return np.array([h for h, _ in pairs], np.int64), np.array([lo for _, lo in pairs], np.int64)


def rounded(numerator: int, divisor: int, mode: int) -> int:
    size, rest = divmod(abs(numerator), abs(divisor))
    sign = -1 if (numerator < 0) != (divisor < 0) else 1
    if mode == wide.HALF_UP:
        return sign * (size + (2 * rest >= abs(divisor)))
    if mode == wide.DOWN:
        return sign * size
    if mode == wide.FLOOR:
        return numerator // divisor
    if mode == wide.CEILING:
        return -(-numerator // divisor)
    return rest * (-1 if numerator < 0 else 1)


def check(bad: int, hi: Int64s, lo: Int64s, expected: int, digits: int) -> None:
    if abs(expected) >= 10**digits:
        assert bad == 0
    else:
        assert bad == -1
        assert wide.joined(hi[0], lo[0]) == expected


@settings(max_examples=400, deadline=None)
@given(wides, wides, wides, st.integers(0, 44), st.integers(0, 70), st.integers(0, 4), st.sampled_from([38, 20, 5]))
def test_ratio(a: int, b: int, d: int, up: int, down: int, mode: int, digits: int) -> None:
    if b not in (1, -1):
        up = 0  # as decimals use it: a product is not also scaled up
    d = d or 3
    if mode == wide.REMAINDER:
        down %= 39
    hi, lo = np.zeros(1, np.int64), np.zeros(1, np.int64)
    if d not in (1, -1) and mode != wide.REMAINDER:
        down = 0
    bad = wide.ratio(*lanes(a), *lanes(b), *lanes(d), ALL, up, down, mode, digits, hi, lo)
    check(bad, hi, lo, rounded(a * b * 10**up, d * 10**down, mode), digits)


@settings(max_examples=300, deadline=None)
@given(wides, wides, st.sampled_from([1, -1]), st.integers(0, 38), st.integers(0, 38), st.integers(0, 38))
def test_blend(a: int, b: int, sign: int, up_a: int, up_b: int, down: int) -> None:
    hi, lo = np.zeros(1, np.int64), np.zeros(1, np.int64)
    bad = wide.blend(*lanes(a), *lanes(b), ALL, sign, up_a, up_b, down, 38, hi, lo)
    check(bad, hi, lo, rounded(a * 10**up_a + sign * b * 10**up_b, 10**down, wide.HALF_UP), 38)


@settings(max_examples=100, deadline=None)
@given(st.lists(wides, min_size=1, max_size=5), wides)
def test_one_operand_applies_to_all_rows(values: list[int], other: int) -> None:
    hi, lo = np.zeros(len(values), np.int64), np.zeros(len(values), np.int64)
    bad = wide.blend(*lanes(*values), *lanes(other), ALL, 1, 0, 0, 0, 38, hi, lo)
    sums = [v + other for v in values]
    first = next((i for i, s in enumerate(sums) if abs(s) >= LIMIT), -1)
    assert bad == first
    assert [wide.joined(h, x) for h, x in zip(hi.tolist(), lo.tolist(), strict=True)][:first] == sums[:first]


@settings(max_examples=200, deadline=None)
@given(wides, wides)
def test_less(a: int, b: int) -> None:
    assert wide.less(*lanes(a), *lanes(b))[0] == (a < b)


def test_null_rows_never_fail() -> None:
    hi, lo = np.zeros(2, np.int64), np.zeros(2, np.int64)
    valid = np.array([False, True])
    big = lanes(LIMIT - 1, 7)
    assert wide.ratio(*big, *big, *lanes(0, 7), valid, 0, 0, wide.HALF_UP, 38, hi, lo) == -1
    assert wide.joined(hi[1], lo[1]) == 7
    out = np.zeros(2, np.int64)
    assert checked.multiply(big[1], big[1], valid, -100, 100, out) == -1
    assert out[1] == 49


def _toward_zero(a: int, b: int) -> int:
    return rounded(a, b, wide.DOWN)


@settings(max_examples=400, deadline=None)
@given(longs, longs, st.sampled_from([(-(2**63), 2**63 - 1), (-128, 127), (-(10**18) + 1, 10**18 - 1)]))
def test_checked(a: int, b: int, bounds: tuple[int, int]) -> None:
    least, greatest = bounds
    for kernel, exact in (
        (checked.add, a + b),
        (checked.subtract, a - b),
        (checked.multiply, a * b),
        (checked.quotient, _toward_zero(a, b) if b else None),
    ):
        out = np.zeros(1, np.int64)
        bad = kernel(np.array([a]), np.array([b]), ALL, least, greatest, out)
        if exact is None or not least <= exact <= greatest:
            assert bad == 0, (kernel, a, b)
        else:
            assert (bad, out[0]) == (-1, exact), (kernel, a, b)
    out = np.zeros(1, np.int64)
    bad = checked.remainder(np.array([a]), np.array([b]), ALL, least, greatest, out)
    assert bad == (0 if b == 0 else -1)
    if b:
        assert out[0] == rounded(a, b, wide.REMAINDER)
