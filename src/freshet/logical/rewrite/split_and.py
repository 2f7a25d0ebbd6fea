"""Conjunctions become lists of conjuncts; TRUE and repeated ones go."""

from __future__ import annotations

from collections.abc import Iterable

from freshet.logical.query import Query
from freshet.logical.rewrite.blocks import Again, conjuncts, map_predicates
from freshet.scalar.expression import TRUE, Expression


def split_and(query: Query, again: Again) -> Query:
    return map_predicates(query, split)


def split(predicates: Iterable[Expression]) -> list[Expression]:
    return [c for c in dict.fromkeys(c for p in predicates for c in conjuncts(p)) if c != TRUE]
