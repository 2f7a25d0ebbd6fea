"""MIN_BY and MAX_BY: the value of the row in which another value is least or greatest.

Rows whose ordering value is NULL are ignored. Among rows that tie, the least value is taken, and NULL is less than any
other: the rule depends only on the rows, so the answer does not depend on the order of changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from sqlglot import exp

from freshet.aggregates.accumulators import Feed
from freshet.aggregates.function import AggregateFunction, Answer, WrittenCall, aggregate
from freshet.errors import SqlError
from freshet.scalar.expression import AggregateCall, Expression, Literal
from freshet.scalar.types import Type


class _By(AggregateFunction):
    greatest: ClassVar[bool]
    idempotent = True
    logarithmic = True
    cost = "keeps its rows in order, O(log n) a joined row"

    def bind(self, written: WrittenCall) -> Expression:
        value, by = written.operands()
        if "VOID" in (value.type.name, by.type.name):  # a group of only NULLs
            return Literal(value.type, None)
        # The ordering value comes first: only it determines whether a row is ignored.
        return written.ask(self.call([by, value], written, order=((0, self.greatest, False),)))

    def type(self, args: Sequence[Type]) -> Type:
        for given in args:
            if not given.is_ordered:
                raise SqlError(f"no aggregate {self.name.upper()} of {given} values; use the values they are made from")
        return args[1]

    def shares(self, call: AggregateCall) -> object:
        return call.order

    def keep(self, feed: Feed, call: AggregateCall) -> None:
        feed.gathered(call)

    def write(self, call: AggregateCall, feed: Feed, answer: Answer) -> None:
        assert feed.values is not None
        answer.put(*feed.values.first(answer.groups, 1))


@aggregate(exp.ArgMin)
class MinBy(_By):
    name = "min_by"
    greatest = False


@aggregate(exp.ArgMax)
class MaxBy(_By):
    name = "max_by"
    greatest = True
