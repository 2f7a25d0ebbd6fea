"""Subqueries as values: scalar ones wherever an expression may stand, and EXISTS, IN, ANY and ALL under OR, in CASE or
in a select list.

A subquery's rows are attached to the block as a LEFT arm joined on their keys, so every row around it reads the
subquery's value or NULL. Comparisons with NULLs in them are three-valued: x op ANY (Q) is TRUE if some value of Q
compares, else NULL if x or some value is NULL and Q has rows, else FALSE; x op ALL (Q) is NOT (x opposite ANY (Q)).
Several values are IN (Q) where a row of Q equals them in all columns; where NULLs leave open whether some row does,
that is NULL, else FALSE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from freshet.logical.apply import Apply, ApplyKind
from freshet.logical.kinds import JoinKind
from freshet.logical.query import Arm, Block, Field, Query, Relation, key
from freshet.logical.references import OuterRef, ValueRef
from freshet.logical.rewrite.blocks import NAMELESS
from freshet.logical.rewrite.decorrelate.inner import (
    InnerSelect,
    aggregated,
    distinct,
    existing,
    inner_of,
    single_valued,
)
from freshet.logical.rewrite.decorrelate.place import Place
from freshet.logical.rewrite.decorrelate.split import is_grand
from freshet.scalar import functions, types
from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.expression import FALSE, NULL, TRUE, Call, Expression, Literal, transform
from freshet.scalar.functions import build


def with_values(place: Place, expression: Expression) -> Expression:
    """An expression that reads the values of its subqueries from relations joined to the place."""

    def change(e: Expression) -> Expression:
        if not isinstance(e, Apply):
            return e
        if e not in place.values:
            place.values[e] = with_values(place, _value(place, e))
        return place.values[e]

    return transform(expression, change)


def _value(place: Place, apply: Apply) -> Expression:
    if apply.kind is ApplyKind.EXISTS:
        return _exists(place, apply)
    if apply.kind is ApplyKind.SCALAR:
        return _scalar(place, apply)
    if apply.kind is ApplyKind.ANY:
        return _any(place, apply)
    return build("not", (_any(place, replace(apply, kind=ApplyKind.ANY, comparison=apply.comparison.negated)),))


def _scalar(place: Place, apply: Apply) -> Expression:
    inner = inner_of(place, apply)
    if not inner.single:
        inner = single_valued(inner)
    return inner.value(0, _attach(place, inner))


def _attach(place: Place, inner: InnerSelect, more: Sequence[tuple[Expression, int]] = ()) -> int:
    """Joins a subquery to the place: as a LEFT arm by its keys, and by further columns that must equal a value."""
    number = place.add(inner.query)
    if inner.sure:
        place.relations.append(number)
        return number
    on = inner.on(number)
    on += [build("eq", (value, key(number, i, inner.query.fields[i]))) for value, i in more]
    place.arms.append(Arm(JoinKind.LEFT, Block((number,), tuple(on))))
    return number


def _exists(place: Place, apply: Apply) -> Expression:
    query = existing(apply.query)
    if is_grand(query) and isinstance(query, Query) and query.grouping is not None and query.grouping.having is None:
        return TRUE
    inner = inner_of(place, apply)
    if inner.grand:  # HAVING may take its row away
        return inner.value(len(inner.split.values) - 1, _attach(place, inner))
    found = distinct(inner, Literal(types.INT, 1))
    return build("is_not_null", (found.column(0, _attach(place, found)),))


def _any(place: Place, apply: Apply) -> Expression:
    values, comparison = apply.values, apply.comparison
    if len(values) > 1 and comparison is not ComparisonOperator.EQUAL:
        apply.refuse("comparing several values by other than IN or = ANY", "compare them one by one")
    inner = inner_of(place, apply)
    if inner.grand:
        return _compared_row(place, inner)
    if len(values) > 1:
        return build("case", (_row_in(apply, might=False), TRUE, _row_in(apply, might=True), NULL, FALSE))
    (value,), item = values, inner.split.values[0]
    assert isinstance(item, ValueRef)
    column = key(0, item.column, inner.query.fields[item.column])
    if comparison is ComparisonOperator.EQUAL:
        probe = build("eq", (value, column))
        same = probe.args[1] if hasattr(probe, "args") and len(probe.args) == 2 else column
        found = distinct(inner, same)
        number = _attach(place, found, [(value, 0)])
        holds = build("is_not_null", (found.column(0, number),))
        if not functions.nullable(value) and not column.nullable:
            return holds
    calls: list[tuple[str, tuple[Expression, ...]]]
    calls = [("count", ()), ("count", (column,) if column.nullable else ())]
    if comparison is not ComparisonOperator.EQUAL:
        calls += [("min", (column,)), ("max", (column,))]
    summed = aggregated(inner, calls)
    number = _attach(place, summed)
    rows, known, *ends = (summed.column(i, number) for i in range(len(calls)))
    if comparison is ComparisonOperator.UNEQUAL:
        holds = build("or", [build("ne", (value, e)) for e in ends])
    elif comparison is not ComparisonOperator.EQUAL:
        least, greatest = ends
        holds = build(comparison.function, (value, greatest if comparison.is_upward else least))
    unknown = build("or", [build("lt", (known, rows)), build("is_null", (value,))])
    nothing = build("eq", (rows, Literal(types.BIGINT, 0))) if summed.sure else build("is_null", (rows,))
    return build("case", (nothing, FALSE, holds, TRUE, unknown, NULL, FALSE))


def as_condition(predicate: Expression) -> Expression:
    """A predicate that is true where the given one is; where that is NULL it may be FALSE. So rows that might equal
    several values need not be looked for next to those that do, nor the other way round under NOT."""
    if isinstance(predicate, Call) and predicate.name in ("and", "or"):
        return build(predicate.name, tuple(map(as_condition, predicate.args)))
    negated = isinstance(predicate, Call) and predicate.name == "not"
    apply = predicate.args[0] if isinstance(predicate, Call) and negated else predicate
    if not isinstance(apply, Apply) or apply.kind is not ApplyKind.ANY or len(apply.values) == 1:
        return predicate
    if apply.comparison is not ComparisonOperator.EQUAL or is_grand(apply.query):
        return predicate
    found = _row_in(apply, might=negated)
    return build("not", (found,)) if negated else found


def _row_in(apply: Apply, might: bool) -> Apply:
    """EXISTS of the rows that equal several values, or might."""
    rows, outer = apply.query, apply.outer
    conditions: list[Expression] = []
    for i, (value, field) in enumerate(zip(apply.values, rows.fields, strict=True)):
        nullable = functions.nullable(value)
        pair = OuterRef(value.type, len(outer) + i, getattr(value, "name", "value"), nullable), key(0, i, field)
        equal = build("eq", pair)
        unknown = [build("is_null", (e,)) for e in pair if might and functions.nullable(e)]
        conditions.append(build("or", (equal, *unknown)) if unknown else equal)
    one = Literal(types.INT, 1)
    fields = (Field("one", one.type, False),)
    block = Block((0,), tuple(conditions))
    query = Query((Relation(NAMELESS, rows, rows.fields),), block, (), None, (one,), fields)
    args, name = (*outer, *apply.values), f"{apply.name} {'unless FALSE' if might else 'is TRUE'}"
    return replace(apply, kind=ApplyKind.EXISTS, query=query, args=args, name=name, nullable=False, compared=0)


def _compared_row(place: Place, inner: InnerSelect) -> Expression:
    """Values compared with the one row that aggregates without GROUP BY have, whatever they were made from."""
    apply, number = inner.apply, _attach(place, inner)
    pairs = [build(apply.comparison.function, (v, inner.value(i, number))) for i, v in enumerate(apply.values)]
    compared = pairs[0] if len(pairs) == 1 else build("and", pairs)
    if not inner.split.kept:
        return compared
    return build("case", (inner.value(len(inner.split.values) - 1, number), compared, FALSE))
