"""Sums of products of doubles from sums of their factors, compared with sums in fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from freshet.state.sum_products import COLUMNS, TERMS, multiply_sums

INF, NAN = math.inf, math.nan


def columns(values: list[float]) -> list[float]:
    """What is known of a group: its sum as doubles, and its extremes; NaN is the greatest value."""
    known = [v for v in values if not math.isnan(v)]
    least, greatest = min(known, default=NAN), max(known, default=NAN)
    if len(known) < len(values):
        greatest = NAN
    terms = [0.0] * TERMS
    if all(map(math.isfinite, values)):
        rest = sum(map(Fraction, values))
        for i in range(TERMS):
            try:
                terms[i] = float(rest)
            except OverflowError:
                terms[i] = INF if rest > 0 else -INF
                break
            rest -= Fraction(terms[i])
    return [*terms, least, greatest, min(map(abs, known), default=NAN)]


def multiplied(groups: list[list[float]]) -> tuple[np.ndarray, int]:
    rows = np.array([[c for g in groups for c in columns(g)]])
    assert rows.shape[1] == len(groups) * COLUMNS
    out = np.empty((1, TERMS))
    bad = multiply_sums(rows, np.ones(1, np.bool_), out)
    return out[0], int(bad)


def summed(groups: list[list[float]]) -> float:
    """By enumeration, with rounded products."""
    products = []
    for factors in product(*groups):
        value = np.float64(factors[0])
        with np.errstate(all="ignore"):
            for f in factors[1:]:
                value = value * np.float64(f)
        products.append(float(value))
    if any(map(math.isnan, products)) or (INF in products and -INF in products):
        return NAN
    infinite = [p for p in products if math.isinf(p)]
    return infinite[0] if infinite else 0.0


@pytest.mark.parametrize("seed", range(200))
def test_finite_factors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = [
        [float(x) for x in rng.normal(size=rng.integers(1, 6)) * 10.0 ** rng.integers(-30, 31, 1)]
        for _ in range(rng.integers(2, 5))
    ]
    out, bad = multiplied(groups)
    exact = Fraction(1)
    for g in groups:
        exact *= sum(map(Fraction, g))
    assert bad == -1
    assert abs(sum(map(Fraction, out.tolist())) - exact) <= abs(exact) / 2**190


@pytest.mark.parametrize("seed", range(300))
def test_infinities_and_overflow(seed: int) -> None:
    rng = np.random.default_rng(seed)
    some = [INF, -INF, NAN, 0.0, 1.0, -2.0, 1e200, -1e200, 1e-200, 5e-324, 1e308]
    groups = [[some[i] for i in rng.integers(0, len(some), rng.integers(1, 4))] for _ in range(rng.integers(2, 4))]
    out, bad = multiplied(groups)
    wanted = summed(groups)
    if bad < 0 and (wanted != 0.0 or not math.isfinite(out[0])):
        assert out[0] == wanted or (math.isnan(out[0]) and math.isnan(wanted))
    if not math.isfinite(wanted):
        assert bad == -1


def test_a_sum_that_does_not_fit_is_reported() -> None:
    _, bad = multiplied([[1e308, 1e308], [1e-10]])
    assert bad == 0
