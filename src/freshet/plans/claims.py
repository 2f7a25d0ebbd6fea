"""The bounds on the steps of a plan, as data: `explain` states them, and a test compares them with counted steps.

A counter changes where a key's support flips, once for each parent tuple under the key. So the bounds depend on the
edges:

- An edge is *narrow* if a key has at most one parent tuple: a generalized parent, or a parent whose primary key is in
  the edge's key. A flip there changes one counter, so the parent pays no more than its child does. Without other edges
  every change costs O(1) (height 1 in CROWN, lemma 6.8).
- Below a wide edge the question is how often a parent tuple's support can flip while the tuple lives. If the child is a
  leaf, each period of support contains a whole lifespan of a tuple. If the child is found by its primary key, it is one
  tuple at a time, and the argument goes on below each of them (AJU, lemma 7). An edge is *keyed* if this covers all
  that is below it: then λ of the sequence bounds the flips, whatever the height and whether edges ask for existence or
  for absence, and first-in-first-out streams cost O(1).
- Otherwise λ_T of the join tree does (CROWN, theorem 6.6), but only if what is below is monotone. An anti edge below a
  wide one lets inserts alone flip a key any number of times; then nothing but the number of tuples is a bound.

A left edge takes no support away, so flips end there. Bounds hold for each change of what the plan reads: changes of
tables, and rows changed by the plans below it, whose own bounds stand next to this one. Those rows form a stream of
their own: a sum of inserts is updated in place, so it is neither insert-only nor first in, first out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from freshet.aggregates import function_of
from freshet.logical.kinds import JoinKind, SetKind
from freshet.logical.query import TableSchema
from freshet.plans.layout import unique_columns
from freshet.plans.model import (
    AnyPlan,
    BagPlan,
    BoundedSumsPlan,
    FlattenedPlan,
    LookedUpPlan,
    QueryPlan,
    RecursivePlan,
    SetPlan,
    SortPlan,
    TimedPlan,
    TopPlan,
    UnionAllPlan,
    ValuesPlan,
    WindowPlan,
    inputs,
    schemas,
)
from freshet.scalar.expression import ColumnRef, Expression

ONE, SEQUENCE, TREE, BOTH, LINEAR = "1", "λ", "λ_T", "λ + λ_T", "n"
DERIVED = "rows derived"  # of a recursion: they have no bound


class RowCost(StrEnum):
    """The cost of the joined rows of a change."""

    DELTA = "delta"  # nothing in addition to the delta: they are the delta
    BOUNDED = "bounded"  # they are bounded like the other steps
    JOINED = "joined"  # one step each, in addition to the bound


@dataclass(frozen=True, slots=True)
class CostClaim:
    """Amortized steps for each change. `per`: which changes. `rows`: the cost of joined rows. `by_delta`: whether some
    counter changes are accounted for by rows of the delta instead of by the bound."""

    per: tuple[str, ...]
    every_stream: str
    first_in_first_out: str
    insert_only: str
    logarithmic: bool = False
    rows: RowCost = RowCost.BOUNDED
    by_delta: bool = False


def claim(plan: AnyPlan) -> CostClaim:
    if isinstance(plan, SortPlan):
        return claim(plan.source)
    if isinstance(plan, QueryPlan):
        return _select(plan)
    per = tuple(name for name, _ in inputs(plan))
    if isinstance(plan, BagPlan):
        bound = {1: ONE, 2: LINEAR}.get(plan.width, f"n^{plan.width - 1}")
        return CostClaim(per, bound, bound, bound)
    if isinstance(plan, RecursivePlan):
        return CostClaim(per, DERIVED, DERIVED, DERIVED)
    if isinstance(plan, WindowPlan):
        bound = LINEAR if plan.first is None or plan.ties else ONE
        return CostClaim(per, bound, bound, bound, logarithmic=True)
    return CostClaim(per, ONE, ONE, ONE, logarithmic=isinstance(plan, (TopPlan, BoundedSumsPlan, TimedPlan)))


def _select(plan: QueryPlan) -> CostClaim:
    per = tuple(dict.fromkeys(plan.relations[n.relation].alias for n in plan.nodes if not n.generalized))
    tree = Tree(plan)
    every, window, inserts = tree.bounds()
    if tree.rows is RowCost.BOUNDED and not tree.is_one_to_one:
        every = {ONE: SEQUENCE, TREE: SEQUENCE if tree.all_keyed else BOTH}.get(every, every)
    if plan.grouping is not None and any(function_of(c).rewrites for c in plan.grouping.aggregates):
        every = window = inserts = LINEAR
    if not all(map(keeps_order, tree.deciding(with_parents=True))):
        window = every
    if not all(map(is_monotone, tree.deciding(with_parents=False))):
        inserts = every
    return CostClaim(per, every, window, inserts, tree.is_logarithmic, tree.rows, tree.by_delta)


class _Crossing(NamedTuple):
    """A step from one node to the next: whether a tuple joins at most one tuple there, and vice versa."""

    to: int
    there: bool
    back: bool


class Tree:
    """The join tree of a select, with the cost of changes that its edges allow."""

    def __init__(self, plan: QueryPlan) -> None:
        self.plan, self.nodes = plan, plan.nodes
        self.below: list[list[int]] = [[] for _ in plan.nodes]
        for i, node in enumerate(plan.nodes):
            if node.parent >= 0:
                self.below[node.parent].append(i)

    def kind(self, c: int) -> JoinKind:
        edge = self.nodes[c].edge
        assert edge is not None
        return edge.kind

    def counted(self, i: int) -> list[int]:
        """The children of node i whose support decides whether its tuples are alive."""
        return [c for c in self.below[i] if self.kind(c) is not JoinKind.LEFT]

    @cached_property
    def height(self) -> int:
        """Relations on the longest way up that a change of support can take."""
        heights = [0] * len(self.nodes)
        for i in reversed(range(len(self.nodes))):
            heights[i] = max((heights[c] for c in self.counted(i)), default=0) + (not self.nodes[i].generalized)
        return max(heights, default=0)

    # Edges ----------------------------------------------------------------------------------------------------

    def is_narrow(self, c: int) -> bool:
        """Whether a key of the edge above node c has one parent tuple at most."""
        edge, parent = self.nodes[c].edge, self.nodes[self.nodes[c].parent]
        assert edge is not None
        return parent.generalized or self._is_unique(parent.relation, edge.parent_key)

    def is_found_by_key(self, c: int) -> bool:
        """Whether a key of the edge above node c has one child tuple at most."""
        edge, node = self.nodes[c].edge, self.nodes[c]
        assert edge is not None
        return self._is_unique(node.relation, edge.child_key)

    def is_keyed(self, c: int) -> bool:
        children = self.counted(c)
        return not children or (self.is_found_by_key(c) and all(map(self.is_keyed, children)))

    def is_monotone(self, c: int) -> bool:
        """Whether there is no anti edge below node c."""
        return all(self.kind(d) is not JoinKind.ANTI and self.is_monotone(d) for d in self.counted(c))

    def _is_unique(self, relation: int, key: tuple[Expression, ...]) -> bool:
        source, columns = self.plan.relations[relation].source, {e.column for e in key if isinstance(e, ColumnRef)}
        if len(columns) == len(self.plan.relations[relation].fields):
            return True  # equal rows are one tuple with a count
        identity = source.primary_key or None if isinstance(source, TableSchema) else unique_columns(source)
        return identity is not None and columns.issuperset(identity)

    @cached_property
    def wide(self) -> list[int]:
        """Child ends of the edges where one flip may change many counters that no row of the delta accounts for."""
        edges = [c for c in range(1, len(self.nodes)) if self.kind(c) is not JoinKind.LEFT and not self.is_narrow(c)]
        return [] if self.by_delta else edges

    @cached_property
    def by_delta(self) -> bool:
        """Whether the one edge of the tree that counts is attached to the root: then each counter it changes makes a
        row of the answer appear or vanish."""
        if not self.nodes or self.nodes[0].generalized or self.nodes[0].assertions or self.rows is not RowCost.DELTA:
            return False
        edges = [c for c in range(1, len(self.nodes)) if not self.is_narrow(c)]
        return edges == self.counted(0) and len(edges) == 1

    @property
    def all_keyed(self) -> bool:
        return all(map(self.is_keyed, self.wide))

    def bounds(self) -> tuple[str, str, str]:
        """Counters changed for each change, in every stream, in those first in, first out, and in inserts alone."""
        wide = self.wide
        if not wide:
            return ONE, ONE, ONE
        if self.all_keyed:
            by_keys = all(map(self.is_found_by_key, wide)) or any(map(self.counted, wide))
            return SEQUENCE if by_keys else TREE, ONE, ONE
        if all(map(self.is_monotone, wide)):
            return TREE, TREE, ONE
        if all(self.is_monotone(c) or self.is_keyed(c) for c in wide):
            return BOTH, BOTH, ONE
        return LINEAR, LINEAR, LINEAR

    def deciding(self, with_parents: bool) -> Iterator[AnyPlan]:
        """The nested plans on whose streams it depends how often counters change: those below wide edges, and with the
        parents there, whose rows live as long as the plans say. Where keys bound joined rows, all of them."""
        nodes: set[int] = set()
        for c in self.wide:
            nodes |= self._within(c)
            if with_parents:
                nodes.add(self.nodes[c].parent)
        if self.rows is RowCost.BOUNDED and not self.is_one_to_one:
            nodes = {*range(len(self.nodes))}
        for i in sorted(nodes):
            source = self.plan.relations[self.nodes[i].relation].source
            if not isinstance(source, TableSchema):
                yield source

    def _within(self, c: int) -> set[int]:
        return {c}.union(*map(self._within, self.counted(c)))

    @cached_property
    def is_logarithmic(self) -> bool:
        grouping = self.plan.grouping
        ordered = grouping is not None and any(function_of(c).logarithmic for c in grouping.aggregates)
        return ordered or any(n.edge is not None and n.edge.comparison is not None for n in self.nodes)

    @cached_property
    def compares_twice(self) -> bool:
        """Whether partners must satisfy more than support implies."""
        comparisons = (n.edge.comparison for n in self.nodes if n.edge is not None)
        return any(c is not None and c.second is not None for c in comparisons)

    @cached_property
    def searches(self) -> bool:
        """Whether partners are searched among tuples that may fail a comparison."""
        comparisons = (n.edge.comparison for n in self.nodes if n.edge is not None)
        return any(c is not None and len(c.further) > 1 for c in comparisons)

    # Joined rows ----------------------------------------------------------------------------------------------

    @cached_property
    def rows(self) -> RowCost:
        plan = self.plan
        tables = [s.name for s in schemas(plan)]
        kinds = {self.kind(c) for c in range(1, len(self.nodes))}
        cancels = JoinKind.LEFT in kinds or (JoinKind.ANTI in kinds and len(set(tables)) < len(tables))
        above = plan.grouping is not None or plan.distinct or plan.residual or any(inputs(plan))
        if not above and not self.compares_twice and not cancels:
            return RowCost.DELTA
        return RowCost.BOUNDED if self.is_carried else RowCost.JOINED

    @property
    def is_carried(self) -> bool:
        """Whether each joined row has a tuple of some relation that is in no other joined row."""
        return bool(self._carried) or not self.nodes

    def lowest_loose(self, c: int) -> int:
        """The lowest node, from c down, that is not keyed although everything below it is."""
        return next((self.lowest_loose(d) for d in self.counted(c) if not self.is_keyed(d)), c)

    @property
    def is_one_to_one(self) -> bool:
        """Where joined rows are bounded: whether a change adds or takes away no more than a constant number."""
        return not self.nodes or any(all(step.back for step in steps) for steps in self._carried)

    @cached_property
    def _carried(self) -> list[list[_Crossing]]:
        """For each node whose tuples are in one joined row each at most, the steps from there to all other nodes: keys
        lead to those that are output, and the rest does not flip more often than keys let it."""
        starts = [i for i, n in enumerate(self.nodes) if n.output and not n.generalized]
        walks = [list(self._walk(v)) for v in starts]
        return [steps for steps in walks if all(step.there for step in steps)]

    def _walk(self, v: int) -> Iterator[_Crossing]:
        reached, waiting = {v}, [v]
        while waiting:
            i = waiting.pop()
            for step in self._next(i):
                if step.to not in reached:
                    reached.add(step.to)
                    waiting.append(step.to)
                    yield step

    def _next(self, i: int) -> Iterator[_Crossing]:
        for c in self.below[i]:
            yield _Crossing(c, self.is_found_by_key(c) if self.nodes[c].output else self.is_keyed(c), self.is_narrow(c))
        if self.nodes[i].parent >= 0 and self.nodes[i].output:
            replaces = self.kind(i) is JoinKind.INNER or self.is_keyed(i)  # or flips a row of NULLs as often
            yield _Crossing(self.nodes[i].parent, replaces and self.is_narrow(i), self.is_found_by_key(i))


def is_monotone(plan: AnyPlan) -> bool:
    """Whether inserts into tables only add rows to the answer."""
    if isinstance(plan, QueryPlan):
        turns = any(n.edge is not None and n.edge.kind in (JoinKind.ANTI, JoinKind.LEFT) for n in plan.nodes)
        if (plan.grouping is not None and plan.grouping.aggregates) or turns:
            return False
    elif isinstance(plan, (SetPlan, LookedUpPlan)):
        if plan.kind is SetKind.EXCEPT:
            return False
    elif not isinstance(plan, (UnionAllPlan, BagPlan, FlattenedPlan, ValuesPlan, SortPlan, RecursivePlan)):
        return False
    return all(is_monotone(below) for _, below in inputs(plan))


def keeps_order(plan: AnyPlan) -> bool:
    """Whether the rows of the answer are inserted and deleted in the order of the rows of one table."""
    if isinstance(plan, SortPlan):
        return keeps_order(plan.source)
    if isinstance(plan, TimedPlan):
        return plan.in_order_of_time and keeps_order(plan.source)
    if not isinstance(plan, QueryPlan) or plan.grouping is not None or plan.distinct or plan.distinct_tree:
        return False
    return len(plan.nodes) == 1 and all(keeps_order(below) for _, below in inputs(plan))
