"""A LEFT JOIN inside EXISTS or NOT EXISTS whose columns nothing there reads is left out.

It changes how often a row is there, not whether. What reads its columns has been stored with it by `place_predicates`.
"""

from __future__ import annotations

from dataclasses import replace

from freshet.logical.kinds import JoinKind
from freshet.logical.query import Arm, Block, Query
from freshet.logical.rewrite.blocks import Again


def drop_unseen(query: Query, again: Again) -> Query:
    return replace(query, block=_seen(query.block, True))


def _seen(block: Block, counted: bool) -> Block:
    kept = (arm for arm in block.arms if counted or arm.kind is not JoinKind.LEFT)
    return replace(block, arms=tuple(Arm(a.kind, _seen(a.block, counted and a.kind is JoinKind.LEFT)) for a in kept))
