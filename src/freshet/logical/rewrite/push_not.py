"""NOT moves inward to where it meets a comparison: NOT (a AND b) is NOT a OR NOT b; NOT a < b is a >= b.

Each step keeps TRUE, FALSE and NULL apart as they were, so it holds in three-valued logic.
"""

from __future__ import annotations

from dataclasses import replace

from freshet.logical.query import Query
from freshet.logical.rewrite.blocks import Again, map_predicates
from freshet.scalar.expression import Call, Expression
from freshet.scalar.functions.registry import function_of


def push_not(query: Query, again: Again) -> Query:
    return map_predicates(query, lambda predicates: [push(p, False) for p in predicates])


def push(expression: Expression, negated: bool) -> Expression:
    if isinstance(expression, Call):
        name = expression.name
        if name == "not":
            return push(expression.args[0], not negated)
        if name in ("and", "or"):
            args = tuple(push(a, negated) for a in expression.args)
            swapped = {"and": "or", "or": "and"}[name] if negated else name
            return replace(expression, name=swapped, args=args)
        if negated and (opposite := function_of(expression).opposite):
            return replace(expression, name=opposite)
    return Call(expression.type, "not", (expression,)) if negated else expression
