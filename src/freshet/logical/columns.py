"""Queries over a table whose columns were altered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from freshet.errors import PlanError
from freshet.logical.query import NEW_COLUMN, AnyQuery, Query, Relation, TableSchema, children, with_children
from freshet.logical.rewrite.blocks import map_expressions
from freshet.scalar.expression import ColumnRef, Expression


def without_columns(views: Mapping[str, AnyQuery], old: TableSchema, new: TableSchema) -> dict[str, AnyQuery]:
    """The queries of views over `new` instead of `old`; `new.altered` maps the columns. A query that does not change
    is returned as the same object: new columns come after all others. Raises PlanError if a view reads a dropped
    column."""
    assert new.altered is not None
    places = {c: i for i, c in enumerate(new.altered.columns) if c != NEW_COLUMN}
    if all(places.get(i) == i for i in range(len(old.fields))):
        return dict(views)
    made: dict[int, tuple[AnyQuery, AnyQuery]] = {}  # by identity, which is stable because the query is kept alive
    moved = {}
    for name, query in views.items():
        lost: list[int] = []
        moved[name] = _moved(query, places, old, new, made, lost)
        if lost:
            what = f"view {name} reads column {old.fields[lost[0]].name} of table {old.name}"
            raise PlanError(f"{what}; drop the view first, or replace it by one that does not")
    return moved


def _moved(
    query: AnyQuery, places: Mapping[int, int], old: TableSchema, new: TableSchema,
    made: dict[int, tuple[AnyQuery, AnyQuery]], lost: list[int],
) -> AnyQuery:  # fmt: skip
    """Dropped columns that the query reads are added to `lost`."""
    known = made.get(id(query))
    if known is None:
        read = [
            (new if s.name.lower() == old.name.lower() else s) if isinstance(s, TableSchema)
            else _moved(s, places, old, new, made, lost)
            for s in children(query)
        ]  # fmt: skip
        changed = any(a is not b for a, b in zip(read, children(query), strict=True))
        over = with_children(query, read) if changed else query
        known = made[id(query)] = query, _shifted(over, places, new, lost) if isinstance(over, Query) else over
    return known[1]


def _shifted(query: Query, places: Mapping[int, int], new: TableSchema, lost: list[int]) -> Query:
    mine = {i for i, relation in enumerate(query.relations) if relation.source is new}
    if not mine:
        return query

    def shifted(e: Expression) -> Expression:
        if not isinstance(e, ColumnRef) or e.relation not in mine:
            return e
        if e.column not in places:
            lost.append(e.column)
            return e
        return replace(e, column=places[e.column])

    def named(relation: Relation) -> Relation:
        kept = sorted(places, key=places.__getitem__)
        fields = [relation.fields[c] for c in kept if c < len(relation.fields)]
        return replace(relation, fields=(*fields, *new.fields[len(fields) :]))

    relations = tuple(named(r) if i in mine else r for i, r in enumerate(query.relations))
    return map_expressions(replace(query, relations=relations), shifted)
