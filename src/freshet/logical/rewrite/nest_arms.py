"""Arms find the block they read: a LEFT JOIN on an earlier LEFT JOIN's columns becomes an arm of that arm.

(A LEFT B) LEFT C ON p is A LEFT (B LEFT C ON p) when p reads only B and C and is not TRUE where B is NULL. What reads
several blocks at once, or rows that may be NULL, has no place in the tree: then the rows it reads are stored as a
relation of their own. Where an arm reads the block above the one it is attached to, the values it reads join that one.

It ends: a block and arms that are stored become one relation, and values that join a block are read one block higher.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from freshet.logical.kinds import JoinKind
from freshet.logical.query import Arm, Block, Query
from freshet.logical.rewrite.blocks import Again, reads, subtree
from freshet.logical.rewrite.nulls import rejects
from freshet.logical.rewrite.store import store_arguments, store_block


@dataclass(frozen=True, slots=True)
class _Unplaced:
    """An arm that no tree can place: the one at position `arm` of `block`. `root`: the tree as settled so far. `above`:
    the block that `block` is attached to, where the arm reads that; else it reads the arms before it."""

    block: Block
    arm: int
    root: Block
    above: Block | None = None


def nest_arms(query: Query, again: Again) -> Query:
    while isinstance(settled := _settle(query.block, None), _Unplaced):
        query = replace(query, block=settled.root)
        if settled.above is not None:
            query = store_arguments(query, settled.above, settled.block, again)
        else:
            query = store_block(query, settled.block, settled.block.arms[: settled.arm], again)
    return replace(query, block=settled)


def _settle(block: Block, above: Block | None) -> Block | _Unplaced:
    """`above`: the block that this one is attached to."""
    arms: list[Arm] = []
    for i, arm in enumerate(block.arms):
        outside = reads(arm.block) - subtree(arm.block)
        hosts = [i for i, a in enumerate(arms) if a.kind is JoinKind.LEFT and outside & subtree(a.block)]
        if hosts:
            host = arms[hosts[0]]
            below = subtree(host.block)
            if arm.kind is not JoinKind.LEFT or len(hosts) > 1 or not outside <= below or not _needs(arm, below):
                return _Unplaced(block, i, block)
            arms[hosts[0]] = Arm(JoinKind.LEFT, replace(host.block, arms=(*host.block.arms, arm)))
        elif not outside <= frozenset(block.relations):
            assert above is not None and outside <= frozenset((*block.relations, *above.relations))
            return _Unplaced(block, i, block, above)
        else:
            arms.append(arm)
    nested = replace(block, arms=tuple(arms))
    for i, arm in enumerate(arms):
        settled = _settle(arm.block, nested)
        if isinstance(settled, _Unplaced):
            arms[i] = Arm(arm.kind, settled.root)
            return replace(settled, root=replace(block, arms=tuple(arms)))
        arms[i] = Arm(arm.kind, settled)
    return replace(block, arms=tuple(arms))


def _needs(arm: Arm, host: frozenset[int]) -> bool:
    return any(rejects(p, host) for p in arm.block.predicates)
