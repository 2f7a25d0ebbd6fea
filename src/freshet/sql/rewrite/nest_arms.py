"""Arms find the block they read: a LEFT JOIN on an earlier LEFT JOIN's columns becomes an arm of that arm.

(A LEFT B) LEFT C ON p is A LEFT (B LEFT C ON p) when p reads only B and C and is not TRUE where B is NULL. What reads
several blocks at once, or rows that may be NULL, has no place in the tree: then the rows it reads are stored as a
relation of their own.
"""

from __future__ import annotations

from dataclasses import replace

from freshet.sql.bound import Arm, Block, Query
from freshet.sql.rewrite.blocks import Origins, reads, subtree
from freshet.sql.rewrite.drop_unseen import drop_unseen
from freshet.sql.rewrite.nulls import rejects
from freshet.sql.rewrite.number_relations import number_relations
from freshet.sql.rewrite.place_predicates import place_predicates
from freshet.sql.rewrite.settle_nullability import settle_nullability
from freshet.sql.rewrite.store import store_block

_WORDS = {"left": "LEFT JOIN", "semi": "EXISTS or IN", "anti": "NOT EXISTS or NOT IN"}


class _StuckError(Exception):
    """An arm of a block that reads earlier arms in a way no tree has."""

    def __init__(self, block: Block, arm: int) -> None:
        self.block, self.arm = block, arm


def nest_arms(query: Query, origins: Origins) -> Query:
    while True:
        try:
            return replace(query, block=_settle(query, query.block, origins))
        except _StuckError as stuck:
            origins.nodes.append(origins.nodes[stuck.block.relations[0]])
            earlier = stuck.block.arms[: stuck.arm]
            query = store_block(query, stuck.block, earlier, lambda stored: _finished(stored, origins))


def _finished(query: Query, origins: Origins) -> Query:
    """The rewrites from here on, for a query taken out of the one they run on."""
    for step in (nest_arms, place_predicates, drop_unseen, settle_nullability, number_relations):
        query = step(query, origins)
    return query


def _settle(query: Query, block: Block, origins: Origins) -> Block:
    def names(relations: frozenset[int]) -> str:
        return " and ".join(query.relations[r].alias for r in sorted(relations))

    arms: list[Arm] = []
    for i, arm in enumerate(block.arms):
        outside = reads(arm.block) - subtree(arm.block)
        hosts = [i for i, a in enumerate(arms) if a.kind == "left" and outside & subtree(a.block)]
        if hosts:
            host = arms[hosts[0]]
            below = subtree(host.block)
            if arm.kind != "left" or len(hosts) > 1 or not outside <= below or not _needs(arm, below):
                raise _StuckError(block, i)
            arms[hosts[0]] = Arm("left", replace(host.block, arms=(*host.block.arms, arm)))
        elif not outside <= frozenset(block.relations):
            far = names(outside - frozenset(block.relations))
            origins.refuse(
                f"{_WORDS[arm.kind]} of {names(subtree(arm.block))} reading {far}, which is not right above it,",
                "compare only with columns of the select it stands in",
                arm.block,
            )
        else:
            arms.append(arm)
    return replace(block, arms=tuple(Arm(a.kind, _settle(query, a.block, origins)) for a in arms))


def _needs(arm: Arm, host: frozenset[int]) -> bool:
    return any(rejects(p, host) for p in arm.block.predicates)
