"""What to do with what has no place in the join tree, before planning again. For an arm, store what it reads, or what
it finds. Where NULL equals NULL in a cycle, say by two equalities what one cannot: bags hold keys without NULLs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from freshet.errors import UnsupportedError
from freshet.plans.attributes import equality
from freshet.sql.bound import Arm, Block, Query
from freshet.sql.expression import Call, Expression, Literal
from freshet.sql.functions import build, nullable
from freshet.sql.rewrite.number_relations import numbered
from freshet.sql.rewrite.settle_nullability import settled
from freshet.sql.rewrite.store import store_block, store_matches


class UnfitError(UnsupportedError):
    """An arm without a place. `scattered`: what it reads is spread over several relations of the block it hangs on."""

    def __init__(self, message: str, block: Block, arm: Arm, scattered: bool = False) -> None:
        super().__init__(message)
        self.block, self.arm, self.scattered = block, arm, scattered


def made_fit(query: Query, unfit: UnfitError) -> Query:
    if unfit.scattered and len(unfit.block.relations) > 1:
        changed = store_block(query, unfit.block, (), finished)
    elif unfit.scattered:
        raise unfit
    else:
        changed = store_matches(query, unfit.block, unfit.arm, finished)
    return finished(changed)


class NullsInCycleError(Exception):
    """NULL equals NULL in an equality that closes a cycle."""


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
    kind = a.type.name
    nothing = Literal(a.type, "" if kind == "STRING" else 0.0 if a.type.is_fraction else 0)
    if nullable(a) or nullable(b):
        yield build("eq", (build("is_null", (a,)), build("is_null", (b,))))
    yield build("eq", (build("coalesce", (a, nothing)), build("coalesce", (b, nothing))))


def finished(query: Query) -> Query:
    return numbered(settled(query))
