"""A plan as a bag: without its ORDER BY, if there is no LIMIT and no reader needs the order."""

from __future__ import annotations

from dataclasses import replace

from freshet.logical.query import Block, Query, Relation, Values, key
from freshet.logical.rewrite.blocks import NAMELESS
from freshet.plans.build import build_plan
from freshet.plans.model import AnyPlan, QueryPlan, SortPlan


def as_bag(plan: AnyPlan) -> AnyPlan:
    if not isinstance(plan, SortPlan):
        return plan
    fields = plan.source.fields
    if len(fields) == len(plan.fields):
        return replace(plan.source, fields=plan.fields)
    rows = Relation(NAMELESS, Values((), fields), fields)  # represents the plan below, whose rows only pass through
    shown = tuple(key(0, i, f) for i, f in enumerate(plan.fields))
    passed = build_plan(Query((rows,), Block((0,), ()), (), None, shown, plan.fields))
    assert isinstance(passed, QueryPlan)
    return replace(passed, relations=(replace(passed.relations[0], source=plan.source),))
