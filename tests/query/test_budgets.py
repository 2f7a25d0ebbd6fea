"""Searches that could be endless: what they find within their budgets, and that they keep to them."""

from __future__ import annotations

import random
from itertools import combinations, islice

import pytest

from freshet.plans.comparisons import Compared, Places, marked
from freshet.query import Hypergraph, best_tree, decompose, foreign_key_tree, join_trees, plain_trees, some_trees
from freshet.query.budget import StepBudget
from freshet.query.hypergraph import gyo_core
from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.expression import Call, ColumnRef
from freshet.scalar.types import BOOLEAN, INT


def random_acyclic(seed: int, many: int) -> Hypergraph:
    """Attributes over connected parts of a random tree."""
    draw = random.Random(seed)
    parents = [draw.randrange(i) for i in range(1, many)]
    relations: list[set[str]] = [set() for _ in range(many)]
    for i, parent in enumerate(parents, 1):
        if draw.random() < 0.8:
            relations[i].add(f"e{i}")
            relations[parent].add(f"e{i}")
    for a in range(draw.randrange(many)):
        at = draw.randrange(many)
        while True:
            relations[at].add(f"a{a}")
            if at == 0 or draw.random() < 0.3:
                break
            at = parents[at - 1]
    for i, relation in enumerate(relations):
        relation.add(f"own{i}")
    return Hypergraph(tuple(map(frozenset, relations)), frozenset())


def less(one: int, other: int) -> Compared:
    left, right = (ColumnRef(INT, r, 0, "x") for r in (one, other))
    return Compared(Call(BOOLEAN, "lt", (left, right)), ComparisonOperator.LESS, left, right)


@pytest.mark.parametrize("seed", range(60))
def test_comparisons_fit_where_a_tree_has_edges_for_them(seed: int) -> None:
    """By the definition: with an attribute for each of them the query is still acyclic."""
    h = random_acyclic(seed, 2 + seed % 5)
    assert h.is_acyclic
    numbers = range(len(h.relations))
    places, draw = Places(h, numbers), random.Random(seed)
    pairs = list(combinations(numbers, 2))
    for _ in range(30):
        chosen = [less(*pair) for pair in draw.sample(pairs, draw.randint(1, min(len(pairs), 4)))]
        assert places.fit(chosen) == marked(h, numbers, chosen).is_acyclic


@pytest.mark.parametrize("seed", range(20))
def test_plain_trees_are_join_trees(seed: int) -> None:
    h = random_acyclic(seed, 6)
    found = list(plain_trees(h))
    connected = len(Hypergraph(h.relations, frozenset()).components) == 1
    assert len(found) == (6 if connected else 0)
    for root, tree in enumerate(found):
        tree.check(Hypergraph(h.relations, h.attributes))
        assert tree.nodes[0].relation == root and tree.generalized == 0


def test_an_enumeration_of_trees_keeps_to_its_steps() -> None:
    """Thirty components that show something, below a key that is not shown: no way to put them together is a tree."""
    hidden = [frozenset({"k", f"a{i}"}) for i in range(30)]
    h = Hypergraph((frozenset({"k", "top"}), *hidden), frozenset(f"a{i}" for i in range(30)) | {"k"})
    budget = StepBudget(10_000)
    assert len(list(islice(join_trees(h, budget), 1_000_000))) < 10_000
    assert budget.left < 0
    nodes = [len(t.nodes) for t in some_trees(h, 3_000)]
    assert 0 < sum(nodes) < 2 * 3_000 + 60


@pytest.mark.parametrize("vertices", [6, 7, 8, 9, 10])
def test_cliques_of_edges(vertices: int) -> None:
    """All vertices are one bag, and half as many edges cover them."""
    names = "abcdefghij"[:vertices]
    h = Hypergraph(tuple(map(frozenset, combinations(names, 2))), frozenset())
    (bag,) = decompose(h)
    assert bag.attributes == frozenset(names) and bag.width == (vertices + 1) // 2


@pytest.mark.parametrize("relations", [12, 20, 30])
def test_relations_that_meet_in_pairs(relations: int) -> None:
    """Each two share an attribute of their own: far more attributes than all orders could be tried of."""
    pairs = [frozenset(f"{min(i, j)}-{max(i, j)}" for j in range(relations) if j != i) for i in range(relations)]
    bags = decompose(Hypergraph(tuple(pairs), frozenset()))
    assert len(gyo_core((*pairs, *(b.attributes for b in bags)))) <= 1
    for bag in bags:
        assert bag.attributes <= frozenset().union(*(pairs[i] for i in bag.cover))


def test_foreign_keys_with_very_many_trees() -> None:
    """Keys that all other relations have, in a cycle that no choice of most shared attributes makes a tree."""
    many = 24
    relations = [
        frozenset({f"k{i}", *(f"k{j}" for j in range(many) if (j - i) % many in (1, 2, 3))}) for i in range(many)
    ]
    h = Hypergraph(tuple(relations), frozenset())
    assert foreign_key_tree(h, [frozenset({f"k{i}"}) for i in range(many)]) is not None


def test_the_best_tree_of_a_large_query() -> None:
    h = random_acyclic(3, 60)
    whole = Hypergraph(h.relations, h.attributes)
    best_tree(whole).check(whole)
