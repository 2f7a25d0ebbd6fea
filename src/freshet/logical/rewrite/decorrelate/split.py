"""Splits a subquery into what it computes itself, what the outer query computes from that, and the value if it has no
row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from freshet.aggregates import function_of
from freshet.logical.apply import has_apply, outer_of
from freshet.logical.query import AnyQuery, Field, Query
from freshet.logical.references import OuterRef, ValueRef
from freshet.scalar import functions, types
from freshet.scalar.describe import describe
from freshet.scalar.expression import (
    FALSE,
    TRUE,
    AggregateCall,
    Call,
    Expression,
    GroupRef,
    Literal,
    Reference,
    transform,
)
from freshet.scalar.functions.compiled import fold, fold_null, unreached


@dataclass(frozen=True, slots=True)
class SplitSelect:
    """`values`: what the select list shows, over the query's columns (`ValueRef`) and the row around it (`OuterRef`).
    `empty`, for aggregates without GROUP BY: the values over no rows; then the query's last column is never NULL if
    some of them is not. `kept`: a last value says whether HAVING holds."""

    query: AnyQuery
    values: tuple[Expression, ...]
    empty: tuple[Expression, ...] = ()
    kept: bool = False


def is_grand(query: AnyQuery) -> bool:
    """Whether a query is one group of all its rows: aggregates or HAVING without GROUP BY."""
    return isinstance(query, Query) and query.grouping is not None and not query.grouping.keys


def split_values(query: AnyQuery, around: bool = True) -> SplitSelect:
    """`around`: whether expressions that read the outer row may be computed there."""
    if not isinstance(query, Query):
        return SplitSelect(query, tuple(ValueRef(f.type, i, f.name, f.nullable) for i, f in enumerate(query.fields)))
    grand, outputs = is_grand(query), list(query.outputs)
    empty, kept = list[Expression](), False
    if grand and query.grouping is not None:
        having = query.grouping.having
        if having is not None:
            outputs = [functions.build("case", (having, e, Literal(e.type, None))) for e in outputs]
            outputs.append(functions.build("case", (having, TRUE, FALSE)))
            query, kept = replace(query, grouping=replace(query.grouping, having=None)), True
        empty = [_over_no_rows(e, query.grouping.aggregates) for e in outputs if query.grouping is not None]
    parts, values = _parts(outputs, around and (grand or not query.distinct))
    if any(e != Literal(e.type, None) for e in empty):
        parts.append(Literal(types.INT, 1))
    fields = tuple(Field(describe(e), e.type, functions.nullable(e)) for e in parts)
    query = replace(query, outputs=tuple(parts), fields=fields, distinct=query.distinct and not grand)
    return SplitSelect(query, tuple(values), tuple(empty), kept)


def _parts(outputs: Sequence[Expression], around: bool) -> tuple[list[Expression], list[Expression]]:
    parts: list[Expression] = []

    def part(e: Expression) -> ValueRef:
        if e not in parts:
            parts.append(e)
        return ValueRef(e.type, parts.index(e), getattr(e, "name", "value"), functions.nullable(e))

    def own(e: Expression) -> Expression:
        return part(e) if isinstance(e, Reference) and not isinstance(e, OuterRef) else e

    values = [transform(e, own) if around and outer_of([e]) and not has_apply(e) else part(e) for e in outputs]
    return parts or [Literal(types.INT, 1)], values


def _over_no_rows(expression: Expression, aggregates: Sequence[AggregateCall]) -> Expression:
    """An expression over the row of the only group, where there are no rows: what reads the row around stays."""

    def change(e: Expression) -> Expression:
        if isinstance(e, GroupRef):
            return Literal(e.type, function_of(aggregates[e.column]).empty)
        if isinstance(e, Call):
            with unreached():  # what has no value fails where it is read
                return fold(fold_null(e))
        return e

    return transform(expression, change)
