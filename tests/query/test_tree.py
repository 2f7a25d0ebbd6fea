"""The measures of a join tree, and that `check` names each violated property."""

from __future__ import annotations

import pytest

from freshet.errors import PlanError
from freshet.query import JoinTree, TreeNode
from tests.query.brute_force_trees import hypergraph

Node = tuple[int | None, str, int] | tuple[int | None, str, int, bool]


def tree(*nodes: Node) -> JoinTree:
    """Nodes as (relation, attributes, parent[, output])."""
    return JoinTree(
        tuple(TreeNode(node[0], frozenset(node[1]), node[2], node[3] if len(node) > 3 else True) for node in nodes)
    )


def test_heights_and_depths_do_not_count_generalized_nodes() -> None:
    plan = tree((None, "c", -1), (1, "bc", 0), (0, "ab", 1), (2, "cd", 0), (3, "de", 3, False))
    plan.check(hypergraph(["ab", "bc", "cd", "de"], "abcd"))
    assert plan.height == 2
    assert [plan.depth(i) for i in range(5)] == [0, 0, 1, 0, 1]
    assert [plan.children(i) for i in range(5)] == [(1, 3), (2,), (), (4,), ()]
    assert [plan.key(i) for i in range(5)] == [(), ("c",), ("b",), ("c",), ("d",)]
    assert plan.generalized == 1


def test_keys_are_sorted() -> None:
    assert tree((0, "zcab", -1), (1, "bzcy", 0)).key(1) == ("b", "c", "z")


@pytest.mark.parametrize(
    ("plan", "relations", "output", "message"),
    [
        (tree((0, "ab", -1)), ["ab", "bc"], "ab", r"cover: the tree has relations \[0\]"),
        (tree((0, "ab", -1), (0, "ab", 0)), ["ab", "bc"], "ab", r"cover: the tree has relations \[0, 0\]"),
        (tree((0, "ab", -1), (1, "b", 0)), ["ab", "bc"], "ab", r"cover: R2\(b\) must have .* \{b, c\}"),
        (tree((None, "b", -1), (0, "ab", 0), (None, "b", 0)), ["ab"], "ab", r"cover: the leaf \[b\] is generalized"),
        (tree((0, "ab", -1), (1, "bc", -1)), ["ab", "bc"], "ab", "node 1 is out of order"),
        (tree((0, "ab", 1), (1, "bc", -1)), ["ab", "bc"], "ab", "node 0 is out of order"),
        (
            tree((0, "b", -1), (1, "bc", 0), (2, "bd", 0), (3, "c", 1)),
            ["b", "bc", "bd", "c"],
            "b",
            "node 3 is out of order",
        ),
        (tree((0, "ab", -1), (1, "bc", 0), (2, "ac", 1)), ["ab", "bc", "ac"], "abc", r"connect: a is in R1\(a, b\)"),
        (tree((None, "ab", -1), (0, "ab", 0), (1, "bc", 0)), ["ab", "bc"], "abc", r"guard: R2\(b, c\) lacks \{a\}"),
        (
            tree((0, "ab", -1), (None, "b", 0), (1, "bc", 1), (2, "bd", 1)),
            ["ab", "bc", "bd"],
            "abcd",
            r"above: the generalized node \[b\] is below the relation R1",
        ),
        (tree((0, "ab", -1, False), (1, "b", 0, False)), ["ab", "b"], "a", "connex: the root must be an output node"),
        (tree((1, "b", -1), (0, "ab", 0)), ["ab", "b"], "a", r"connex: the key of output node R1\(a, b\) has \{b\}"),
        (tree((0, "ab", -1), (1, "bc", 0, False)), ["ab", "bc"], "abc", r"connex: no output node has \{c\}"),
        (
            tree((0, "ab", -1), (1, "bc", 0, False), (2, "cd", 1)),
            ["ab", "bc", "cd"],
            "ab",
            r"connex: R3\(c, d\) is an output node, its parent is not",
        ),
    ],
)
def test_a_violation_is_named(plan: JoinTree, relations: list[str], output: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        plan.check(hypergraph(relations, output))


def test_acyclic_queries_that_are_not_free_connex_show_everything() -> None:
    h = hypergraph(["ab", "bc"], "ac")
    tree((None, "b", -1), (0, "ab", 0), (1, "bc", 0)).check(h)
    with pytest.raises(PlanError, match=r"no output node has \{c\}"):
        tree((None, "b", -1), (0, "ab", 0), (1, "bc", 0, False)).check(h)
