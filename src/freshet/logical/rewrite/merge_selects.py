"""A plain FROM subquery, view or CTE is merged into the select that reads it.

A select without grouping or DISTINCT is a block with expressions on top: its relations, predicates and arms join the
block that named it, and its outputs replace the columns that read them. Conditions, each with its reason:

- under a LEFT JOIN, an output read from above must be a plain column: it has to turn NULL where nothing was found,
  which a computed value, say a constant, would not;
- a column that comes from a LEFT JOIN inside must not be what some arm joins on, since an arm reads inner rows only;
- inside an arm nothing may be left that waits until after the subquery's own LEFT JOINs;
- neither the join nor its expressions may grow beyond what is quickly planned (`extent`).
"""

from __future__ import annotations

from dataclasses import replace

from freshet.logical.extent import MOST_MERGED, Extents, may_replace
from freshet.logical.kinds import JoinKind
from freshet.logical.query import Block, Query
from freshet.logical.rewrite.blocks import (
    NAMELESS,
    Again,
    map_block_expressions,
    map_blocks,
    map_expressions,
    optional,
    predicates_in,
    subtree,
    upper_expressions,
)
from freshet.logical.rewrite.split_and import split
from freshet.scalar.expression import Call, ColumnRef, Expression, Literal, references, walk
from freshet.scalar.functions.compiled import fold, unreached


def merge_selects(query: Query, again: Again) -> Query:
    extents = Extents()
    for number in sorted(subtree(query.block)):
        source = query.relations[number].source
        if not isinstance(source, Query) or not _is_small(query, number, source, extents):
            continue
        if _mergeable(query, number, source):
            query = _merge(query, number, source)
    return query


def _mergeable(query: Query, number: int, source: Query) -> bool:
    if source.grouping is not None or source.distinct:
        return False
    path = _path(query.block, number)
    from_left = optional(source.block)
    fragile = {i for i, output in enumerate(source.outputs) if references(output) & from_left}
    if any(fragile & _columns(p, number) for p in _arm_predicates(query.block)):
        return False
    if not path:
        return True
    if source.where or not source.block.relations:
        return False
    if JoinKind.LEFT not in path:
        return True
    read_above = {c for e in _outside(query, number) for c in _columns(e, number)}
    return all(isinstance(source.outputs[c], ColumnRef) for c in read_above)


def _is_small(query: Query, number: int, source: Query, extents: Extents) -> bool:
    others = len(subtree(query.block)) - 1
    if others and others + len(subtree(source.block)) > MOST_MERGED:
        return False
    read = (e for x in (*upper_expressions(query), *predicates_in(query.block)) for e in walk(x))
    columns = (e.column for e in read if isinstance(e, ColumnRef) and e.relation == number)
    return may_replace(columns, source.outputs, extents)


def _path(block: Block, number: int) -> list[str]:
    """The kinds of the arms between the select and the block of a relation."""
    if number in block.relations:
        return []
    arm = next(a for a in block.arms if number in subtree(a.block))
    return [arm.kind, *_path(arm.block, number)]


def _arm_predicates(block: Block) -> list[Expression]:
    return [p for arm in block.arms for p in (*arm.block.predicates, *_arm_predicates(arm.block))]


def _outside(query: Query, number: int) -> list[Expression]:
    """Every expression but the predicates of the relation's own block and the arms below it."""

    def elsewhere(block: Block) -> list[Expression]:
        if number in block.relations:
            return []
        return [*block.predicates, *(e for arm in block.arms for e in elsewhere(arm.block))]

    return [*upper_expressions(query), *elsewhere(query.block)]


def _columns(expression: Expression, relation: int) -> set[int]:
    return {e.column for e in walk(expression) if isinstance(e, ColumnRef) and e.relation == relation}


def _merge(query: Query, number: int, source: Query) -> Query:
    base = len(query.relations)

    def shifted(expression: Expression) -> Expression:
        if isinstance(expression, ColumnRef):
            return replace(expression, relation=expression.relation + base)
        return expression

    moved = map_expressions(source, shifted)
    inner = map_blocks(moved.block, lambda b: replace(b, relations=tuple(r + base for r in b.relations)))

    def replaced(expression: Expression) -> Expression:
        if isinstance(expression, ColumnRef) and expression.relation == number:
            output = moved.outputs[expression.column]
            if isinstance(output, ColumnRef):
                return replace(output, nullable=output.nullable or expression.nullable)
            return output
        if isinstance(expression, Call) and all(isinstance(a, Literal) for a in expression.args):
            with unreached():
                return fold(expression)
        return expression

    def joined(block: Block) -> Block:
        if number not in block.relations:
            return block
        at = block.relations.index(number)
        return Block(
            block.relations[:at] + inner.relations + block.relations[at + 1 :],
            block.predicates + inner.predicates + moved.where,
            block.arms + inner.arms,
        )

    added = tuple(replace(r, alias=_alias(query.relations[number].alias, r.alias, source)) for r in source.relations)
    changed = map_expressions(replace(query, relations=query.relations + added), replaced)
    block = map_blocks(map_block_expressions(changed.block, replaced), joined)
    return replace(changed, block=map_blocks(block, lambda b: replace(b, predicates=tuple(split(b.predicates)))))


def _alias(outer: str, inner: str, source: Query) -> str:
    """Aliases stay descriptive and unique: the alias itself for a single relation, otherwise alias.inner."""
    if outer == NAMELESS:
        return inner
    return outer if len(source.relations) == 1 else f"{outer}.{inner}"
