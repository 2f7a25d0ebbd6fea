"""Arithmetic that only plans use: least and greatest values of products and sums, and a check that they fit a type.

A `clamped` result stops at the largest number of 38 digits instead of failing. That is far beyond any type that is
checked, and it stays there if multiplied by anything but 0; so a clamped number is reported as too large whenever the
true one would be. The caller handles scales: these are sums and products of unscaled integers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from freshet.errors import EvaluationError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression
from freshet.scalar.functions.nulls import OWN
from freshet.scalar.functions.registry import FUNCTIONS, Function, Step, declare
from freshet.scalar.functions.rows import both, first_bad, lane, longest, spread
from freshet.scalar.types import INTEGER_RANGE, Type, decimal
from freshet.state import wide
from freshet.state.arrays import Int64s

DIGITS = 38
_FAR, _LANE = 9e37, 9e18  # by the leading digits: from where a result is clamped, and up to where it fits a lane
_MOST = wide.split(10**DIGITS - 1), wide.split(1 - 10**DIGITS)
_ZERO, _ONE = np.zeros(1, np.int64), np.ones(1, np.int64)


def clamped(name: str, scale: int, *args: Expression) -> Expression:
    """A call of one of these functions, with a result of that scale."""
    return Call(decimal(DIGITS, scale), name, args)


def limits(type_: Type) -> tuple[int, int]:
    """The least and the greatest unscaled value of an exact type."""
    if type_.name == "DECIMAL":
        return 1 - 10**type_.precision, 10**type_.precision - 1
    return INTEGER_RANGE[type_.name]


def _lanes(column: Column) -> tuple[Int64s, Int64s]:
    lo = lane(column.data)
    return wide.high(lo, column.hi), lo


def _leading(column: Column) -> npt.NDArray[np.float64]:
    if column.hi is None:
        return np.asarray(column.data, np.float64)
    hi, lo = _lanes(column)
    return hi.astype(np.float64) * 2.0**64 + lo.view(np.uint64).astype(np.float64)


def _cut(type_: Type, x: Column, y: Column, product: bool) -> Column:
    """x * y or x + y, clamped."""
    a, b, rows, valid = _leading(x), _leading(y), longest(x, y), both(x.valid, y.valid)
    about = np.broadcast_to(a * b if product else a + b, rows)
    if x.hi is None and y.hi is None and np.abs(about).max(initial=0.0) < _LANE:
        return Column(type_, np.broadcast_to(x.data * y.data if product else x.data + y.data, rows), valid)
    far = np.abs(about) >= _FAR
    near = ~far if valid is None else ~far & valid
    lo, hi = np.empty(rows, np.int64), np.empty(rows, np.int64)
    if product:
        bad = wide.ratio(*_lanes(x), *_lanes(y), _ZERO, _ONE, near, 0, 0, wide.DOWN, DIGITS, hi, lo)
    else:
        bad = wide.blend(*_lanes(x), *_lanes(y), near, 1, 0, 0, 0, DIGITS, hi, lo)
    assert bad < 0, "a result that is not clamped fits"
    for (most_hi, most_lo), there in zip(_MOST, (far & (about > 0), far & (about < 0)), strict=True):
        hi[there], lo[there] = most_hi, most_lo
    return Column(type_, lo, valid, wide.narrow(lo, hi))


def _exact(call: Call) -> Step:
    """Multiplication and addition in plans: in 38 digits, whatever the types are."""
    name = call.name.removeprefix("exact_")
    strict = FUNCTIONS[name].strict
    assert strict is not None
    return strict(replace(call, name=name))


def _product(call: Call) -> Step:
    return lambda x, y: _cut(call.type, x, y, True)


def _sum(call: Call) -> Step:
    return lambda x, y: _cut(call.type, x, y, False)


def _extreme_product(call: Call) -> Step:
    """The extreme of a number between the first two and one between the last two: one of the results of these four."""
    least = call.name == "least_product"

    def step(a: Column, b: Column, c: Column, d: Column) -> Column:
        best = _cut(call.type, a, c, True)
        for x, y in ((a, d), (b, c), (b, d)):
            other = _cut(call.type, x, y, True)
            rows, valid = longest(best, other), both(best.valid, other.valid)
            if best.hi is None and other.hi is None:
                data = np.minimum(best.data, other.data) if least else np.maximum(best.data, other.data)
                best = Column(call.type, data, valid)
                continue
            best, other = spread(best, rows), spread(other, rows)
            (hi, lo), (other_hi, other_lo) = _lanes(best), _lanes(other)
            better = wide.less(other_hi, other_lo, hi, lo) if least else wide.less(hi, lo, other_hi, other_lo)
            lo, hi = np.where(better, other_lo, lo), np.where(better, other_hi, hi)
            best = Column(call.type, lo, valid, wide.narrow(lo, hi))
        return best

    return step


def _within(call: Call) -> Step:
    """The first value, if the next two, the least and the greatest value of something, fit the type of the last;
    `within_bounds` is for bounds that need not be reached."""
    type_, does = call.args[3].type, "does" if call.name == "within" else "may"
    (least_hi, least_lo), (most_hi, most_lo) = (wide.split(bound) for bound in limits(type_))
    shape = np.ones(1, np.int64)

    def step(value: Column, low: Column, high: Column, _: Column) -> Column:
        (low_hi, low_lo), (high_hi, high_lo) = _lanes(low), _lanes(high)
        below = wide.less(low_hi, low_lo, least_hi * shape, least_lo * shape)
        above = wide.less(most_hi * shape, most_lo * shape, high_hi, high_lo)
        bad = max(first_bad(below, low.valid), first_bad(above, high.valid))
        if bad >= 0:
            raise EvaluationError(f"a value inside SUM {does} not fit {type_}; cast an operand to a wider type", bad)
        return value

    return step


declare(
    *(Function(name, strict=_exact) for name in ("exact_multiply", "exact_add")),
    Function("clamped_multiply", strict=_product, total=True),
    Function("clamped_add", strict=_sum, total=True),
    *(Function(name, strict=_extreme_product, total=True) for name in ("least_product", "greatest_product")),
    *(Function(name, strict=_within, nulls=OWN) for name in ("within", "within_bounds")),
)
