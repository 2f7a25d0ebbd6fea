"""A condition on a rank needs only the first rows of each partition.

ROW_NUMBER() <= k and RANK() <= k, also as <, = and BETWEEN, in QUALIFY or in a select above. Where the rank is read by
nothing else it need not be computed: the rows wanted are a top-k of each partition. Where it is, only the first rows of
a partition are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from freshet.logical.query import AnyQuery, Block, Query, Relation, TopK, Windowed
from freshet.logical.rewrite.blocks import Again, map_blocks, predicates_in, upper_expressions
from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.expression import Call, ColumnRef, Expression, Literal, walk
from freshet.scalar.functions.registry import comparison_of
from freshet.windows import window_function_of


@dataclass(frozen=True, slots=True)
class _Range:
    """Ranks from `least` to `most`."""

    least: int
    most: int | None


def limit_ranks(query: Query, again: Again) -> Query:
    relations = list(query.relations)

    def settle(block: Block) -> Block:
        for r in block.relations:
            source = relations[r].source
            if isinstance(source, Windowed) and source.first is None:
                block, relations[r] = _limit(query, block, r, relations[r], source)
        return block

    block = map_blocks(query.block, settle)
    return replace(query, block=block, relations=tuple(relations))


def _limit(
    query: Query, block: Block, r: int, relation: Relation, source: Windowed[AnyQuery]
) -> tuple[Block, Relation]:
    for i, call in enumerate(source.calls):
        ties = window_function_of(call).shared_by_ties
        if ties is None:
            continue
        column = len(source.fields) - len(source.calls) + i
        tests = {p: found for p in block.predicates if (found := _range(p, r, column)) is not None}
        if ties:
            tests = {p: found for p, found in tests.items() if found.least == 1}
        ends = [found.most for found in tests.values() if found.most is not None]
        if not ends or not all(window_function_of(c).by_rows_before for c in source.calls):
            continue
        least, most = max(found.least for found in tests.values()), min(ends)
        kept = tuple(p for p in block.predicates if p not in tests)
        others = [*predicates_in(query.block), *upper_expressions(query)]
        for test in block.predicates:
            if test in tests:
                others.remove(test)  # once: the select list may have it too
        if len(source.calls) > 1 or any(_reads(p, r, column) for p in others):
            limited = replace(source, first=most, ties=ties)
            return (block if least > 1 else replace(block, predicates=kept)), replace(relation, source=limited)
        rows = max(most - least + 1, 0)
        top = TopK(source.source, source.partition, source.order, least - 1, rows, ties, source.source.fields)
        return replace(block, predicates=kept), Relation(relation.alias, top, relation.fields[:column])
    return block, relation


def _range(predicate: Expression, relation: int, column: int) -> _Range | None:
    """The range of ranks that a comparison of the rank with a number allows."""
    operator = comparison_of(predicate)
    if not isinstance(predicate, Call) or operator is None or operator is ComparisonOperator.UNEQUAL:
        return None
    left, right = (_plain(a) for a in predicate.args)
    if isinstance(left, Literal):
        operator, left, right = operator.flipped, right, left
    if not (isinstance(left, ColumnRef) and (left.relation, left.column) == (relation, column)):
        return None
    if not isinstance(right, Literal) or not isinstance(right.value, int) or not right.type.is_integer:
        return None
    n = right.value
    beyond = int(operator.is_strict)
    least = 1 if operator.is_upward else n + beyond
    most = n - beyond if operator.is_upward else n if operator is ComparisonOperator.EQUAL else None
    return _Range(max(least, 1), None if most is None else max(most, 0))


def _plain(expression: Expression) -> Expression:
    """Without casts between integers, which no rank is too large for."""
    while isinstance(expression, Call) and expression.name == "cast":
        if not (expression.type.is_integer and expression.args[0].type.is_integer):
            break
        expression = expression.args[0]
    return expression


def _reads(expression: Expression, relation: int, column: int) -> bool:
    return any(isinstance(e, ColumnRef) and (e.relation, e.column) == (relation, column) for e in walk(expression))
