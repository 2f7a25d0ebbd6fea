"""ORDER BY ... LIMIT k OFFSET n: the first rows in a given order, maintained like any other view.

ORDER BY alone does not change a bag of rows: at the top level it determines the order in which an answer is read;
anywhere else it is bound only to report its errors. LIMIT without ORDER BY may return any rows: a one-time query and
EXISTS, where it makes no difference, take the first ones they find, a view the least, so that its rows determine it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from freshet.logical.query import AnyQuery, Field, Query, Sorted, TopK
from freshet.logical.rewrite.blocks import select_all
from freshet.scalar import functions
from freshet.scalar.describe import describe
from freshet.scalar.expression import Call, Expression, Literal, SortKey
from freshet.sql.binder import Binder
from freshet.sql.scope import Entry, NameScope
from freshet.sql.source import Statement, sql_of


@dataclass(frozen=True, slots=True)
class Limit:
    rows: int | None  # None: no limit
    offset: int


def bind_limit(binder: Binder, node: exp.Expr) -> Limit | None:
    """A query's LIMIT and OFFSET; None where it has neither."""
    limit, offset, statement = node.args.get("limit"), node.args.get("offset"), binder.statement
    if isinstance(limit, exp.Fetch):
        statement.refuse("FETCH", "write LIMIT", "FETCH")
    if limit is not None:
        statement.only(limit, ("expression",))
    rows = None
    if limit is not None and limit.expression.sql().upper() != "ALL":
        rows = _whole(binder, limit.expression, "LIMIT")
    places = 0 if offset is None else _whole(binder, offset.expression, "OFFSET")
    if rows is None and not places:
        return None
    return Limit(rows, places)


def _whole(binder: Binder, node: exp.Expr, word: str) -> int:
    bound = binder.scalar(NameScope(), word).bind(node)
    if (
        not isinstance(bound, Literal)
        or not bound.type.is_integer
        or not isinstance(bound.value, int)
        or bound.value < 0
    ):
        binder.statement.fail(f"{word} {sql_of(node)} is not a valid number of rows; write 0 or more", node)
    return bound.value


@dataclass(frozen=True, slots=True)
class Ordering:
    """One item of ORDER BY, bound."""

    expression: Expression
    node: exp.Expr

    def key(self, column: int) -> SortKey:
        """Spark's order: NULLs come first when ascending and last when descending, unless specified otherwise."""
        return SortKey(column, bool(self.node.args.get("desc")), bool(self.node.args.get("nulls_first")))


def bind_order(
    node: exp.Expr,
    outputs: Sequence[Expression],
    statement: Statement,
    bind: Callable[[exp.Expr], Expression],
    knows: Callable[[str], bool],
) -> list[Ordering]:
    """The items of ORDER BY: positions in the select list, or expressions bound by `bind`. ORDER BY ALL orders by every
    output, unless `knows` reports a column of that name."""
    clause = node.args.get("order")
    order: list[Ordering] = []
    items = [] if clause is None else clause.expressions
    for item in items:
        statement.only(item, ("this", "desc", "nulls_first"))
        position = as_position(item.this)
        if isinstance(item.this, exp.Var) and len(items) == 1 and not knows(item.this.name):
            order += (Ordering(output, item) for output in outputs)
        elif isinstance(item.this, exp.Var) and len(items) == 1:
            order.append(Ordering(bind(exp.column(item.this.name)), item))
        elif position is None:
            order.append(Ordering(bind(item.this), item))
        elif 1 <= position <= len(outputs):
            order.append(Ordering(outputs[position - 1], item))
        else:
            many = len(outputs)
            statement.fail(f"ORDER BY {position} is not a valid position; the select list has 1 to {many}", item)
        for ordering in order:
            if not ordering.expression.type.is_ordered:
                kind = ordering.expression.type
                statement.fail(f"ORDER BY {kind}, but maps are not ordered; order by their entries", item)
    return order


def as_position(item: exp.Expr) -> int | None:
    """The position in the select list that an item of GROUP BY or ORDER BY denotes, if it is an integer."""
    item = item.unnest()
    sign = -1 if isinstance(item, exp.Neg) else 1
    number = item.this.unnest() if isinstance(item, exp.Neg) else item
    return sign * int(number.name) if isinstance(number, exp.Literal) and number.is_int else None


def takes_any_rows(binder: Binder, limit: Limit | None) -> bool:
    """Whether without ORDER BY the rows are in no order."""
    return limit is None or binder.statement.once or binder.exists


def placed(order: Sequence[Ordering], outputs: list[Expression], any_rows: bool) -> tuple[SortKey, ...]:
    """The order as positions in the outputs; expressions that are not among them are appended. Constants do not affect
    it: where there is nothing else, all rows tie, which the outputs settle; so they do without an order, unless any
    rows will do."""
    if all(isinstance(item.expression, Literal) for item in order):
        settled = order or not any_rows
        return tuple(SortKey(i, False, True) for i in range(len(outputs) if settled else 0))
    keys = []
    for item in order:
        if isinstance(item.expression, Literal):
            continue
        if item.expression not in outputs:
            outputs.append(item.expression)
        keys.append(item.key(outputs.index(item.expression)))
    return tuple(keys)


def hidden_fields(outputs: Sequence[Expression]) -> tuple[Field, ...]:
    return tuple(Field(describe(e), e.type, functions.nullable(e)) for e in outputs)


def limited(binder: Binder, node: exp.Expr, query: AnyQuery, ordered: bool) -> AnyQuery:
    """A set operation, or a query in parentheses, with the ORDER BY and LIMIT that follow it, which read its columns.
    `ordered`: whether it is read in its order."""
    limit = bind_limit(binder, node)
    scope = NameScope.of(Entry("", 0, query.fields))
    whole = select_all(as_bag(query))
    outputs = list(whole.outputs)
    order = bind_order(node, outputs, binder.statement, binder.scalar(scope, "ORDER BY").bind, scope.knows)
    if limit is None and not (ordered and order):
        return query
    query = as_bag(query)
    keys, shown = placed(order, outputs, takes_any_rows(binder, limit)), len(query.fields)
    if len(outputs) > shown:
        fields = query.fields + hidden_fields(outputs[shown:])
        query = Query(whole.relations, whole.block, (), None, tuple(outputs), fields)
    if limit is None:
        return Sorted(query, keys, query.fields[:shown])
    return TopK(query, (), keys, limit.offset, limit.rows, False, query.fields[:shown])


def as_bag(query: AnyQuery) -> AnyQuery:
    """A query as another one reads it: without its order."""
    if not isinstance(query, Sorted):
        return query
    if len(query.fields) == len(query.source.fields):
        return replace(query.source, fields=query.fields)
    return replace(
        select_all(query.source), outputs=select_all(query.source).outputs[: len(query.fields)], fields=query.fields
    )


def check_distinct(order: Sequence[Ordering], outputs: Sequence[Expression], statement: Statement) -> None:
    """Under DISTINCT an output row represents many rows, which may differ in any value it does not show."""

    def hidden(e: Expression) -> Expression | None:
        if e in outputs or isinstance(e, Literal):
            return None
        if isinstance(e, Call):
            return next((h for h in map(hidden, e.args) if h is not None), None)
        return e

    for item in order:
        column = hidden(item.expression)
        if column is not None:
            message = f"ORDER BY {describe(column)} under SELECT DISTINCT; order by what the select list shows"
            statement.fail(message, item.node)
