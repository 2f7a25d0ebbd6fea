"""A FROM subquery inside a subquery S that reads the query around S.

It is bound as S is, for the same rows around it: to a query by keys (inner_query.py). Each key is one more column of
the relation, and must equal the value of those rows; these equalities are conditions of S, which keys find in turn.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from freshet.errors import SqlError
from freshet.logical.query import AnyQuery, Block, Query, Relation, key
from freshet.logical.references import OuterRef, ValueRef, outer_columns, outward
from freshet.logical.rewrite.blocks import NAMELESS
from freshet.scalar.expression import ColumnRef, Expression, transform
from freshet.sql.binder import Binder
from freshet.sql.clauses import bare
from freshet.sql.correlate import Asked, tests
from freshet.sql.inner_query import InnerQuery, bind_named
from freshet.sql.outside import ApartError
from freshet.sql.scope import Scope


class Derived:
    """`query`: the columns of the select list, then the keys; `asked`: what the keys must equal, as S reads it."""

    def __init__(self, query: AnyQuery, asked: tuple[Asked, ...] = ()) -> None:
        self.query, self.asked = query, asked

    @property
    def shown(self) -> int:
        return len(self.query.fields) - len(self.asked)

    def conditions(self, number: int) -> list[Expression]:
        """What the relation, by its number in S, must fulfil."""
        keys = [key(number, i, f) for i, f in enumerate(self.query.fields) if i >= self.shown]
        return tests(self.asked, keys)


def bind_derived(binder: Binder, node: exp.Subquery, scope: Scope) -> Derived:
    """A FROM subquery; one that cannot be bound by itself may read the query around the subquery it stands in."""
    try:
        return Derived(binder.nested(node, scope))
    except SqlError as error:
        select = bare(node.this)
        if scope.parent is None or node.args.get("with_") or not isinstance(select, exp.Select):
            raise
        if binder.outer is None or scope.parent is not binder.outer.scope:
            raise ApartError(error.reason, error.text, error.line, error.column) from None
        return _correlated(binder, select, scope, error)


def _correlated(binder: Binder, node: exp.Select, scope: Scope, error: SqlError) -> Derived:
    assert binder.outer is not None
    place = replace(binder.outer, read=lambda expression, _: expression)  # S reads it as it does its own
    inner, names, outside = bind_named(place, node)
    computed = outer_columns(inner.values)
    if computed:  # its columns are its own: what they read is lent to it
        binder.learnt.asks.setdefault(id(node), {}).update(dict.fromkeys(outside[c] for c in computed))
        inner, names, outside = bind_named(place, node)
    if not inner.asked:
        raise error
    if inner.empty is not None or inner.kept:
        what = "an aggregate without GROUP BY in a FROM subquery that reads the query around it"
        binder.statement.refuse(what, "aggregate in the subquery around it", node)
    scope.outside |= outside
    source = Relation(NAMELESS, inner.query, inner.query.fields)
    columns = [_column(v, inner) for v in inner.values]
    outputs = (*columns, *(key(0, i, f) for i, f in enumerate(inner.query.fields) if i >= inner.parts))
    fields = [replace(inner.query.fields[c.column], name=n) for c, n in zip(columns, names, strict=True)]
    fields += inner.query.fields[inner.parts :]
    query = Query((source,), Block((0,), ()), (), None, outputs, tuple(fields))
    asked = tuple(replace(a, outer=transform(a.outer, _outward)) for a in inner.asked)
    return Derived(query, asked)


def _column(value: Expression, inner: InnerQuery) -> ColumnRef:
    assert isinstance(value, ValueRef)
    return key(0, value.column, inner.query.fields[value.column])


def _outward(e: Expression) -> Expression:
    """A column of the query around S, as S reads it."""
    return outward(e) if isinstance(e, (ColumnRef, OuterRef)) else e
