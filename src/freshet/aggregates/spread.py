"""VARIANCE and STDDEV of doubles, from exact sums of the values and of their squares (see state/spread)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from sqlglot import exp

from freshet.aggregates.function import AggregateFunction, Answer, Carrier, Written, aggregate
from freshet.aggregates.sums import number
from freshet.engine.accumulators import Feed
from freshet.engine.variance import finish_variances
from freshet.sql.expression import AggregateCall, Call, Expression
from freshet.sql.functions.spread import of_sums
from freshet.types import DOUBLE, Type


class _Spread(AggregateFunction):
    sample: ClassVar[bool]
    root: ClassVar[bool]

    def call(self, args: Sequence[Expression], written: Written, **more: Any) -> AggregateCall:
        number(self, [a.type for a in args])
        return super().call([written.cast(a, DOUBLE) for a in args], written, **more)

    def type(self, args: Sequence[Type]) -> Type:
        number(self, args)
        return DOUBLE

    def nullable(self, call: AggregateCall, keyed: bool) -> bool:
        return self.sample or super().nullable(call, keyed)  # a sample of one row has no spread

    def keep(self, feed: Feed, call: AggregateCall) -> None:
        feed.squared()

    def write(self, call: AggregateCall, feed: Feed, answer: Answer) -> None:
        assert feed.exact is not None and feed.squares is not None
        sums, squares = feed.exact.terms(answer.groups, 2), feed.squares.terms(answer.groups, 2)
        place = answer.out, answer.lane, answer.null_lane, answer.bit
        finish_variances(answer.groups, sums, squares, answer.state, feed.count, self.sample, self.root, *place)

    def carries(self, call: AggregateCall) -> bool:
        return True

    def carried(self, call: AggregateCall, carrier: Carrier) -> Expression:
        (x,) = call.args
        pairs = (x,), (Call(DOUBLE, "square", (x,)), Call(DOUBLE, "square_rest", (x,)))
        sums = [carrier.doubles(pair, term, call) for pair in pairs for term in range(2)]
        return Call(DOUBLE, of_sums(self.name), (carrier.counted(call), *sums))


@aggregate(exp.Variance)
class VarSamp(_Spread):
    name = "var_samp"
    sample, root = True, False


@aggregate(exp.VariancePop)
class VarPop(_Spread):
    name = "var_pop"
    sample, root = False, False


@aggregate(exp.Stddev, exp.StddevSamp)
class StddevSamp(_Spread):
    name = "stddev_samp"
    sample, root = True, True


@aggregate(exp.StddevPop)
class StddevPop(_Spread):
    name = "stddev_pop"
    sample, root = False, True
