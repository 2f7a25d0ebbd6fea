"""WITH RECURSIVE: a query that begins with rows, the anchor, and goes on with what its step makes of them.

As in Spark 4, `name AS (anchor UNION ALL step)`: the step reads the rows of the previous iteration under the query's
own name, the anchor determines the names and types of columns, and all of them may be NULL. UNION is an extension, with
its meaning in the SQL standard, PostgreSQL and DuckDB: a row that an earlier iteration has is left out.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from freshet.logical.apply import outer_columns
from freshet.logical.query import AnyQuery, Field, Recursive, RecursiveRows
from freshet.logical.recursion import NotLinearError, numbered, with_iteration
from freshet.scalar import functions
from freshet.scalar.expression import Expression
from freshet.scalar.types import Type
from freshet.sql.binder import Binder, CommonTable, SelfReference
from freshet.sql.scope import NameScope
from freshet.sql.source import LEVELS, Statement
from freshet.sql.widen import widened

#: Iterations that may have rows, the anchor's included, unless MAX RECURSION LEVEL says otherwise: as in Spark.
_LEVELS = 100
_SHAPE = "write anchor UNION ALL step, where only the step reads it"


def bind_recursive(binder: Binder, cte: exp.CTE) -> AnyQuery | None:
    """The query that a name of WITH RECURSIVE stands for; None if it does not read itself. `binder` is one for this
    query alone, whose names of WITH it changes."""
    name, node, statement = cte.alias, cte.this, binder.statement
    while isinstance(node, exp.Subquery) and node.is_wrapper:
        node = node.this
    if not any(t.name.lower() == name.lower() and not t.args.get("db") for t in node.find_all(exp.Table)):
        return None
    refused = SelfReference(None, f"{name} reads itself outside of a step; {_SHAPE}")
    common = binder.ctes[name.lower()] = CommonTable(refused, binder.around)
    if not isinstance(node, exp.Union):
        binder.query(node)
        return None  # the name stands for something else inside
    with binder.common_tables(node):
        own = binder.ctes[name.lower()] is common
        statement.only(node, ("this", "expression", "distinct", "with_"))
        anchor = _with_names(binder.nested(node.this), cte, statement)
        fields = tuple(replace(f, nullable=True) for f in anchor.fields)
        rows = RecursiveRows(_unused(f"{name} so far", binder), fields)
        reference = SelfReference(rows, "")
        if own:
            binder.ctes[name.lower()] = CommonTable(reference, binder.around)
        step = binder.nested(node.expression)
        if reference.read is None:
            return None
        at = reference.read
        step = _fitted(binder, step, anchor, name, node)
    if outer_columns(anchor) or outer_columns(step):
        statement.refuse(f"WITH RECURSIVE {name} that reads the query around it", "join the two instead", at)
    try:
        step = with_iteration(step, rows)
    except NotLinearError as e:
        statement.refuse(f"a step that reads {name} {e.what}", e.instead, at)
    levels = cte.args["alias"].meta.get(LEVELS, _LEVELS)
    if levels < 1:
        statement.fail(f"MAX RECURSION LEVEL {levels} leaves no rows; write 1 or more", cte)
    return Recursive(name, anchor, step, numbered(rows), bool(node.args.get("distinct")), levels, fields)


def _with_names(query: AnyQuery, cte: exp.CTE, statement: Statement) -> AnyQuery:
    names = cte.args["alias"].columns
    if not names:
        return query
    if len(names) != len(query.fields):
        message = f"{cte.alias} names {len(names)} columns, but its query has {len(query.fields)}; name each once"
        statement.fail(message, cte)
    fields = (replace(f, name=n.name) for n, f in zip(names, query.fields, strict=True))
    return replace(query, fields=tuple(fields))


def _unused(name: str, binder: Binder) -> str:
    """A name that no table has, and no recursion around this one."""
    taken = {n.lower() for n in binder.catalog.tables}
    for common in binder.ctes.values():
        if isinstance(common.query, SelfReference) and common.query.rows is not None:
            taken.add(common.query.rows.name.lower())
    while name.lower() in taken:
        name += "'"
    return name


def _fitted(binder: Binder, step: AnyQuery, anchor: AnyQuery, name: str, node: exp.Union) -> AnyQuery:
    """The step with the anchor's types."""
    a, b = anchor.fields, step.fields
    if len(a) != len(b):
        message = f"the anchor of {name} has {len(a)} columns and its step {len(b)}; select as many in both"
        binder.statement.fail(message, node.expression)
    for mine, its in zip(a, b, strict=True):
        if functions.common_type((mine.type, its.type)) != mine.type:
            binder.statement.fail(_unfit(name, mine, its), node.expression)

    def cast(value: Expression, to: Type) -> Expression:
        return binder.scalar(NameScope(), "UNION").cast(value, to, node)

    return widened(step, [f.type for f in a], cast)


def _unfit(name: str, mine: Field, its: Field) -> str:
    what = f"column {mine.name} of {name} is {mine.type} in its anchor, but {its.type} in its step"
    return f"{what}; CAST one of them, the anchor determines the type"
