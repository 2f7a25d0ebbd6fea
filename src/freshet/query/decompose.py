"""Bags that make a cyclic query a tree: generalized hypertree decompositions of least width.

Eliminating attributes one after the other, each with the bag of its neighbours at that time (which then become
neighbours of one another), gives a decomposition, and some order gives one of least width. So the search runs over sets
of eliminated attributes: what the bag of the next one is does not depend on the order in which they went. Width comes
first; among equals the sum of what bags may hold, relations of equal size assumed.

A bag covered by one relation needs no storing: that relation is the node. Together with the relations, the other bags
form an acyclic hypergraph.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations

from freshet.query.hypergraph import Hypergraph, gyo_core

#: Attributes of a cycle up to which all orders are searched; beyond, the next one is taken greedily.
EXACT = 12
_SIZE = 1_000.0  # of a relation, to weigh bags of different width


@dataclass(frozen=True)
class Bag:
    """Attributes, and the fewest relations that have them all together."""

    attributes: frozenset[str]
    cover: tuple[int, ...]

    @property
    def width(self) -> int:
        return len(self.cover)


def decompose(h: Hypergraph) -> tuple[Bag, ...]:
    """The bags to store, none for an acyclic query."""
    core = gyo_core(h.relations)
    if len(core) <= 1:
        return ()
    search = _Search(h, core)
    order = search.best() if len(search.attributes) <= EXACT else search.greedy()
    bags = [search.bag(order[:i], x) for i, x in enumerate(order)]
    largest = [b for i, b in enumerate(bags) if not any(b < c or (b == c and j < i) for j, c in enumerate(bags))]
    return tuple(Bag(b, search.cover(b)) for b in largest if len(search.cover(b)) > 1)


class _Search:
    def __init__(self, h: Hypergraph, core: dict[int, frozenset[str]]) -> None:
        self.relations = h.relations
        self.attributes = tuple(sorted(frozenset().union(*core.values())))
        self.near = {x: frozenset().union(*(r for r in core.values() if x in r)) - {x} for x in self.attributes}
        self.cover = cache(self._cover)
        self._reached = cache(self._bag)

    def bag(self, gone: tuple[str, ...], x: str) -> frozenset[str]:
        return self._reached(frozenset(gone), x)

    def _bag(self, gone: frozenset[str], x: str) -> frozenset[str]:
        """x and the attributes still there that it reaches through those eliminated."""
        seen, found, ahead = {x}, {x}, [x]
        while ahead:
            for y in self.near[ahead.pop()] - seen:
                seen.add(y)
                if y in gone:
                    ahead.append(y)
                else:
                    found.add(y)
        return frozenset(found)

    def _cover(self, bag: frozenset[str]) -> tuple[int, ...]:
        """The fewest relations that together have all attributes of a bag, the first ones among equals."""
        useful = [i for i, r in enumerate(self.relations) if r & bag]
        for size in range(1, len(useful) + 1):
            for chosen in combinations(useful, size):
                if bag <= frozenset().union(*(self.relations[i] for i in chosen)):
                    return chosen
        raise AssertionError("every attribute is in some relation")

    def _cost(self, bag: frozenset[str]) -> tuple[int, float]:
        width = len(self.cover(bag))
        return width, 0.0 if width == 1 else _SIZE**width * len(bag)

    def best(self) -> tuple[str, ...]:
        everything = frozenset(self.attributes)

        @cache
        def narrowest(gone: frozenset[str]) -> int:
            """The least width of what is still to come."""
            left = everything - gone
            return min(
                (max(self._cost(self._reached(gone, x))[0], narrowest(gone | {x})) for x in sorted(left)), default=0
            )

        width = narrowest(frozenset())

        @cache
        def cheapest(gone: frozenset[str]) -> tuple[float, tuple[str, ...]]:
            """The least sum of costs within that width, and the order that has it."""
            found: tuple[float, tuple[str, ...]] | None = None
            for x in sorted(everything - gone):
                wide, cost = self._cost(self._reached(gone, x))
                if wide > width or narrowest(gone | {x}) > width:
                    continue
                further, order = cheapest(gone | {x})
                if found is None or cost + further < found[0]:
                    found = cost + further, (x, *order)
            return found or (0.0, ())

        return cheapest(frozenset())[1]

    def greedy(self) -> tuple[str, ...]:
        order: tuple[str, ...] = ()
        while len(order) < len(self.attributes):
            left = [x for x in self.attributes if x not in order]
            order = (*order, min(left, key=lambda x: self._cost(self.bag(order, x))))
        return order
