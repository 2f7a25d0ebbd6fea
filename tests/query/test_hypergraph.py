"""Verdicts on every small query against the definitions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tests.query.brute_force_trees as brute
from freshet.errors import PlanError
from freshet.query import Hypergraph
from tests.query.brute_force_trees import hypergraph

attribute_sets = st.sets(st.sampled_from("abcdef"), max_size=4).map(frozenset)


def assert_verdicts(h: Hypergraph) -> None:
    assert h.is_acyclic == brute.is_acyclic(h.relations), h
    assert h.is_free_connex == brute.is_free_connex(h), h
    assert h.is_q_hierarchical == brute.is_q_hierarchical(h), h


def test_every_query_of_four_relations_over_four_attributes() -> None:
    queries = brute.small_queries(4)
    for h in queries:
        assert_verdicts(h)
    assert len(queries) > 2000
    assert {h.is_acyclic for h in queries} == {h.is_free_connex for h in queries} == {True, False}


@settings(max_examples=150, deadline=None)
@given(st.lists(attribute_sets, min_size=5, max_size=5), st.data())
def test_five_relations(relations: list[frozenset[str]], data: st.DataObject) -> None:
    attributes = sorted(frozenset().union(*relations))
    output = data.draw(st.sets(st.sampled_from(attributes))) if attributes else set()
    assert_verdicts(Hypergraph(tuple(relations), frozenset(output)))


def test_the_classes_are_nested() -> None:
    for h in brute.small_queries(3):
        assert not h.is_q_hierarchical or (h.is_free_connex and h.is_hierarchical)
        assert not h.is_free_connex or h.is_acyclic


def test_components_keep_the_order_of_relations() -> None:
    assert hypergraph(["ab", "cd", "", "bc", "e", ""]).components == ((0, 1, 3), (2,), (4,), (5,))
    assert hypergraph(["ab", "ab"]).components == ((0, 1),)


def test_bad_queries_are_refused() -> None:
    with pytest.raises(PlanError, match="output attribute z; the relations have a, b"):
        hypergraph(["ab"], "az")
    with pytest.raises(PlanError, match="no relations"):
        Hypergraph((), frozenset())
    with pytest.raises(PlanError, match="1 names for 2 relations"):
        Hypergraph((frozenset("a"), frozenset("b")), frozenset(), ("orders",))
