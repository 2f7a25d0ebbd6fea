"""A function of a literal NULL is NULL if it returns NULL for every NULL argument: its other arguments are dropped."""

from __future__ import annotations

from freshet.logical.query import Query
from freshet.logical.rewrite.blocks import Again, map_expressions
from freshet.scalar.functions.compiled import fold_null


def fold_nulls(query: Query, again: Again) -> Query:
    return map_expressions(query, fold_null)
