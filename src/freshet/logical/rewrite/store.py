"""Parts of a query that become queries of their own, whose rows are stored.

A join tree has a place for an arm that reads one relation, by equalities and a comparison. What has none gets one:

`store_block`: a block with some of its arms becomes one relation, so that whatever reads several of its relations reads
one. `store_matches`: what an arm finds for each value it is asked for becomes one relation, so that any condition at
all becomes equality with the values asked for. `store_arguments`: the values that arms of a block read of the block
above it become a relation of that block, so that they read the block right above them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from freshet.logical.kinds import JoinKind
from freshet.logical.query import Arm, Block, Field, Query, Relation, key
from freshet.logical.rewrite.blocks import (
    Again,
    map_block_expressions,
    map_blocks,
    map_expressions,
    predicates_in,
    subtree,
    upper_expressions,
)
from freshet.scalar import functions, types
from freshet.scalar.expression import ColumnRef, Expression, Literal, references, walk

Place = tuple[int, int]  # relation and column


def store_block(query: Query, block: Block, arms: Iterable[Arm], again: Again) -> Query:
    """`arms`: those of the block that go with it."""
    taken = tuple(arms)
    inside = frozenset(block.relations).union(*(subtree(a.block) for a in taken))
    within = tuple(p for p in block.predicates if references(p) <= inside)
    rest = Block(
        (len(query.relations),),
        tuple(p for p in block.predicates if p not in within),
        tuple(a for a in block.arms if a not in taken),
    )
    outer = replace(query, block=map_blocks(query.block, lambda b: rest if b == block else b))
    wanted = _read(outer, inside)
    alias = _alias(query, inside)
    return _replaced(outer, alias, _select(query, Block(block.relations, within, taken), wanted, again), wanted)


def store_matches(query: Query, block: Block, arm: Arm, again: Again) -> Query:
    """`arm` is attached to `block`."""
    inside, number = subtree(arm.block), len(query.relations)
    arguments = _outside(arm.block, inside)
    relations, searched = query.relations, arm.block
    if arguments:
        relations = (*relations, _arguments_of(query, arguments, block, again))
        moved = _from_arguments(arm.block, arguments, number)
        searched = replace(moved, relations=(number, *moved.relations))
    found = [key(number, i, f) for i, f in enumerate(relations[number].fields)] if arguments else []
    bare = map_blocks(query.block, lambda b: replace(b, arms=tuple(a for a in b.arms if a != arm)))
    wanted = _read(replace(query, block=bare), inside) if arm.kind is JoinKind.LEFT else []
    below = replace(query, relations=relations)
    outputs = (*found, *wanted) or (Literal(types.INT, 1),)
    matches = again(replace(_selected(below, searched, outputs), distinct=arm.kind is not JoinKind.LEFT))
    mine = len(relations)
    keys = [key(mine, i, f) for i, f in enumerate(matches.fields)]
    tests = tuple(_equal(c, k) for c, k in zip(arguments, keys, strict=False))
    hung = Arm(arm.kind, Block((mine,), tests))
    alias = _alias(query, inside)

    def swapped(b: Block) -> Block:
        return replace(b, arms=tuple(hung if a == arm else a for a in b.arms))

    changed = replace(query, relations=(*relations, Relation(alias, matches, matches.fields)))
    changed = replace(changed, block=map_blocks(query.block, swapped))
    moves = {_place(c): keys[len(found) + i] for i, c in enumerate(wanted)}
    return map_expressions(changed, lambda e: moves.get(_place(e), e) if isinstance(e, ColumnRef) else e)


def store_arguments(query: Query, above: Block, block: Block, again: Again) -> Query:
    """`block` is that of an arm of `above`; arms of its own read both."""
    number = len(query.relations)
    own = subtree(block)
    arguments = list({_place(c): c for arm in block.arms for c in _outside(arm.block, own)}.values())
    values = _arguments_of(query, arguments, above, again)
    tests = (_equal(c, key(number, i, f)) for i, (c, f) in enumerate(zip(arguments, values.fields, strict=True)))
    lent = Block(
        (*block.relations, number),
        (*block.predicates, *tests),
        tuple(Arm(arm.kind, _from_arguments(arm.block, arguments, number)) for arm in block.arms),
    )
    changed = map_blocks(query.block, lambda b: lent if b == block else b)
    return replace(query, relations=(*query.relations, values), block=changed)


def _outside(block: Block, inside: frozenset[int]) -> list[ColumnRef]:
    """The columns of other relations than those inside that a block and its arms read, each once."""
    columns = (c for p in predicates_in(block) for c in _columns(p) if c.relation not in inside)
    return list({_place(c): c for c in columns}.values())


def _arguments_of(query: Query, arguments: list[ColumnRef], host: Block, again: Again) -> Relation:
    """The distinct values of columns of a block; more than those asked for do no harm."""
    hosts = frozenset(c.relation for c in arguments)
    filters = tuple(p for p in host.predicates if references(p) <= hosts)
    values = again(replace(_selected(query, Block(tuple(sorted(hosts)), filters), tuple(arguments)), distinct=True))
    return Relation("values asked for", values, values.fields)


def _from_arguments(block: Block, arguments: list[ColumnRef], number: int) -> Block:
    """A block that reads columns from the relation that has them as the values asked for."""
    places = {_place(c): i for i, c in enumerate(arguments)}

    def moved(e: Expression) -> Expression:
        if isinstance(e, ColumnRef) and _place(e) in places:
            return replace(e, relation=number, column=places[_place(e)])
        return e

    return map_block_expressions(block, moved)


def _alias(query: Query, relations: frozenset[int]) -> str:
    names = ", ".join(query.relations[r].alias for r in sorted(relations))
    return names if len(relations) == 1 else f"({names})"


def _equal(one: ColumnRef, other: ColumnRef) -> Expression:
    safe = one.nullable or other.nullable
    return functions.build("not_distinct" if safe else "eq", (one, other))


def _select(query: Query, block: Block, wanted: list[ColumnRef], again: Again) -> Query:
    return again(_selected(query, block, tuple(wanted) or (Literal(types.INT, 1),)))


def _selected(query: Query, block: Block, outputs: tuple[Expression, ...]) -> Query:
    fields = tuple(Field(e.name if isinstance(e, ColumnRef) else "one", e.type, functions.nullable(e)) for e in outputs)
    return Query(query.relations, block, (), None, outputs, fields)


def _replaced(outer: Query, alias: str, stored: Query, wanted: list[ColumnRef]) -> Query:
    """The query that reads the stored one, its new last relation, for the wanted columns."""
    number = len(outer.relations)
    moves = {_place(c): key(number, i, stored.fields[i]) for i, c in enumerate(wanted)}
    whole = replace(outer, relations=(*outer.relations, Relation(alias, stored, stored.fields)))
    return map_expressions(whole, lambda e: moves.get(_place(e), e) if isinstance(e, ColumnRef) else e)


def _read(query: Query, relations: frozenset[int]) -> list[ColumnRef]:
    """The columns of some relations that a query reads, each once."""
    expressions = [*upper_expressions(query), *predicates_in(query.block)]
    found = {_place(c): c for e in expressions for c in _columns(e) if c.relation in relations}
    return list(found.values())


def _columns(expression: Expression) -> list[ColumnRef]:
    return [e for e in walk(expression) if isinstance(e, ColumnRef)]


def _place(column: ColumnRef) -> Place:
    return column.relation, column.column
