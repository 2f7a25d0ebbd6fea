"""Predicates on a LEFT JOIN's columns wait until it is done: they leave the block for the query's `where`.

Inside an arm there is no later place to check them, so there they are refused.
"""

from __future__ import annotations

from dataclasses import replace

from freshet.sql.bound import Block, Query
from freshet.sql.expression import references
from freshet.sql.rewrite.blocks import Origins, map_blocks, optional


def place_predicates(query: Query, origins: Origins) -> Query:
    def check(block: Block) -> Block:
        if any(references(p) & optional(block) for p in block.predicates):
            origins.refuse(
                "a condition on a LEFT JOIN's columns, TRUE where they are NULL, inside EXISTS, IN or LEFT JOIN,",
                "put that LEFT JOIN and the condition in a FROM subquery",
                block,
            )
        return block

    for arm in query.block.arms:
        map_blocks(arm.block, check)
    block, later = query.block, optional(query.block)
    inside = tuple(p for p in block.predicates if not references(p) & later)
    waiting = tuple(p for p in block.predicates if references(p) & later)
    return replace(query, block=replace(block, predicates=inside), where=query.where + waiting)
