"""Rewrites of a bound query, each in a file of its own, in one order: the stage between binding and planning.

It runs once, over the whole tree. On the way down subqueries become joins (`decorrelate`), because what they read of a
select determines what it reads. On the way up from the tables, passes see the inputs of a select in their final form,
so that they can merge or examine them. Neither binding nor a pass has a list of its own; a pass that extracts a select
from another passes it to `again`, which runs that pass and the later ones.

Binding leaves every condition in the block it was written in, so that for each block B, with its LEFT JOIN arms done,
the rows of B are those on which all its predicates are TRUE. Every pass keeps that; `place_predicates` then settles
which of them wait until after the arms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from freshet.logical.query import AnyQuery, Query, TableSchema, children, with_children
from freshet.logical.rewrite.absorb_semi import absorb_semi
from freshet.logical.rewrite.blocks import Again
from freshet.logical.rewrite.decorrelate import decorrelate
from freshet.logical.rewrite.drop_unseen import drop_unseen
from freshet.logical.rewrite.factor_or import factor_or
from freshet.logical.rewrite.flatten_unions import flatten_unions
from freshet.logical.rewrite.fold_nulls import fold_nulls
from freshet.logical.rewrite.ground import ground
from freshet.logical.rewrite.limit_ranks import limit_ranks
from freshet.logical.rewrite.merge_selects import merge_selects
from freshet.logical.rewrite.nest_arms import nest_arms
from freshet.logical.rewrite.number_relations import number_relations
from freshet.logical.rewrite.place_predicates import place_predicates
from freshet.logical.rewrite.push_not import push_not
from freshet.logical.rewrite.reject_nulls import reject_nulls
from freshet.logical.rewrite.settle_fields import settle_fields
from freshet.logical.rewrite.settle_nullability import settle_nullability
from freshet.logical.rewrite.settle_time import check_time, settle_time
from freshet.logical.rewrite.split_and import split_and
from freshet.logical.rewrite.sum_within_bounds import sum_within_bounds
from freshet.logical.rewrite.unwrap import unwrap

PASSES: tuple[Callable[[Query, Again], Query], ...] = (
    fold_nulls,
    push_not,
    factor_or,
    split_and,
    merge_selects,
    settle_time,
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


def rewrite(query: AnyQuery, known: Iterable[AnyQuery] = ()) -> AnyQuery:
    """Rewrites the whole tree: the inputs of a query before the query itself, and a query that occurs twice once.
    `known`: queries that were already rewritten, such as those of views."""
    return _Rewriter(known).rewritten(query)


def rewrite_select(query: Query, first: int = 0) -> Query:
    """Runs all passes in order on one select whose inputs are already rewritten; on a select that a pass extracted from
    another one, those from position `first` on, because the earlier ones have already run."""
    for place in range(first, len(PASSES)):
        query = PASSES[place](query, partial(rewrite_select, first=place))
    return query


def finish(query: Query) -> Query:
    """Runs the last passes on a select that planning has changed. The others would undo the change."""
    return rewrite_select(query, PASSES.index(settle_nullability))


class _Rewriter:
    def __init__(self, known: Iterable[AnyQuery]) -> None:
        self._done = {id(q): (q, q) for q in known}  # by identity, which a query that is kept does not lose

    def rewritten(self, query: AnyQuery) -> AnyQuery:
        known = self._done.get(id(query))
        if known is None:
            known = self._done[id(query)] = query, self._rewritten(query)
        return known[1]

    def _rewritten(self, query: AnyQuery) -> AnyQuery:
        if isinstance(query, Query):
            query = decorrelate(query)
        here = set(query.block.within()) if isinstance(query, Query) else None  # others were left behind by binding
        read = [
            s if isinstance(s, TableSchema) or (here is not None and i not in here) else self.rewritten(s)
            for i, s in enumerate(children(query))
        ]
        query = settle_fields(with_children(query, read))
        if isinstance(query, Query):
            return unwrap(rewrite_select(query), rewrite_select)
        check_time(query)
        return flatten_unions(query)
