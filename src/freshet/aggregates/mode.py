"""MODE: the value that occurs most often; among values that occur equally often, the least.

`MODE() WITHIN GROUP (ORDER BY x DESC)` takes the greatest of these.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from freshet.aggregates.accumulators import Feed
from freshet.aggregates.function import AggregateFunction, Answer, WrittenCall, aggregate
from freshet.scalar.expression import AggregateCall, Expression, Literal
from freshet.scalar.types import Type


@aggregate(exp.Mode)
class Mode(AggregateFunction):
    name = "mode"
    logarithmic = True
    cost = "keeps its values in order and looks through those of each group it touches"
    rewrites = True

    def bind(self, written: WrittenCall) -> Expression:
        written.reads("this", "deterministic")
        if bool(written.parts) == bool(written.order) or len(written.order) > 1:
            written.fail("MODE takes one value; write MODE(x) or MODE() WITHIN GROUP (ORDER BY x)")
        if written.distinct:
            written.refuse("MODE of DISTINCT", "each distinct value occurs once: use MIN")
        (part,) = written.parts or [written.order[0].this]
        descending = bool(written.order) and bool(written.order[0].args.get("desc"))
        value = written.value(part)
        if value.type.name == "VOID":  # a group of only NULLs
            return Literal(value.type, None)
        return written.ask(self.call([value], written, order=((0, descending, False),)))

    def type(self, args: Sequence[Type]) -> Type:
        return self.one(args)

    def keep(self, feed: Feed, call: AggregateCall) -> None:
        feed.sorted()

    def write(self, call: AggregateCall, feed: Feed, answer: Answer) -> None:
        assert feed.ordered is not None
        answer.put(*feed.ordered.most_frequent(answer.groups, call.order[0][1]))
