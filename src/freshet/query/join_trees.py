"""All join trees of an acyclic query that a plan may choose from.

Those are the traditional join trees with every root, and those with generalized nodes above the relations, nested ones
included. Two kinds of tree are left out because another one is the same but simpler: those with a generalized node
that has one child, or the attributes of its parent; and for a cross product, those in which relations meet on an edge
with an empty key, instead of below the generalized node without attributes.

There may be far too many to look at, and far too many ways that lead to none. `some_trees` looks at a bounded number of
both; `plain_trees` has one tree for each root, without generalized nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

from freshet.query.budget import StepBudget
from freshet.query.fragment import Fragments, Sketch, members
from freshet.query.hypergraph import Hypergraph
from freshet.query.tree import JoinTree, TreeNode

#: Trees looked at where only some will do, far more than small queries have; their nodes; and steps to find them.
TREES, NODES, STEPS = 5_000, 30_000, 100_000


def some_trees(h: Hypergraph, nodes: int = NODES) -> Iterator[JoinTree]:
    """The first join trees, as many as have so many nodes together."""
    return islice(join_trees(h, StepBudget(STEPS)), min(TREES, 1 + nodes // len(h.relations)))


def plain_trees(h: Hypergraph) -> Iterator[JoinTree]:
    """A join tree of relations alone for each of them as root; none where that makes a cross product. A tree of most
    shared attributes is one, and it is the same seen from every root."""
    many = len(h.relations)
    edges = [(len(h.relations[i] & h.relations[j]), -i, -j) for i in range(many) for j in range(i)]
    near: list[list[int]] = [[] for _ in range(many)]
    parts = list(range(many))

    def part(i: int) -> int:
        while parts[i] != i:
            i = parts[i]
        return i

    for shared, i, j in sorted(edges, reverse=True):
        one, other = part(-i), part(-j)
        if one != other:
            if not shared:
                return
            parts[one] = other
            near[-i].append(-j)
            near[-j].append(-i)
    for root in range(many):
        nodes: list[TreeNode] = []
        ahead = [(root, -1)]
        while ahead:
            relation, parent = ahead.pop()
            above = nodes[parent].relation if parent >= 0 else None
            nodes.append(TreeNode(relation, h.relations[relation], parent, True))
            ahead += [(child, len(nodes) - 1) for child in sorted(near[relation], reverse=True) if child != above]
        yield JoinTree(tuple(nodes))


def join_trees(h: Hypergraph, budget: StepBudget | None = None) -> Iterator[JoinTree]:
    """Each tree once, made as it is asked for: a star of n relations has about n to the power n of them.

    The trees have the output of the query where it is free-connex, all attributes as output where it is not.
    """
    fragments = Fragments(h, budget)
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
        keys = [fragments.key(component, attributes) for component in components]
        if not all(keys) or not all(map(fragments.may_attach, components, keys)):
            continue  # a part that cannot be attached to the top alone cannot be together with others
        alone, together = _separated(fragments, components, keys)
        for grouped in _groupings(together):
            groups = (*alone, *grouped)
            if not fragments.goes_on(len(groups)):
                return
            edges = [(group, fragments.key(group, attributes)) for group in groups]
            if all(fragments.may_attach(group, below) for group, below in edges):
                for children in _forests(partial(_below, fragments), edges):
                    yield Sketch(top, attributes, children)


def _generalized(fragments: Fragments, part: int, attributes: int) -> Iterator[Sketch]:
    """All trees of a part with the generalized node of these attributes on top."""
    if not fragments.may_attach(part, attributes):
        return
    components = fragments.components(part, attributes)
    if attributes and not all(fragments.key(component, attributes) for component in components):
        return
    # without attributes there is nothing that could connect two components
    for groups in _groupings(components) if attributes else [components]:
        if not fragments.goes_on(len(groups)):
            return
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


def _separated(fragments: Fragments, parts: Sequence[int], keys: Sequence[int]) -> tuple[list[int], list[int]]:
    """Parts that are attached by themselves, and those that may be attached together with others: on a relation of
    one of them that has the keys of both."""
    tops = [[fragments.relations[r] for r in members(p)] for p in parts]
    alone: list[int] = []
    together: list[int] = []
    for i, part in enumerate(parts):
        others = (j for j in range(len(parts)) if j != i)
        both = ((keys[i] | keys[j], (*tops[i], *tops[j])) for j in others)
        meets = any(not key & ~top for key, relations in both for top in relations)
        (together if meets else alone).append(part)
    return alone, together


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
