"""Verdicts, join trees and decompositions of every query of up to five relations over five attributes, against the
definitions. The largest ones are sampled here; `make test-long` tests all of them.

Acyclic by definition: a tree of the relations in which each attribute's are connected. All trees over the relations are
tried; with bags there are too many for that, and the heaviest tree decides (an attribute's k relations have at most k -
1 edges among them, so a tree is a join tree exactly when its shared attributes add up to all k - 1).
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import tests.query.brute_force_trees as brute
from freshet.query import Hypergraph, JoinTree, best_tree
from freshet.query.attribute import AttributeSet
from freshet.query.decompose import decompose
from tests.query.every_query import Codes, every_join, every_query, hypergraphs, named

ATTRIBUTES = 5
STEP = 9  # of the queries of five relations every ninth, unless all are asked for


def some_queries(relations: int, step: int = 1) -> list[Hypergraph]:
    return list(hypergraphs(every_query(relations, ATTRIBUTES)[::step], ATTRIBUTES))


def heaviest_tree(relations: Sequence[AttributeSet]) -> int:
    """The most attributes that neighbours in a tree of the relations share, added up."""
    shared = [len(relations[0] & r) for r in relations]
    left, total = set(range(1, len(relations))), 0
    while left:
        near = max(left, key=lambda i: shared[i])
        total += shared[near]
        left.remove(near)
        shared = [max(s, len(relations[near] & r)) for s, r in zip(shared, relations, strict=True)]
    return total


def has_join_tree(relations: Sequence[AttributeSet]) -> bool:
    return heaviest_tree(relations) == sum(map(len, relations)) - len(frozenset().union(*relations))


def assert_verdicts(h: Hypergraph) -> None:
    assert h.is_acyclic == brute.is_acyclic(h.relations), h
    assert h.is_free_connex == brute.is_free_connex(h), h
    assert h.is_q_hierarchical == brute.is_q_hierarchical(h), h


def assert_join_tree(h: Hypergraph, tree: JoinTree) -> None:
    """By definition 3.2 of the CROWN paper, word by word."""
    nodes = tree.nodes
    assert sorted(n.relation for n in nodes if n.relation is not None) == list(range(len(h.relations))), h
    assert nodes[0].parent == -1 and all(0 <= n.parent < i for i, n in enumerate(nodes) if i), h
    for attribute in h.attributes:  # connected: all holders but one have a holder as parent
        holders = {i for i, n in enumerate(nodes) if attribute in n.attributes}
        assert sum(nodes[i].parent not in holders for i in holders) == 1, (h, attribute)
    for i, node in enumerate(nodes):
        if node.relation is not None:
            assert node.attributes == h.relations[node.relation], h
        else:
            below = [n for n in nodes if n.parent == i]
            assert below and all(node.attributes <= n.attributes for n in below), h
            assert i == 0 or nodes[node.parent].relation is None, h
    shown = [i for i, n in enumerate(nodes) if n.output]
    if h.is_free_connex:
        assert 0 in shown and all(i == 0 or nodes[nodes[i].parent].output for i in shown), h
        assert h.output <= frozenset().union(*(nodes[i].attributes for i in shown)), h
        assert all(i == 0 or nodes[i].attributes & nodes[nodes[i].parent].attributes <= h.output for i in shown), h
    if h.is_free_connex:  # lemma 6.8 and its converse
        assert (tree.height == 1) == h.is_q_hierarchical, h


def assert_decomposition(relations: tuple[frozenset[str], ...]) -> int:
    """Bags, each covered by the relations it names, that make the query a tree; returns the width."""
    h = Hypergraph(relations, frozenset())
    bags = decompose(h)
    assert (not bags) == has_join_tree(relations), h
    assert has_join_tree([*relations, *(b.attributes for b in bags)]), (h, bags)
    for bag in bags:
        assert bag.attributes <= frozenset().union(*(relations[i] for i in bag.cover)), (h, bag)
        assert len(set(bag.cover)) == bag.width > 1, (h, bag)
    return max((b.width for b in bags), default=1)


def joins(rows: Codes) -> list[tuple[frozenset[str], ...]]:
    return [tuple(map(named, row)) for row in rows.tolist()]


def test_the_number_of_queries() -> None:
    assert [len(every_join(n, ATTRIBUTES)) for n in range(1, 6)] == [6, 34, 190, 1_053, 5_624]
    assert [len(every_query(n, ATTRIBUTES)) for n in range(1, 5)] == [21, 256, 2_387, 18_426]
    plain = {(h.relations, h.output) for h in brute.small_queries(3, "abc") if len(h.relations) == 3}
    assert len(plain) >= len(every_query(3, 3)), "without renaming that leaves the relations as they are"


@pytest.mark.parametrize("relations", [1, 2, 3, 4])
def test_verdicts(relations: int) -> None:
    for h in some_queries(relations):
        assert_verdicts(h)


def test_verdicts_of_five_relations() -> None:
    queries = some_queries(5, STEP)
    for h in queries:
        assert_verdicts(h)
    for verdict in ("is_acyclic", "is_free_connex", "is_q_hierarchical"):
        assert 100 < sum(getattr(h, verdict) for h in queries) < len(queries) - 100


@pytest.mark.long
def test_verdicts_of_all_of_five_relations() -> None:
    for h in some_queries(5):
        assert_verdicts(h)


def test_free_connex_is_a_tree_with_connex_output() -> None:
    """The definition by trees: some tree, generalized nodes included, has a connected part at its root that holds the
    output, and whose keys are output."""
    seen = 0
    for h in brute.small_queries(3, "abc"):
        if brute.is_acyclic(h.relations):
            seen += 1
            assert h.is_free_connex == brute.has_connex_tree(h), h
    assert seen > 200


@pytest.mark.parametrize("relations", [2, 3, 4])
def test_join_trees(relations: int) -> None:
    for h in some_queries(relations, 1 if relations < 4 else 5):
        if h.is_acyclic:
            assert_join_tree(h, best_tree(h))


def test_join_trees_of_five_relations() -> None:
    for h in some_queries(5, 40):
        if h.is_acyclic:
            assert_join_tree(h, best_tree(h))


@pytest.mark.long
@pytest.mark.parametrize("part", range(12))
def test_all_join_trees(part: int) -> None:
    for relations in (4, 5):
        for h in some_queries(relations)[part::12]:
            if h.is_acyclic:
                assert_join_tree(h, best_tree(h))


@pytest.mark.parametrize("relations", [3, 4, 5])
def test_decompositions(relations: int) -> None:
    """Width 1 is a tree, so a cyclic query with a decomposition of width 2 has the least. Five relations over five
    attributes never need more."""
    widths = [assert_decomposition(join) for join in joins(every_join(relations, ATTRIBUTES))]
    assert set(widths) == {1, 2}
