"""Comparisons that follow from others: `x < u` adds nothing to `x < z AND z < u`, nor to `x < y AND y = u`.
Without them a query may be acyclic that was not (IEDyn's semantic acyclicity), and there is less to check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from freshet.logical.attributes import lane_form
from freshet.query.attribute import Attribute
from freshet.scalar.expression import Call, Expression
from freshet.scalar.functions.registry import comparison_of

Value = Expression | Attribute  # a value by itself, or all those that are equal to it


def without_implied(
    predicates: Sequence[Expression], named: Callable[[Expression], Attribute | None] = lambda e: None
) -> list[Expression]:
    """The conjuncts without comparisons that the remaining ones imply. All hold on the same rows: where two comparisons
    in a chain are true none of their values is NULL, and every type has one order. `named`: one name for all values
    that equalities make equal."""
    steps = {i: step for i, p in enumerate(predicates) if (step := _step(p, named)) is not None}
    higher: dict[Value, dict[int, tuple[Value, bool]]] = {}
    for i, (low, high, strict) in steps.items():
        higher.setdefault(low, {})[i] = high, strict
    implied = set()
    for i, (low, high, strict) in steps.items():
        mine = higher[low].pop(i)
        if _leads(higher, low, high, strict):
            implied.add(i)
        else:
            higher[low][i] = mine
    return [p for i, p in enumerate(predicates) if i not in implied]


def _step(predicate: Expression, named: Callable[[Expression], Attribute | None]) -> tuple[Value, Value, bool] | None:
    """The lower side, the higher side, and whether they must differ."""
    operator = comparison_of(predicate)
    if not isinstance(predicate, Call) or operator is None or not operator.is_order:
        return None
    sides = [(side, named(lane_form(side))) for side in predicate.args]
    low, high = (side if joined is None else joined for side, joined in sides)
    if not operator.is_upward:
        low, high = high, low
    return low, high, operator.is_strict


def _leads(higher: Mapping[Value, Mapping[int, tuple[Value, bool]]], start: Value, end: Value, strict: bool) -> bool:
    """Whether steps lead from one value up to the other, one of them strictly if asked for."""
    seen: set[tuple[Value, bool]] = set()
    ahead = [(start, False)]
    while ahead:
        here, above = ahead.pop()
        for high, step in higher.get(here, {}).values():
            reached = (high, above or step)
            if reached not in seen:
                if high == end and (reached[1] or not strict):
                    return True
                seen.add(reached)
                ahead.append(reached)
    return False
