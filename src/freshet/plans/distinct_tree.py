"""Trees with which DISTINCT needs no counts: output nodes have only shown attributes, so every row is produced once.

Below them tuples only have to exist. Comparisons are placed on edges, as on any tree; one between output nodes finds
its tuples in order, and one below an output node only asks for support. What no edge carries is checked on the rows if
it reads nothing but what output nodes hold: then it passes or fails with the row, however often the row is derived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from freshet.plans.comparisons import MOST_CHOICES, MOST_TESTS, Compared, ComparisonAttribute, Places, marked, unmarked
from freshet.query import Hypergraph, JoinTree, TreeNode, best_tree, some_trees
from freshet.query.attribute import AttributeSet
from freshet.query.budget import StepBudget
from freshet.scalar.expression import Expression

ChosenTree = tuple[JoinTree, tuple[Compared, ...]]


def distinct_tree(
    h: Hypergraph,
    relations: Sequence[int],
    candidates: Sequence[Compared],
    checks: Sequence[Expression],
    reads: Callable[[JoinTree, Expression], bool],
    cost: Callable[[JoinTree], tuple[float, ...]],
    accept: Callable[[JoinTree], bool],
) -> ChosenTree | None:
    """The cheapest tree that carries as many comparisons as any, and those comparisons; None if rows would be produced
    several times. `h` has the shown attributes as output, and a hidden one for each relation that shows too little.
    `checks`: all conditions on several relations, the candidates' included. `reads`: whether the output nodes of a tree
    have all that a condition reads."""
    if not h.is_acyclic:
        return None
    places = Places(h, relations)
    for chosen in _choices(places, candidates):
        shown = _with_marks(h, relations, chosen)
        left = [p for p in checks if p not in {c.predicate for c in chosen}]
        if not shown.is_acyclic or not shown.is_free_connex:
            continue
        trees = (_projected(t, shown.output) for t in (*some_trees(shown), best_tree(shown)))
        good = (
            t
            for t in trees
            if all(n.attributes <= shown.output for n in t.nodes if n.output)
            and _carries(t, len(chosen))
            and all(reads(t, p) for p in left)
            and accept(unmarked(t))
        )
        best = min(good, key=cost, default=None)
        if best is not None:
            return best, chosen
    return None


def _choices(places: Places, candidates: Sequence[Compared]) -> Iterator[tuple[Compared, ...]]:
    """As many comparisons as edges can carry: checking them on rows would discard rows."""
    most = len(places.independent(candidates))
    if most:
        yield from islice(places.choices(candidates, most, StepBudget(MOST_TESTS)), MOST_CHOICES)
    else:
        yield ()


def _with_marks(h: Hypergraph, relations: Sequence[int], chosen: Sequence[Compared]) -> Hypergraph:
    """The query with an attribute for each comparison. It is output where a relation that is compared shows all it has:
    then that relation can be an output node itself, and the other one's tuples are found from there."""
    shown = {r for r, edge in zip(relations, h.relations, strict=True) if edge <= h.output}
    output = h.output.union(ComparisonAttribute(i) for i, c in enumerate(chosen) if shown & {*c.relations})
    return replace(marked(h, relations, chosen), output=output)


def _carries(tree: JoinTree, comparisons: int) -> bool:
    """Whether each comparison is on an edge between two relations, and on no other: a generalized node has no tuple to
    compare."""
    if any(isinstance(a, ComparisonAttribute) for n in tree.nodes if n.relation is None for a in n.attributes):
        return False
    plain = (i for i, n in enumerate(tree.nodes) if n.relation is not None and n.parent >= 0)
    below = [i for i in plain if tree.nodes[tree.nodes[i].parent].relation is not None]
    carried = {a for i in below for a in tree.key(i) if isinstance(a, ComparisonAttribute)}
    return len(carried) == comparisons


def _projected(tree: JoinTree, output: AttributeSet) -> JoinTree:
    """The tree with every lowest output node that holds more than shown attributes put below a generalized node of the
    shown ones: its tuples then only have to exist."""
    nodes: list[TreeNode] = []
    moved: dict[int, int] = {}
    for i, n in enumerate(tree.nodes):
        parent = moved.get(n.parent, -1)
        lowest = n.output and not any(tree.nodes[c].output for c in tree.children(i))
        if lowest and n.relation is not None and not n.attributes <= output:
            nodes.append(TreeNode(None, n.attributes & output, parent, True))
            n, parent = replace(n, output=False), len(nodes) - 1
        moved[i] = len(nodes)
        nodes.append(replace(n, parent=parent))
    return JoinTree(tuple(nodes))
