"""Foreign-key trees against all parent vectors."""

from __future__ import annotations

import random
from itertools import product

import pytest

from freshet.errors import PlanError
from freshet.query import ForeignKeyTree, Hypergraph, TreeAssertion, foreign_key_tree
from tests.query.brute_force_trees import drawn, hypergraph

Keys = list[frozenset[str] | None]
Rank = tuple[int, int, float]


def keys(*primary_keys: str | None) -> Keys:
    return [None if key is None else frozenset(key) for key in primary_keys]


def brute_rank(h: Hypergraph, primary_keys: Keys, updates: tuple[float, ...]) -> Rank | None:
    """Assertions, height and sum of depth x updates of the best tree, by trying every parent of every relation."""
    n, ranks = len(h.relations), []
    for parents in product(range(-1, n), repeat=n):
        if parents.count(-1) != 1:
            continue
        paths = []
        for i in range(n):
            path = [i]
            while parents[path[-1]] >= 0 and len(path) <= n:
                path.append(parents[path[-1]])
            paths.append(path)
        if any(len(path) > n for path in paths):
            continue
        on_keys = [
            (primary_keys[i], h.relations[i] & h.relations[parent]) for i, parent in enumerate(parents) if parent >= 0
        ]
        if all(primary_key is not None and primary_key <= key for primary_key, key in on_keys):
            parts = 0
            for attribute in h.attributes:
                holders = {i for i in range(n) if attribute in h.relations[i]}
                parts += sum(parents[i] not in holders for i in holders) - 1
            cost = sum((len(path) - 1) * count for path, count in zip(paths, updates, strict=True))
            ranks.append((parts, max(map(len, paths)), cost))
    return min(ranks, default=None)


def rank(candidate: ForeignKeyTree, updates: tuple[float, ...]) -> Rank:
    tree = candidate.tree
    cost = sum(tree.depth(i) * updates[node.relation or 0] for i, node in enumerate(tree.nodes))
    return len(candidate.assertions), tree.height, cost


def test_the_best_tree_is_the_best_of_all_parent_vectors() -> None:
    dice = random.Random(7)
    with_tree = with_assertions = 0
    for _ in range(700):
        n = dice.randint(1, 5)
        relations = tuple(frozenset(dice.sample("abcde", dice.randint(1, 3))) for _ in range(n))
        h = Hypergraph(relations, frozenset())
        primary_keys: Keys = [
            frozenset(dice.sample(sorted(relation), min(len(relation), dice.choice((1, 1, 2)))))
            if dice.random() < 0.9
            else None
            for relation in relations
        ]
        updates = tuple(dice.choices((0.0, 1.0, 3.0), k=n))
        best = foreign_key_tree(h, primary_keys, updates)
        expected = brute_rank(h, primary_keys, updates)
        assert (None if best is None else rank(best, updates)) == expected, (h, primary_keys, updates)
        if best is not None:
            best.check(h, primary_keys)
            with_tree += 1
            with_assertions += bool(best.assertions)
            if not best.assertions:
                best.tree.check(Hypergraph(relations, h.attributes))
    assert with_tree > 100
    assert with_assertions > 30


def test_an_assertion_is_as_low_as_possible() -> None:
    """x is in A, B and F of A -> B -> D -> F but not in D: B, not A, is where B and F are compared."""
    h = hypergraph(["xb", "xbd", "df", "fx"])
    best = foreign_key_tree(h, keys(None, "b", "d", "f"))
    assert best is not None
    assert drawn(best.tree, names="ABDF") == "A(B(D(F)))"
    assert best.assertions == (TreeAssertion(node=1, attribute="x", left=1, right=3),)


def test_keys_hold_the_whole_primary_key() -> None:
    """A lineitem refers to partsupp by two columns; part and supplier alone do not lead there."""
    h = hypergraph(["op", "ps", "ops"])
    assert foreign_key_tree(h, keys("o", "ps", None)) is not None
    assert foreign_key_tree(hypergraph(["op", "ps", "os"]), keys("o", "ps", None)) is None


def test_an_acyclic_query_needs_no_assertions() -> None:
    best = foreign_key_tree(hypergraph(["oc", "cn", "n"]), keys("o", "c", "n"))
    assert best is not None
    assert drawn(best.tree) == "R1(R2(R3))"
    assert best.assertions == ()


def test_relations_with_more_updates_are_higher() -> None:
    """Three tables with the same key: any may be the root, and the rest hang directly below."""
    h = hypergraph(["ka", "kb", "kc"])
    for updates, picture in (((1, 1, 1), "R1(R2 R3)"), ((1, 1, 2), "R3(R1 R2)")):
        best = foreign_key_tree(h, keys("k", "k", "k"), updates)
        assert best is not None
        assert drawn(best.tree) == picture


def test_wrong_numbers_of_keys_are_refused() -> None:
    with pytest.raises(PlanError, match="1 primary keys for 2 relations"):
        foreign_key_tree(hypergraph(["ab", "b"]), keys("a"))


def test_check_refuses_trees_that_follow_no_key_or_forget_an_assertion() -> None:
    h = hypergraph(["os", "oc", "cn", "sn"])
    best = foreign_key_tree(h, keys(None, "o", "c", "s"))
    assert best is not None
    with pytest.raises(PlanError, match="make n equal"):
        ForeignKeyTree(best.tree, ()).check(h, keys(None, "o", "c", "s"))
    with pytest.raises(PlanError, match="the assertion on n at node 1 compares nodes 2 and 3"):
        ForeignKeyTree(best.tree, (TreeAssertion(1, "n", 2, 3),)).check(h, keys(None, "o", "c", "s"))
    with pytest.raises(PlanError, match="the parent of R4 lacks"):
        best.check(h, keys(None, "o", "c", "n"))
