"""VARIANCE and STDDEV of doubles, from exact sums of the values and of their squares (see state/spread)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from sqlglot import exp

from freshet.aggregates.accumulators import Feed
from freshet.aggregates.function import AggregateFunction, Answer, Carrier, WrittenCall, aggregate
from freshet.aggregates.sums import number
from freshet.aggregates.variance import finish_variances
from freshet.scalar.expression import AggregateCall, Call, Expression
from freshet.scalar.functions.spread import of_sums
from freshet.scalar.types import DOUBLE, Type


class Spread(AggregateFunction):
    sample: ClassVar[bool]
    root: ClassVar[bool]

    def call(self, args: Sequence[Expression], written: WrittenCall, **more: Any) -> AggregateCall:
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
        sums = feed.squares.sums(answer.groups, feed.exact)
        place = answer.out, answer.lane, answer.null_lane, answer.bit
        finish_variances(answer.groups, sums, answer.state, feed.count, self.sample, self.root, *place)

    def carries(self, call: AggregateCall) -> bool:
        return True

    def carried(self, call: AggregateCall, carrier: Carrier) -> Expression:
        (x,) = call.args
        parts: list[tuple[tuple[Expression, ...], int]] = [((x,), 2), (_calls(x, "square", "square_rest"), 3)]
        if not (isinstance(x, Call) and x.name == "cast"):  # only doubles can be huge
            parts += [(_calls(x, "shrunk"), 2), (_calls(x, "huge_square", "huge_square_rest"), 3)]
        sums = [carrier.doubles(added, term, call) for added, terms in parts for term in range(terms)]
        return Call(DOUBLE, of_sums(self.name), (carrier.counted(call), *sums))


def _calls(x: Expression, *names: str) -> tuple[Expression, ...]:
    return tuple(Call(DOUBLE, name, (x,)) for name in names)


@aggregate(exp.Variance)
class VarSamp(Spread):
    name = "var_samp"
    sample, root = True, False


@aggregate(exp.VariancePop)
class VarPop(Spread):
    name = "var_pop"
    sample, root = False, False


@aggregate(exp.Stddev, exp.StddevSamp)
class StddevSamp(Spread):
    name = "stddev_samp"
    sample, root = True, True


@aggregate(exp.StddevPop)
class StddevPop(Spread):
    name = "stddev_pop"
    sample, root = False, True
