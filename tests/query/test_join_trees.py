"""Every tree and the best tree against all labelled trees."""

from __future__ import annotations

import random

import pytest

import query.brute_force_trees as brute
from freshet.query import Hypergraph, JoinTree, best_tree, join_trees

Shape = tuple[frozenset[tuple[object, object]], frozenset[object]]


def shape(tree: JoinTree) -> Shape:
    names = [node.attributes if node.relation is None else node.relation for node in tree.nodes]
    edges = frozenset((names[i], names[node.parent] if i else None) for i, node in enumerate(tree.nodes))
    return edges, frozenset(names[i] for i, node in enumerate(tree.nodes) if node.output)


def brute_shapes(h: Hypergraph) -> set[Shape]:
    """The trees of definition 3.2 without generalized nodes that have one child."""
    n, found = len(h.relations), set()
    for nodes, parents, marks in brute.all_trees(h):
        if all(parents.count(node) > 1 for node in range(n, len(nodes))):
            names = [node if node < n else nodes[node] for node in range(len(nodes))]
            edges = frozenset((names[i], names[parent] if parent >= 0 else None) for i, parent in enumerate(parents))
            found.add((edges, frozenset(names[i] for i in marks)))
    return found


def rank(tree: JoinTree, updates: tuple[float, ...]) -> tuple[int, float, int]:
    cost = sum(tree.depth(i) * updates[node.relation] for i, node in enumerate(tree.nodes) if node.relation is not None)
    return tree.height, cost, tree.generalized


def brute_rank(h: Hypergraph, updates: tuple[float, ...]) -> tuple[int, float, int]:
    return min(brute.rank(parents, len(h.relations), updates) for _, parents, _ in brute.all_trees(h))


def assert_like_brute_force(h: Hypergraph, updates: tuple[float, ...]) -> None:
    trees = list(join_trees(h))
    for tree in trees:
        tree.check(h)
    shapes = [shape(tree) for tree in trees]
    assert len(shapes) == len(set(shapes)), h
    assert set(shapes) == brute_shapes(h), h
    assert_best(h, updates)


def assert_best(h: Hypergraph, updates: tuple[float, ...]) -> None:
    best = best_tree(h, updates)
    best.check(h)
    assert rank(best, updates) == brute_rank(h, updates), (h, updates)


def some(queries: tuple[Hypergraph, ...], count: int, seed: int) -> list[Hypergraph]:
    acyclic = [h for h in queries if h.is_acyclic]
    return random.Random(seed).sample(acyclic, min(count, len(acyclic)))


def test_all_trees_of_three_relations_over_three_attributes() -> None:
    dice = random.Random(3)
    for h in some(brute.small_queries(3, "abc"), 1000, 1):
        assert_like_brute_force(h, tuple(dice.choices((0, 1, 3), k=len(h.relations))))


@pytest.mark.parametrize("seed", range(3))
def test_all_trees_of_three_relations_over_four_attributes(seed: int) -> None:
    dice = random.Random(seed)
    for h in some(brute.small_queries(3), 40, seed):
        assert_like_brute_force(h, tuple(dice.choices((0, 1, 3), k=len(h.relations))))
