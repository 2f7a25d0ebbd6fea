"""Bags of cyclic queries that are known by name; test_every_query has all small ones."""

from __future__ import annotations

from itertools import combinations

import pytest

from freshet.query import Hypergraph
from freshet.query.attribute import AttributeSet, in_order
from freshet.query.decompose import EXACT, Bag, decompose
from freshet.query.hypergraph import gyo_core


def graph(*relations: str) -> Hypergraph:
    every = frozenset("".join(relations))
    return Hypergraph(tuple(map(frozenset, relations)), every)


def is_tree(h: Hypergraph, bags: tuple[AttributeSet, ...]) -> bool:
    return len(gyo_core((*h.relations, *bags))) <= 1


NAMED = {
    "triangle": (("ab", "bc", "ca"), 2, ["abc"]),
    "4-cycle": (("ab", "bc", "cd", "da"), 2, ["abc", "acd"]),
    "4-clique": (("ab", "ac", "ad", "bc", "bd", "cd"), 2, ["abcd"]),
    "two triangles and a bridge": (("ab", "bc", "ca", "cd", "de", "ef", "fd"), 2, ["abc", "def"]),
    "6-clique": (tuple("".join(c) for c in combinations("abcdef", 2)), 3, ["abcdef"]),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_queries(name: str) -> None:
    relations, width, expected = NAMED[name]
    bags = decompose(graph(*relations))
    assert max(b.width for b in bags) == width
    assert len(bags) == len(expected) and {len(b.attributes) for b in bags} == {len(e) for e in expected}
    if name != "4-cycle":  # which has two decompositions that differ by a turn
        assert {"".join(map(str, in_order(b.attributes))) for b in bags} == set(expected)


def test_a_long_cycle_is_searched_greedily() -> None:
    names = [chr(ord("a") + i) for i in range(EXACT + 3)]
    h = graph(*(x + y for x, y in zip(names, [*names[1:], names[0]], strict=True)))
    bags: tuple[Bag, ...] = decompose(h)
    assert is_tree(h, tuple(b.attributes for b in bags)) and max(b.width for b in bags) == 2
