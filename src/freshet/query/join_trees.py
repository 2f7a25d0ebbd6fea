"""All join trees of an acyclic query that a plan may choose from.

Those are the traditional join trees with every root, and those with generalized nodes above the relations, nested ones
included. Two kinds of tree are left out because another one is the same but simpler: those with a generalized node
that has one child, or the attributes of its parent; and for a cross product, those in which relations meet on an edge
with an empty key, instead of below the generalized node without attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from freshet.query.fragment import Fragments, Sketch, members
from freshet.query.hypergraph import Hypergraph
from freshet.query.tree import JoinTree


def join_trees(h: Hypergraph) -> Iterator[JoinTree]:
    """Each tree once, made as it is asked for: a star of n relations has about n to the power n of them.

    The trees have the output of the query where it is free-connex, all attributes as output where it is not.
    """
    fragments = Fragments(h)
    everything = fragments.everything

    def rooted() -> Iterator[Sketch]:
        yield from _below(fragments, everything, 0)
        for attributes in fragments.intersections(everything):
            yield from _generalized(fragments, everything, attributes)

    return (fragments.tree(sketch) for sketch in rooted())


def _below(fragments: Fragments, part: int, key: int) -> Iterator[Sketch]:
    """All trees of a part with a relation on top, hanging on a key."""
    for top in members(part):
        attributes = fragments.relations[top]
        if key & ~attributes:
            continue
        components = fragments.components(part ^ (1 << top), attributes)
        if not all(fragments.key(component, attributes) for component in components):
            continue  # a component that shares nothing with the top shares nothing with the others either
        for groups in _groupings(components):
            edges = [(group, fragments.key(group, attributes)) for group in groups]
            if all(fragments.may_hang(group, below) for group, below in edges):
                for children in _forests(partial(_below, fragments), edges):
                    yield Sketch(top, attributes, children)


def _generalized(fragments: Fragments, part: int, attributes: int) -> Iterator[Sketch]:
    """All trees of a part with the generalized node of these attributes on top."""
    if not fragments.may_hang(part, attributes):
        return
    components = fragments.components(part, attributes)
    if attributes and not all(fragments.key(component, attributes) for component in components):
        return
    # without attributes there is nothing that two components could hang together by
    for groups in _groupings(components) if attributes else [components]:
        if len(groups) > 1:
            for children in _forests(partial(_guarded, fragments), [(group, attributes) for group in groups]):
                yield Sketch(None, attributes, children)


def _guarded(fragments: Fragments, part: int, guard: int) -> Iterator[Sketch]:
    """All trees of a part that can be a child of a generalized node."""
    yield from _below(fragments, part, guard)
    for attributes in fragments.intersections(part):
        if not guard & ~attributes and attributes != guard:
            yield from _generalized(fragments, part, attributes)


def _forests(
    trees: Callable[[int, int], Iterator[Sketch]], edges: Sequence[tuple[int, int]]
) -> Iterator[tuple[Sketch, ...]]:
    """Every choice of one tree for each edge."""
    if not edges:
        yield ()
        return
    for first in trees(*edges[0]):
        for rest in _forests(trees, edges[1:]):
            yield (first, *rest)


def _groupings(components: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every way to put components together into the parts below different children."""
    if not components:
        yield ()
        return
    first, *others = components
    for groups in _groupings(others):
        yield (first, *groups)
        for i, group in enumerate(groups):
            yield (first | group, *groups[:i], *groups[i + 1 :])
