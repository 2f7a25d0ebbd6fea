"""DISTINCT and GROUP BY without aggregates say the same: one row for each value of some columns."""

from __future__ import annotations

from dataclasses import replace

from freshet.logical.query import Grouping, Query
from freshet.scalar.expression import GroupRef, references


def as_groups(query: Query) -> Query | None:
    """A DISTINCT query as groups by its outputs; None if it reads nothing, or its groups are not rows of a join."""
    if not query.distinct or query.grouping is not None or not any(map(references, query.outputs)):
        return None
    keys = tuple(dict.fromkeys(o for o in query.outputs if references(o)))
    places = {k: i for i, k in enumerate(keys)}
    outputs = tuple(
        GroupRef(o.type, places[o], f.name, f.nullable) if o in places else o
        for o, f in zip(query.outputs, query.fields, strict=True)
    )
    return replace(query, grouping=Grouping(keys, ()), outputs=outputs, distinct=False)


def as_distinct(query: Query) -> Query:
    """A query that shows nothing but all keys of its groups, as DISTINCT; any other as it is."""
    grouping = query.grouping
    if grouping is None or grouping.aggregates or grouping.having is not None or not grouping.keys:
        return query
    shown = [o.column for o in query.outputs if isinstance(o, GroupRef)]
    if len(shown) < len(query.outputs) or len({*shown}) < len(grouping.keys):
        return query
    return replace(query, grouping=None, outputs=tuple(grouping.keys[i] for i in shown), distinct=True)
