"""Predicates on a LEFT JOIN's columns wait until it is done: they leave the block for the query's `where`.

Inside an arm there is no later place to check them, so there the block and its LEFT JOINs are stored as a relation,
which the predicates then filter.
"""

from __future__ import annotations

from dataclasses import replace

from freshet.logical.kinds import JoinKind
from freshet.logical.query import Block, Query
from freshet.logical.rewrite.blocks import Again, optional
from freshet.logical.rewrite.store import store_block
from freshet.scalar.expression import references


def place_predicates(query: Query, again: Again) -> Query:
    while (waiting := _waiting(query.block)) is not None:
        lefts = [arm for arm in waiting.arms if arm.kind is JoinKind.LEFT]
        query = store_block(query, waiting, lefts, again)
    block, later = query.block, optional(query.block)
    inside = tuple(p for p in block.predicates if not references(p) & later)
    after = tuple(p for p in block.predicates if references(p) & later)
    return replace(query, block=replace(block, predicates=inside), where=query.where + after)


def _waiting(block: Block) -> Block | None:
    """A block inside an arm with a predicate that its own LEFT JOINs must come before."""
    for arm in block.arms:
        if any(references(p) & optional(arm.block) for p in arm.block.predicates):
            return arm.block
        found = _waiting(arm.block)
        if found is not None:
            return found
    return None
