"""Bags that make a cyclic query a tree: generalized hypertree decompositions of least width.

Eliminating attributes one after the other, each with the bag of its neighbours at that time (which then become
neighbours of one another), gives a decomposition, and some order gives one of least width. So the search runs over sets
of eliminated attributes: what the bag of the next one is does not depend on the order in which they went. Width comes
first; among equals the sum of what bags may hold, relations of equal size assumed. Where a cycle has many attributes
the next one is taken greedily: the one with the narrowest bag, or, of very many, with the smallest.

A bag covered by one relation needs no storing: that relation is the node. Together with the relations, the other bags
form an acyclic hypergraph. Sets of attributes are bits of an int.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from freshet.query.attribute import AttributeSet, in_order
from freshet.query.budget import StepBudget
from freshet.query.fragment import members
from freshet.query.hypergraph import Hypergraph, gyo_core

#: Attributes of a cycle up to which all orders are searched; and up to which the narrowest bag is looked for.
EXACT, NARROWEST = 12, 48
_COVER = 20_000  # steps to find the fewest relations that cover a bag
_SIZE = 1_000.0  # of a relation, to weigh bags of different width


@dataclass(frozen=True)
class Bag:
    """Attributes, and the fewest relations that have them all together."""

    attributes: AttributeSet
    cover: tuple[int, ...]

    @property
    def width(self) -> int:
        return len(self.cover)


def decompose(h: Hypergraph) -> tuple[Bag, ...]:
    """The bags to store, none for an acyclic query."""
    core = gyo_core(h.relations)
    if len(core) <= 1:
        return ()
    search = _BagSearch(h, core)
    bags = list(dict.fromkeys(search.best() if len(search.order) <= EXACT else search.greedy()))
    largest = [b for b in bags if not any(b != c and not b & ~c for c in bags)]
    return tuple(Bag(search.attributes(b), search.cover(b)) for b in largest if len(search.cover(b)) > 1)


class _BagSearch:
    def __init__(self, h: Hypergraph, core: dict[int, AttributeSet]) -> None:
        self.order = in_order(frozenset().union(*core.values()))
        self.relations = [self._bits(r) for r in h.relations]
        edges = [self._bits(r) for r in core.values()]
        self.near = [self._union(e for e in edges if e >> x & 1) & ~(1 << x) for x in range(len(self.order))]
        self.cover: Callable[[int], tuple[int, ...]] = cache(self._cover)

    def _bits(self, attributes: AttributeSet) -> int:
        return sum(1 << i for i, a in enumerate(self.order) if a in attributes)

    @staticmethod
    def _union(sets: Iterable[int]) -> int:
        union = 0
        for each in sets:
            union |= each
        return union

    def attributes(self, bag: int) -> AttributeSet:
        return frozenset(self.order[x] for x in members(bag))

    def _bag(self, gone: int, x: int) -> int:
        """x and the attributes still there that it reaches through those eliminated."""
        seen, reached = 1 << x, self.near[x]
        while through := reached & gone & ~seen:
            for y in members(through):
                reached |= self.near[y]
            seen |= through
        return (reached & ~gone) | 1 << x

    def _cover(self, bag: int) -> tuple[int, ...]:
        """The fewest relations that together have all attributes of a bag, as far as a bounded search finds them."""
        useful = {i: r & bag for i, r in enumerate(self.relations) if r & bag}
        greedy, left = [], bag
        while left:
            i = max(useful, key=lambda i: (useful[i] & left).bit_count())
            greedy.append(i)
            left &= ~useful[i]
        budget, most = StepBudget(_COVER), max(u.bit_count() for u in useful.values())

        def covered(left: int, size: int) -> tuple[int, ...] | None:
            if not left:
                return ()
            if left.bit_count() > size * most or not budget.spend(left.bit_count()):
                return None
            choices = min(([i for i, u in useful.items() if u >> x & 1] for x in members(left)), key=len)
            for i in choices:
                rest = covered(left & ~useful[i], size - 1)
                if rest is not None:
                    return (i, *rest)
            return None

        for size in range(1, len(greedy)):
            fewest = covered(bag, size)
            if fewest is not None:
                return tuple(sorted(fewest))
        return tuple(sorted(greedy))

    def _cost(self, bag: int) -> tuple[int, float]:
        width = len(self.cover(bag))
        return width, 0.0 if width == 1 else _SIZE**width * bag.bit_count()

    def best(self) -> list[int]:
        everything = (1 << len(self.order)) - 1

        def within(width: int) -> list[int] | None:
            @cache
            def cheapest(gone: int) -> tuple[float, tuple[int, ...]] | None:
                """The least sum of costs of what is still to come within that width, and the bags that have it."""
                if gone == everything:
                    return 0.0, ()
                bags = [(x, self._bag(gone, x)) for x in members(everything & ~gone)]
                ranked = [(*self._cost(bag), x, bag) for x, bag in bags]
                free = [each for each in ranked if each[0] == 1]  # costs nothing, now or later
                least: tuple[float, tuple[int, ...]] | None = None
                for wide, cost, x, bag in free[:1] or ranked:
                    further = cheapest(gone | 1 << x) if wide <= width else None
                    if further is not None and (least is None or cost + further[0] < least[0]):
                        least = cost + further[0], (bag, *further[1])
                return least

            least = cheapest(0)
            return None if least is None else list(least[1])

        widest = max(len(self.cover(bag)) for bag in self.greedy())
        results = (within(width) for width in range(1, widest + 1))
        return next(bags for bags in results if bags is not None)

    def greedy(self) -> list[int]:
        near = list(self.near)
        narrow = len(self.order) <= NARROWEST

        def rank(x: int) -> tuple[float, ...]:
            bag = near[x] | 1 << x
            return self._cost(bag) if narrow else (bag.bit_count(),)

        ranks = {x: rank(x) for x in range(len(near))}
        bags = []
        while ranks:
            x = min(ranks, key=ranks.__getitem__)
            del ranks[x]
            bags.append(near[x] | 1 << x)
            around = list(members(near[x]))
            for y in around:
                near[y] = (near[y] | near[x]) & ~(1 << x | 1 << y)
            for y in around:
                ranks[y] = rank(y)
        return bags
