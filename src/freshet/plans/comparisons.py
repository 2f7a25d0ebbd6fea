"""Comparisons between two relations, and trees that can carry them on their edges (IEDyn's generalized join trees).

A comparison is placed by giving both relations an attribute of their own for it: in a join tree with that attribute
the two must be neighbours. An edge carries one comparison; what no tree can place stays a check on result rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice

from freshet.plans.model import Comparison
from freshet.query import Hypergraph, JoinTree, join_trees
from freshet.sql.expression import Call, Expression, references

_OPERATORS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "ne": "<>"}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "<>": "<>"}
_MARK = "~"  # first letter of a comparison's attribute
_TREES = 5_000


@dataclass(frozen=True, slots=True)
class Compared:
    """`left` of one relation compared with `right` of another."""

    predicate: Expression
    operator: str
    left: Expression
    right: Expression

    @property
    def relations(self) -> tuple[int, int]:
        return next(iter(references(self.left))), next(iter(references(self.right)))

    def seen_from(self, parent: int) -> Comparison:
        """As carried by an edge whose parent is the given relation."""
        if self.relations[0] == parent:
            return Comparison(self.operator, self.left, self.right)
        return Comparison(_TURNED[self.operator], self.right, self.left)


def compared(predicate: Expression) -> Compared | None:
    """The comparison an edge could carry: of two relations, by values whose order their lanes have."""
    if not isinstance(predicate, Call) or predicate.name not in _OPERATORS:
        return None
    left, right = predicate.args
    if len(references(left)) != 1 or len(references(right)) != 1 or references(left) == references(right):
        return None
    if left.type.lanes != right.type.lanes or "STRING" in (left.type.name, right.type.name):
        return None
    return Compared(predicate, _OPERATORS[predicate.name], left, right)


def placed_tree(
    h: Hypergraph,
    relations: Sequence[int],
    candidates: Sequence[Compared],
    cost: Callable[[JoinTree], tuple[float, ...]],
    accept: Callable[[JoinTree], bool] = lambda tree: True,
) -> tuple[JoinTree, tuple[Compared, ...]] | None:
    """The cheapest tree that carries as many of the comparisons as any can, and which those are."""
    for count in range(len(candidates), 0, -1):
        best: tuple[JoinTree, tuple[Compared, ...]] | None = None
        for chosen in combinations(candidates, count):
            pairs = [frozenset(c.relations) for c in chosen]
            if len(set(pairs)) < len(pairs):
                continue
            edges = [
                edge | {f"{_MARK}{i}" for i, c in enumerate(chosen) if r in c.relations}
                for edge, r in zip(h.relations, relations, strict=True)
            ]
            marked = Hypergraph(tuple(edges), frozenset().union(*edges))
            if not marked.is_acyclic:
                continue
            trees = [t for t in islice(join_trees(marked), _TREES) if _plain_above(t) and accept(t)]
            if trees:
                tree = min(trees, key=cost)
                if best is None or cost(tree) < cost(best[0]):
                    best = tree, chosen
        if best is not None:
            return best
    return None


def carried(tree: JoinTree, node: int, placed: Sequence[Compared]) -> Compared | None:
    """The comparison on the edge above a node."""
    return next((placed[int(a[1:])] for a in tree.key(node) if a.startswith(_MARK)), None)


def unmarked(tree: JoinTree) -> JoinTree:
    """The tree with real attributes only."""
    return JoinTree(
        tuple(replace(n, attributes=frozenset(a for a in n.attributes if not a.startswith(_MARK))) for n in tree.nodes)
    )


def _plain_above(tree: JoinTree) -> bool:
    """A comparison needs tuples at both ends, so no generalized node may stand for it."""
    return not any(n.relation is None and any(a.startswith(_MARK) for a in n.attributes) for n in tree.nodes)
