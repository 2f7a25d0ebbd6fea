"""A query with its columns cast to given types.

A cast is pushed into the query that computes the columns, unless that query compares rows: two rows that are different
to DISTINCT or EXCEPT may be equal after a cast, so above those the casts are a separate select.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from freshet.logical.query import AnyQuery, Query, UnionAll, Values
from freshet.logical.rewrite.blocks import select_all
from freshet.scalar.expression import Expression
from freshet.scalar.types import Type

Cast = Callable[[Expression, Type], Expression]


def widened(query: AnyQuery, types: Sequence[Type], cast: Cast) -> AnyQuery:
    if [f.type for f in query.fields] == list(types):
        return query

    def fitted(row: Sequence[Expression]) -> tuple[Expression, ...]:
        return tuple(e if e.type == t else cast(e, t) for e, t in zip(row, types, strict=True))

    fields = tuple(replace(f, type=t) for f, t in zip(query.fields, types, strict=True))
    if isinstance(query, Values):
        return Values(tuple(fitted(row) for row in query.rows), fields)
    if isinstance(query, UnionAll):
        return UnionAll(tuple(widened(q, types, cast) for q in query.inputs), fields)
    selected = query if isinstance(query, Query) and not query.distinct else select_all(query)
    return replace(selected, outputs=fitted(selected.outputs), fields=fields)
