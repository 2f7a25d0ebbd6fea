"""Every tree and the best tree against all labelled trees."""

from __future__ import annotations

import random
import time
from itertools import islice

import pytest

import tests.query.brute_force_trees as brute
from freshet.errors import PlanError
from freshet.query import Hypergraph, JoinTree, best_tree, join_trees
from tests.query.brute_force_trees import drawn, hypergraph

Updates = tuple[float, ...]
Shape = tuple[frozenset[tuple[object, object]], frozenset[object]]


def shape(tree: JoinTree) -> Shape:
    names = [node.attributes if node.relation is None else node.relation for node in tree.nodes]
    edges = frozenset((names[i], names[node.parent] if i else None) for i, node in enumerate(tree.nodes))
    return edges, frozenset(names[i] for i, node in enumerate(tree.nodes) if node.output)


def rank(tree: JoinTree, updates: Updates) -> tuple[int, float, int]:
    cost = sum(tree.depth(i) * updates[node.relation] for i, node in enumerate(tree.nodes) if node.relation is not None)
    return tree.height, cost, tree.generalized


def assert_like_brute_force(h: Hypergraph, updates: Updates) -> None:
    n, expected, least = len(h.relations), set(), []
    for nodes, parents, marks in brute.all_trees(h):
        least.append(brute.rank(parents, n, updates))
        # a generalized node with one child changes nothing and is not offered
        if all(parents.count(node) > 1 for node in range(n, len(nodes))):
            names = [node if node < n else nodes[node] for node in range(len(nodes))]
            edges = frozenset((names[i], names[parent] if parent >= 0 else None) for i, parent in enumerate(parents))
            expected.add((edges, frozenset(names[i] for i in marks)))
    trees = list(join_trees(h))
    for tree in trees:
        tree.check(h)
    shapes = [shape(tree) for tree in trees]
    assert len(shapes) == len(set(shapes)), h
    assert set(shapes) == expected, h
    best = best_tree(h, updates)
    best.check(h)
    assert rank(best, updates) == min(least), (h, updates)


def some(queries: tuple[Hypergraph, ...], count: int, seed: int) -> list[Hypergraph]:
    acyclic = [h for h in queries if h.is_acyclic]
    return random.Random(seed).sample(acyclic, min(count, len(acyclic)))


def some_updates(dice: random.Random, h: Hypergraph) -> Updates:
    return tuple(dice.choices((0, 1, 3), k=len(h.relations)))


@pytest.mark.parametrize(("relations", "attributes", "count"), [(3, "abc", 150), (3, "abcd", 60), (4, "abcd", 4)])
def test_all_trees_of_small_queries(relations: int, attributes: str, count: int) -> None:
    dice = random.Random(count)
    for h in some(brute.small_queries(relations, attributes), count, relations):
        assert_like_brute_force(h, some_updates(dice, h))


def grown_query(dice: random.Random, relations: int) -> Hypergraph:
    """An acyclic query: each relation takes some attributes of an earlier one and adds some of its own."""
    fresh = iter("abcdefghijklmnopqrstuvwxyz")
    grown: list[frozenset[str]] = []
    for _ in range(relations):
        near = sorted(dice.choice(grown)) if grown else []
        kept = [attribute for attribute in near if dice.random() < 0.7]
        grown.append(frozenset(kept + [next(fresh) for _ in range(dice.choice((0, 1, 1, 2)))]))
    attributes = sorted(frozenset().union(*grown))
    return Hypergraph(tuple(grown), frozenset(dice.sample(attributes, dice.randint(0, len(attributes)))))


@pytest.mark.parametrize("seed", range(4))
def test_the_best_tree_is_the_best_of_all_trees(seed: int) -> None:
    """On queries too large for labelled trees: nested generalized nodes, parts that lack some of their attributes."""
    dice = random.Random(seed)
    nested = 0
    for _ in range(60):
        h = grown_query(dice, dice.randint(4, 5))
        updates = some_updates(dice, h)
        best = best_tree(h, updates)
        best.check(h)
        nested += best.generalized > 1
        assert rank(best, updates) == min(rank(tree, updates) for tree in join_trees(h)), (h, updates)
    assert nested > 3


def test_the_best_tree_of_long_queries() -> None:
    """Relations of two attributes that are joined in long paths, so that trees are high and sums go deep."""
    dice = random.Random(11)
    high = 0
    for _ in range(60):
        relations = ["ab"]
        for letter in "cdefgh"[: dice.randint(4, 6)]:
            relations.append(dice.choice(relations[-2:])[1] + letter)
        h = hypergraph(dice.sample(relations, len(relations)))
        updates = tuple(dice.choices((1, 2, 5, 9), k=len(relations)))
        best = best_tree(h, updates)
        high += best.height > 2
        assert rank(best, updates) == min(rank(tree, updates) for tree in join_trees(h)), (h, updates)
    assert high > 20


def test_q_hierarchical_is_height_one() -> None:
    """Lemma 6.8 and its converse, on every small query."""
    queries = [h for h in brute.small_queries(4) if h.is_free_connex]
    for h in queries:
        assert (best_tree(h).height == 1) == h.is_q_hierarchical, h
    assert sum(h.is_q_hierarchical for h in queries) > 500


def test_a_part_that_shows_output_finds_a_host() -> None:
    """Below [a, A], (A, w) lacks a and must be attached to a relation that is an output node. So the two relations over
    b do not meet at [a, A, b], which is not output."""
    h = hypergraph(["aAb1", "aAb2", "aAc3", "aAc4", "az", "Aw"], "aAzw")
    best = best_tree(h)
    best.check(h)
    assert rank(best, (1,) * 6) == min(rank(tree, (1,) * 6) for tree in join_trees(h)) == (2, 2, 3)


def test_more_frequently_updated_relations_are_higher() -> None:
    chain = hypergraph(["ab", "bc", "cd"])
    assert [best_tree(chain, updates).height for updates in ((1, 1, 1), (9, 1, 1))] == [2, 2]
    assert drawn(best_tree(chain)) == "[b](R1 R2(R3))"
    assert drawn(best_tree(chain, (1, 1, 9))) == "[c](R2(R1) R3)"
    assert drawn(best_tree(chain, (1, 9, 1))) == "[b](R1 R2(R3))"


def test_relations_keep_their_order_among_equal_trees() -> None:
    assert drawn(best_tree(hypergraph(["ab", "ab"]))) == "[a, b](R1 R2)"
    assert drawn(best_tree(hypergraph(["a", "ab", "b"]))) == "[a](R1 R2(R3))"
    assert drawn(best_tree(hypergraph(["c", "b", "a"]))) == "[](R1 R2 R3)"


def test_cross_products_meet_below_a_node_without_attributes() -> None:
    for relations, picture in (
        (["ab", "cd"], "[](R1 R2)"),
        (["", "ab", "bc"], "[](R1 [b](R2 R3))"),
        (["", ""], "[](R1 R2)"),
        (["ab", "c", "bd", "de"], "[]([b](R1 R3(R4)) R2)"),
    ):
        h = hypergraph(relations)
        best = best_tree(h)
        assert drawn(best) == picture
        for tree in join_trees(h):
            tree.check(h)
            assert tree.nodes[0].attributes == frozenset()


def test_the_search_is_fast() -> None:
    """Ten relations in a chain, a star and a snowflake; brute force would take ages, not twice as long."""
    chain = ["abcdefghijk"[i : i + 2] for i in range(10)]
    star = ["x" + letter for letter in "abcdefghij"]
    snowflake = ["abc", "ad", "be", "cf", "dg", "eh", "fi", "dj", "ek", "fl"]
    for relations, height in ((chain, 5), (star, 1), (snowflake, 3)):
        started = time.perf_counter()
        assert best_tree(hypergraph(relations)).height == height
        assert time.perf_counter() - started < 0.3


def test_trees_are_made_as_they_are_asked_for() -> None:
    star = hypergraph(["x" + letter for letter in "abcdefghij"])
    for tree in islice(join_trees(star), 100):
        tree.check(star)


def test_refusals_say_what_to_do() -> None:
    triangle = hypergraph(["ab", "bc", "ca"])
    with pytest.raises(PlanError, match="cyclic query has no join tree; group its relations into bags"):
        join_trees(triangle)
    with pytest.raises(PlanError, match="cyclic"):
        best_tree(triangle)
    with pytest.raises(PlanError, match=r"updates .* do not fit 2 relations"):
        best_tree(hypergraph(["ab", "bc"]), (1,))
    with pytest.raises(PlanError, match="not negative"):
        best_tree(hypergraph(["ab", "bc"]), (1, float("nan")))


def test_relations_that_share_nothing_make_one_tree() -> None:
    """The ways to arrange them below a node are not tried: there are billions of them."""
    h = hypergraph(list("abcdefghijklmnopqrs"))
    assert [drawn(tree) for tree in join_trees(h)] == [drawn(best_tree(h))]
    joined = hypergraph(["ab", "bc", *"defghijklmnopqrs"])
    assert len(list(join_trees(joined))) == len(list(join_trees(hypergraph(["ab", "bc"]))))
