"""Subqueries become joins: the first pass, on the way down from a select to what it reads.

WHERE and ON have their conditions one by one. EXISTS, IN, ANY and ALL alone among them become arms. EXISTS (SELECT ...
WHERE p) becomes a semi arm with predicates p; NOT EXISTS an anti arm. x op ANY (SELECT y ...) is EXISTS with x op y
added, true where ANY is true; it differs only between FALSE and NULL, which a condition treats alike. x op ALL (SELECT
y ...) holds where no y is found that does not compare, no y that is NULL, and, if x is NULL, no row at all: an anti arm
for each. x IN (...) is = ANY, x NOT IN (...) is <> ALL. All other subqueries are read as values (`values`).

A plain select becomes the block of its arm, which reads the select around it directly. Any other query stands in it as
a relation, found by keys (`keyed`). It may read subqueries of its own, which are taken out when it is rewritten itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from freshet.aggregates import function_of
from freshet.logical.apply import (
    Apply,
    ApplyKind,
    applies,
    block_expressions,
    has_apply,
    outer_columns,
    outer_of,
    own_expressions,
    sources,
)
from freshet.logical.kinds import JoinKind
from freshet.logical.query import Arm, Block, Field, Grouping, Query, Relation, key
from freshet.logical.references import OuterRef
from freshet.logical.rewrite.blocks import conjuncts, map_block_expressions, map_blocks
from freshet.logical.rewrite.decorrelate.inner import existing, inner_of
from freshet.logical.rewrite.decorrelate.keyed import by_keys, tests
from freshet.logical.rewrite.decorrelate.place import Domain, Place
from freshet.logical.rewrite.decorrelate.split import is_grand
from freshet.logical.rewrite.decorrelate.values import as_condition, with_values
from freshet.scalar import functions
from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.describe import describe, describe_aggregate
from freshet.scalar.expression import Call, ColumnRef, Expression, GroupRef, transform
from freshet.scalar.functions import build

#: Returns the predicates that connect an arm, from the columns of the subquery.
Connect = Callable[[list[Expression]], list[Expression]]


def decorrelate(query: Query) -> Query:
    """A select without subqueries in its expressions."""
    if not any(map(has_apply, own_expressions(query))):
        return query
    if query.grouping is not None and any(map(has_apply, _above_groups(query))):
        return decorrelate(_over_groups(query))
    place = _filled(Place(list(query.relations)), query.block)
    grouping = query.grouping
    if grouping is not None:
        keys = tuple(with_values(place, k) for k in grouping.keys)
        calls = tuple(c.mapped(lambda e: with_values(place, e)) for c in grouping.aggregates)
        grouping = Grouping(keys, calls, grouping.having)
    outputs = tuple(with_values(place, e) for e in query.outputs)
    return replace(query, relations=tuple(place.known), block=place.block(), grouping=grouping, outputs=outputs)


def _above_groups(query: Query) -> list[Expression]:
    assert query.grouping is not None
    return [*query.outputs, *([] if query.grouping.having is None else [query.grouping.having])]


def _over_groups(query: Query) -> Query:
    """A grouping whose rows are joined to subqueries: the groups are a relation of the select that reads both."""
    grouping = query.grouping
    assert grouping is not None
    row: list[Expression] = []
    for i, k in enumerate(grouping.keys):
        row.append(GroupRef(k.type, i, describe(k), functions.nullable(k)))
    for call in grouping.aggregates:
        nullable = function_of(call).nullable(call, bool(grouping.keys))
        row.append(GroupRef(call.type, len(row), describe_aggregate(call), nullable))
    fields = tuple(Field(describe(e), e.type, functions.nullable(e)) for e in row)
    below = replace(query, grouping=replace(grouping, having=None), outputs=tuple(row), fields=fields, distinct=False)

    def moved(e: Expression) -> Expression:
        return ColumnRef(e.type, 0, e.column, e.name, e.nullable) if isinstance(e, GroupRef) else e

    conditions = () if grouping.having is None else tuple(transform(c, moved) for c in conjuncts(grouping.having))
    outputs = tuple(transform(e, moved) for e in query.outputs)
    relation = Relation("groups", below, fields)
    return Query((relation,), Block((0,), conditions), (), None, outputs, query.fields, query.distinct)


def _filled(place: Place, block: Block) -> Place:
    """Creates the place for a block, and adds its conditions as arms or predicates."""
    place.relations += block.relations
    for arm in block.arms:
        place.arms.append(Arm(arm.kind, _filled(Place(place.known, place), arm.block).block()))
    for predicate in block.predicates:
        _add_condition(place, predicate)
    return place


def _join_rows(place: Place, apply: Apply) -> None:
    """LATERAL: its relation has the query's rows by keys, which must equal what the query reads of the block."""
    number = apply.relation
    assert number is not None
    apply = replace(apply, args=tuple(with_values(place, a) for a in apply.args))
    found, relation = by_keys(apply.query, Domain(place, apply)), place.known[number]
    shown, outer = len(relation.fields), apply.outer
    pairs = zip(relation.fields, found.query.fields, strict=False)
    fields = (*(replace(f, name=was.name) for was, f in pairs), *found.fields)
    place.known[number] = Relation(relation.alias, found.query, fields)
    keys = (key(number, shown + i, f) for i, f in enumerate(found.fields))
    for test in tests(found.correlated, keys):
        place.predicates.append(transform(test, lambda e: outer[e.column] if isinstance(e, OuterRef) else e))


def _add_condition(place: Place, predicate: Expression) -> None:
    if isinstance(predicate, Apply) and predicate.kind is ApplyKind.LATERAL:
        _join_rows(place, predicate)
        return
    apply, negated = _alone(predicate)
    if apply is None:
        place.predicates.append(with_values(place, as_condition(predicate)))
        return
    apply = replace(apply, args=tuple(with_values(place, a) for a in apply.args))
    if apply.kind is ApplyKind.EXISTS:
        _attach(place, JoinKind.ANTI if negated else JoinKind.SEMI, apply, lambda found: [])
        return
    opposite = apply.comparison.negated
    every = apply.kind is ApplyKind.ALL
    if every != negated:
        _attach_all(place, apply, opposite if every else apply.comparison)
    else:
        _attach(place, JoinKind.SEMI, apply, _comparing(apply, opposite if negated else apply.comparison))


def _alone(predicate: Expression) -> tuple[Apply | None, bool]:
    """The subquery of a condition that becomes an arm, and whether it is negated. Aggregates without GROUP BY have one
    row at most, so they are read as values."""
    negated = False
    while isinstance(predicate, Call) and predicate.name == "not":
        predicate, negated = predicate.args[0], not negated
    alone = (ApplyKind.EXISTS, ApplyKind.ANY, ApplyKind.ALL)
    if not isinstance(predicate, Apply) or predicate.kind not in alone or is_grand(predicate.query):
        return None, negated
    return predicate, negated


def _attach(place: Place, kind: JoinKind, apply: Apply, connect: Connect) -> None:
    """Attaches the arm of one subquery."""
    query = existing(apply.query) if apply.kind is ApplyKind.EXISTS else apply.query
    arm = Place(place.known, place)
    if isinstance(query, Query) and _is_plain(query):
        found = _inlined(arm, query, apply.outer)
    else:
        inner = inner_of(place, apply)
        number = arm.add(inner.query)
        arm.relations.append(number)
        arm.predicates += inner.on(number)
        found = [with_values(arm, inner.value(i, number)) for i in range(len(inner.split.values))]
    arm.predicates += connect(found)
    place.arms.append(Arm(kind, arm.block()))


def _is_plain(query: Query) -> bool:
    """Whether a select can be the block of an arm: an arm reads the block right above it, and of what is below it only
    semi arms, which are part of it, may read that too."""
    if query.grouping is not None or any(outer_columns(source) for source in sources(query)):
        return False
    if any(outer_of(applies(e)) for e in query.outputs):
        return False
    if any(a.kind is ApplyKind.LATERAL for e in block_expressions(query.block) for a in applies(e)):
        return False  # its relation has a number in this select
    return _reads_directly(query.block)


def _reads_directly(block: Block) -> bool:
    for predicate in block.predicates:
        apply, negated = _alone(predicate)
        is_semi = apply is not None and (apply.kind is ApplyKind.ALL) == negated
        if not is_semi and outer_of(applies(predicate)):
            return False
    return all(
        _reads_directly(arm.block) if arm.kind is JoinKind.SEMI else not outer_of(block_expressions(arm.block))
        for arm in block.arms
    )


def _inlined(arm: Place, query: Query, outer: Sequence[Expression]) -> list[Expression]:
    """Makes a select the block of an arm; returns what it shows."""
    base = len(arm.known)
    arm.known += query.relations

    def moved(e: Expression) -> Expression:
        if isinstance(e, OuterRef):
            return outer[e.column]
        return replace(e, relation=e.relation + base) if isinstance(e, ColumnRef) else e

    block = map_block_expressions(query.block, moved)
    _filled(arm, map_blocks(block, lambda b: replace(b, relations=tuple(r + base for r in b.relations))))
    return [with_values(arm, transform(e, moved)) for e in query.outputs]


def _attach_all(place: Place, apply: Apply, opposite: ComparisonOperator) -> None:
    """ALL: no row may satisfy the opposite comparison, or have an unknown result."""
    wanted, nullable = apply.values, [f.nullable for f in apply.query.fields]

    def is_null(value: Expression) -> Expression:
        return build("is_null", (value,))

    def compare(found: list[Expression]) -> list[Expression]:
        plain = _comparing(apply, opposite)(found)
        if len(found) == 1 or not (any(nullable) or any(map(functions.nullable, wanted))):
            return plain
        rows = zip(plain, wanted, found, strict=True)  # every part must compare, or be unknown
        return [build("or", (p, is_null(mine), is_null(theirs))) for p, mine, theirs in rows]

    _attach(place, JoinKind.ANTI, apply, compare)
    if len(wanted) == 1 and nullable[0]:
        _attach(place, JoinKind.ANTI, apply, lambda found: [is_null(found[0])])
    if len(wanted) == 1 and functions.nullable(wanted[0]):
        _attach(place, JoinKind.ANTI, apply, lambda found: [is_null(wanted[0])])


def _comparing(apply: Apply, comparison: ComparisonOperator) -> Connect:
    return lambda found: [build(comparison.function, pair) for pair in zip(apply.values, found, strict=True)]
