"""Arms find the block they read: a LEFT JOIN on an earlier LEFT JOIN's columns becomes an arm of that arm.

(A LEFT B) LEFT C ON p is A LEFT (B LEFT C ON p) when p reads only B and C and is not TRUE where B is NULL. What reads
several blocks at once has no place in the tree and is refused.
"""

from __future__ import annotations

from dataclasses import replace

from freshet.sql.bound import Arm, Block, Query
from freshet.sql.rewrite.blocks import Origins, reads, subtree
from freshet.sql.rewrite.nulls import rejects

_WORDS = {"left": "LEFT JOIN", "semi": "EXISTS or IN", "anti": "NOT EXISTS or NOT IN"}


def nest_arms(query: Query, origins: Origins) -> Query:
    def names(relations: frozenset[int]) -> str:
        return " and ".join(query.relations[r].alias for r in sorted(relations))

    def settle(block: Block) -> Block:
        arms: list[Arm] = []
        for arm in block.arms:
            own = subtree(arm.block)
            outside = reads(arm.block) - own
            hosts = [i for i, a in enumerate(arms) if a.kind == "left" and outside & subtree(a.block)]
            if hosts:
                host = arms[hosts[0]]
                below = subtree(host.block)
                if arm.kind != "left" or len(hosts) > 1 or not outside <= below or not _needs(arm, below):
                    what = f"{_WORDS[arm.kind]} of {names(own)} on {names(outside)}"
                    origins.refuse(
                        f"{what}, some of which a LEFT JOIN may leave NULL,",
                        f"put the LEFT JOIN of {names(outside & below)} in a FROM subquery first",
                        arm.block,
                    )
                arms[hosts[0]] = Arm("left", replace(host.block, arms=(*host.block.arms, arm)))
            elif not outside <= frozenset(block.relations):
                far = names(outside - frozenset(block.relations))
                origins.refuse(
                    f"{_WORDS[arm.kind]} of {names(own)} reading {far}, which is not right above it,",
                    "compare only with columns of the select it stands in",
                    arm.block,
                )
            else:
                arms.append(arm)
        return replace(block, arms=tuple(Arm(a.kind, settle(a.block)) for a in arms))

    return replace(query, block=settle(query.block))


def _needs(arm: Arm, host: frozenset[int]) -> bool:
    return any(rejects(p, host) for p in arm.block.predicates)
