"""Conjuncts common to all sides of an OR come out of it: (a AND b) OR (a AND c) is a AND (b OR c).

A join condition repeated in every branch (TPC-H Q19) becomes one that an edge can use.
"""

from __future__ import annotations

from freshet.logical.query import Query
from freshet.logical.rewrite.blocks import Again, conjuncts, flat, map_predicates
from freshet.scalar import types
from freshet.scalar.expression import Call, Expression


def factor_or(query: Query, again: Again) -> Query:
    return map_predicates(query, lambda predicates: [factor(p) for p in predicates])


def factor(expression: Expression) -> Expression:
    if isinstance(expression, Call) and expression.name == "and":
        return _join("and", [factor(a) for a in expression.args])
    if not (isinstance(expression, Call) and expression.name == "or"):
        return expression
    branches = [dict.fromkeys(conjuncts(factor(b))) for b in flat(expression, "or")]
    common = [c for c in branches[0] if all(c in branch for branch in branches[1:])]
    rests = [[c for c in branch if c not in common] for branch in branches]
    if all(rests):
        common.append(_join("or", [_join("and", rest) for rest in rests]))
    return _join("and", common)  # a branch with nothing left is implied by what they share


def _join(name: str, parts: list[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else Call(types.BOOLEAN, name, tuple(parts))
