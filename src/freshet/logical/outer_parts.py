"""LEFT JOINs of a query that is grouped in parts: which of them can become one row of totals for each key, and the
value of totals where no row matches.

A LEFT JOIN whose columns only aggregates read gives each row it is attached to its matches, or one row of NULLs. Its
totals by the columns it is joined by are one row or none; none stands for the aggregates of one row of NULLs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from freshet.aggregates import function_of
from freshet.logical.attributes import equality
from freshet.logical.kinds import JoinKind
from freshet.logical.query import Arm, Block, Query
from freshet.logical.separable import asked, identity, splits
from freshet.scalar.expression import AggregateCall, Call, ColumnRef, Expression, Literal, references, transform
from freshet.scalar.functions import build, cast
from freshet.scalar.functions.compiled import fold, fold_null, is_total
from freshet.scalar.types import BIGINT


@dataclass(slots=True, eq=False)
class OuterJoin:
    """A LEFT JOIN that can be grouped: `keys` of its block equal `meets` of the relation `parent`."""

    arm: Arm
    parent: int
    keys: list[Expression] = field(default_factory=list)
    meets: list[Expression] = field(default_factory=list)
    own: list[Expression] = field(default_factory=list)  # conditions on its block alone

    @property
    def relations(self) -> list[int]:
        return [*self.arm.block.within()]

    @property
    def alone(self) -> Block:
        """Its block without what it is joined by."""
        return replace(self.arm.block, predicates=tuple(self.own))

    @property
    def top(self) -> int:
        return self.arm.block.relations[0]

    def multiplies(self, query: Query) -> bool:
        """Whether a row may have many matches."""
        return len(self.arm.block.relations) > 1 or not _is_found(query, self.top, self.keys)

    def is_shared(self, query: Query, grouped: Sequence[int] | None = None) -> bool:
        """Whether many rows may have the same match; the parent may be grouped by columns."""
        return not _is_found(query, self.parent, self.meets, grouped)


def _is_found(query: Query, relation: int, values: Sequence[Expression], grouped: Sequence[int] | None = None) -> bool:
    own = identity(query.relations[relation]) if grouped is None else {*grouped}
    return own is not None and own <= {v.column for v in values if isinstance(v, ColumnRef)}


def outer_joins(query: Query) -> Iterator[OuterJoin]:
    """Those of a query's LEFT JOINs that can be grouped."""
    assert query.grouping is not None
    arms = query.block.arms
    for arm in arms:
        if arm.kind is not JoinKind.LEFT:
            continue
        within = {*arm.block.within()}
        others = [*query.where, *query.grouping.keys, *(p for a in arms if a is not arm for p in asked(a.block))]
        if any(references(e) & within for e in others):
            continue
        if all(_is_carried(call, within) for call in query.grouping.aggregates):
            made = _attached(arm, {*query.block.relations}, within)
            if made is not None:
                yield made


def _is_carried(call: AggregateCall, within: set[int]) -> bool:
    """Whether an aggregate can be computed from totals of these relations."""
    read = {r for e in call.reads for r in references(e)}
    if not read & within:
        return True
    if call.distinct:
        return False
    if function_of(call).idempotent:
        is_end = function_of(call).greatest is not None and function_of(call).of_itself
        return is_end and len(read) == 1 and all(map(is_total, call.reads))
    return splits(call)


def _attached(arm: Arm, outside: set[int], within: set[int]) -> OuterJoin | None:
    block = arm.block
    made = OuterJoin(arm, -1)
    for p in block.predicates:
        if references(p) <= within:
            if len(references(p)) > 1 and not is_total(p):
                return None
            made.own.append(p)
            continue
        pair = equality(p)
        if pair is None or pair[2]:
            return None
        key, meets = pair[:2] if references(pair[0]) <= within else (pair[1], pair[0])
        if not (references(key) <= {*block.relations} and references(meets) <= outside and is_total(key)):
            return None
        made.keys.append(key)
        made.meets.append(meets)
    if any(not references(p) <= within or not is_total(p) for a in block.arms for p in asked(a.block)):
        return None
    parents = {r for e in made.meets for r in references(e)}
    if len(parents) != 1:
        return None
    (made.parent,) = parents
    return made


def renumbered(block: Block, number: dict[int, int]) -> Block:
    """A block whose relations have other numbers."""

    def there(e: Expression) -> Expression:
        return replace(e, relation=number[e.relation]) if isinstance(e, ColumnRef) else e

    arms = tuple(Arm(a.kind, renumbered(a.block, number)) for a in block.arms)
    return Block(tuple(number[r] for r in block.relations), tuple(transform(p, there) for p in block.predicates), arms)


# Without a match --------------------------------------------------------------------------------------------------


def or_nothing(call: AggregateCall, value: Expression, count: Expression, within: Sequence[int]) -> Expression:
    """An aggregate of the rows that match, or where these are none of one row of NULLs. `value`: that of the totals,
    `count`: the number of rows there."""
    nothing = _of_nothing(call, {*within})
    if call.function == "count" and call.filter is None:
        return build("coalesce", (value, nothing))
    if isinstance(nothing, Literal) and nothing.value is None:
        return value
    return Call(call.type, "case", (build("is_null", (count,)), nothing, value))


def _of_nothing(call: AggregateCall, within: set[int]) -> Expression:
    """An aggregate of one row on which all columns of these relations are NULL."""

    def null(e: Expression) -> Expression:
        return Literal(e.type, None) if isinstance(e, ColumnRef) and e.relation in within else fold(fold_null(e))

    call = call.mapped(lambda e: transform(e, null))
    if function_of(call).counts:
        one, none = Literal(BIGINT, 1), Literal(BIGINT, 0)
        return one if call.filter is None else _either(call.filter, one, none)
    value = cast(call.args[0], call.type)
    if call.term:  # what the rounded value leaves
        known = build("is_not_null", (value,))
        value = _either(known, Literal(call.type, 0.0), Literal(call.type, None))
    return value if call.filter is None else _either(call.filter, value, Literal(call.type, None))


def _either(condition: Expression, value: Expression, otherwise: Expression) -> Expression:
    if isinstance(condition, Literal):
        return value if condition.value else otherwise
    return Call(value.type, "case", (condition, value, otherwise))
