"""EXISTS inside EXISTS that reads further out than the block it is attached to.

EXISTS b (p AND EXISTS c (q)) is EXISTS b, c (p AND q), also under NOT. An arm may read only the block right above it,
so a semi arm inside a semi or anti arm joins that arm's block when it reads beyond it. If it reads nothing of that
block, and that is a semi arm, it stands on its own next to it instead.
"""

from __future__ import annotations

from dataclasses import replace

from freshet.logical.kinds import JoinKind
from freshet.logical.query import Arm, Block, Query
from freshet.logical.rewrite.blocks import Again, reads, subtree


def absorb_semi(query: Query, again: Again) -> Query:
    return replace(query, block=_settle(query.block))


def _settle(block: Block) -> Block:
    arms: list[Arm] = []
    for arm in block.arms:
        inner = _settle(arm.block)
        if arm.kind is not JoinKind.LEFT:
            inner, freed = _absorb(inner, arm.kind)
            arms += freed
        arms.append(Arm(arm.kind, inner))
    return replace(block, arms=tuple(arms))


def _absorb(block: Block, kind: JoinKind) -> tuple[Block, list[Arm]]:
    inside, freed = subtree(block), []
    for arm in block.arms:
        outside = reads(arm.block) - subtree(arm.block)
        if arm.kind is not JoinKind.SEMI or outside <= inside:
            continue
        others = tuple(a for a in block.arms if a is not arm)
        if kind is JoinKind.SEMI and not outside & inside:
            block = replace(block, arms=others)
            freed.append(arm)
        else:
            inner = arm.block
            block = Block(block.relations + inner.relations, block.predicates + inner.predicates, others + inner.arms)
    return block, freed
