"""Conjunctions become lists of conjuncts; TRUE and repeated ones go."""

from __future__ import annotations

from collections.abc import Iterable

from freshet.sql.bound import Query
from freshet.sql.expression import Expression
from freshet.sql.literal import TRUE
from freshet.sql.rewrite.blocks import Origins, conjuncts, map_predicates


def split_and(query: Query, origins: Origins) -> Query:
    return map_predicates(query, split)


def split(predicates: Iterable[Expression]) -> list[Expression]:
    return [c for c in dict.fromkeys(c for p in predicates for c in conjuncts(p)) if c != TRUE]
