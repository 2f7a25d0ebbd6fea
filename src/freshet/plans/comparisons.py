"""Comparisons between two relations, and trees that can carry them on their edges (IEDyn's generalized join trees).

A comparison is placed by giving both relations an extra attribute for it: in a join tree with that attribute the two
must be neighbours. If an equality implies that another relation has the same value, that relation can be used as well.
An edge carries one comparison; comparisons that no tree can place are checked on result rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from freshet.logical.attributes import Attributes, is_asked_by_key, lane_form
from freshet.plans.distances import Distances, offset
from freshet.plans.model import Comparison
from freshet.query import Hypergraph, JoinTree, best_tree, plain_trees, some_trees
from freshet.query.attribute import AttributeSet
from freshet.query.budget import StepBudget
from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.expression import Call, Expression, references
from freshet.scalar.functions.registry import comparison_of

_NODES = 10_000  # of trees looked at
MOST_CHOICES = 16  # of compatible comparisons; fewer if there are many relations
_CHOSEN = 2_000
MOST_TESTS = 2_000  # of whether comparisons are compatible
MOST_FURTHER = 62  # comparisons of an edge in addition to the first
MOST_COMPARED = 1_000  # placements of comparisons examined in addition to those written
_FARTHEST = 1 << 62


@dataclass(frozen=True, slots=True)
class ComparisonAttribute:
    """The extra attribute that the two relations of a comparison share, which makes them neighbours in a tree."""

    number: int  # among those that are placed

    def __str__(self) -> str:
        return f"~{self.number}"


@dataclass(frozen=True, slots=True)
class Compared:
    """`left` of one relation compared with `right` of another."""

    predicate: Expression
    operator: ComparisonOperator
    left: Expression
    right: Expression

    @property
    def relations(self) -> tuple[int, int]:
        return next(iter(references(self.left))), next(iter(references(self.right)))

    def seen_from(self, parent: int) -> Comparison:
        """As carried by an edge whose parent is the given relation."""
        if self.relations[0] == parent:
            return Comparison(self.operator, self.left, self.right)
        return Comparison(self.operator.flipped, self.right, self.left)


def compared(predicate: Expression) -> Compared | None:
    """The comparison as an edge could carry it: between two relations, on values that are ordered like their lanes."""
    operator = comparison_of(predicate)
    if not isinstance(predicate, Call) or operator is None or operator is ComparisonOperator.EQUAL:
        return None
    left, right = predicate.args
    if len(references(left)) != 1 or len(references(right)) != 1 or references(left) == references(right):
        return None
    if left.type.lanes != right.type.lanes or left.type.pooled or right.type.pooled:
        return None
    if is_asked_by_key(left) or is_asked_by_key(right):
        return None
    return Compared(predicate, operator, left, right)


def elsewhere(comparison: Compared, relations: Sequence[int], attributes: Attributes) -> Iterator[Compared]:
    """The same comparison, read from other relations that have equal values."""
    left = [e for r in relations if (e := attributes.seen_from(r, lane_form(comparison.left))) is not None]
    right = [e for r in relations if (e := attributes.seen_from(r, lane_form(comparison.right))) is not None]
    for a in left:
        for b in right:
            other = replace(comparison, left=a, right=b)
            if a.type.lanes == b.type.lanes and len({*other.relations}) == 2:
                if other.relations != comparison.relations:
                    yield other


def banded(comparison: Comparison, distances: Distances) -> Comparison:
    """The comparison of an edge with the distance that others allow, if they do."""
    parent, child = offset(comparison.parent), offset(comparison.child)
    if parent is None or child is None or not comparison.operator.is_order:
        return comparison
    low, high = (parent, child) if comparison.operator.is_upward else (child, parent)
    most = distances.most(low[0], high[0])
    if most is None:
        return comparison
    distance = most + high[1] - low[1]
    return replace(comparison, band=distance) if 0 <= distance < _FARTHEST else comparison


def doubled(comparison: Comparison, predicates: Sequence[Expression], parent: int, child: int) -> Comparison:
    """The comparison of an edge with all others between the same relations that its band does not imply. All go by
    order, and the values of the others fill one lane."""
    if not comparison.operator.is_order:
        return comparison
    first, others = (comparison.parent, comparison.child), dict[Comparison, None]()
    for c in filter(None, map(compared, predicates)):
        seen = c.seen_from(parent)
        if {*c.relations} != {parent, child} or not c.operator.is_order or c.left.type.lanes != 1:
            continue
        if (seen.parent, seen.child) != first and not is_within_band(c.predicate, comparison):
            others[seen] = None
    second: Comparison | None = None
    for other in reversed([*others][:MOST_FURTHER]):
        second = replace(other, second=second)
    return replace(comparison, second=second)


def is_further(predicate: Expression, edges: Iterable[Comparison | None]) -> bool:
    """Whether an edge checks a predicate after its first comparison."""
    c = compared(predicate)
    checked = [further for e in edges if e is not None for further in e.further]
    return c is not None and any(c.seen_from(r) in checked for r in c.relations)


def is_within_band(predicate: Expression, comparison: Comparison) -> bool:
    """Whether all that an edge finds in its band passes a predicate, which compares the same two values."""
    alone = banded(replace(comparison, band=None), Distances([predicate], lambda e: None)).band
    return alone is not None and comparison.band is not None and comparison.band <= alone


def placed_tree(
    h: Hypergraph,
    relations: Sequence[int],
    candidates: Sequence[Compared],
    cost: Callable[[JoinTree], tuple[float, ...]],
    accept: Callable[[JoinTree], bool] = lambda tree: True,
) -> tuple[JoinTree, tuple[Compared, ...]] | None:
    """The cheapest of the trees that carry the most comparisons, and those comparisons.

    For a large query not every choice of comparisons and not every tree is examined: once the budget is used up, the
    first choice is taken, on trees without generalized nodes."""
    places = Places(h, relations)
    most, looked_at = 1 + _CHOSEN // len(relations) ** 2, StepBudget(_NODES)
    for count in range(len(places.independent(candidates)), 0, -1):
        choices = list(islice(places.choices(candidates, count, StepBudget(MOST_TESTS)), min(most, MOST_CHOICES)))
        best: tuple[JoinTree, tuple[Compared, ...]] | None = None
        share = _NODES // max(len(choices), 1)
        for chosen in choices:
            edged = marked(h, relations, chosen)
            trees: Iterator[JoinTree] = plain_trees(edged)
            if looked_at.spend(share):
                trees = chain((best_tree(edged),), some_trees(edged, share), trees)
            tree = min((t for t in trees if _plain_above(t) and accept(t)), key=cost, default=None)
            if tree is not None and (best is None or cost(tree) < cost(best[0])):
                best = tree, chosen
        if best is not None:
            return best
    return None


def marked(h: Hypergraph, relations: Sequence[int], chosen: Sequence[Compared]) -> Hypergraph:
    """The query with an attribute for each chosen comparison."""
    edges = [
        edge | {ComparisonAttribute(i) for i, c in enumerate(chosen) if r in c.relations}
        for edge, r in zip(h.relations, relations, strict=True)
    ]
    return Hypergraph(tuple(edges), frozenset().union(*edges))


class Places:
    """Decides which sets of comparisons can be placed together on the edges of one join tree of an acyclic query.

    Join trees are the spanning trees with the most shared attributes. Some join tree has all edges of a set if, for
    each number k of attributes, the edges that share k attributes form no cycle, neither among themselves nor with
    edges that share more: every join tree contains those, or others that connect the same relations. So relations
    connected by edges that share more are contracted to one point, and it remains to check whether a few edges between
    points form a cycle. Such sets form a matroid, so adding comparisons greedily ends with a set of maximum size. If a
    predicate can be placed in several ways only one of them counts, and the greedy set may then be smaller."""

    def __init__(self, h: Hypergraph, relations: Sequence[int]) -> None:
        self.at = {r: i for i, r in enumerate(relations)}
        self.h = h
        self._points: dict[int, list[int]] = {}

    def _shared(self, c: Compared) -> int:
        one, other = (self.h.relations[self.at[r]] for r in c.relations)
        return len(one & other)

    def _connected(self, shared: int) -> list[int]:
        """The point of each relation: the first one it is connected to by edges that share more attributes."""
        if shared not in self._points:
            points, edges = list(range(len(self.h.relations))), self.h.relations
            for i in range(len(edges)):
                for j in range(i):
                    if points[i] != points[j] and len(edges[i] & edges[j]) > shared:
                        one, other = points[i], points[j]
                        points = [other if p == one else p for p in points]
            self._points[shared] = points
        return self._points[shared]

    def fit(self, chosen: Sequence[Compared]) -> bool:
        pairs = {frozenset(c.relations) for c in chosen}
        if not len(pairs) == len({c.predicate for c in chosen}) == len(chosen):
            return False
        above: dict[tuple[int, int], tuple[int, int]] = {}

        def top(point: tuple[int, int]) -> tuple[int, int]:
            while point in above:
                point = above[point]
            return point

        for c in chosen:
            shared = self._shared(c)
            one, other = (top((shared, self._connected(shared)[self.at[r]])) for r in c.relations)
            if one == other:
                return False
            above[one] = other
        return True

    def independent(self, candidates: Sequence[Compared]) -> list[Compared]:
        """A maximal set of compatible comparisons."""
        fitting: list[Compared] = []
        for c in candidates:
            if self.fit([*fitting, c]):
                fitting.append(c)
        return fitting

    def choices(self, candidates: Sequence[Compared], count: int, budget: StepBudget) -> Iterator[tuple[Compared, ...]]:
        """Sets of `count` compatible comparisons; all of them, if the budget of tests allows."""

        def grown(chosen: tuple[Compared, ...], start: int) -> Iterator[tuple[Compared, ...]]:
            for i in range(start, len(candidates) - (count - len(chosen)) + 1):
                if not budget.spend():
                    return
                more = (*chosen, candidates[i])
                if self.fit(more):
                    if len(more) == count:
                        yield more
                    else:
                        yield from grown(more, i + 1)

        yield from grown((), 0)


def carried(tree: JoinTree, node: int, placed: Sequence[Compared]) -> Compared | None:
    """The comparison on the edge above a node."""
    return next((placed[a.number] for a in tree.key(node) if isinstance(a, ComparisonAttribute)), None)


def unmarked(tree: JoinTree) -> JoinTree:
    """The tree with real attributes only."""

    def real(attributes: AttributeSet) -> AttributeSet:
        return frozenset(a for a in attributes if not isinstance(a, ComparisonAttribute))

    return JoinTree(tuple(replace(n, attributes=real(n.attributes)) for n in tree.nodes))


def _plain_above(tree: JoinTree) -> bool:
    """A comparison needs tuples at both ends, so a generalized node cannot be one of them."""
    return not any(isinstance(a, ComparisonAttribute) for n in tree.nodes if n.relation is None for a in n.attributes)
