"""The queries of the papers and of TPC-H, with the classes and trees they are known to have."""

from __future__ import annotations

import pytest

from freshet.query import Hypergraph, QueryClass, TreeAssertion, best_tree, classify, foreign_key_tree, join_trees
from tests.query.brute_force_trees import drawn, hypergraph


def query(output: str, **relations: str) -> Hypergraph:
    """Named relations with their attributes separated by blanks."""
    return Hypergraph(
        tuple(frozenset(attributes.split()) for attributes in relations.values()),
        frozenset(output.split()),
        tuple(relations),
    )


def test_two_hops_have_the_three_trees_of_figure_2() -> None:
    h = hypergraph(["ab", "bc"])
    assert {drawn(tree) for tree in join_trees(h)} == {"R1(R2)", "R2(R1)", "[b](R1 R2)"}
    assert classify(h).name == "q-hierarchical"
    assert drawn(best_tree(h)) == "[b](R1 R2)"
    for tree in join_trees(hypergraph(["ab", "bc"], "b")):
        assert [node.output for node in tree.nodes] == [i == 0 for i in range(len(tree.nodes))]


def test_the_example_of_figure_1() -> None:
    h = query("x1 x2 x3 x4", R1="x1 x2", R2="x2 x3", R3="x3 x4", R4="x4 x5")
    assert classify(h).name == "free-connex"
    best = best_tree(h)
    assert drawn(best) == "[x3](R2(R1) R3(R4))"
    assert best.height == 2
    assert [node.output for node in best.nodes] == [True, True, True, True, False]
    assert min(tree.height for tree in join_trees(h) if tree.generalized == 0) == 3


@pytest.mark.parametrize(
    ("relations", "output", "name", "height"),
    [
        (["ab", "bc", "cd"], "abcd", "free-connex", 2),  # 3 hops
        (["ab", "bc", "cd"], "bc", "free-connex", 2),
        (["ab", "bc", "cd"], "abd", "acyclic", 2),
        (["ab", "bc", "cd", "de"], "abcde", "free-connex", 2),  # 4 hops
        (["ab", "bc", "cd", "de"], "bcd", "free-connex", 2),
        (["xa", "xb", "xc", "xd"], "x", "q-hierarchical", 1),  # star
        (["xa", "xb", "xc", "xd"], "xabcd", "q-hierarchical", 1),
        (["xa", "xb", "xc", "xd"], "a", "free-connex", 2),
        (["xa", "xb", "xc", "xd"], "ab", "acyclic", 1),
        (["ab", "bc", "cd", "a", "d"], "abcd", "free-connex", 3),  # 2-comb
        (["a", "ab", "bc", "cd", "d"], "abcd", "free-connex", 3),  # theorem 6.2
        (["ab", "b"], "a", "free-connex", 2),  # theorem 6.7
        (["ab", "b"], "ab", "q-hierarchical", 1),
    ],
)
def test_classes_and_heights(relations: list[str], output: str, name: str, height: int) -> None:
    h = hypergraph(relations, output)
    assert classify(h).name == name
    assert best_tree(h).height == height


def test_tpch_q3() -> None:
    h = query("ok", customer="ck", orders="ok ck", lineitem="ok")
    assert classify(h).name == "free-connex"
    assert drawn(best_tree(h), names="COL") == "[ok](O(C) L)"


def test_tpch_q10() -> None:
    h = query("ck", customer="ck nk", orders="ok ck", lineitem="ok", nation="nk")
    assert classify(h).name == "free-connex"
    assert drawn(best_tree(h), names="COLN") == "[ck](C(N) O(L))"


Q5 = query(
    "nk",
    lineitem="ok sk",
    orders="ok ck",
    customer="ck nk",
    supplier="sk nk",
    nation="nk rk",
    region="rk",
)
Q5_KEYS = [None, *(frozenset({key}) for key in ("ok", "ck", "sk", "nk", "rk"))]


def test_tpch_q5() -> None:
    verdict = classify(Q5, Q5_KEYS)
    assert verdict.name == "foreign-key acyclic"
    assert not verdict.acyclic
    assert verdict.why_not[QueryClass.ACYCLIC] == (
        "there is a cycle through lineitem -ok- orders -ck- customer -nk- supplier -sk- lineitem"
    )
    best = foreign_key_tree(Q5, Q5_KEYS)
    assert best is not None
    best.check(Q5, Q5_KEYS)
    # nation below supplier: the path through customer would be longer
    assert drawn(best.tree, names="LOCSNR") == "L(O(C) S(N(R)))"
    assert best.assertions == (TreeAssertion(node=0, attribute="nk", left=2, right=3),)
    assert classify(Q5).name == "cyclic"


def test_tpch_q7_has_two_nations_and_no_cycle() -> None:
    h = query("n1 n2", lineitem="ok sk", supplier="sk n1", nation1="n1", orders="ok ck", customer="ck n2", nation2="n2")
    assert classify(h).name == "acyclic"
    assert best_tree(h).height == 3


def test_triangle_and_dumbbell_are_cyclic() -> None:
    triangle = classify(hypergraph(["ab", "bc", "ca"]))
    assert triangle.name == "cyclic"
    assert triangle.why_not[QueryClass.ACYCLIC] == "there is a cycle through R1 -a- R3 -c- R2 -b- R1"
    dumbbell = query("x3 x4", R1="x1 x2", R2="x1 x3", R3="x2 x3", R4="x5 x6", R5="x4 x5", R6="x4 x6", R7="x3 x4")
    assert classify(dumbbell).name == "cyclic"
    bags = query("x3 x4", B1="x1 x2 x3", B2="x4 x5 x6", R7="x3 x4")
    assert classify(bags).name == "free-connex"
    assert best_tree(bags).height == 2
