"""GROUP BY: which keys, which aggregates, and expressions above them.

Law: above a grouping only its keys and its aggregates exist. An expression is bound over the relations first; then
every part equal to a key is read from the group's row, and a column left over is one that has no single value there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from freshet import types
from freshet.errors import SqlError
from freshet.sql import functions
from freshet.sql.aggregates import AGGREGATES, BOOLEAN, FROM_DOUBLES, INSTEAD, KNOWN
from freshet.sql.bound import GROUP, Grouping
from freshet.sql.expression import AggregateCall, Call, ColumnRef, Expression, Literal, describe
from freshet.sql.gathering import GATHERING, bind_gathered
from freshet.sql.grouping_sets import GROUPING
from freshet.sql.scope import Scope

if TYPE_CHECKING:
    from freshet.sql.from_clause import Draft
    from freshet.sql.select import SelectBinder


class Groups:
    """The grouping of one select while its outputs are bound."""

    def __init__(self, binder: SelectBinder, scope: Scope, draft: Draft) -> None:
        self.binder, self.scope, self.draft = binder, scope, draft
        self.keys: list[Expression] = []
        self.aggregates: list[AggregateCall] = []
        self.sets: list[list[int]] = []  # the sets of keys, by their places, that rows are grouped by

    @property
    def has_sets(self) -> bool:
        """Whether some row's set of keys leaves a key out."""
        return any(len(set(chosen)) < len(self.keys) for chosen in self.sets)

    def aggregate(self, node: exp.Expr) -> Expression:
        """Binds one aggregate and returns where its value stands in the group's row; equal ones are kept once."""
        if isinstance(node, (exp.Grouping, exp.GroupingId)):
            return self._left_out(node)
        call, condition = (node.this, node.expression.this) if isinstance(node, exp.Filter) else (node, None)
        bound = self._bind(call, condition, node)
        if bound not in self.aggregates:
            self.aggregates.append(bound)
        position, nullable = len(self.keys) + self.aggregates.index(bound), aggregate_nullable(bound, bool(self.keys))
        return ColumnRef(bound.type, GROUP, position, describe_aggregate(bound), nullable)

    def _bind(self, call: exp.Expr, condition: exp.Expr | None, node: exp.Expr) -> AggregateCall:
        statement, function = self.binder.statement, AGGREGATES.get(type(call))
        only = None
        if condition is not None:
            only = self.binder.scalar(self.scope, "FILTER", None, self.draft).condition(condition)
        if isinstance(call, GATHERING):
            return bind_gathered(self, call, only, node)
        if function is None:
            written = call.sql(dialect="spark")
            statement.refuse(f"aggregate {written}", INSTEAD.get(type(call), KNOWN), node)
        statement.only(call, ("this", "expressions") if isinstance(call, exp.Count) else ("this",))
        inside = self.binder.scalar(self.scope, "an aggregate's argument", None, self.draft)
        if isinstance(call, exp.CountIf):
            counted = inside.condition(call.this)
            only = counted if only is None else inside.build("and", [only, counted], node)
            return AggregateCall("count", (), types.BIGINT, False, only)
        parts, distinct = _arguments(call)
        if not parts and not isinstance(call.this, exp.Star):
            what = f"{function.upper()}({'DISTINCT' if distinct else ''})"
            statement.fail(f"{what} has no argument; give it one, or count rows with COUNT(*)", node)
        args = [inside.condition(p) if isinstance(call, BOOLEAN) else inside.bind(p) for p in parts]
        if function == "count" and not distinct:
            args = [a for a in args if functions.nullable(a)]  # what is never NULL is counted for every row
        try:
            kind = functions.aggregate_type(function, tuple(a.type for a in args))
        except SqlError as error:
            raise statement.placed(error, node) from None
        if function in FROM_DOUBLES:
            args = [inside.cast(a, types.DOUBLE, node) for a in args]
        return AggregateCall(function, tuple(args), kind, distinct and function not in ("min", "max"), only)

    def _left_out(self, node: exp.Expr) -> Expression:
        """GROUPING(key): 1 where the row's set of keys leaves the key out; GROUPING_ID: those bits as one number."""
        if not self.has_sets:
            message = "GROUPING tells sets of keys apart, and there is one; use GROUPING SETS, ROLLUP or CUBE"
            self.binder.statement.fail(message, node)
        if isinstance(node, exp.Grouping) and len(node.expressions) != 1:
            message = "GROUPING takes one key; write one call for each, or GROUPING_ID for all of them"
            self.binder.statement.fail(message, node)
        inside = self.binder.scalar(self.scope, "GROUPING")
        keys = [inside.bind(e) for e in node.expressions] or self.keys
        for key, item in zip(keys, node.expressions or [node] * len(keys), strict=True):
            if key not in self.keys:
                self.binder.statement.fail(f"{describe(key)} is no key of GROUP BY; name one that is", item)
        bits = [ColumnRef(types.TINYINT, GROUPING, self.keys.index(k), "grouping", False) for k in keys]
        if isinstance(node, exp.Grouping):
            return bits[0]
        number: Expression = Literal(types.BIGINT, 0)
        for bit in bits:
            doubled = inside.build("multiply", [number, Literal(types.BIGINT, 2)], node)
            number = inside.build("add", [doubled, inside.cast(bit, types.BIGINT, node)], node)
        return number

    def above(self, expression: Expression, node: exp.Expr) -> Expression:
        """The expression as read from the group's row."""
        if expression in self.keys:
            position = self.keys.index(expression)
            return ColumnRef(expression.type, GROUP, position, describe(expression), functions.nullable(expression))
        if isinstance(expression, ColumnRef) and expression.relation >= 0 and not expression.outer:
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
    return [e for e in (call.this, *call.expressions) if e is not None], False


def aggregate_nullable(call: AggregateCall, keyed: bool) -> bool:
    """COUNT and a list never are NULL; the others are when no row counts: an empty table, a FILTER, only NULLs."""
    if call.function in ("count", "array_agg"):
        return False
    if call.function in ("stddev_samp", "var_samp"):  # one row has no spread
        return True
    return not keyed or call.filter is not None or any(functions.nullable(a) for a in call.args)


def describe_aggregate(call: AggregateCall) -> str:
    inside = ", ".join(describe(a) for a in call.args) or "*"
    return f"{call.function}({'DISTINCT ' if call.distinct else ''}{inside})"
