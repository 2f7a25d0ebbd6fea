"""Updates the nullability of columns, once it is known which joins are LEFT.

Inside blocks a column is as nullable as its relation's field, since predicates there see real rows. Above them a LEFT
JOIN may have filled it with NULLs.
"""

from __future__ import annotations

from dataclasses import replace

from freshet.aggregates import function_of
from freshet.logical.query import Query
from freshet.logical.rewrite.blocks import Again, map_block_expressions, map_upper_expressions, optional
from freshet.scalar import functions
from freshet.scalar.expression import ColumnRef, Expression, GroupRef


def settle_nullability(query: Query, again: Again) -> Query:
    def inside(expression: Expression) -> Expression:
        if not isinstance(expression, ColumnRef):
            return expression
        field = query.relations[expression.relation].fields[expression.column]
        return expression if expression.nullable == field.nullable else replace(expression, nullable=field.nullable)

    missing = optional(query.block)

    def above(expression: Expression) -> Expression:
        if isinstance(expression, ColumnRef) and expression.relation in missing:
            return replace(expression, nullable=True)
        return inside(expression)

    changed = map_upper_expressions(replace(query, block=map_block_expressions(query.block, inside)), above)
    grouping = changed.grouping
    if grouping is not None:
        row = [functions.nullable(k) for k in grouping.keys]
        row += [function_of(a).nullable(a, bool(grouping.keys)) for a in grouping.aggregates]

        def grouped(expression: Expression) -> Expression:
            if isinstance(expression, GroupRef):
                return replace(expression, nullable=row[expression.column])
            return expression

        changed = map_upper_expressions(changed, grouped)
    pairs = zip(changed.fields, changed.outputs, strict=True)
    return replace(changed, fields=tuple(replace(f, nullable=functions.nullable(o)) for f, o in pairs))
