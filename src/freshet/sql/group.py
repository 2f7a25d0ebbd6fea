"""GROUP BY: which keys, which aggregates, and expressions above them.

Law: above a grouping only its keys and its aggregates exist. An expression is bound over the relations first; then
every part equal to a key is read from the group's row; a remaining column does not have a single value per group.
"""

from __future__ import annotations

from sqlglot import exp

from freshet.aggregates import SPELLED, function_of
from freshet.errors import SqlError
from freshet.logical.query import Grouping
from freshet.logical.references import GroupingRef
from freshet.scalar import functions, types
from freshet.scalar.describe import describe, describe_aggregate
from freshet.scalar.expression import (
    AggregateCall,
    ColumnRef,
    Expression,
    GroupRef,
    Literal,
    children,
    with_children,
)
from freshet.sql.binder import Binder
from freshet.sql.scope import NameScope
from freshet.sql.source import sql_of
from freshet.sql.written_aggregate import WrittenAggregate, remedy_for


class Groups:
    """The grouping of one select while its outputs are bound."""

    def __init__(self, binder: Binder, scope: NameScope) -> None:
        self.binder, self.scope = binder, scope
        self.keys: list[Expression] = []
        self.aggregates: list[AggregateCall] = []
        self._places: dict[AggregateCall, int] = {}  # positions in `aggregates`
        self._key_places: dict[Expression, int] = {}
        self.has_sets = False  # whether there are several sets of keys, which GROUPING distinguishes
        self.sets: list[list[int]] = []  # the sets of keys to group by, as positions in `keys`

    def aggregate(self, node: exp.Expr) -> Expression:
        """Binds one aggregate and returns it as an expression over the group's row."""
        if isinstance(node, (exp.Grouping, exp.GroupingId)):
            return self._grouping_bits(node)
        written = WrittenAggregate(self.binder, self.scope, self.ask, node)
        bind = SPELLED.get(type(written.call))
        if bind is None:
            self.binder.statement.refuse(f"aggregate {sql_of(node)}", remedy_for(written.call), node)
        try:
            return bind(written)
        except SqlError as error:
            raise self.binder.statement.placed(error, node) from None

    def add_key(self, key: Expression) -> int:
        """The position of a key; equal keys share one."""
        if key not in self._key_places:
            self._key_places[key] = len(self.keys)
            self.keys.append(key)
        return self._key_places[key]

    def ask(self, call: AggregateCall) -> Expression:
        """The column of the group's row that holds an aggregate's value; equal aggregates share one."""
        place = self._places.get(call)
        if place is None or self.aggregates[place : place + 1] != [call]:  # new, or added and dropped again since
            self._places[call] = len(self.aggregates)
            self.aggregates.append(call)
        position, nullable = len(self.keys) + self._places[call], function_of(call).nullable(call, bool(self.keys))
        return GroupRef(call.type, position, describe_aggregate(call), nullable)

    def _grouping_bits(self, node: exp.Expr) -> Expression:
        """GROUPING(key): 1 if the row's set of keys omits the key; GROUPING_ID: those bits as one number."""
        if not self.has_sets:
            message = "GROUPING distinguishes sets of keys, but there is only one; use GROUPING SETS, ROLLUP or CUBE"
            self.binder.statement.fail(message, node)
        if isinstance(node, exp.Grouping) and len(node.expressions) != 1:
            message = "GROUPING takes one key; write one call for each, or GROUPING_ID for all of them"
            self.binder.statement.fail(message, node)
        inside = self.binder.scalar(self.scope, "GROUPING")
        keys = [inside.bind(e) for e in node.expressions] or self.keys
        for key, item in zip(keys, node.expressions or [node] * len(keys), strict=True):
            if key not in self._key_places:
                self.binder.statement.fail(f"{describe(key)} is not a key of GROUP BY; name one that is", item)
        bits = [GroupingRef(types.TINYINT, self._key_places[k]) for k in keys]
        if isinstance(node, exp.Grouping):
            return bits[0]
        number: Expression = Literal(types.BIGINT, 0)
        for bit in bits:
            doubled = inside.build("multiply", [number, Literal(types.BIGINT, 2)], node)
            number = inside.build("add", [doubled, inside.cast(bit, types.BIGINT, node)], node)
        return number

    def above(self, expression: Expression, node: exp.Expr) -> Expression:
        """The expression as read from the group's row."""
        position = self._key_places.get(expression)
        if position is not None:
            return GroupRef(expression.type, position, describe(expression), functions.nullable(expression))
        if isinstance(expression, ColumnRef):
            self._refuse_ungrouped(expression, node)
        return with_children(expression, tuple(self.above(e, node) for e in children(expression)))

    def key_of(self, column: Expression) -> Expression | None:
        """A column as read from the group's row; None if it is not a grouping key."""
        return self.above(column, exp.Null()) if column in self._key_places else None

    def grouping(self, having: Expression | None) -> Grouping:
        return Grouping(tuple(self.keys), tuple(self.aggregates), having)

    def _refuse_ungrouped(self, column: ColumnRef, node: exp.Expr) -> None:
        named = [c for c in node.find_all(exp.Column) if c.name.lower() == column.name.lower()]
        remedy = f"add it to GROUP BY or aggregate it, as in MIN({column.name})"
        self.binder.statement.fail(f"column {column.name} is not in GROUP BY; {remedy}", named[0] if named else node)
