"""What can be computed of each relation of a join separately, and combined afterwards."""

from __future__ import annotations

from collections.abc import Iterator

from freshet.aggregates import function_of
from freshet.logical.extremes import taken_apart
from freshet.logical.products import double_factors, is_exact, products, unproven
from freshet.logical.query import Block, Query, Relation, TableSchema
from freshet.scalar.expression import AggregateCall, Expression, GroupRef, references
from freshet.scalar.functions.compiled import is_total
from freshet.scalar.functions.extremes import DIGITS, limits
from freshet.scalar.types import Type


def asked(block: Block) -> Iterator[Expression]:
    """The predicates of a block and its arms."""
    yield from block.predicates
    for arm in block.arms:
        yield from asked(arm.block)


def identity(relation: Relation) -> set[int] | None:
    """Columns on which no two tuples agree, if known."""
    source = relation.source
    if isinstance(source, TableSchema):
        return set(source.primary_key) or None
    if isinstance(source, Query) and source.grouping is not None:
        places = {o.column: i for i, o in enumerate(source.outputs) if isinstance(o, GroupRef)}
        keys = range(len(source.grouping.keys))
        return {places[k] for k in keys} if all(k in places for k in keys) else None
    return None


def splits(call: AggregateCall) -> bool:
    """Whether an aggregate can be combined from values that each of its relations provides separately."""
    if call.filter is not None and not _is_local(call.filter):
        return False
    if not call.args or function_of(call).counts:
        return all(_is_local(a) or (products(a) is not None and _is_checked(a, call)) for a in call.args)
    if is_exact(call.args[0].type):
        return products(call.args[0]) is not None and _is_checked(call.args[0], call)
    if function_of(call).adds and double_factors(call.args[0]) is not None:
        return True
    return all(map(_is_local, call.args)) and len(frozenset().union(*map(references, call.args))) <= 1


def multiplies(call: AggregateCall) -> bool:
    """Whether a MIN or MAX is of a product, each factor of one relation; only plans have such."""
    parts = taken_apart(call.args[0])
    return call.filter is None and len(parts) > 1 and all(map(_is_local, parts))


def _is_checked(e: Expression, call: AggregateCall) -> bool:
    """Whether all values of a sum of products are known to fit their types."""
    doubtful = unproven(e)
    if function_of(call).counts and call.filter is not None and doubtful:
        return False
    return all(is_checkable(u.type) for u in doubtful)


def is_checkable(type_: Type) -> bool:
    return is_exact(type_) and limits(type_)[1] < 10 ** (DIGITS - 1)


def _is_local(e: Expression) -> bool:
    return len(references(e)) <= 1 and is_total(e)
