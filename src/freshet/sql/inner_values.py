"""What a subquery computes itself, what is computed above it, and what that is where it has no row."""

from __future__ import annotations

from freshet.aggregates import function_of
from freshet.logical.references import OuterRef, ValueRef, outer_columns
from freshet.scalar import functions, types
from freshet.scalar.expression import (
    AggregateCall,
    Call,
    ColumnRef,
    Expression,
    GroupRef,
    Literal,
    Reference,
    transform,
)
from freshet.scalar.functions.compiled import fold, fold_null, unreached


def split_values(expressions: list[Expression]) -> tuple[list[Expression], list[Expression]]:
    """What a subquery computes itself, and its values over that: what reads the query around is computed there."""
    parts: list[Expression] = []

    def part(e: Expression) -> ValueRef:
        if e not in parts:
            parts.append(e)
        return ValueRef(e.type, parts.index(e), getattr(e, "name", "value"), functions.nullable(e))

    def own(e: Expression) -> Expression:
        return part(e) if isinstance(e, Reference) and not isinstance(e, OuterRef) else e

    values = [transform(e, own) if outer_columns([e]) else part(e) for e in expressions]
    return parts or [Literal(types.INT, 1)], values


def on_no_rows(
    expression: Expression, keys: list[Expression], aggregates: list[AggregateCall], lent: dict[OuterRef, ColumnRef]
) -> Expression:
    """An expression over the group's row where there are no rows: COUNT is 0, what was lent is what it is around, and
    everything else is NULL."""
    asked = {mine: theirs for theirs, mine in lent.items()}

    def change(e: Expression) -> Expression:
        if isinstance(e, GroupRef):
            if e.column < len(keys):
                read = keys[e.column]
                found = asked.get(read) if isinstance(read, ColumnRef) else None
                return found or Literal(e.type, None)
            return Literal(e.type, function_of(aggregates[e.column - len(keys)]).empty)
        if isinstance(e, Call):
            with unreached():  # what has no value fails where it is read
                return fold(fold_null(e))
        return e

    return transform(expression, change)
