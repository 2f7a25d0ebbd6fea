"""A function that is NULL wherever an argument is, of a literal NULL, is NULL: what else it reads need not be kept."""

from __future__ import annotations

from freshet.sql.bound import Query
from freshet.sql.functions.compiled import fold_null
from freshet.sql.rewrite.blocks import Origins, map_expressions


def fold_nulls(query: Query, origins: Origins) -> Query:
    return map_expressions(query, fold_null)
