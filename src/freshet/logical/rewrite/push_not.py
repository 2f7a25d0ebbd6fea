"""NOT moves inward to where it meets a comparison: NOT (a AND b) is NOT a OR NOT b; NOT a < b is a >= b.

Each step keeps TRUE, FALSE and NULL apart as they were, so it holds in three-valued logic.
"""

from __future__ import annotations

from dataclasses import replace

from freshet.logical.query import Query
from freshet.logical.rewrite.blocks import Again, map_predicates
from freshet.scalar.expression import Call, Expression

_OPPOSITE = {
    "eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "is_null": "is_not_null",
    "is_not_null": "is_null", "not_distinct": "distinct_from", "distinct_from": "not_distinct",
}  # fmt: skip


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
        if negated and name in _OPPOSITE:
            return replace(expression, name=_OPPOSITE[name])
    return Call(expression.type, "not", (expression,)) if negated else expression
