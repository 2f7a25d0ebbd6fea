"""Whether the answer of a plan has at most as many rows as its tables, up to a constant factor: then storing it keeps
state linear."""

from __future__ import annotations

from freshet.plans.claims import Tree
from freshet.plans.model import AnyPlan, BagPlan, QueryPlan, RecursivePlan, inputs
from freshet.scalar.expression import Expression, references


def is_linear(plan: AnyPlan) -> bool:
    if isinstance(plan, (BagPlan, RecursivePlan)) or not all(is_linear(below) for _, below in inputs(plan)):
        return False
    if not isinstance(plan, QueryPlan) or Tree(plan).is_carried:
        return True
    if plan.grouping is not None:
        return _of_one_relation(plan.grouping.keys)
    return (plan.distinct or plan.distinct_tree) and _of_one_relation(plan.outputs)


def _of_one_relation(expressions: tuple[Expression, ...]) -> bool:
    """Whether these expressions have at most as many values as one relation has tuples."""
    return len(frozenset().union(*map(references, expressions))) <= 1
