"""An aggregate as written in a query: its arguments, DISTINCT, FILTER and WITHIN GROUP, and how they are bound.

In the parsed tree FILTER, WITHIN GROUP and IGNORE NULLS are nodes around the call; here they are unwrapped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from sqlglot import exp

from freshet.scalar.expression import AggregateCall, Expression
from freshet.scalar.types import Type
from freshet.sql.binder import Binder
from freshet.sql.scope import NameScope
from freshet.sql.source import sql_of

_MOMENTS = "compute it from COUNT, SUM and SUM of products"
_INSTEAD: dict[type[exp.Expr], str] = {
    exp.ApproxTopK: "group by the value, and keep the greatest counts with ORDER BY COUNT(*) DESC LIMIT",
    exp.Skewness: _MOMENTS,
    exp.Kurtosis: _MOMENTS,
}
_KNOWN = "these work: COUNT, SUM, AVG, MIN, MAX, STDDEV, VARIANCE, MEDIAN, MODE, MAX_BY, ARRAY_AGG; docs/sql.md has all"

_SEE_NULLS = (exp.First, exp.FirstValue, exp.Last, exp.LastValue, exp.AnyValue)
#: Nodes that may be wrapped around a call as parts of the aggregate.
_AROUND = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


def remedy_for(call: exp.Expr) -> str:
    return _INSTEAD.get(type(call), _KNOWN)


class WrittenAggregate:
    def __init__(
        self, binder: Binder, scope: NameScope, ask: Callable[[AggregateCall], Expression], node: exp.Expr
    ) -> None:
        self._statement, self._node, self.ask = binder.statement, node, ask
        self._inside = binder.scalar(scope, "an aggregate's argument", subqueries=True)
        self.only: Expression | None = None
        self.order: list[exp.Expr] = []
        self._nulls = ""
        while isinstance(node, _AROUND):
            if isinstance(node, exp.Filter):
                self.only = binder.scalar(scope, "FILTER", subqueries=True).condition(node.expression.this)
            elif isinstance(node, exp.WithinGroup):
                self.order = list(node.expression.expressions)
            else:
                self._nulls = type(node).__name__
            node = node.this
        self.call = node
        #: Its name in SQL.
        self.name = sql_of(node).partition("(")[0]
        self.parts, self.distinct = self._arguments()

    def _arguments(self) -> tuple[list[exp.Expr], bool]:
        call = self.call
        if call.this is None or isinstance(call.this, exp.Star):
            return [], False
        if isinstance(call.this, exp.Distinct):
            return list(call.this.expressions), True
        return [call.this, *call.expressions], False

    def operands(self) -> tuple[Expression, Expression]:
        """The arguments of an aggregate that takes two."""
        self.reads("this", "expression")
        given = [g for g in (*self.parts, self.call.args.get("expression")) if g is not None]
        if len(given) != 2:
            self.fail(f"{self.name} takes two arguments, not {len(given)}; write both")
        return self.value(given[0]), self.value(given[1])

    def value(self, node: exp.Expr) -> Expression:
        return self._inside.bind(node)

    def condition(self, node: exp.Expr) -> Expression:
        return self._inside.condition(node)

    def cast(self, value: Expression, to: Type) -> Expression:
        return self._inside.cast(value, to, self._node)

    def build(self, name: str, *args: Expression) -> Expression:
        return self._inside.build(name, args, self._node)

    def reads(self, *slots: str) -> None:
        self._statement.only(self.call, slots)
        if self.order and not isinstance(self.call, (exp.PercentileCont, exp.PercentileDisc, exp.Mode)):
            self.refuse(f"WITHIN GROUP for {self.name}", "leave it out")
        if self._nulls and not isinstance(self.call, _SEE_NULLS):
            self.refuse(f"IGNORE or RESPECT NULLS for {self.name}", "leave it out")

    def fail(self, message: str) -> NoReturn:
        self._statement.fail(message, self._node)

    def refuse(self, what: str, instead: str) -> NoReturn:
        self._statement.refuse(what, instead, self._node)
