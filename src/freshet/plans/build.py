"""From a bound query to the plan the engine runs. A query may be planned in several ways: by its own tree, as a join of
totals, with parts grouped below. This module decides which; `select` plans a single select."""

from __future__ import annotations

from dataclasses import replace
from enum import Flag, auto
from typing import TypeVar

from freshet.errors import UnsupportedError
from freshet.logical.annotate import Annotations, annotated, weighted
from freshet.logical.distinct_groups import as_distinct, as_groups, as_set, as_union
from freshet.logical.factorise import factorised
from freshet.logical.kinds import SetKind
from freshet.logical.one_each import one_each
from freshet.logical.query import AnyQuery, Query, Relation, SetOperation, Sorted, TableSchema, UnionAll
from freshet.logical.same import Numbers
from freshet.logical.union_totals import union_totals
from freshet.plans.above import looked_up, plan_above
from freshet.plans.linear import is_linear
from freshet.plans.lookups import is_looked_up, shows_groups
from freshet.plans.model import AnyPlan, BagPlan, LookedUpPlan, QueryPlan, RelationPlan
from freshet.plans.select import SelectPlanner
from freshet.plans.soundness import is_sound
from freshet.plans.wanted import WantedTrees
from freshet.scalar.functions.compiled import is_total

Made = TypeVar("Made", bound=AnyPlan)


class Rewrites(Flag):
    """How planning may change a query. Plans that were made before a rewrite existed are read without it."""

    NONE = 0
    FACTORISE = auto()  # groups are enumerated from a tree if that needs less state (logical/factorise)
    ONE_EACH = auto()  # relations that hold the same row are one (logical/one_each)
    UNION_TOTALS = auto()  # the inputs of UNION ALL are grouped one by one (logical/union_totals)


ALL_REWRITES = Rewrites.FACTORISE | Rewrites.ONE_EACH | Rewrites.UNION_TOTALS


def build_plan(
    query: AnyQuery,
    updates: dict[str, float] | None = None,
    trees: WantedTrees | None = None,
    rewrites: Rewrites = ALL_REWRITES,
) -> AnyPlan:
    """`updates`: the expected number of changes of each table, as far as known. `trees`: the required join trees; if
    not given, they are chosen."""
    try:
        plan = _Plans(updates or {}, trees, rewrites).plan(query)
    except RecursionError:
        raise UnsupportedError("a query nested this deep is not supported; store a part of it in a table") from None
    assert is_sound(plan)
    return plan


class _Plans:
    """The plans of a query and of its nested queries. If trees are chosen, equal queries share one plan: a query that
    is planned again because an arm could not be placed has the same nested queries."""

    def __init__(self, updates: dict[str, float], trees: WantedTrees | None, rewrites: Rewrites) -> None:
        self.updates, self.trees, self._rewrites = updates, trees or WantedTrees(()), rewrites
        self._factorise = Rewrites.FACTORISE in rewrites
        self._numbers, self._annotations = Numbers(), Annotations()
        self._chosen: dict[tuple[int, bool], AnyPlan] | None = {} if trees is None else None

    def plan(self, query: AnyQuery, stored: bool = False) -> AnyPlan:
        """`stored`: whether the reader of the query stores its rows."""
        if self._chosen is None:
            return self._planned(query, stored)
        number = self._numbers.of(query), stored
        if number not in self._chosen:
            self._chosen[number] = self._planned(query, stored)
        return self._chosen[number]

    def _planned(self, query: AnyQuery, stored: bool) -> AnyPlan:
        if not isinstance(query, Query):
            looked_up = self._looked_up(query) if isinstance(query, SetOperation) and not stored else None
            if looked_up is not None:
                return looked_up
            passes = isinstance(query, (Sorted, UnionAll))
            return plan_above(query, lambda below: self.plan(below, stored or not passes))
        query, same = self._one_each(query)
        return _with_same(self._planned_select(query, stored), same)

    def _planned_select(self, query: Query, stored: bool) -> AnyPlan:
        if self._factorise and stored and len(query.block.relations) > 1:
            query = as_distinct(query)
        union = None if stored else as_union(query)
        if union is not None and (found := self._looked_up(union)) is not None:
            return found
        if query.distinct and query.grouping is None:
            return self._distinct(query, stored)
        if self._factorise and (counted := weighted(query, self._annotations)) is not None:
            fewer, same = self._one_each(counted[0])
            made = SelectPlanner(fewer, self, stored).plan()
            if isinstance(made, QueryPlan):
                return _with_same(replace(made, guarantee=replace(made.guarantee, totals=counted[1])), same)
        why = ""
        if self._factorise and not stored:  # otherwise the rows are stored in any case
            factorised_plan = self._factorised(query)
            if not isinstance(factorised_plan, str):
                return factorised_plan
            why = factorised_plan
        grouped = union_totals(query, self._annotations) if Rewrites.UNION_TOTALS in self._rewrites else None
        if grouped is not None:
            made = self._select(grouped, stored)
            return replace(made, guarantee=replace(made.guarantee, totals="annotation: those of the union's inputs"))
        query, totals = annotated(query, self._annotations)
        made = self._select(query, stored)
        lost = made.guarantee.lost
        if why and not is_linear(made):
            lost = (*lost, f"state linear in the tables: groups are stored, and may be more; {why}")
        return replace(made, guarantee=replace(made.guarantee, totals=totals, lost=lost))

    def _looked_up(self, query: SetOperation[AnyQuery]) -> LookedUpPlan | None:
        """A plan that stores no rows, if both sides support lookups, and the answer may have more rows than the tables
        or a UNION would store groups a second time."""
        if not self._factorise:
            return None
        sides = (query.left, query.right) if query.all else (as_set(query.left), as_set(query.right))
        free = self if self._chosen is not None else _Plans(self.updates, None, self._rewrites)
        plans = [free.plan(side) for side in sides]
        if not all(is_looked_up(plan, query.all) for plan in plans):
            return None
        again = query.kind is SetKind.UNION and all(map(shows_groups, plans))
        if all(map(is_linear, plans)) and not again:
            return None
        left, right = plans if free is self else map(self.plan, sides)
        return looked_up(query, left, right)

    def _distinct(self, query: Query, stored: bool) -> QueryPlan:
        """Uses a tree that produces each row once, if possible; otherwise groups, if these are joined rows of totals or
        if totals prevent rows from multiplying; otherwise counts rows."""
        free = self if self._chosen is not None else _Plans(self.updates, None, self._rewrites)
        made = free._select(query, stored)  # required trees fit only one of these
        groups = as_groups(query) if self._factorise and made.distinct else None
        if groups is not None:
            plan = self._factorised(groups)
            if not isinstance(plan, str):
                return plan
            fewer, totals = annotated(groups, self._annotations)
            if fewer is not groups:
                made = self._select(fewer, stored)
                return replace(made, guarantee=replace(made.guarantee, totals=totals))
            if plan and not all(map(is_total, query.outputs)) and not is_linear(made):
                # A part would compute its columns before it is known which of its tuples have partners.
                made = made if free is self else self._select(query, stored)
                lost = (*made.guarantee.lost, f"linear state: distinct rows are not a join of parts; {plan}")
                return replace(made, guarantee=replace(made.guarantee, lost=lost))
        return made if free is self else self._select(query, stored)

    def _factorised(self, query: Query) -> QueryPlan | str:
        """The plan that enumerates groups, or the reason why groups are stored instead: "" if there are few."""
        totals = factorised(query)
        if isinstance(totals, str):
            return totals
        made = self._select(totals.query, False)
        if made.residual != self._one_each(totals.query)[0].where:  # it would be evaluated for each group on every read
            return "a condition on keys is checked on joined rows"
        if any(isinstance(r.source, BagPlan) for r in made.relations):
            return "the keys join in a cycle"
        return replace(made, key=totals.key, guarantee=replace(made.guarantee, totals=totals.words))

    def _one_each(self, query: Query) -> tuple[Query, dict[str, str]]:
        return one_each(query) if Rewrites.ONE_EACH in self._rewrites else (query, {})

    def _select(self, query: Query, stored: bool) -> QueryPlan:
        made: QueryPlan | Query
        made, same = self._one_each(query)
        while isinstance(made, Query):
            made = SelectPlanner(made, self, stored).plan()
        return _with_same(made, same)

    def alone(self, query: Query) -> AnyPlan:
        return build_plan(query, self.updates)

    def relation(self, relation: Relation, passes: bool) -> RelationPlan:
        source = relation.source
        if isinstance(source, TableSchema):
            return RelationPlan(relation.alias, source, relation.fields)
        return RelationPlan(relation.alias, self.plan(source, not passes), relation.fields)


def _with_same(plan: Made, same: dict[str, str]) -> Made:
    """The plan, which says whose rows are those of relations that it does not have."""
    if not same or not isinstance(plan, QueryPlan):
        return plan
    said = tuple((left_out, f"the row of {kept}") for left_out, kept in same.items())
    return replace(plan, attributes=(*plan.attributes, *said))
