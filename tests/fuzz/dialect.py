"""Differences by design between Spark's SQL and DuckDB's, translated in one place.

- NULLs come first in an ascending order and last in a descending one (sqlglot writes that out).
- Ties in ORDER BY ... LIMIT are broken by the selected columns: these are added to DuckDB's order.
- GROUPING SETS over no rows have no groups, not even that of the empty set.
- ARRAY_AGG leaves NULLs out (sqlglot again), and has an empty array if nothing is left.
- FIRST, LAST and ANY_VALUE are MIN and MAX; ties of MODE, MIN_BY and MAX_BY go to the least value, NULL first.
- COUNT_IF over nothing but NULLs is 0.
- MEDIAN and PERCENTILE_CONT of decimals are doubles, not rounded to their digits.
- ROW_NUMBER, RANK, DENSE_RANK and NTILE are INT, and so may not fit where BIGINT does.
- Rows compare field by field, NULL equal to NULL and before all else.
- Integer division is `DIV` (sqlglot again); decimal scales are the oracle's, which compares by value.
"""

from __future__ import annotations

import sqlglot
from sqlglot import exp


def for_duckdb(sql: str) -> str:
    """The same question in DuckDB's words."""
    tree = sqlglot.parse_one(sql, dialect="spark")
    for node in list(tree.find_all(exp.Select, exp.SetOperation)):
        if node.args.get("limit") is not None or node.args.get("offset") is not None:
            _complete(node)
        if isinstance(node, exp.Select) and _has_sets(node):
            _no_empty(node)
    for call in list(tree.find_all(exp.ArrayAgg)):
        value = call.this.this if isinstance(call.this, exp.Order) else call.this
        kept: exp.Expr = call.copy()
        if value.find(exp.Column) is None and not isinstance(call.parent, exp.Filter):  # sqlglot considers only columns
            known = exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
            kept = exp.Filter(this=kept, expression=exp.Where(this=known))
        call.replace(exp.Coalesce(this=kept, expressions=[exp.Array()]))
    for some in list(tree.find_all(exp.First, exp.Last, exp.AnyValue)):
        some.replace((exp.Max if isinstance(some, exp.Last) else exp.Min)(this=some.this))
    for mode in list(tree.find_all(exp.Mode)):
        mode.replace(exp.Mode(this=exp.Order(this=mode.this, expressions=[exp.Ordered(this=mode.this.copy())])))
    for by in list(tree.find_all(exp.ArgMin, exp.ArgMax)):
        _in_order(by)
    for count in list(tree.find_all(exp.CountIf)):
        rows, test = exp.Count(this=exp.Star()), count.this.copy()
        if isinstance(count.parent, exp.Filter):  # DuckDB reads one FILTER
            where = count.parent.expression
            where.set("this", exp.and_(where.this.copy(), test))
            count.replace(rows)
        else:
            count.replace(exp.Filter(this=rows, expression=exp.Where(this=test)))
    for repeated in list(tree.find_all(exp.Repeat)):
        if isinstance(repeated.this, exp.Null):  # which DuckDB takes for bytes
            repeated.set("this", exp.cast(exp.Null(), "TEXT"))
    for median in list(tree.find_all(exp.Median)):
        median.set("this", exp.cast(median.this.copy(), "DOUBLE"))
    for percentile in list(tree.find_all(exp.WithinGroup)):
        for item in percentile.expression.expressions:
            item.set("this", exp.cast(item.this.copy(), "DOUBLE"))
    for window in list(tree.find_all(exp.Window)):
        if isinstance(window.this, (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile)):
            window.replace(exp.cast(window.copy(), "INT"))
    for test in list(tree.find_all(exp.In, exp.EQ, exp.NEQ, exp.LT, exp.GTE)):
        if isinstance(test.this, exp.Tuple) and (test.expressions or isinstance(test.expression, exp.Tuple)):
            test.replace(sqlglot.parse_one(f"({_rows(test)})", dialect="duckdb"))
    return tree.sql(dialect="duckdb")


def for_sqlite(sql: str) -> str | None:
    """The same query in SQLite's dialect, with dates as texts; None if that has another meaning."""
    tree = sqlglot.parse_one(sql, dialect="spark")
    if tree.find(*_ELSE_IN_SQLITE) is not None:
        return None
    for node in list(tree.find_all(exp.Select, exp.SetOperation)):
        if node.args.get("limit") is not None or node.args.get("offset") is not None:
            _complete(node)
    for cast in list(tree.find_all(exp.Cast)):
        if cast.to.is_type("DATE"):
            cast.replace(cast.this)
        elif isinstance(cast.this, exp.Null):
            cast.replace(exp.Null())
    try:
        return tree.sql(dialect="sqlite", unsupported_level=sqlglot.ErrorLevel.RAISE)
    except sqlglot.errors.UnsupportedError:
        return None


#: SQLite's operations of these names differ: NULL decides GREATEST, text is a number, LIKE has no ANY.
_ELSE_IN_SQLITE = (
    exp.Greatest, exp.Least, exp.Concat, exp.ILike, exp.Any, exp.All, exp.RegexpLike, exp.StrPosition, exp.First,
    exp.Last, exp.AnyValue, exp.IgnoreNulls, exp.RespectNulls, exp.Interval, exp.Tuple, exp.IntDiv, exp.Div,
)  # fmt: skip


def _rows(test: exp.Expr) -> str:
    """A comparison of rows of two, written out."""
    a, b = (e.sql(dialect="duckdb") for e in test.this.expressions)
    others = test.expressions or [test.expression]
    pairs = [[e.sql(dialect="duckdb") for e in other.expressions] for other in others]
    if isinstance(test, (exp.LT, exp.GTE)):
        ((c, d),) = pairs
        first, then = (f"(({x} < {y}) IS TRUE OR ({x} IS NULL AND {y} IS NOT NULL))" for x, y in ((a, c), (b, d)))
        before = f"{first} OR ({a} IS NOT DISTINCT FROM {c} AND {then})"
        return before if isinstance(test, exp.LT) else f"NOT ({before})"
    same = " OR ".join(f"({a} IS NOT DISTINCT FROM {c} AND {b} IS NOT DISTINCT FROM {d})" for c, d in pairs)
    return f"NOT ({same})" if isinstance(test, exp.NEQ) else same


def _in_order(call: exp.Expr) -> None:
    """MIN_BY and MAX_BY as the first of a list."""
    value, by = call.this, call.expression
    order = [
        exp.Ordered(this=by, desc=isinstance(call, exp.ArgMax)),
        exp.Ordered(this=value.copy(), desc=False, nulls_first=True),
    ]
    listed = exp.Anonymous(this="LIST", expressions=[exp.Order(this=value.copy(), expressions=order)])
    known: exp.Expr = exp.Not(this=exp.Is(this=by.copy(), expression=exp.Null()))
    around = call.parent if isinstance(call.parent, exp.Filter) else call
    if isinstance(around, exp.Filter):
        known = exp.And(this=known, expression=exp.Paren(this=around.expression.this.copy()))
    kept = exp.Filter(this=listed, expression=exp.Where(this=known))
    around.replace(exp.Bracket(this=exp.Paren(this=kept), expressions=[exp.Literal.number(1)], offset=1))


def _complete(node: exp.Expr) -> None:
    first = node
    while isinstance(first, exp.SetOperation):
        first = first.left
    assert isinstance(first, exp.Query)
    order = node.args.get("order")
    items = [] if order is None else list(order.expressions)
    for position in range(len(first.selects)):
        items.append(exp.Ordered(this=exp.Literal.number(position + 1), desc=False, nulls_first=True))
    node.set("order", exp.Order(expressions=items))


def _has_sets(node: exp.Select) -> bool:
    group = node.args.get("group")
    return group is not None and any(group.find_all(exp.Rollup, exp.Cube, exp.GroupingSets))


def _no_empty(node: exp.Select) -> None:
    some = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(0))
    having = node.args.get("having")
    condition = some if having is None else exp.And(this=exp.Paren(this=having.this), expression=some)
    node.set("having", exp.Having(this=condition))
