"""Foreign-key trees (AJU): joins along primary keys, where the hypergraph may be cyclic.

Every edge leads from a parent to a child whose whole primary key is among the parent's attributes, so a parent tuple
has at most one child tuple, and following the edges down finds the one tuple of every relation that may join. The
edges keep equal what lies on their keys. Where the nodes that have an attribute are not connected, each further
part needs an assertion: at the lowest common ancestor, the attribute as found at two nodes is equal.

A tree has sum over attributes (relations having it - 1) - sum over edges (attributes on the key) assertions, so the
fewest assertions means the most attributes on keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain

from freshet.errors import PlanError
from freshet.query.attribute import Attribute, AttributeSet, in_order
from freshet.query.best_tree import check_updates
from freshet.query.budget import StepBudget
from freshet.query.hypergraph import Hypergraph
from freshet.query.tree import JoinTree, TreeNode

PrimaryKeys = Sequence[AttributeSet | None]

_TRIED = 20_000  # nodes of trees from one root


@dataclass(frozen=True)
class TreeAssertion:
    """At `node`, `attribute` as found at node `left` equals `attribute` as found at node `right`; both are `node`
    itself or below it."""

    node: int
    attribute: Attribute
    left: int
    right: int


@dataclass(frozen=True)
class ForeignKeyTree:
    """Every node of the tree is a relation and an output node. Without assertions it is a join tree of the query."""

    tree: JoinTree
    assertions: tuple[TreeAssertion, ...]

    def check(self, h: Hypergraph, primary_keys: PrimaryKeys) -> None:
        """Raise PlanError unless edges follow primary keys, and edges and assertions make every attribute equal."""
        self.tree.check_cover(h)
        for i, node in enumerate(self.tree.nodes):
            if node.relation is None or not node.output:
                raise PlanError(f"node {i} of a foreign-key tree must be a relation and an output node")
            primary_key = primary_keys[node.relation]
            if i > 0 and (primary_key is None or not primary_key <= frozenset(self.tree.key(i))):
                raise PlanError(f"the parent of {h.name(node.relation)} lacks attributes of its primary key")
        above = _paths(self.tree)
        for each in self.assertions:
            if not all(
                each.node in above[end] and each.attribute in self.tree.nodes[end].attributes
                for end in (each.left, each.right)
            ):
                raise PlanError(
                    f"the assertion on {each.attribute} at node {each.node} compares nodes {each.left} and "
                    f"{each.right}; both must be at or below it and have the attribute"
                )
        for attribute in in_order(h.attributes):
            holders = {i for i, node in enumerate(self.tree.nodes) if attribute in node.attributes}
            links = [(i, self.tree.nodes[i].parent) for i in holders if self.tree.nodes[i].parent in holders]
            links += [(each.left, each.right) for each in self.assertions if each.attribute == attribute]
            reached, frontier = set[int](), {min(holders)}
            while frontier:
                reached |= frontier
                frontier = {b for link in links for a, b in (link, link[::-1]) if a in frontier} - reached
            if reached != holders:
                raise PlanError(f"neither edges nor assertions make {attribute} equal in all relations that have it")


def foreign_key_tree(
    h: Hypergraph, primary_keys: PrimaryKeys, updates: Sequence[float] | None = None
) -> ForeignKeyTree | None:
    """The tree with the fewest assertions, then least height, then least sum of depth x updates, then relations as
    given; None where primary keys do not lead from one relation to all others.

    `primary_keys` holds for each relation the attributes of its primary key, or None if some key column does not join.
    """
    if len(primary_keys) != len(h.relations):
        raise PlanError(f"{len(primary_keys)} primary keys for {len(h.relations)} relations; give each one, or None")
    updates = (1.0,) * len(h.relations) if updates is None else updates
    check_updates(h, updates)
    best: tuple[tuple[int, int, float], list[int]] | None = None
    for root in range(len(h.relations)):
        on_keys = 0 if best is None else -best[0][0]
        for shared, parents in _arborescences(h, primary_keys, root, on_keys):
            depths = _depths(parents)
            cost = sum(depth * count for depth, count in zip(depths, updates, strict=True))
            rank = (-shared, max(depths), cost)
            if best is None or rank < best[0]:
                best = rank, parents
    if best is None:
        return None
    tree = _tree(h, best[1])
    return ForeignKeyTree(tree, tuple(_assertions(h, tree)))


def _arborescences(
    h: Hypergraph, primary_keys: PrimaryKeys, root: int, at_least: int
) -> Iterator[tuple[int, list[int]]]:
    """Trees from a root with the most attributes on keys, if that is `at_least` so many, among them the flattest.

    Fix for each relation how many attributes are on its key: then its possible parents are fixed, and the breadth-first
    tree over them has every relation as near to the root as it can be. So it is enough to try these numbers, in falling
    order of their sum, and to stop below the first sum that gives a tree. Of very many only the first are tried.
    """
    others = [i for i in range(len(h.relations)) if i != root]
    candidates: list[dict[int, list[int]]] = []
    for child in others:
        by_shared: dict[int, list[int]] = {}
        primary_key = primary_keys[child]
        for parent, attributes in enumerate(h.relations):
            if parent != child and primary_key is not None and primary_key <= attributes:
                by_shared.setdefault(len(attributes & h.relations[child]), []).append(parent)
        if not by_shared:
            return
        candidates.append(dict(sorted(by_shared.items(), reverse=True)))
    anyone = {child: [*chain(*by_shared.values())] for child, by_shared in zip(others, candidates, strict=True)}
    if _breadth_first(root, anyone) is None:
        return
    levels = [list(by_shared) for by_shared in candidates]
    first = (0,) * len(others)
    queue = [(-sum(level[0] for level in levels), first)]
    seen = {first}
    budget = StepBudget(_TRIED)
    while queue and -queue[0][0] >= at_least and budget.spend(len(h.relations)):
        minus_shared, picks = heappop(queue)
        allowed = [by_shared[level[pick]] for by_shared, level, pick in zip(candidates, levels, picks, strict=True)]
        parents = _breadth_first(root, dict(zip(others, allowed, strict=True)))
        if parents is not None:
            at_least = -minus_shared
            yield -minus_shared, parents
        for i, pick in enumerate(picks):
            lower = (*picks[:i], pick + 1, *picks[i + 1 :])
            if pick + 1 < len(levels[i]) and lower not in seen:
                seen.add(lower)
                heappush(queue, (minus_shared + levels[i][pick] - levels[i][pick + 1], lower))


def _breadth_first(root: int, allowed: dict[int, list[int]]) -> list[int] | None:
    parents = [-1] * (len(allowed) + 1)
    reached, missing = {root}, sorted(allowed)
    while missing:
        parent_of = {}
        for child in missing:
            parent = next((parent for parent in allowed[child] if parent in reached), None)
            if parent is not None:
                parent_of[child] = parent
        if not parent_of:
            return None
        for child, parent in parent_of.items():
            parents[child] = parent
        reached |= parent_of.keys()
        missing = [child for child in missing if child not in parent_of]
    return parents


def _depths(parents: Sequence[int]) -> list[int]:
    depths = []
    for i in range(len(parents)):
        depth = 0
        while parents[i] >= 0:
            i, depth = parents[i], depth + 1
        depths.append(depth)
    return depths


def _tree(h: Hypergraph, parents: Sequence[int]) -> JoinTree:
    nodes: list[TreeNode] = []

    def append(relation: int, above: int) -> None:
        here = len(nodes)
        nodes.append(TreeNode(relation, h.relations[relation], above, True))
        for child in range(len(parents)):
            if parents[child] == relation:
                append(child, here)

    append(parents.index(-1), -1)
    return JoinTree(tuple(nodes))


def _assertions(h: Hypergraph, tree: JoinTree) -> Iterator[TreeAssertion]:
    """One for each part after the first, with an earlier holder, as low in the tree and as near to it as possible."""
    above = _paths(tree)
    for attribute in in_order(h.attributes):
        holders = [i for i, node in enumerate(tree.nodes) if attribute in node.attributes]
        for right in holders[1:]:
            if tree.nodes[right].parent in holders:
                continue
            meetings = []
            for left in holders[: holders.index(right)]:
                lowest = [a for a, b in zip(above[left], above[right], strict=False) if a == b][-1]
                meetings.append((-tree.depth(lowest), tree.depth(left), left, lowest))
            _, _, left, lowest = min(meetings)
            yield TreeAssertion(lowest, attribute, left, right)


def _paths(tree: JoinTree) -> list[list[int]]:
    """For each node the path from the root to it, both included."""
    paths: list[list[int]] = []
    for i, node in enumerate(tree.nodes):
        paths.append([*(paths[node.parent] if node.parent >= 0 else []), i])
    return paths
