"""Why a query is in no stronger class: every sentence has a witness that can be checked."""

from __future__ import annotations

import tests.query.brute_force_trees as brute
from freshet.query import Hypergraph, QueryClass, classify
from freshet.query.hypergraph import gyo_core, minimal_cycle
from tests.query.brute_force_trees import hypergraph

CLASSES = ("q-hierarchical", "free-connex", "acyclic", "foreign-key acyclic")


def test_each_class_that_does_not_hold_has_a_reason() -> None:
    for h in brute.small_queries(3):
        verdict = classify(h)
        holds = (verdict.q_hierarchical, verdict.free_connex, verdict.acyclic, verdict.foreign_key_acyclic)
        assert list(verdict.why_not) == [name for name, held in zip(CLASSES, holds, strict=True) if not held]
        assert verdict.name == next((name for name, held in zip(CLASSES, holds, strict=True) if held), "cyclic")


def test_partial_overlap() -> None:
    assert classify(hypergraph(["ab", "bc", "cd"])).why_not[QueryClass.Q_HIERARCHICAL] == (
        "b and c overlap in R2 only partly: {R1, R2} vs {R2, R3}"
    )


def test_a_hidden_attribute_above_an_output_one() -> None:
    verdict = classify(hypergraph(["ab", "b"], "a"))
    assert verdict.hierarchical
    assert verdict.why_not[QueryClass.Q_HIERARCHICAL] == (
        "a is output and b is not, but b is in {R1, R2}, more than the {R1} of a"
    )


def test_an_output_that_is_not_connex() -> None:
    assert classify(hypergraph(["ab", "bc", "cd"], "ad")).why_not[QueryClass.FREE_CONNEX] == (
        "the output {a, d} is not connex: adding it as a relation makes a cycle through "
        "R1 -a- the output -d- R3 -c- R2 -b- R1"
    )


def test_a_cycle_of_large_relations() -> None:
    assert classify(hypergraph(["abcz", "bcd", "cda", "dab"])).why_not[QueryClass.ACYCLIC] == (
        "there is a cycle through R1, R2, R3, R4: all but any one of {a, b, c, d} lie together in a relation, "
        "but never all"
    )


def test_relations_are_called_by_their_names() -> None:
    h = Hypergraph(tuple(map(frozenset, ("ab", "bc", "cd"))), frozenset("abcd"), ("orders", "items", "parts"))
    assert classify(h).why_not[QueryClass.Q_HIERARCHICAL] == (
        "b and c overlap in items only partly: {orders, items} vs {items, parts}"
    )


def test_reasons_against_foreign_keys() -> None:
    h = hypergraph(["ab", "bc", "ca"])
    assert classify(h).why_not[QueryClass.FOREIGN_KEY_ACYCLIC] == "no primary keys are known"
    assert classify(h, [None, None, None]).why_not[QueryClass.FOREIGN_KEY_ACYCLIC] == (
        "no other relation has the primary key of R1, nor that of R2; only the root may lack a parent"
    )
    lonely = hypergraph(["ab", "ab", "cd", "cd"])
    verdict = classify(lonely, [frozenset("a"), frozenset("a"), frozenset("c"), frozenset("c")])
    assert (
        verdict.why_not[QueryClass.FOREIGN_KEY_ACYCLIC]
        == "primary keys do not lead from any one relation to all others"
    )


def test_a_cycle_has_nothing_to_leave_out() -> None:
    """The witness is a plain cycle or all the faces of a simplex, and no attribute can be dropped."""
    cyclic = {h.relations for h in brute.small_queries(4) if not h.is_acyclic}
    assert len(cyclic) > 10
    for relations in cyclic:
        attributes, core = minimal_cycle(relations)
        sizes = {len(relation) for relation in core.values()}
        assert sizes in ({2}, {len(attributes) - 1})
        assert len(core) == len(attributes) >= 3
        for attribute in attributes:
            assert len(gyo_core([relation & attributes - {attribute} for relation in relations])) <= 1
