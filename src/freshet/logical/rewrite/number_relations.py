"""Relations are numbered as the tree of blocks is read, and those merged away are gone."""

from __future__ import annotations

from dataclasses import replace

from freshet.logical.query import Block, Query
from freshet.logical.rewrite.blocks import Again, map_blocks, map_expressions
from freshet.scalar.expression import ColumnRef, Expression


def number_relations(query: Query, again: Again) -> Query:
    order = list(query.block.within())
    if order == list(range(len(query.relations))):
        return query
    numbers = {old: new for new, old in enumerate(order)}

    def renumber(expression: Expression) -> Expression:
        if isinstance(expression, ColumnRef):
            return replace(expression, relation=numbers[expression.relation])
        return expression

    def rename(block: Block) -> Block:
        return replace(block, relations=tuple(numbers[r] for r in block.relations))

    renamed = replace(query, relations=tuple(query.relations[old] for old in order))
    changed = map_expressions(renamed, renumber)
    return replace(changed, block=map_blocks(changed.block, rename))
