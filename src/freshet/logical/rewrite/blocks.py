"""Walking the tree of blocks and the expressions in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from freshet.logical.kinds import JoinKind
from freshet.logical.query import AnyQuery, Arm, Block, Grouping, Query, Relation, key
from freshet.scalar.expression import Call, ColumnRef, Expression, references, transform

#: The name of a subquery without an alias in messages and explanations.
NAMELESS = "subquery"

Change = Callable[[Expression], Expression]

#: Runs a pass, and the later ones, on a query that the pass has extracted from another.
Again = Callable[[Query], Query]


def conjuncts(expression: Expression) -> list[Expression]:
    return flat(expression, "and")


def flat(expression: Expression, name: str) -> list[Expression]:
    """The operands of nested calls of one associative operator, left to right."""
    if isinstance(expression, Call) and expression.name == name:
        return [part for arg in expression.args for part in flat(arg, name)]
    return [expression]


def subtree(block: Block) -> frozenset[int]:
    """The relations of a block and of all arms below it."""
    return frozenset(block.within())


def optional(block: Block) -> frozenset[int]:
    """The relations that are NULL where a LEFT JOIN of this block finds nothing."""
    return frozenset().union(*(subtree(arm.block) for arm in block.arms if arm.kind is JoinKind.LEFT))


def predicates_in(block: Block) -> list[Expression]:
    """The predicates of a block and of all arms below it."""
    return [*block.predicates, *(p for arm in block.arms for p in predicates_in(arm.block))]


def reads(block: Block) -> frozenset[int]:
    """The relations that predicates in a block and its arms read."""
    own = reads_all(block.predicates)
    return own.union(*(reads(arm.block) for arm in block.arms))


def reads_all(expressions: Iterable[Expression]) -> frozenset[int]:
    return frozenset().union(*(references(e) for e in expressions))


def map_blocks(block: Block, change: Callable[[Block], Block]) -> Block:
    """Rebuilds bottom-up: arms first, then the block itself."""
    arms = tuple(Arm(arm.kind, map_blocks(arm.block, change)) for arm in block.arms)
    return change(replace(block, arms=arms))


def map_predicates(query: Query, change: Callable[[tuple[Expression, ...]], Iterable[Expression]]) -> Query:
    """Changes the conjuncts of every block."""
    rebuilt = map_blocks(query.block, lambda b: replace(b, predicates=tuple(change(b.predicates))))
    return replace(query, block=rebuilt)


def map_block_expressions(block: Block, change: Change) -> Block:
    return map_blocks(block, lambda b: replace(b, predicates=tuple(transform(p, change) for p in b.predicates)))


def map_upper_expressions(query: Query, change: Change) -> Query:
    """Changes the expressions that see rows after the arms: WHERE, GROUP BY, aggregates, outputs, numbers of copies."""
    grouping = query.grouping
    if grouping is not None:
        grouping = Grouping(
            tuple(transform(k, change) for k in grouping.keys),
            tuple(c.mapped(lambda e: transform(e, change)) for c in grouping.aggregates),
            None if grouping.having is None else transform(grouping.having, change),
        )
    return replace(
        query,
        where=tuple(transform(w, change) for w in query.where),
        grouping=grouping,
        outputs=tuple(transform(o, change) for o in query.outputs),
        copies=tuple(c for e in query.copies if isinstance(c := transform(e, change), ColumnRef)),
    )


def map_expressions(query: Query, change: Change) -> Query:
    return replace(map_upper_expressions(query, change), block=map_block_expressions(query.block, change))


def upper_expressions(query: Query) -> list[Expression]:
    found = [*query.where, *query.outputs, *query.copies]
    if query.grouping is not None:
        found += query.grouping.keys
        for call in query.grouping.aggregates:
            found += call.reads
    return found


def select_all(query: AnyQuery) -> Query:
    """SELECT * over a query."""
    outputs = tuple(key(0, i, f) for i, f in enumerate(query.fields))
    return Query((Relation(NAMELESS, query, query.fields),), Block((0,), ()), (), None, outputs, query.fields)
