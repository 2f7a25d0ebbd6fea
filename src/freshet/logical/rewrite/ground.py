"""Arms need something to be attached to: a block without relations, or an arm of one, reads a relation of one row.

SELECT 1 WHERE EXISTS (...) has one row to keep or drop, and EXISTS (SELECT 1) one row to find.
"""

from __future__ import annotations

from dataclasses import replace

from freshet.logical.query import Block, Field, Query, Relation, Values
from freshet.logical.rewrite.blocks import Again, map_blocks
from freshet.scalar import types
from freshet.scalar.expression import Literal

_ONE = Values(((Literal(types.INT, 1),),), (Field("one", types.INT, nullable=False),))


def ground(query: Query, again: Again) -> Query:
    added: list[Relation] = []

    def grounded(block: Block) -> Block:
        if block.relations:
            return block
        added.append(Relation("one row", _ONE, _ONE.fields))
        return replace(block, relations=(len(query.relations) + len(added) - 1,))

    if not query.block.relations and not query.block.arms:
        return query
    block = map_blocks(query.block, grounded)
    return replace(query, block=block, relations=query.relations + tuple(added))
