"""MEDIAN, PERCENTILE, PERCENTILE_CONT, PERCENTILE_DISC and APPROX_PERCENTILE, from values kept in order.

The continuous ones interpolate between the two values around the requested position, the discrete ones return an
existing value: the first at which the requested share of the values is reached. APPROX_PERCENTILE is the discrete one,
and exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from sqlglot import exp

from freshet.aggregates.accumulators import Feed
from freshet.aggregates.function import AggregateFunction, Answer, WrittenCall, aggregate, spelled
from freshet.aggregates.sums import number
from freshet.errors import SqlError
from freshet.scalar.expression import AggregateCall, Expression, Literal
from freshet.scalar.types import DOUBLE, Type
from freshet.state.arrays import Int64s


class _Percentile(AggregateFunction):
    """`AggregateCall.share` is the percentage, from 0 to 1; a descending `order` counts from the greatest value."""

    logarithmic: ClassVar[bool] = True
    cost = "keeps its values in order, O(log n) a joined row"

    def keep(self, feed: Feed, call: AggregateCall) -> None:
        feed.counted()
        feed.sorted()

    def asked(
        self, written: WrittenCall, value: Expression, share: exp.Expr | None, descending: bool = False
    ) -> Expression:
        more: dict[str, Any] = {"share": _share(written, share), "order": ((0, descending, False),)}
        return written.ask(self.call([value], written, **more))

    def write(self, call: AggregateCall, feed: Feed, answer: Answer) -> None:
        assert feed.ordered is not None
        counts = answer.state[answer.groups, feed.count]
        descending = call.order[0][1]

        def values_at(places: Int64s) -> Int64s:
            """The values at positions in the requested order, and which groups have values."""
            within = np.clip(places, 0, np.maximum(counts - 1, 0))
            return feed_ordered.at(answer.groups, counts - 1 - within if descending else within)

        feed_ordered = feed.ordered
        answer.put(self.taken(call.share, counts, values_at), counts > 0)

    def taken(self, share: float, counts: Int64s, values_at: Any) -> Int64s:
        raise NotImplementedError


class _OfNumbers(_Percentile):
    """Quantiles whose result is a double for every numeric type."""

    def type(self, args: Sequence[Type]) -> Type:
        number(self, args)
        return DOUBLE

    def call(self, args: Sequence[Expression], written: WrittenCall, **more: Any) -> AggregateCall:
        (value,) = args
        if not value.type.is_numeric and value.type.name not in ("VOID", "STRING"):
            written.fail(f"{written.name} takes a number, not {value.type}; use CAST")
        return super().call([written.cast(value, DOUBLE)], written, **more)


@aggregate()
class PercentileCont(_OfNumbers):
    name = "percentile_cont"

    def taken(self, share: float, counts: Int64s, values_at: Any) -> Int64s:
        place = share * np.maximum(counts - 1, 0)
        low, high = np.floor(place), np.ceil(place)
        lower, upper = (values_at(p.astype(np.int64)).view(np.float64) for p in (low, high))
        with np.errstate(invalid="ignore"):
            between = (high - place)[:, None] * lower + (place - low)[:, None] * upper
        values = np.where((lower == upper) | (low == high)[:, None], lower, between)
        return _bits(values)


class _Discrete(_Percentile):
    def taken(self, share: float, counts: Int64s, values_at: Any) -> Int64s:
        values: Int64s = values_at(_first_reaching(share, counts))
        return values


@aggregate()
class PercentileDisc(_Discrete, _OfNumbers):
    name = "percentile_disc"


@aggregate()
class ApproxPercentile(_Discrete):
    name = "approx_percentile"

    def type(self, args: Sequence[Type]) -> Type:
        given = self.one(args)
        if not given.is_numeric and given.name not in ("DATE", "TIMESTAMP"):
            raise SqlError(f"no aggregate APPROX_PERCENTILE({given}); it takes a number, date or timestamp: use CAST")
        return given


_CONT, _DISC, _APPROX = PercentileCont(), PercentileDisc(), ApproxPercentile()


@spelled(exp.Median)
def median(written: WrittenCall) -> Expression:
    written.reads("this")
    return _CONT.asked(written, _value(written), exp.Literal.number("0.5"))


@spelled(exp.Quantile)
def percentile(written: WrittenCall) -> Expression:
    written.reads("this", "quantile")
    return _CONT.asked(written, _value(written), written.call.args.get("quantile"))


@spelled(exp.PercentileCont, exp.PercentileDisc)
def percentile_within_group(written: WrittenCall) -> Expression:
    written.reads("this")
    function = _CONT if isinstance(written.call, exp.PercentileCont) else _DISC
    if len(written.order) != 1 or len(written.parts) != 1:
        name = function.name.upper()
        written.fail(f"{name} orders by one value; write {name}(0.5) WITHIN GROUP (ORDER BY x)")
    (item,) = written.order
    return function.asked(written, written.value(item.this), written.parts[0], bool(item.args.get("desc")))


@spelled(exp.ApproxQuantile)
def approx_percentile(written: WrittenCall) -> Expression:
    """The requested accuracy is always met: the answer is exact."""
    written.reads("this", "quantile", "accuracy")
    return _APPROX.asked(written, _value(written), written.call.args.get("quantile"))


def _value(written: WrittenCall) -> Expression:
    if len(written.parts) != 1:
        written.fail(f"{written.name} takes one value, not {len(written.parts)}; write {written.name}(x, ...)")
    return written.value(written.parts[0])


def _share(written: WrittenCall, node: exp.Expr | None) -> float:
    if node is None:
        written.fail(f"{written.name} takes a value and a percentage; write both, as in {written.name}(x, 0.5)")
    if isinstance(node, exp.Array):
        written.refuse("several percentiles at once", "write one call for each")
    bound = written.value(node)
    if not isinstance(bound, Literal) or bound.value is None or not bound.type.is_numeric:
        written.fail("the percentage must be a constant from 0 to 1, such as 0.5")
    share = written.cast(bound, DOUBLE)
    assert isinstance(share, Literal) and isinstance(share.value, float)
    if not 0 <= share.value <= 1:
        written.fail(f"the percentage {share.value} is not between 0 and 1; write 0.5 for the median")
    return share.value


def _first_reaching(share: float, counts: Int64s) -> Int64s:
    """The first position at which the share of all values is reached."""
    place: Int64s = np.ceil(share * counts).astype(np.int64) - 1
    return np.maximum(place, 0)


def _bits(doubles: Any) -> Int64s:
    """Doubles as they are in lanes: one NaN, and no negative zero."""
    bits: Int64s = np.ascontiguousarray(np.where(np.isnan(doubles), np.nan, doubles + 0.0)).view(np.int64)
    return bits
