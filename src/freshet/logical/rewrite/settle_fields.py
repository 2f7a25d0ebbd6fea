"""Updates the nullability of fields of queries that read other queries, once that of their columns is known.

Binding knows a column as nullable wherever a LEFT JOIN stands that a pass may find to be an inner one. So what a pass
has found below is passed on: a field that was said to be never NULL stays so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from freshet.logical.query import AnyQuery, Field, Query, Relation, SetOperation, Sorted, TopK, UnionAll, Windowed


def settle_fields(query: AnyQuery) -> AnyQuery:
    if isinstance(query, Query):
        return replace(query, relations=tuple(map(_relation, query.relations)))
    if isinstance(query, UnionAll):
        columns = zip(*(q.fields for q in query.inputs), strict=True)
        return replace(query, fields=_known(query.fields, (any(f.nullable for f in column) for column in columns)))
    if isinstance(query, SetOperation):
        pairs = zip(query.left.fields, query.right.fields, strict=True)
        kept = (query.kind.nullable(a.nullable, b.nullable) for a, b in pairs)
        return replace(query, fields=_known(query.fields, kept))
    if isinstance(query, (TopK, Sorted, Windowed)):
        return replace(query, fields=_known(query.fields, (f.nullable for f in query.source.fields)))
    return query


def _relation(relation: Relation) -> Relation:
    return replace(relation, fields=_known(relation.fields, (f.nullable for f in relation.source.fields)))


def _known(fields: tuple[Field, ...], nullable: Iterable[bool]) -> tuple[Field, ...]:
    """Fields, of which the first are as nullable as said at most."""
    below = list(nullable)
    made = [replace(f, nullable=False) if f.nullable and not n else f for f, n in zip(fields, below, strict=False)]
    return (*made, *fields[len(made) :])
