"""A subquery inside an expression, bound: its rows by key, and how its values are read from them.

The values of the select list are expressions over the query's first columns (relation VALUE) and over the query around
it; after those columns stand the keys. `single`: no two rows have the same key. `sure`: there always is a row. `empty`:
for aggregates without GROUP BY, what the values are where no row has the key. `kept`: a last value says whether HAVING
holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from freshet import types
from freshet.aggregates import function_of
from freshet.sql import functions
from freshet.sql.bound import GROUP, AnyQuery, Block, Field, Grouping, Query, Relation, TableSchema, key
from freshet.sql.clauses import bare, is_grand
from freshet.sql.correlate import Asked, Place
from freshet.sql.expression import AggregateCall, Call, ColumnRef, Expression, Literal, transform
from freshet.sql.functions.compiled import fold, fold_null, unreached
from freshet.sql.outside import Unasked, inward, outer_columns
from freshet.sql.rewrite import rewrite
from freshet.sql.rewrite.blocks import NAMELESS

if TYPE_CHECKING:
    from freshet.sql.selection import Selection

#: The relation number by which a subquery's values read its row.
VALUE = -4


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
            if isinstance(e, ColumnRef) and e.relation == VALUE:
                return replace(key(number, e.column, self.query.fields[e.column]), nullable=True)
            return place.read(inward(e), node) if isinstance(e, ColumnRef) else e

        return transform(self.values[at], read)

    def keys(self, number: int) -> list[ColumnRef]:
        return [key(number, i, f) for i, f in enumerate(self.query.fields) if i >= self.parts]


def bind_inner(place: Place, node: exp.Expr) -> InnerQuery:
    around, select = place.binder, bare(node)
    if not isinstance(select, exp.Select):
        query = around.nested(select)
        return InnerQuery(query, tuple(key(VALUE, i, f) for i, f in enumerate(query.fields)))
    query, selection = _bind_select(place, select)
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
    from freshet.sql.select import SelectBinder
    from freshet.sql.selection import Selection

    around = place.binder
    asks = around.learnt.asks.setdefault(id(select), {})
    while True:
        binder = SelectBinder(around.statement, around.catalog, around.ctes, place, tuple(asks), around.learnt)
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
    if not isinstance(source, TableSchema) or not source.primary_key or any(a.kind == "left" for a in draft.arms):
        return False
    columns = {a.inner.column for a in selection.asked if isinstance(a.inner, ColumnRef)}
    return set(source.primary_key) <= columns


def split_values(expressions: list[Expression]) -> tuple[list[Expression], list[Expression]]:
    """What a subquery computes itself, and its values over that: what reads the query around is computed there."""
    parts: list[Expression] = []

    def part(e: Expression) -> ColumnRef:
        if e not in parts:
            parts.append(e)
        return ColumnRef(e.type, VALUE, parts.index(e), getattr(e, "name", "value"), functions.nullable(e))

    def own(e: Expression) -> Expression:
        return part(e) if isinstance(e, ColumnRef) and not e.outer else e

    values = [transform(e, own) if outer_columns([e]) else part(e) for e in expressions]
    return parts or [Literal(types.INT, 1)], values


def on_no_rows(
    expression: Expression, keys: list[Expression], aggregates: list[AggregateCall], lent: dict[ColumnRef, ColumnRef]
) -> Expression:
    """An expression over the group's row where there are no rows: COUNT is 0, what was lent is what it is around, and
    everything else is NULL."""
    asked = {mine: theirs for theirs, mine in lent.items()}

    def change(e: Expression) -> Expression:
        if isinstance(e, ColumnRef) and e.relation == GROUP:
            if e.column < len(keys):
                read = keys[e.column]
                found = asked.get(read) if isinstance(read, ColumnRef) else None
                return found or Literal(e.type, None)
            return Literal(e.type, function_of(aggregates[e.column - len(keys)]).empty)
        if isinstance(e, Call):
            with unreached():  # what has no value fails where it is read
                return fold(fold_null(e))
        return e

    return transform(expression, change)


def singled(inner: InnerQuery, place: Place, node: exp.Expr) -> InnerQuery:
    """The subquery with one row a key: its columns, and as a last one before the keys how many rows there were."""
    query, parts = inner.query, inner.parts
    columns = [key(0, i, f) for i, f in enumerate(query.fields)]
    calls = [AggregateCall("min", (c,), c.type) for c in columns[:parts]]
    calls.append(AggregateCall("count", (), types.BIGINT))
    keys = tuple(columns[parts:])
    row = [ColumnRef(c.type, GROUP, len(keys) + i, c.function, True) for i, c in enumerate(calls)]
    row += [replace(k, relation=GROUP, column=i) for i, k in enumerate(keys)]
    fields = tuple(Field(c.name, c.type, c.nullable) for c in row)
    relation = Relation(NAMELESS, query, query.fields)
    whole = Query((relation,), Block((0,), ()), (), Grouping(keys, tuple(calls)), tuple(row), fields)
    count = ColumnRef(types.BIGINT, VALUE, parts, "rows", True)
    values = tuple(functions.build("single", (v, count)) for v in inner.values)
    made = rewrite(whole, place.binder.statement, [node])
    return InnerQuery(made, values, inner.asked, single=True, sure=not inner.asked)
