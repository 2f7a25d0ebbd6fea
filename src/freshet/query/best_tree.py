"""The join tree a plan uses (CROWN 6.3): least height, then least sum of depth times updates.

The search is exact and polynomial, because some best tree always has this form:

- Below a relation every component is attached directly. If it were deeper it could be moved up: its key stays the same,
  it and everything else get no deeper. So a subtree is known by its part and key, and each such pair is solved once.
- Below a generalized node every component that has all the node's attributes is attached directly, for the same reason,
  as a relation's tree or below a larger generalized node. A component that lacks some of them has to be below a
  relation, and any relation that has no relation above it is as good as another, with one exception: a component that
  shows output attributes needs a *host* whose generalized ancestors are all output.

Heights add up as a maximum and sums do not, so the search is run with a bound on the height, from 1 up; the first bound
that has a tree is the least height, and the cheapest tree within it is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from freshet.errors import PlanError
from freshet.query.fragment import Fragments, Sketch, members
from freshet.query.hypergraph import Hypergraph
from freshet.query.tree import JoinTree


def best_tree(h: Hypergraph, updates: Sequence[float] | None = None) -> JoinTree:
    """Least height, then least sum of depth x updates, then fewest generalized nodes, then relations as given.

    `updates` are the expected numbers of updates of the relations; without them all are 1.
    """
    updates = (1.0,) * len(h.relations) if updates is None else updates
    check_updates(h, updates)
    search = _TreeSearch(Fragments(h), updates)
    for height in range(1, len(h.relations) + 1):
        best = search.rooted(height)
        if best is not None:
            return search.fragments.tree(best.sketch)
    raise AssertionError("every acyclic query has a join tree")


def check_updates(h: Hypergraph, updates: Sequence[float]) -> None:
    if len(updates) != len(h.relations) or any(not count >= 0 for count in updates):
        raise PlanError(
            f"updates {list(updates)} do not fit {len(h.relations)} relations; give each a count that is not negative"
        )


class _Subtree(NamedTuple):
    """A subtree and what it costs: the sum of depths x updates inside it, and its generalized nodes."""

    cost: float
    generalized: int
    sketch: Sketch


class _TreeSearch:
    def __init__(self, fragments: Fragments, updates: Sequence[float]) -> None:
        self.fragments = fragments
        self._weight: Callable[[int], float] = cache(lambda part: sum(updates[i] for i in members(part)))
        self._below = cache(self._best_below)
        self._guarded = cache(self._best_guarded)
        self._generalized = cache(self._best_generalized)

    def rooted(self, height: int) -> _Subtree | None:
        everything = self.fragments.everything
        generalized = (
            self._generalized(everything, attributes, height, False)
            for attributes in self.fragments.intersections(everything)
        )
        return _least([self._below(everything, 0, height), *generalized])

    def _best_below(self, part: int, key: int, height: int) -> _Subtree | None:
        """The best tree of a part with a relation on top, hanging on a key."""
        if height < 1 or not self.fragments.may_attach(part, key):
            return None
        return _least(
            self._topped(top, part, height) for top in members(part) if not key & ~self.fragments.relations[top]
        )

    def _topped(self, top: int, part: int, height: int) -> _Subtree | None:
        attributes = self.fragments.relations[top]
        attached = self._attached(self.fragments.components(part ^ (1 << top), attributes), attributes, height)
        if attached is None:
            return None
        cost, children = attached
        return _Subtree(cost, 0, Sketch(top, attributes, children))

    def _attached(self, parts: Sequence[int], above: int, height: int) -> tuple[float, tuple[Sketch, ...]] | None:
        """The best trees of parts that are below a relation at the given height, and their cost seen from there."""
        cost, children = 0.0, []
        for part in parts:
            key = self.fragments.key(part, above)
            # only a generalized node without attributes makes a cross product
            best = self._below(part, key, height - 1) if key else None
            if best is None:
                return None
            cost += self._weight(part) + best.cost
            children.append(best.sketch)
        return cost, tuple(children)

    def _best_guarded(self, part: int, guard: int, height: int, host: bool) -> _Subtree | None:
        """The best tree of a part as the child of a generalized node; with a host for parts that show output or not."""
        generalized = (
            self._generalized(part, attributes, height, host)
            for attributes in self.fragments.intersections(part)
            if not guard & ~attributes and attributes != guard
        )
        return _least([self._below(part, guard, height), *generalized])

    def _best_generalized(self, part: int, attributes: int, height: int, host: bool) -> _Subtree | None:
        """The best tree of a part with the generalized node of these attributes on top."""
        fragments = self.fragments
        if not fragments.may_attach(part, attributes) or (host and attributes & ~fragments.output):
            return None
        components = fragments.components(part, attributes)
        full = [component for component in components if fragments.key(component, attributes) == attributes]
        lacking = [component for component in components if fragments.key(component, attributes) != attributes]
        attached = self._attached(lacking, attributes, height)
        if len(full) < 2 or attached is None:
            return None
        shows = [fragments.shows(component, fragments.key(component, attributes)) for component in lacking]
        chosen = self._choose(full, attributes, height, host or any(shows))
        if chosen is None:
            return None
        cost, hung = attached
        sketch = Sketch(None, attributes, tuple(choice.sketch for choice in chosen))
        if hung:
            hosted = _hang(sketch, hung, fragments.output if any(shows) else ~0)
            assert hosted is not None, "the children were chosen so that one of them is a host"
            sketch = hosted
        return _Subtree(
            cost + sum(choice.cost for choice in chosen), 1 + sum(choice.generalized for choice in chosen), sketch
        )

    def _choose(self, full: Sequence[int], guard: int, height: int, host: bool) -> list[_Subtree] | None:
        """The best trees of the components below a generalized node, at least one of them a host if asked for."""
        chosen = [self._guarded(component, guard, height, False) for component in full]
        free = [choice for choice in chosen if choice is not None]
        if len(free) < len(full):
            return None
        if not host:
            return free
        best: tuple[float, int, int, _Subtree] | None = None
        for i, component in enumerate(full):
            hosting = self._guarded(component, guard, height, True)
            if hosting is not None:
                more = (hosting.cost - free[i].cost, hosting.generalized - free[i].generalized, i, hosting)
                if best is None or more[:2] < best[:2]:
                    best = more
        if best is None:
            return None
        free[best[2]] = best[3]
        return free


def _hang(sketch: Sketch, parts: tuple[Sketch, ...], output: int) -> Sketch | None:
    """The tree with parts added below its first relation whose generalized ancestors are all output."""
    if sketch.relation is not None:
        return sketch._replace(children=sketch.children + parts)
    if sketch.attributes & ~output:
        return None
    for i, child in enumerate(sketch.children):
        extended = _hang(child, parts, output)
        if extended is not None:
            return sketch._replace(children=(*sketch.children[:i], extended, *sketch.children[i + 1 :]))
    return None


def _least(choices: Iterable[_Subtree | None]) -> _Subtree | None:
    """The first of the best, so that relations keep their order among equals."""
    best: _Subtree | None = None
    for choice in choices:
        if choice is not None and (best is None or choice[:2] < best[:2]):
            best = choice
    return best
