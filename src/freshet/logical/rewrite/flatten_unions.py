"""UNION ALL of UNION ALL is one list of inputs. If only the presence of a row matters, a nested UNION is equivalent to
a UNION ALL, which needs no counts."""

from __future__ import annotations

from dataclasses import replace

from freshet.logical.kinds import SetKind
from freshet.logical.query import AnyQuery, SetOperation, UnionAll


def flatten_unions(query: AnyQuery) -> AnyQuery:
    if isinstance(query, UnionAll):
        return replace(query, inputs=tuple(each for q in query.inputs for each in all_inputs(q)))
    if isinstance(query, SetOperation) and not query.all:
        return replace(query, left=uncounted(query.left), right=uncounted(query.right))
    return query


def all_inputs(query: AnyQuery) -> tuple[AnyQuery, ...]:
    return query.inputs if isinstance(query, UnionAll) else (query,)


def uncounted(query: AnyQuery) -> AnyQuery:
    """A query with the same distinct rows, with any number of copies."""
    if isinstance(query, SetOperation) and query.kind is SetKind.UNION:
        return UnionAll((*all_inputs(query.left), *all_inputs(query.right)), query.fields)
    return query
