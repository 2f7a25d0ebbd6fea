"""CORR, COVAR and REGR_* from given counts and sums. These functions have no SQL names: aggregates are composed of
them.

`product` and `product_rest` are the two doubles that add up to a product. The others take a count, then for each value
the two doubles of its sum, then those of the sums of products, and work on n Σab − Σa Σb in pairs of doubles: twice the
digits, so that a mean that is large compared with the spread does not cost precision.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from freshet.scalar.column import Column
from freshet.scalar.functions.nulls import IF_ANY_OR_ELSE
from freshet.scalar.functions.registry import Function, Strict, declare
from freshet.scalar.functions.rows import both, every, longest
from freshet.scalar.types import DOUBLE

Doubles = npt.NDArray[np.float64]
Pair = tuple[Doubles, Doubles]

_SPLIT = 134217729.0  # 2**27 + 1: splits a double into two halves of 26 bits


def _halves(a: Doubles) -> Pair:
    high = _SPLIT * a
    high = high - (high - a)
    return high, a - high


def product(a: Doubles, b: Doubles) -> Pair:
    """A product and its exact rounding error; the error is 0 if the product does not fit."""
    with np.errstate(over="ignore", invalid="ignore"):
        whole = a * b
        (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
        rest = ((a_high * b_high - whole) + a_high * b_low + a_low * b_high) + a_low * b_low
    return whole, np.where(np.isfinite(rest) & np.isfinite(whole), rest, 0.0)


def _comoment(n: Doubles, a: Pair, b: Pair, ab: Pair) -> Doubles:
    """n Σab − Σa Σb, which is n times the sum of products of distances from the means."""
    with np.errstate(over="ignore", invalid="ignore"):
        left, left_rest = product(n, ab[0])
        right, right_rest = product(a[0], b[0])
        rest = left_rest + n * ab[1] - (right_rest + a[0] * b[1] + a[1] * b[0])
        result: Doubles = (left - right) + np.where(np.isfinite(rest), rest, 0.0)
    return result


def _product(place: int) -> Strict:
    def step(a: Column, b: Column) -> Column:
        x, y = (np.asarray(c.data, np.float64) for c in (a, b))
        return Column(DOUBLE, product(x, y)[place], both(a.valid, b.valid))

    return lambda call: step


def _of(least: int, formula: Callable[[Doubles, list[Pair]], Doubles]) -> Strict:
    """A function of a count and sums; NULL for fewer rows than `least`, and if the formula is NaN but its sums are
    not."""

    def step(count: Column, *sums: Column) -> Column:
        n = longest(count, *sums)
        counts = np.broadcast_to(np.asarray(count.data, np.float64), n)
        doubles = [np.broadcast_to(np.asarray(c.data, np.float64), n) for c in sums]
        pairs = list(zip(doubles[::2], doubles[1::2], strict=True))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            result = formula(np.maximum(counts, 1.0), pairs)
        strange = ~np.isfinite(sum(doubles[::2], np.zeros(n)))
        known = (counts >= least) & (strange | ~np.isnan(result))
        return Column(DOUBLE, np.ascontiguousarray(result), both(known, every((count, *sums))))

    return lambda call: step


def _square(n: Doubles, a: Pair, aa: Pair) -> Doubles:
    """A comoment of a value with itself, which is not negative."""
    result: Doubles = np.maximum(_comoment(n, a, a, aa), 0.0)
    return result


def _slope(n: Doubles, s: list[Pair]) -> Doubles:
    return _comoment(n, s[0], s[1], s[3]) / _some(_square(n, s[1], s[4]))


def _some(spread: Doubles) -> Doubles:
    """NaN if all values are equal, since there is nothing to divide by."""
    result: Doubles = np.where(spread == 0, np.nan, spread)
    return result


def _r2(n: Doubles, s: list[Pair]) -> Doubles:
    yy, xx = _square(n, s[0], s[2]), _square(n, s[1], s[4])
    yx = _comoment(n, s[0], s[1], s[3])
    result: Doubles = np.where(xx == 0, np.nan, np.where(yy == 0, 1.0, (yx / _some(xx)) * (yx / _some(yy))))
    return result


def _corr(n: Doubles, s: list[Pair]) -> Doubles:
    yy, xx = _square(n, s[0], s[2]), _square(n, s[1], s[4])
    result: Doubles = _comoment(n, s[0], s[1], s[3]) / (np.sqrt(_some(yy)) * np.sqrt(_some(xx)))
    return np.clip(result, -1.0, 1.0)


# The order of sums: those of the two values, then those of the products yy, yx, xx; or only yx; or the square of one
# value.
declare(
    Function("product", strict=_product(0), total=True),
    Function("product_rest", strict=_product(1), total=True),
    *(
        Function(name, strict=_of(least, formula), nulls=IF_ANY_OR_ELSE, total=True)
        for name, least, formula in (
            ("covar_pop_of", 1, lambda n, s: _comoment(n, s[0], s[1], s[2]) / n / n),
            ("covar_samp_of", 2, lambda n, s: _comoment(n, s[0], s[1], s[2]) / n / (n - 1)),
            ("regr_product_of", 1, lambda n, s: _comoment(n, s[0], s[1], s[2]) / n),
            ("regr_square_of", 1, lambda n, s: _square(n, s[0], s[1]) / n),
            ("regr_slope_of", 2, _slope),
            ("regr_intercept_of", 2, lambda n, s: (s[0][0] - _slope(n, s) * s[1][0]) / n),
            ("regr_r2_of", 2, _r2),
            ("corr_of", 2, _corr),
        )
    ),
)
