"""A subquery inside an expression, bound: its rows by key, and how its values are read from them.

The values of the select list are expressions over the query's first columns (`ValueRef`) and over the query around
it; after those columns stand the keys. `single`: no two rows have the same key. `sure`: there always is a row. `empty`:
for aggregates without GROUP BY, what the values are where no row has the key. `kept`: a last value says whether HAVING
holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from freshet.logical.kinds import JoinKind
from freshet.logical.query import AnyQuery, Block, Field, Grouping, Query, Relation, TableSchema, group_key, key
from freshet.logical.references import BesideRef, OuterRef, ValueRef, inward
from freshet.logical.rewrite.blocks import NAMELESS
from freshet.scalar import functions, types
from freshet.scalar.expression import AggregateCall, ColumnRef, Expression, GroupRef, transform
from freshet.sql.binder import Place, Unasked
from freshet.sql.clauses import bare, is_grand
from freshet.sql.correlate import Asked
from freshet.sql.outside import Name
from freshet.sql.selection import Selection


@dataclass(frozen=True, slots=True)
class InnerQuery:
    query: AnyQuery
    values: tuple[Expression, ...]
    asked: tuple[Asked, ...] = ()
    single: bool = False
    sure: bool = False
    empty: tuple[Expression, ...] | None = None
    kept: bool = False

    @property
    def parts(self) -> int:
        """How many columns come before the keys."""
        return len(self.query.fields) - len(self.asked)

    def value(self, at: int, number: int, place: Place, node: exp.Expr) -> Expression:
        """A value as read by the query around, where the subquery is relation `number`."""

        def read(e: Expression) -> Expression:
            if isinstance(e, ValueRef):
                return replace(place.column(number, e.column, self.query.fields[e.column]), nullable=True)
            return place.read(inward(e), node) if isinstance(e, OuterRef) else e

        return transform(self.values[at], read)

    def keys(self, number: int, place: Place) -> list[ColumnRef | BesideRef]:
        return [place.column(number, i, f) for i, f in enumerate(self.query.fields) if i >= self.parts]


def bind_inner(place: Place, node: exp.Expr) -> InnerQuery:
    around, select = place.binder, bare(node)
    if not isinstance(select, exp.Select):
        query = around.nested(select, place.scope)
        return InnerQuery(query, tuple(ValueRef(f.type, i, f.name, f.nullable) for i, f in enumerate(query.fields)))
    return _inner(select, *_bind_select(place, select))


def bind_named(place: Place, select: exp.Select) -> tuple[InnerQuery, list[str], dict[OuterRef, Name]]:
    """A select as `bind_inner` binds it, with the names of its columns and of those it reads of the queries around."""
    query, selection = _bind_select(place, select)
    return _inner(select, query, selection), selection.shown, selection.scope.outside


def _inner(select: exp.Select, query: AnyQuery, selection: Selection) -> InnerQuery:
    grand, limit = is_grand(select), getattr(query, "limit", None)
    return InnerQuery(
        query,
        tuple(selection.values),
        tuple(selection.asked),
        single=(grand or limit in (0, 1) or _found_by_key(selection)),
        sure=grand and not selection.asked and limit is None,
        empty=tuple(selection.empty) if grand and selection.asked and limit is None else None,
        kept=grand and bool(select.args.get("having")),
    )


def _bind_select(place: Place, select: exp.Select) -> tuple[AnyQuery, Selection]:
    around = place.binder
    asks = around.learnt.asks.setdefault(id(select), {})
    while True:
        binder = around.inner(place, tuple(asks))
        selection = Selection(binder, select)
        try:
            with binder.common_tables(select):
                return selection.bind(), selection
        except Unasked as missing:
            if missing.binder is not binder:
                raise
            names = dict.fromkeys(selection.scope.outside[c] for c in missing.columns)
            if names.keys() <= asks.keys():  # bound again it would be the same
                what = f"reading {next(iter(names))[0]} of the query around it in this place"
                around.statement.refuse(what, "compare it in the subquery's WHERE", select)
            asks |= names


def _found_by_key(selection: Selection) -> bool:
    """Whether equality with the keys finds at most one row of a table by its primary key."""
    draft, node = selection.draft, selection.node
    if selection.groups is not None or node.args.get("distinct") or len(draft.relations) != 1:
        return False
    (number,) = draft.relations
    source = selection.binder.relations[number].source
    if (
        not isinstance(source, TableSchema)
        or not source.primary_key
        or any(a.kind is JoinKind.LEFT for a in draft.arms)
    ):
        return False
    columns = {a.inner.column for a in selection.asked if isinstance(a.inner, ColumnRef)}
    return set(source.primary_key) <= columns


def singled(inner: InnerQuery) -> InnerQuery:
    """The subquery with one row a key: its columns, and as a last one before the keys how many rows there were."""
    query, parts = inner.query, inner.parts
    columns = [key(0, i, f) for i, f in enumerate(query.fields)]
    calls = [AggregateCall("min", (c,), c.type) for c in columns[:parts]]
    calls.append(AggregateCall("count", (), types.BIGINT))
    keys = tuple(columns[parts:])
    row = [GroupRef(c.type, len(keys) + i, c.function, True) for i, c in enumerate(calls)]
    row += [group_key(i, query.fields[parts + i]) for i in range(len(keys))]
    fields = tuple(Field(c.name, c.type, c.nullable) for c in row)
    relation = Relation(NAMELESS, query, query.fields)
    whole = Query((relation,), Block((0,), ()), (), Grouping(keys, tuple(calls)), tuple(row), fields)
    count = ValueRef(types.BIGINT, parts, "rows", True)
    name = "single" if inner.asked else "only_row"
    values = tuple(functions.build(name, (v, count)) for v in inner.values)
    return InnerQuery(whole, values, inner.asked, single=True, sure=not inner.asked)
