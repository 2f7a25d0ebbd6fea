"""Bags make every small cyclic query acyclic, with the least width there is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pytest

from freshet.query import Hypergraph
from freshet.query.decompose import EXACT, Bag, decompose
from freshet.query.hypergraph import gyo_core


def graph(*relations: str) -> Hypergraph:
    every = frozenset("".join(relations))
    return Hypergraph(tuple(map(frozenset, relations)), every)


def is_tree(h: Hypergraph, bags: tuple[frozenset[str], ...]) -> bool:
    return len(gyo_core((*h.relations, *bags))) <= 1


def covered_by(h: Hypergraph, bag: frozenset[str], count: int) -> bool:
    return any(bag <= frozenset().union(*chosen) for chosen in combinations(h.relations, min(count, len(h.relations))))


def least_width(h: Hypergraph) -> int:
    """By definition: some bags, each covered by so many relations, make the query a tree."""
    attributes = sorted(h.attributes)
    subsets = [frozenset(c) for size in range(2, len(attributes) + 1) for c in combinations(attributes, size)]
    for width in range(1, len(h.relations) + 1):
        narrow = [s for s in subsets if covered_by(h, s, width)]
        # No bag inside another is needed, and a query of n attributes has a tree of fewer than n bags.
        for count in range(len(attributes)):
            if any(is_tree(h, chosen) for chosen in combinations(narrow, count)):
                return width if count else 1
    raise AssertionError("one bag with all attributes always does")


def small_hypergraphs() -> Iterator[Hypergraph]:
    """Up to five relations over four attributes, one of each kind that renaming cannot tell apart, all connected."""
    edges = [frozenset(c) for size in range(1, 5) for c in combinations("abcd", size)]
    for size in range(3, 6):
        for chosen in combinations(edges, size):
            h = Hypergraph(chosen, frozenset().union(*chosen))
            if len(h.components) == 1:
                yield h


def test_small_queries_get_the_least_width() -> None:
    seen = 0
    for h in small_hypergraphs():
        bags = decompose(h)
        assert (not bags) == h.is_acyclic
        assert is_tree(h, tuple(b.attributes for b in bags))
        for b in bags:
            assert b.attributes <= frozenset().union(*(h.relations[i] for i in b.cover))
        if bags:
            assert max(b.width for b in bags) == least_width(h)
            seen += 1
    assert seen > 100


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
        assert {"".join(sorted(b.attributes)) for b in bags} == set(expected)


def test_a_long_cycle_is_searched_greedily() -> None:
    names = [chr(ord("a") + i) for i in range(EXACT + 3)]
    h = graph(*(x + y for x, y in zip(names, [*names[1:], names[0]], strict=True)))
    bags: tuple[Bag, ...] = decompose(h)
    assert is_tree(h, tuple(b.attributes for b in bags)) and max(b.width for b in bags) == 2
