"""Arms find the block they read: a LEFT JOIN on an earlier LEFT JOIN's columns becomes an arm of that arm.

(A LEFT B) LEFT C ON p is A LEFT (B LEFT C ON p) when p reads only B and C and is not TRUE where B is NULL. What reads
several blocks at once, or rows that may be NULL, has no place in the tree: then the rows it reads are stored as a
relation of their own. Where an arm reads the block above the one it hangs on, the values it reads join that one.

It ends: a block and arms that are stored become one relation, and values that join a block are read one block higher.
"""

from __future__ import annotations

from dataclasses import replace

from freshet.logical.kinds import JoinKind
from freshet.logical.query import Arm, Block, Query
from freshet.logical.rewrite.blocks import Origins, reads, subtree
from freshet.logical.rewrite.drop_unseen import drop_unseen
from freshet.logical.rewrite.nulls import rejects
from freshet.logical.rewrite.number_relations import number_relations
from freshet.logical.rewrite.place_predicates import place_predicates
from freshet.logical.rewrite.settle_nullability import settle_nullability
from freshet.logical.rewrite.store import store_asked, store_block


class _StuckError(Exception):
    """An arm that reads what no tree lets it read. `root`: the tree as settled so far. `above`: the block that the
    arm's own block hangs on, where that is what it reads; else it reads the arms before it."""

    def __init__(self, block: Block, arm: int, above: Block | None = None) -> None:
        self.block, self.arm, self.above, self.root = block, arm, above, block


def nest_arms(query: Query, origins: Origins) -> Query:
    while True:
        try:
            return replace(query, block=_settle(query.block, None))
        except _StuckError as stuck:
            origins.nodes.append(origins.nodes[stuck.block.relations[0]])
            query = replace(query, block=stuck.root)
            if stuck.above is not None:
                query = store_asked(query, stuck.above, stuck.block, lambda stored: _finished(stored, origins))
            else:
                earlier = stuck.block.arms[: stuck.arm]
                query = store_block(query, stuck.block, earlier, lambda stored: _finished(stored, origins))


def _finished(query: Query, origins: Origins) -> Query:
    """The rewrites from here on, for a query taken out of the one they run on."""
    for step in (nest_arms, place_predicates, drop_unseen, settle_nullability, number_relations):
        query = step(query, origins)
    return query


def _settle(block: Block, above: Block | None) -> Block:
    """`above`: the block that this one hangs on."""
    arms: list[Arm] = []
    for i, arm in enumerate(block.arms):
        outside = reads(arm.block) - subtree(arm.block)
        hosts = [i for i, a in enumerate(arms) if a.kind is JoinKind.LEFT and outside & subtree(a.block)]
        if hosts:
            host = arms[hosts[0]]
            below = subtree(host.block)
            if arm.kind is not JoinKind.LEFT or len(hosts) > 1 or not outside <= below or not _needs(arm, below):
                raise _StuckError(block, i)
            arms[hosts[0]] = Arm(JoinKind.LEFT, replace(host.block, arms=(*host.block.arms, arm)))
        elif not outside <= frozenset(block.relations):
            assert above is not None and outside <= frozenset((*block.relations, *above.relations))
            raise _StuckError(block, i, above)
        else:
            arms.append(arm)
    nested = replace(block, arms=tuple(arms))
    for i, arm in enumerate(arms):
        try:
            arms[i] = Arm(arm.kind, _settle(arm.block, nested))
        except _StuckError as stuck:
            arms[i] = Arm(arm.kind, stuck.root)
            stuck.root = replace(block, arms=tuple(arms))
            raise
    return replace(block, arms=tuple(arms))


def _needs(arm: Arm, host: frozenset[int]) -> bool:
    return any(rejects(p, host) for p in arm.block.predicates)
