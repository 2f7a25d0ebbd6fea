"""The arithmetic of the search for join trees: sets of relations and sets of attributes as bits of an int.

What is below a node is a set of relations, a *part*; its key is what its attributes share with that node. Three
facts carry the search:

- Take a node's attributes away and the rest falls into components. A component lies below one child of the node.
- A generalized node with two children or more is exactly what the relations of any two of its children share, so only
  such intersections come into question; with one child it can be left out.
- Whether a part may be attached to a key is a matter of these two alone: if it brings output attributes that are not in
  the key, its top is an output node, and the key must be output.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from freshet.errors import PlanError
from freshet.query.attribute import AttributeSet, in_order
from freshet.query.budget import StepBudget
from freshet.query.hypergraph import Hypergraph
from freshet.query.tree import JoinTree, TreeNode


class Sketch(NamedTuple):
    """A join tree under construction; the children in any order."""

    relation: int | None
    attributes: int
    children: tuple[Sketch, ...]

    def first(self) -> int:
        """The first relation in this tree, by which siblings are put in order."""
        least = [child.first() for child in self.children]
        return min(least if self.relation is None else [self.relation, *least])


class Fragments:
    """The relations of an acyclic query, and its parts."""

    def __init__(self, h: Hypergraph, budget: StepBudget | None = None) -> None:
        """`budget`: steps of an enumeration of its trees, if it is bounded."""
        if not h.is_acyclic:
            raise PlanError("a cyclic query has no join tree; group its relations into bags or use its foreign keys")
        self._order = in_order(h.attributes)
        self._budget = budget
        self._projects = h.is_free_connex
        self.relations = tuple(self._bits(relation) for relation in h.relations)
        self.output = self._bits(h.output if self._projects else h.attributes)
        self.everything = (1 << len(self.relations)) - 1
        self.attributes = cache(self._attributes)
        self.components = cache(self._components)
        self.intersections = cache(self._intersections)

    def _bits(self, attributes: AttributeSet) -> int:
        return sum(1 << i for i, a in enumerate(self._order) if a in attributes)

    def _attributes(self, part: int) -> int:
        """The attributes of the relations of a part."""
        attributes = 0
        for relation in members(part):
            attributes |= self.relations[relation]
        return attributes

    def _components(self, part: int, removed: int) -> tuple[int, ...]:
        """The part cut into pieces that share no attributes but the removed ones, in the order of the relations."""
        pieces: list[tuple[int, int]] = []
        for relation in members(part):
            piece, attributes = 1 << relation, self.relations[relation] & ~removed
            apart = []
            for other in pieces:
                if other[1] & attributes:
                    piece, attributes = piece | other[0], attributes | other[1]
                else:
                    apart.append(other)
            pieces = [*apart, (piece, attributes)]
        return tuple(sorted((piece for piece, _ in pieces), key=lambda piece: piece & -piece))

    def _intersections(self, part: int) -> tuple[int, ...]:
        """What any two relations of the part share: the candidates for generalized nodes."""
        shared = {self.relations[i] & self.relations[j]: None for i in members(part) for j in members(part) if i < j}
        return tuple(shared)

    def goes_on(self, steps: int) -> bool:
        """Whether an enumeration may take so many steps more."""
        return self._budget is None or self._budget.spend(steps)

    def key(self, part: int, above: int) -> int:
        return self.attributes(part) & above

    def shows(self, part: int, key: int) -> bool:
        """Whether the part has output attributes that its key does not have."""
        return bool(self.attributes(part) & self.output & ~key)

    def may_attach(self, part: int, key: int) -> bool:
        """The connex property, for one part below one key."""
        return not self.shows(part, key) or not key & ~self.output

    def tree(self, sketch: Sketch) -> JoinTree:
        """The finished tree: preorder, siblings by their first relation, the smallest connex subtree marked."""
        nodes: list[TreeNode] = []
        self._append(sketch, -1, nodes)
        return JoinTree(tuple(nodes))

    def _append(self, sketch: Sketch, parent: int, nodes: list[TreeNode]) -> bool:
        here = len(nodes)
        above = nodes[parent].attributes if parent >= 0 else frozenset()
        attributes = frozenset(a for i, a in enumerate(self._order) if sketch.attributes >> i & 1)
        nodes.append(TreeNode(sketch.relation, attributes, parent, True))
        shown = not self._projects or parent < 0
        # an output attribute is first met at the topmost node that has it, so that node must be an output node
        shown = shown or any(self.output >> self._order.index(a) & 1 for a in attributes - above)
        for child in sorted(sketch.children, key=Sketch.first):
            shown = self._append(child, here, nodes) or shown
        nodes[here] = TreeNode(sketch.relation, attributes, parent, shown)
        return shown


def members(part: int) -> Iterator[int]:
    while part:
        lowest = part & -part
        yield lowest.bit_length() - 1
        part ^= lowest
