"""GROUP BY: which keys, which aggregates, and expressions above them.

Law: above a grouping only its keys and its aggregates exist. An expression is bound over the relations first; then
every part equal to a key is read from the group's row, and a column left over is one that has no single value there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from freshet.errors import SqlError
from freshet.sql import functions
from freshet.sql.bound import GROUP, Grouping
from freshet.sql.expression import AggregateCall, Call, ColumnRef, Expression, describe
from freshet.sql.scope import Scope

if TYPE_CHECKING:
    from freshet.sql.select import SelectBinder

AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max",
}  # fmt: skip


class Groups:
    """The grouping of one select while its outputs are bound."""

    def __init__(self, binder: SelectBinder, scope: Scope, keys: list[Expression]) -> None:
        self.binder, self.scope, self.keys = binder, scope, keys
        self.aggregates: list[AggregateCall] = []

    def aggregate(self, node: exp.Expr) -> Expression:
        """Binds one aggregate and returns where its value stands in the group's row; equal ones are kept once."""
        statement = self.binder.statement
        call, condition = (node.this, node.expression.this) if isinstance(node, exp.Filter) else (node, None)
        function = AGGREGATES.get(type(call))
        statement.only(call, ("this", "expressions") if function == "count" else ("this",))
        if function is None:
            written = call.sql(dialect="spark")
            statement.refuse(f"aggregate {written}", "these work: COUNT, SUM, AVG, MIN, MAX", node)
        inside = self.binder.scalar(self.scope, "an aggregate's argument")
        parts, distinct = _arguments(call)
        args = [inside.bind(p) for p in parts]
        if function == "count" and not distinct:
            args = [a for a in args if functions.nullable(a)]  # what is never NULL is counted for every row
        try:
            kind = functions.aggregate_type(function, tuple(a.type for a in args))
        except SqlError as error:
            raise statement.placed(error, node) from None
        only = None if condition is None else self.binder.scalar(self.scope, "FILTER").condition(condition)
        bound = AggregateCall(function, tuple(args), kind, distinct and function not in ("min", "max"), only)
        if bound not in self.aggregates:
            self.aggregates.append(bound)
        position = len(self.keys) + self.aggregates.index(bound)
        return ColumnRef(kind, GROUP, position, describe_aggregate(bound), aggregate_nullable(bound, bool(self.keys)))

    def above(self, expression: Expression, node: exp.Expr) -> Expression:
        """The expression as read from the group's row."""
        if expression in self.keys:
            position = self.keys.index(expression)
            return ColumnRef(expression.type, GROUP, position, describe(expression), functions.nullable(expression))
        if isinstance(expression, ColumnRef) and expression.relation >= 0:
            self._loose(expression, node)
        if isinstance(expression, Call):
            return replace(expression, args=tuple(self.above(a, node) for a in expression.args))
        return expression

    def grouping(self, having: Expression | None) -> Grouping:
        return Grouping(tuple(self.keys), tuple(self.aggregates), having)

    def _loose(self, column: ColumnRef, node: exp.Expr) -> None:
        named = [c for c in node.find_all(exp.Column) if c.name.lower() == column.name.lower()]
        remedy = f"add it to GROUP BY or aggregate it, as in MIN({column.name})"
        self.binder.statement.fail(f"column {column.name} is not in GROUP BY; {remedy}", named[0] if named else node)


def _arguments(call: exp.Expr) -> tuple[list[exp.Expr], bool]:
    if isinstance(call.this, exp.Star):
        return [], False
    if isinstance(call.this, exp.Distinct):
        return list(call.this.expressions), True
    return [call.this, *call.expressions], False


def aggregate_nullable(call: AggregateCall, keyed: bool) -> bool:
    """COUNT never is NULL; the others are when no row counts: an empty table, a FILTER, only NULLs."""
    if call.function == "count":
        return False
    return not keyed or call.filter is not None or any(functions.nullable(a) for a in call.args)


def describe_aggregate(call: AggregateCall) -> str:
    inside = ", ".join(describe(a) for a in call.args) or "*"
    return f"{call.function}({'DISTINCT ' if call.distinct else ''}{inside})"
