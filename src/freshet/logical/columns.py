"""Queries over a table whose columns were altered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from freshet.errors import PlanError
from freshet.logical.query import AnyQuery, Query, Relation, TableSchema, children, with_children
from freshet.logical.rewrite.blocks import map_expressions
from freshet.scalar.expression import ColumnRef, Expression


def without_columns(views: Mapping[str, AnyQuery], old: TableSchema, new: TableSchema) -> dict[str, AnyQuery]:
    """The queries of views over `new` instead of `old`; `new.altered` maps the columns. A query that does not change
    is returned as the same object: new columns come after all others. Raises PlanError if a view reads a dropped
    column."""
    assert new.altered is not None
    places = {c: i for i, c in enumerate(new.altered.columns) if c >= 0}
    if all(places.get(i) == i for i in range(len(old.fields))):
        return dict(views)
    made: dict[int, tuple[AnyQuery, AnyQuery]] = {}  # by identity, which is stable because the query is kept alive
    found = {}
    for name, query in views.items():
        try:
            found[name] = _moved(query, places, old, new, made)
        except _ReadError as e:
            what = f"view {name} reads column {old.fields[e.column].name} of table {old.name}"
            raise PlanError(f"{what}; drop the view first, or replace it by one that does not") from None
    return found


class _ReadError(Exception):
    def __init__(self, column: int) -> None:
        self.column = column


def _moved(
    query: AnyQuery, places: Mapping[int, int], old: TableSchema, new: TableSchema,
    made: dict[int, tuple[AnyQuery, AnyQuery]],
) -> AnyQuery:  # fmt: skip
    known = made.get(id(query))
    if known is None:
        read = [
            (new if s.name.lower() == old.name.lower() else s) if isinstance(s, TableSchema)
            else _moved(s, places, old, new, made)
            for s in children(query)
        ]  # fmt: skip
        changed = any(a is not b for a, b in zip(read, children(query), strict=True))
        over = with_children(query, read) if changed else query
        known = made[id(query)] = query, _shifted(over, places, new) if isinstance(over, Query) else over
    return known[1]


def _shifted(query: Query, places: Mapping[int, int], new: TableSchema) -> Query:
    mine = {i for i, relation in enumerate(query.relations) if relation.source is new}
    if not mine:
        return query

    def shifted(e: Expression) -> Expression:
        if not isinstance(e, ColumnRef) or e.relation not in mine:
            return e
        if e.column not in places:
            raise _ReadError(e.column)
        return replace(e, column=places[e.column])

    def named(relation: Relation) -> Relation:
        kept = sorted(places, key=places.__getitem__)
        fields = [relation.fields[c] for c in kept if c < len(relation.fields)]
        return replace(relation, fields=(*fields, *new.fields[len(fields) :]))

    relations = tuple(named(r) if i in mine else r for i, r in enumerate(query.relations))
    return map_expressions(replace(query, relations=relations), shifted)
