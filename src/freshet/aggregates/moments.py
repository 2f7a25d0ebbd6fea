"""CORR, COVAR_POP, COVAR_SAMP and REGR_*: functions of counts and exact sums over the rows in which neither value is
NULL.

Each is composed of other aggregates, so nothing here has state of its own. Sums are pairs of doubles, the rounded sum
and the rest, and so are products of two values: differences of sums in which digits would cancel are computed with
twice the digits (see state/spread and scalar/functions/moments).
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from freshet.aggregates.function import AGGREGATES, WrittenCall, spelled
from freshet.scalar import functions
from freshet.scalar.expression import AggregateCall, Call, Expression
from freshet.scalar.types import DOUBLE


@dataclass(slots=True)
class _Pairs:
    """The rows in which neither value is NULL; `y` depends on `x`."""

    written: WrittenCall
    y: Expression
    x: Expression
    known: Expression | None  # neither is NULL, and FILTER holds

    def count(self) -> Expression:
        return self.written.ask(AggregateCall("count", (), AGGREGATES["count"].type([]), False, self.known))

    def average(self, value: Expression) -> Expression:
        kind = AGGREGATES["avg"].type([value.type])
        return self.written.ask(AggregateCall("avg", (value,), kind, False, self.known))

    def sums(self, a: Expression, b: Expression | None = None) -> list[Expression]:
        """The sum of values, or of products of two values, and its rest."""
        args = (a,) if b is None else (Call(DOUBLE, "product", (a, b)), Call(DOUBLE, "product_rest", (a, b)))
        calls = (AggregateCall("sum", args, DOUBLE, False, self.known, term=term) for term in range(2))
        return [self.written.ask(c) for c in calls]

    def of(self, name: str, *values: Expression) -> Expression:
        """A function of the count, the sums of values, and the sums of their products with each other."""
        doubles = [self.written.cast(v, DOUBLE) for v in values]
        given = [self.count()]
        for v in doubles:
            given += self.sums(v)
        for i, a in enumerate(doubles):
            for b in doubles[i:] if len(doubles) == 1 or name in _ALL_PRODUCTS else doubles[i + 1 :]:
                given += self.sums(a, b)
        return Call(DOUBLE, name, tuple(given))


#: Functions that read the squares as well as the product of their two values.
_ALL_PRODUCTS = frozenset({"corr_of", "regr_slope_of", "regr_intercept_of", "regr_r2_of"})


def _pairs(written: WrittenCall) -> _Pairs:
    if written.distinct:
        written.refuse(f"{written.name} of DISTINCT", "take the distinct rows in a FROM subquery")
    first, second = written.operands()
    for value in (first, second):
        if not value.type.is_numeric and value.type.name not in ("VOID", "STRING"):
            written.fail(f"{written.name} takes numbers, not {value.type}; use CAST")
    known = written.only
    for value in (first, second):
        if functions.nullable(value):
            there = written.build("is_not_null", value)
            known = there if known is None else written.build("and", known, there)
    return _Pairs(written, first, second, known)


@spelled(exp.Corr)
def corr(written: WrittenCall) -> Expression:
    pairs = _pairs(written)
    return pairs.of("corr_of", pairs.y, pairs.x)


@spelled(exp.CovarPop)
def covar_pop(written: WrittenCall) -> Expression:
    pairs = _pairs(written)
    return pairs.of("covar_pop_of", pairs.y, pairs.x)


@spelled(exp.CovarSamp)
def covar_samp(written: WrittenCall) -> Expression:
    pairs = _pairs(written)
    return pairs.of("covar_samp_of", pairs.y, pairs.x)


@spelled(exp.RegrCount)
def regr_count(written: WrittenCall) -> Expression:
    return _pairs(written).count()


@spelled(exp.RegrAvgx)
def regr_avgx(written: WrittenCall) -> Expression:
    pairs = _pairs(written)
    return pairs.average(pairs.x)


@spelled(exp.RegrAvgy)
def regr_avgy(written: WrittenCall) -> Expression:
    pairs = _pairs(written)
    return pairs.average(pairs.y)


@spelled(exp.RegrSxx)
def regr_sxx(written: WrittenCall) -> Expression:
    pairs = _pairs(written)
    return pairs.of("regr_square_of", pairs.x)


@spelled(exp.RegrSyy)
def regr_syy(written: WrittenCall) -> Expression:
    pairs = _pairs(written)
    return pairs.of("regr_square_of", pairs.y)


@spelled(exp.RegrSxy)
def regr_sxy(written: WrittenCall) -> Expression:
    pairs = _pairs(written)
    return pairs.of("regr_product_of", pairs.y, pairs.x)


@spelled(exp.RegrSlope)
def regr_slope(written: WrittenCall) -> Expression:
    pairs = _pairs(written)
    return pairs.of("regr_slope_of", pairs.y, pairs.x)


@spelled(exp.RegrIntercept)
def regr_intercept(written: WrittenCall) -> Expression:
    pairs = _pairs(written)
    return pairs.of("regr_intercept_of", pairs.y, pairs.x)


@spelled(exp.RegrR2)
def regr_r2(written: WrittenCall) -> Expression:
    pairs = _pairs(written)
    return pairs.of("regr_r2_of", pairs.y, pairs.x)
