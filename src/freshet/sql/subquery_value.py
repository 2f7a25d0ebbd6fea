"""Subqueries as values: scalar ones wherever an expression may stand, and EXISTS, IN, ANY and ALL under OR, in CASE or
in a select list.

A subquery's rows hang on the block as a LEFT arm joined on their keys, so every row around it reads the subquery's
value or NULL. Comparisons with NULLs in them are three-valued: x op ANY (Q) is TRUE if some value of Q compares, else
NULL if x or some value is NULL and Q has rows, else FALSE; x op ALL (Q) is NOT (x opposite ANY (Q)).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from freshet.aggregates import AGGREGATES
from freshet.errors import SqlError
from freshet.logical.kinds import JoinKind
from freshet.logical.query import Arm, Block, Field, Grouping, Query, Relation, group_key, key
from freshet.logical.references import OuterRef, ValueRef, WindowRef, inward
from freshet.logical.rewrite.blocks import NAMELESS
from freshet.scalar import functions, types
from freshet.scalar.expression import (
    FALSE,
    NULL,
    TRUE,
    AggregateCall,
    Expression,
    GroupRef,
    Literal,
    transform,
    walk,
)
from freshet.sql.binder import Place
from freshet.sql.calls import BINARY
from freshet.sql.clauses import bare, is_grand
from freshet.sql.correlate import tests
from freshet.sql.inner_query import InnerQuery, bind_inner, singled
from freshet.sql.source import sql_of


def bind_value(place: Place, node: exp.Expr, bind: Callable[[exp.Expr], Expression]) -> Expression:
    """The value of a subquery in an expression; `bind` binds what stands next to it. What is written twice is kept
    once, and above a grouping what a key reads is read from the key."""
    text = sql_of(node)
    if text not in place.values:
        if text in place.below:
            return place.below[text]
        try:
            place.values[text] = _bind_value(place, node, bind)
        except SqlError as error:
            raise place.binder.statement.placed(error, node) from None
    return place.values[text]


def _bind_value(place: Place, node: exp.Expr, bind: Callable[[exp.Expr], Expression]) -> Expression:
    statement = place.binder.statement
    if isinstance(node, exp.Exists):
        return _exists(place, node)
    if isinstance(node, (exp.Subquery, exp.Query)):
        return _scalar(place, node)
    query, comparison, every = compared_query(node)
    if query is None or comparison is None:
        statement.refuse(sql_of(node), "compare with ANY or ALL of a subquery", node)
    left = node.this.this if isinstance(node.this, exp.Paren) else node.this
    values = [bind(e) for e in (left.expressions if isinstance(left, exp.Tuple) else [left])]
    if any(isinstance(e, WindowRef) for v in values for e in walk(v)):
        what = "a window function compared with a subquery"
        statement.refuse(what, "compute the window function in a FROM subquery", node)
    if every:
        return functions.build("not", (_any(place, values, functions.FUNCTIONS[comparison].opposite, query, node),))
    return _any(place, values, comparison, query, node)


def compared_query(node: exp.Expr) -> tuple[exp.Expr | None, str | None, bool]:
    """The subquery, the comparison and whether all must compare, of IN, ANY or ALL."""
    if isinstance(node, exp.In):
        return node.args.get("query"), "eq", False
    test = node.args.get("expression")
    if not isinstance(test, (exp.Any, exp.All)):
        return None, None, False
    inside, comparison = test.this, BINARY.get(type(node))
    query = inside if isinstance(inside, (exp.Query, exp.Subquery)) else None
    known = comparison is not None and functions.FUNCTIONS[comparison].comparison
    return query, comparison if known else None, isinstance(test, exp.All)


def _scalar(place: Place, node: exp.Expr) -> Expression:
    inner = bind_inner(place, node)
    many = len(inner.values) - inner.kept
    if many != 1:
        place.binder.statement.fail(f"a subquery with {many} columns stands for one value; select one", node)
    if not inner.single:
        inner = singled(inner)
    return _value(place, inner, 0, _hang(place, inner, node), node)


def _value(place: Place, inner: InnerQuery, at: int, number: int, node: exp.Expr) -> Expression:
    """A value of a subquery with one row a key, hung as relation `number`."""
    value = inner.value(at, number, place, node)
    if inner.empty is None or inner.empty[at] == Literal(inner.empty[at].type, None):
        return value
    mark = inner.parts - 1  # never NULL where a row is found
    missing = functions.build("is_null", (_or_null(place, number, mark, inner),))
    return functions.build("case", (missing, _around(inner.empty[at], place, node), value))


def _or_null(place: Place, number: int, at: int, inner: InnerQuery) -> Expression:
    """A column of a subquery hung as relation `number`, NULL where no row is found."""
    return replace(place.column(number, at, inner.query.fields[at]), nullable=True)


def _around(expression: Expression, place: Place, node: exp.Expr) -> Expression:
    """What a subquery computes of the query around it alone, as read there."""

    def read(e: Expression) -> Expression:
        return place.read(inward(e), node) if isinstance(e, OuterRef) else e

    return transform(expression, read)


def _hang(place: Place, inner: InnerQuery, node: exp.Expr, more: Sequence[tuple[Expression, int]] = ()) -> int:
    """Joins a subquery to the place: as a LEFT arm by its keys, and by further columns that must equal a value."""
    number = place.add(inner.query, node)
    if inner.sure:
        place.draft.relations.append(number)
        return number
    on = tests(inner.asked, inner.keys(number, place))
    on += [functions.build("eq", (value, place.column(number, i, inner.query.fields[i]))) for value, i in more]
    place.draft.arms.append(Arm(JoinKind.LEFT, Block((number,), tuple(on))))
    return number


def _exists(place: Place, node: exp.Expr) -> Expression:
    inner = bind_inner(place, node.this)
    if is_grand(bare(node.this)):
        return _kept(place, inner, lambda: _hang(place, inner, node), node)
    found = _grouped(inner, [Literal(types.INT, 1)], True)
    number = _hang(place, found, node)
    return functions.build("is_not_null", (_or_null(place, number, 0, found),))


def _kept(place: Place, inner: InnerQuery, hang: Callable[[], int], node: exp.Expr) -> Expression:
    """Whether aggregates without GROUP BY have their row: HAVING may take it away, LIMIT and OFFSET surely do."""
    if not inner.sure and inner.empty is None:
        return FALSE
    return _value(place, inner, len(inner.values) - 1, hang(), node) if inner.kept else TRUE


def _any(place: Place, values: list[Expression], comparison: str, query: exp.Expr, node: exp.Expr) -> Expression:
    inner, statement, build = bind_inner(place, query), place.binder.statement, functions.build
    many = len(inner.values) - inner.kept
    if many != len(values):
        message = f"{len(values)} values are compared to {many} columns; select as many as stand left"
        statement.fail(message, node)
    if len(values) > 1 and comparison != "eq":
        statement.refuse("comparing several values by other than IN or = ANY", "compare them one by one", node)
    if is_grand(bare(query)):  # a row at most, whatever it was made from
        number = _hang(place, inner, node)
        pairs = [build(comparison, (v, _value(place, inner, i, number, node))) for i, v in enumerate(values)]
        compared, kept = pairs[0] if many == 1 else build("and", pairs), _kept(place, inner, lambda: number, node)
        return compared if kept == TRUE else build("case", (kept, compared, FALSE))
    if many > 1:
        statement.refuse("IN with several values inside an expression", "put it alone or under AND in WHERE", node)
    (value,) = values
    item = inner.values[0]
    if not isinstance(item, ValueRef):
        remedy = "compute it before comparing, on the other side"
        statement.refuse("a compared subquery that shows columns from around it", remedy, node)
    column = key(0, item.column, inner.query.fields[item.column])
    nullable = functions.nullable(value) or column.nullable
    if comparison == "eq":
        probe = functions.build("eq", (value, column))
        same = probe.args[1] if hasattr(probe, "args") and len(probe.args) == 2 else column
        found = _grouped(inner, [same], True)
        number = _hang(place, found, node, [(value, 0)])
        holds = functions.build("is_not_null", (_or_null(place, number, 0, found),))
        if not nullable:
            return holds
    calls = [("count", ()), ("count", (column,) if column.nullable else ())]
    if comparison != "eq":
        calls += [("min", (column,)), ("max", (column,))]
    summed = _grouped(inner, calls, False)
    number = _hang(place, summed, node)
    rows, known, *ends = (_or_null(place, number, i, summed) for i in range(len(calls)))
    if comparison == "ne":
        holds = functions.build("or", [functions.build("ne", (value, e)) for e in ends])
    elif comparison != "eq":
        least, greatest = ends
        holds = functions.build(comparison, (value, greatest if comparison in ("lt", "le") else least))
    unknown = build("or", [build("lt", (known, rows)), build("is_null", (value,))])
    nothing = build("is_null", (rows,))
    if inner.asked or not summed.sure:
        return build("case", (nothing, FALSE, holds, TRUE, unknown, NULL, FALSE))
    nothing = build("eq", (rows, Literal(types.BIGINT, 0)))
    return build("case", (nothing, FALSE, holds, TRUE, unknown, NULL, FALSE))


def _grouped(
    inner: InnerQuery,
    wanted: Sequence[Expression] | Sequence[tuple[str, tuple[Expression, ...]]],
    distinct: bool,
) -> InnerQuery:
    """The subquery's rows by key: the distinct values of wanted columns, or aggregates."""
    columns = [key(0, i, f) for i, f in enumerate(inner.query.fields)]
    keys = columns[inner.parts :]
    grouping: Grouping | None = None
    shown: list[Expression]
    if distinct:
        shown = [*(e for e in wanted if isinstance(e, Expression)), *keys]
    else:
        calls = []
        for name, args in (w for w in wanted if isinstance(w, tuple)):
            calls.append(AggregateCall(name, args, AGGREGATES[name].type([a.type for a in args])))
        grouping = Grouping(tuple(keys), tuple(calls))
        row = [GroupRef(c.type, len(keys) + i, c.function, c.function != "count") for i, c in enumerate(calls)]
        shown = [*row, *(group_key(i, inner.query.fields[inner.parts + i]) for i in range(len(keys)))]
    fields = tuple(Field(getattr(e, "name", "found"), e.type, functions.nullable(e)) for e in shown)
    relation = Relation(NAMELESS, inner.query, inner.query.fields)
    whole = Query((relation,), Block((0,), ()), (), grouping, tuple(shown), fields, distinct)
    return InnerQuery(whole, (), inner.asked, single=True, sure=not distinct and not inner.asked)
