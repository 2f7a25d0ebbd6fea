"""A LEFT JOIN whose unmatched rows are rejected anyway is an inner join.

Where a block's predicate, or one of its semi arms, cannot be TRUE on a row that the LEFT JOIN filled with NULLs, only
joined rows pass: the arm's relations, predicates and arms move into the block. That may decide another arm, so it is
repeated until nothing moves.
"""

from __future__ import annotations

from dataclasses import replace

from freshet.logical.kinds import JoinKind
from freshet.logical.query import Block, Query
from freshet.logical.rewrite.blocks import Again, map_blocks, subtree
from freshet.logical.rewrite.nulls import rejects


def reject_nulls(query: Query, again: Again) -> Query:
    return replace(query, block=map_blocks(query.block, _settle))


def _settle(block: Block) -> Block:
    for arm in block.arms:
        if arm.kind is not JoinKind.LEFT:
            continue
        evidence = [*block.predicates, *(p for a in block.arms if a.kind is JoinKind.SEMI for p in a.block.predicates)]
        if any(rejects(p, subtree(arm.block)) for p in evidence):
            inner = arm.block
            at = block.arms.index(arm)
            arms = block.arms[:at] + inner.arms + block.arms[at + 1 :]  # in place: a later arm may read these
            joined = Block(block.relations + inner.relations, block.predicates + inner.predicates, arms)
            return _settle(joined)
    return block
