"""Required join trees, by names: which relation or generalized node is attached to which.

A node is named as its relation is in the query (`#2`, `#3` at further ones of the same name), or, generalized, by its
attributes: `[x0, x1]`. Only the parents of nodes can be chosen; keys, kinds and comparisons follow from the query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from freshet.errors import PlanError
from freshet.query import Hypergraph, JoinTree, TreeNode
from freshet.query.attribute import AttributeSet, listed

BAG = "bag of "  # how the names of bags begin


def labels(names: Sequence[str]) -> list[str]:
    """The names, made unique: repeated ones are numbered from the second on."""
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        seen[name.lower()] += 1
        unique.append(name if seen[name.lower()] == 1 else f"{name}#{seen[name.lower()]}")
    return unique


def generalized_label(attributes: AttributeSet) -> str:
    return f"[{listed(attributes)}]"


@dataclass(frozen=True)
class WantedTree:
    """Pairs of a node and its parent, None at the root."""

    nodes: tuple[tuple[str, str | None], ...]
    shares: tuple[tuple[str, int], ...] = ()

    def relations(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.nodes if not name.startswith("["))

    def own_relations(self) -> frozenset[str]:
        """Without the bags that planning adds."""
        return frozenset(name for name in self.relations() if not name.startswith(BAG))

    def is_drawn(self, tree: JoinTree, names: Sequence[str]) -> bool:
        pairs = set(self.nodes)
        shown = [_label(n, names) for n in tree.nodes]
        below = {shown[i] for i in range(1, len(shown))}
        return all((shown[i], shown[n.parent]) in pairs for i, n in enumerate(tree.nodes) if i) and not any(
            name == shown[0] and parent in below for name, parent in self.nodes
        )

    def drawn(self, h: Hypergraph, names: Sequence[str]) -> JoinTree:
        """The tree over the relations of one block; PlanError, with the violated condition, if it is not a join
        tree."""
        block = set(names)
        reached = {name for name, _ in self.nodes if name in block}
        parents = dict(self.nodes)
        for name in list(reached):  # generalized nodes above the block's relations are the block's
            above = parents.get(name)
            while above is not None and above.startswith("["):
                reached.add(above)
                above = parents.get(above)
        roots = [n for n in parents if n in reached and parents[n] not in reached]
        if len(roots) != 1:
            raise PlanError(f"{' and '.join(roots)} have no parent; give all but one of them a parent")
        nodes: list[TreeNode] = []

        def add(name: str, parent: int) -> None:
            here = len(nodes)
            nodes.append(self._node(name, parent, h, names))
            for child, above in self.nodes:
                if above == name and child in reached:
                    add(child, here)

        add(roots[0], -1)
        tree = JoinTree(tuple(nodes))
        try:
            tree.check(h)
        except PlanError as e:
            listed = ", ".join(f"R{i + 1} = {name}" for i, name in enumerate(names))
            raise PlanError(f"the plan's tree is not a join tree of the query: {e} ({listed})") from None
        return tree

    def _node(self, name: str, parent: int, h: Hypergraph, names: Sequence[str]) -> TreeNode:
        if name in names:
            at = list(names).index(name)
            return TreeNode(at, h.relations[at], parent, True)
        known = {str(a): a for a in h.attributes}
        named = {a.strip() for a in name.strip("[]").split(",") if a.strip()}
        unknown = named - known.keys()
        if unknown:
            raise PlanError(f"{name}: no attribute {listed(unknown)} in the query")
        return TreeNode(None, frozenset(known[a] for a in named), parent, True)


def _label(node: TreeNode, names: Sequence[str]) -> str:
    return generalized_label(node.attributes) if node.relation is None else names[node.relation]


@dataclass
class WantedTrees:
    """The trees of all selects of a query. A select finds its own by the names of its relations."""

    trees: tuple[WantedTree, ...]
    taken: set[int] = field(default_factory=set)

    def take(self, names: Sequence[str]) -> WantedTree | None:
        mine = frozenset(names)
        matching = [i for i, t in enumerate(self.trees) if t.relations() and t.own_relations() <= mine]
        exact = [i for i in matching if i not in self.taken] or matching
        if not exact:
            return None
        best = max(exact, key=lambda i: len(self.trees[i].relations()))
        self.taken.add(best)
        return self.trees[best]
