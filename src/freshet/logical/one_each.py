"""Relations of a join that hold the same row are one relation.

Two relations over the same source, whose columns on which no two rows of it agree are equal, hold the same row of it in
every joined row. So expressions may read either, and the join needs only one of them. This is how a self-join along a
primary key disappears, and how several parts of a join that are the same totals (`annotate`, `factorise`) become one:
the number of 4-stars is the sum of the fourth powers of degrees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from freshet.logical.query import AnyQuery, Query, TableSchema, children, with_children
from freshet.logical.rewrite.blocks import map_expressions
from freshet.logical.rewrite.number_relations import number_relations
from freshet.logical.separable import identity
from freshet.scalar.expression import TRUE, Call, ColumnRef, Expression
from freshet.scalar.functions import build

Place = tuple[int, int]  # relation, column


def one_each(query: Query) -> tuple[Query, dict[str, str]]:
    """An equivalent query in which each row is held by one relation of the block, and for each relation left out, the
    name of the one that has its row."""
    held = _held(query)
    if not held:
        return query, {}

    def read(e: Expression) -> Expression:
        return replace(e, relation=held[e.relation]) if isinstance(e, ColumnRef) and e.relation in held else e

    moved = map_expressions(query, read)
    predicates = dict.fromkeys(map(_settled, moved.block.predicates))
    predicates.pop(TRUE, None)
    kept = tuple(r for r in query.block.relations if r not in held)
    block = replace(moved.block, relations=kept, predicates=tuple(predicates))
    names = [relation.alias for relation in query.relations]
    made = number_relations(replace(moved, block=block), lambda q: q)
    return made, {names[second]: names[first] for second, first in held.items()}


def _held(query: Query) -> dict[int, int]:
    """The relations to leave out, with the relation that has the same row."""
    identified = {r: own for r in query.block.relations if (own := identity(query.relations[r])) is not None}
    sources = {r: _nameless(query.relations[r].source) for r in identified}
    same = _Places()
    for a, b in _equalities(query):
        same.merge(a, b)
    held: dict[int, int] = {}
    found = True
    while found:  # what one pair makes equal may show another
        found = False
        for first, second in combinations([r for r in identified if r not in held], 2):
            if first in held or second in held or sources[first] != sources[second]:
                continue
            if all(same.are((first, c), (second, c)) for c in identified[first]):
                held |= {s: first for s in [*held] if held[s] == second} | {second: first}
                for c in range(len(query.relations[first].fields)):
                    same.merge((first, c), (second, c))
                found = True
    return held


class _Places:
    """Sets of columns that are equal."""

    def __init__(self) -> None:
        self._above: dict[Place, Place] = {}

    def _find(self, place: Place) -> Place:
        while (above := self._above.get(place, place)) != place:
            place = above
        return place

    def merge(self, a: Place, b: Place) -> None:
        self._above[self._find(a)] = self._find(b)

    def are(self, a: Place, b: Place) -> bool:
        return self._find(a) == self._find(b)


def _equalities(query: Query) -> Iterator[tuple[Place, Place]]:
    for p in query.block.predicates:
        if isinstance(p, Call) and p.name in ("eq", "not_distinct"):
            left, right = p.args
            if isinstance(left, ColumnRef) and isinstance(right, ColumnRef) and left.type == right.type:
                if not left.type.is_fraction:  # 0.0 and -0.0 are equal, but not the same
                    yield (left.relation, left.column), (right.relation, right.column)


def _settled(predicate: Expression) -> Expression:
    """A column equals itself unless it is NULL."""
    if not isinstance(predicate, Call) or predicate.name not in ("eq", "not_distinct"):
        return predicate
    left, right = predicate.args
    if not isinstance(left, ColumnRef) or left != right:
        return predicate
    if predicate.name == "not_distinct" or not left.nullable:
        return TRUE
    return build("not", (build("is_null", (left,)),))


def _nameless(source: AnyQuery | TableSchema) -> AnyQuery | TableSchema:
    """The source without the aliases of its relations, which do not affect its rows."""
    if isinstance(source, TableSchema):
        return source
    below = with_children(source, [_nameless(s) for s in children(source)])
    if not isinstance(below, Query):
        return below
    return replace(below, relations=tuple(replace(r, alias="") for r in below.relations))
