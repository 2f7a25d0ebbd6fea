"""Rewrites of a bound query, each in a file of its own, in one order.

Binding leaves every condition in the block it was written in, so that for each block B, with its LEFT JOIN arms done,
the rows of B are those on which all its predicates are TRUE. Every pass keeps that; `place_predicates` then settles
which of them wait until after the arms.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from freshet.logical.extent import Written
from freshet.logical.query import Query
from freshet.logical.rewrite.absorb_semi import absorb_semi
from freshet.logical.rewrite.blocks import Origins
from freshet.logical.rewrite.drop_unseen import drop_unseen
from freshet.logical.rewrite.factor_or import factor_or
from freshet.logical.rewrite.fold_nulls import fold_nulls
from freshet.logical.rewrite.ground import ground
from freshet.logical.rewrite.limit_ranks import limit_ranks
from freshet.logical.rewrite.merge_selects import merge_selects
from freshet.logical.rewrite.nest_arms import nest_arms
from freshet.logical.rewrite.number_relations import number_relations
from freshet.logical.rewrite.place_predicates import place_predicates
from freshet.logical.rewrite.push_not import push_not
from freshet.logical.rewrite.reject_nulls import reject_nulls
from freshet.logical.rewrite.settle_nullability import settle_nullability
from freshet.logical.rewrite.split_and import split_and
from freshet.logical.rewrite.sum_within_bounds import sum_within_bounds

PASSES: tuple[Callable[[Query, Origins], Query], ...] = (
    fold_nulls,
    push_not,
    factor_or,
    split_and,
    merge_selects,
    limit_ranks,
    ground,
    reject_nulls,
    absorb_semi,
    nest_arms,
    place_predicates,
    drop_unseen,
    sum_within_bounds,
    settle_nullability,
    number_relations,
)


def rewrite(query: Query, statement: Written, nodes: list[exp.Expr]) -> Query:
    """All passes in order; `nodes` says where each relation was written."""
    origins = Origins(statement, list(nodes))
    for step in PASSES:
        query = step(query, origins)
    return query
