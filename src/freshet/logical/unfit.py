"""Rewrites a query that has an arm without a place in the join tree, to be planned again: the arm's inputs, or its
matches, are stored. If NULL equals NULL in a cycle, one equality becomes two, because bags hold keys without NULLs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from freshet.errors import UnsupportedError
from freshet.logical.attributes import equality
from freshet.logical.query import Arm, Block, Query
from freshet.logical.rewrite import finish
from freshet.logical.rewrite.store import store_block, store_matches
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions import build, nullable


@dataclass(frozen=True, slots=True)
class Unfit:
    """An arm that has no place in the tree, and the reason. `scattered`: its correlated values belong to several
    relations of its block."""

    why: str
    block: Block
    arm: Arm
    scattered: bool = False


def fitted(query: Query, unfit: Unfit) -> Query:
    """An equivalent query in which the arm has a place; UnsupportedError if there is none."""
    if unfit.scattered and len(unfit.block.relations) > 1:
        changed = store_block(query, unfit.block, (), finish)
    elif unfit.scattered:
        raise UnsupportedError(unfit.why)
    else:
        changed = store_matches(query, unfit.block, unfit.arm, finish)
    return finish(changed)


#: A value of each type whose literals are not whole numbers.
_NOTHING: dict[str, str | bytes | float] = {"STRING": "", "BINARY": b"", "FLOAT": 0.0, "DOUBLE": 0.0}


def without_null_safe(query: Query) -> Query:
    """`a IS NOT DISTINCT FROM b` as `(a IS NULL) = (b IS NULL) AND COALESCE(a, 0) = COALESCE(b, 0)`."""
    block = query.block
    return replace(query, block=replace(block, predicates=tuple(p for each in block.predicates for p in _plain(each))))


def _plain(predicate: Expression) -> Iterator[Expression]:
    pair = equality(predicate)
    if pair is None or not pair[2]:
        yield predicate
        return
    assert isinstance(predicate, Call)
    a, b = predicate.args
    nothing = Literal(a.type, _NOTHING.get(a.type.name, 0))
    if nullable(a) or nullable(b):
        yield build("eq", (build("is_null", (a,)), build("is_null", (b,))))
    yield build("eq", (build("coalesce", (a, nothing)), build("coalesce", (b, nothing))))
