"""MIN and MAX, over ordered multisets (state/ordered); BOOL_AND and BOOL_OR are the MIN and MAX of booleans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from sqlglot import exp

from freshet.aggregates.accumulators import Feed
from freshet.aggregates.function import (
    AGGREGATES,
    AggregateFunction,
    Answer,
    Partials,
    WrittenCall,
    aggregate,
    spelled,
)
from freshet.errors import SqlError
from freshet.scalar.expression import AggregateCall, Expression
from freshet.scalar.types import Type


class _End(AggregateFunction):
    greatest: ClassVar[bool]
    idempotent = True
    of_itself = True
    takes_nested = True
    logarithmic = True
    cost = "keeps its values in order, O(log n) a joined row"

    def type(self, args: Sequence[Type]) -> Type:
        if args and not args[0].is_ordered:
            raise SqlError(f"no aggregate {self.name.upper()}({args[0]}); maps are not ordered")
        return self.one(args)

    def keep(self, feed: Feed, call: AggregateCall) -> None:
        feed.sorted()

    def write(self, call: AggregateCall, feed: Feed, answer: Answer) -> None:
        assert feed.ordered is not None
        answer.put(*feed.ordered.ends(answer.groups, self.greatest))

    def duckdb(self, call: AggregateCall, args: Sequence[str], only: str) -> str | None:
        return f"{self.name.upper()}({args[0]}){only}"

    def has_partial(self, call: AggregateCall) -> bool:
        return True

    def merged(self, call: AggregateCall, partials: Partials) -> AggregateCall:
        return AggregateCall(self.name, (partials.part(replace(call, distinct=False)),), call.type)


@aggregate(exp.Min)
class Min(_End):
    name = "min"
    greatest = False


@aggregate(exp.Max)
class Max(_End):
    name = "max"
    greatest = True


@spelled(exp.LogicalAnd)
def bool_and(written: WrittenCall) -> Expression:
    return _of_conditions(written, "min")


@spelled(exp.LogicalOr)
def bool_or(written: WrittenCall) -> Expression:
    return _of_conditions(written, "max")


def _of_conditions(written: WrittenCall, name: str) -> Expression:
    written.reads("this")
    return written.ask(AGGREGATES[name].call([written.condition(p) for p in written.parts], written))
