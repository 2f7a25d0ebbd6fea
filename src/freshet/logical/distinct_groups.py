"""DISTINCT and GROUP BY without aggregates are equivalent: one row for each value of some columns. And a bag is
equivalent to its distinct rows, each with a number of copies."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import reduce

from freshet.logical.attributes import Attributes, equality
from freshet.logical.kinds import SetKind
from freshet.logical.query import AnyQuery, Grouping, Query, SetOperation, UnionAll
from freshet.scalar.expression import AggregateCall, ColumnRef, GroupRef, references, transform, walk
from freshet.scalar.types import BIGINT


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


def as_counted(query: Query) -> Query | None:
    """The columns that a query shows, as keys of groups that are counted; its outputs still read columns. Columns that
    equalities make equal are read from as few relations as possible: the others may show nothing."""
    block = query.block
    if query.grouping is not None or query.distinct or query.where or len(block.relations) < 2:
        return None
    pairs = [pair for p in block.predicates if (pair := equality(p)) is not None and not pair[2]]
    attributes = Attributes(pairs)
    shown = {c for o in query.outputs for c in walk(o) if isinstance(c, ColumnRef)}

    def places(c: ColumnRef) -> dict[int, ColumnRef]:
        """The same column, by the relation it is read from."""
        name = attributes.named(c)
        found = {c.relation: c}
        if name is not None and not c.type.is_fraction:  # 0.0 and -0.0 are equal, and show which they are
            for r in block.relations:
                value = attributes.value(r, name) if name in attributes.of(r) else None
                if isinstance(value, ColumnRef) and value.type == c.type:
                    found.setdefault(r, value)
        return found

    ways = {c: places(c) for c in shown}
    reading: set[int] = set()
    while missing := [w for w in ways.values() if not reading & w.keys()]:
        own = Counter(r for w in missing if len(w) == 1 for r in w)
        every = Counter(r for w in missing for r in w)
        reading.add(max(every, key=lambda r: (own[r] > 0, every[r], -r)))
    chosen = {c: w[min(reading & w.keys())] for c, w in ways.items() if c.relation not in reading}
    outputs = tuple(transform(o, lambda e: chosen.get(e, e) if isinstance(e, ColumnRef) else e) for o in query.outputs)
    keys = tuple(dict.fromkeys(c for o in outputs for c in walk(o) if isinstance(c, ColumnRef)))
    return replace(query, grouping=Grouping(keys, (AggregateCall("count", (), BIGINT),)), outputs=outputs)


def as_union(query: Query) -> SetOperation[AnyQuery] | None:
    """The distinct rows of a UNION ALL as a UNION; None for any other query."""
    source = query.relations[0].source if len(query.relations) == 1 else None
    if not isinstance(source, UnionAll) or not query.distinct or query.grouping is not None:
        return None
    own = [o.column if isinstance(o, ColumnRef) else None for o in query.outputs]
    if query.block.predicates or query.block.arms or query.where or own != [*range(len(source.fields))]:
        return None
    union = as_set(source)
    return replace(union, fields=query.fields) if isinstance(union, SetOperation) else None


def as_set(query: AnyQuery) -> AnyQuery:
    """A query whose reader ignores duplicates; UNION ALL as UNION, in which rows can be looked up."""
    if isinstance(query, UnionAll):
        sides = map(as_set, query.inputs)
        return reduce(lambda left, right: SetOperation(SetKind.UNION, False, left, right, query.fields), sides)
    return replace(query, distinct=True) if isinstance(query, Query) and query.grouping is None else query


def as_distinct(query: Query) -> Query:
    """A query that shows nothing but all keys of its groups, as DISTINCT; any other as it is."""
    grouping = query.grouping
    if grouping is None or grouping.aggregates or grouping.having is not None or not grouping.keys:
        return query
    shown = [o.column for o in query.outputs if isinstance(o, GroupRef)]
    if len(shown) < len(query.outputs) or len({*shown}) < len(grouping.keys):
        return query
    return replace(query, grouping=None, outputs=tuple(grouping.keys[i] for i in shown), distinct=True)
