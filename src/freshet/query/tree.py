"""Join trees (CROWN, definition 3.2): the shape the engine keeps its counters on.

A tree is one when
- cover: every relation is exactly one node, and every leaf is a relation;
- connect: the nodes that have an attribute are connected;
- guard: every child of a generalized node has all the attributes of that node;
- above: a generalized node has no relation above it;
- connex: the output nodes hold the root, are connected, have keys of output attributes only, and cover the output.

A query that is acyclic but not free-connex has no tree with the last property; it gets a tree for all its attributes
as output, and the projection happens while enumerating (CROWN 7.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from freshet.errors import PlanError
from freshet.query.attribute import Attribute, AttributeSet, as_set, in_order, listed
from freshet.query.hypergraph import Hypergraph


@dataclass(frozen=True)
class TreeNode:
    relation: int | None  # None: a generalized relation, the keys that all its children share
    attributes: AttributeSet
    parent: int  # -1 at the root
    output: bool


@dataclass(frozen=True)
class JoinTree:
    """Nodes in preorder, the root first."""

    nodes: tuple[TreeNode, ...]

    @cached_property
    def _children(self) -> tuple[tuple[int, ...], ...]:
        below: list[list[int]] = [[] for _ in self.nodes]
        for i, node in enumerate(self.nodes):
            if node.parent >= 0:
                below[node.parent].append(i)
        return tuple(map(tuple, below))

    def children(self, i: int) -> tuple[int, ...]:
        return self._children[i]

    def key(self, i: int) -> tuple[Attribute, ...]:
        """The attributes node i shares with its parent, in order; none at the root."""
        node = self.nodes[i]
        return () if node.parent < 0 else tuple(in_order(node.attributes & self.nodes[node.parent].attributes))

    @cached_property
    def _depths(self) -> tuple[int, ...]:
        depths: list[int] = []
        for node in self.nodes:
            above = node.parent
            depths.append(0 if above < 0 else depths[above] + (self.nodes[above].relation is not None))
        return tuple(depths)

    def depth(self, i: int) -> int:
        """The number of input relations strictly above node i."""
        return self._depths[i]

    @cached_property
    def height(self) -> int:
        """The greatest number of input relations on a path from a leaf to the root."""
        return max(self._depths[i] + 1 for i, node in enumerate(self.nodes) if node.relation is not None)

    @cached_property
    def generalized(self) -> int:
        """The number of generalized nodes."""
        return sum(node.relation is None for node in self.nodes)

    def check(self, h: Hypergraph) -> None:
        """Raise PlanError, naming what is violated, unless this is a join tree of the query."""
        self.check_cover(h)
        self._check_connect()
        self._check_generalized()
        self._check_connex(h.output if h.is_free_connex else h.attributes)

    def check_cover(self, h: Hypergraph) -> None:
        """Preorder and cover: the part of `check` that trees with assertions have to pass too."""
        path: list[int] = []
        for i, node in enumerate(self.nodes):
            while path and path[-1] != node.parent:
                path.pop()
            if (node.parent < 0) != (i == 0) or (i > 0 and not path):
                raise PlanError(f"node {i} is out of order; list the nodes in preorder, the root first")
            path.append(i)
        relations = sorted(node.relation for node in self.nodes if node.relation is not None)
        if relations != list(range(len(h.relations))):
            raise PlanError(f"cover: the tree has relations {relations}; each of {len(h.relations)} must be there once")
        for i, node in enumerate(self.nodes):
            if node.relation is None and not self._children[i]:
                raise PlanError(f"cover: the leaf {self._show(i)} is generalized; every leaf must be a relation")
            if node.relation is not None and node.attributes != h.relations[node.relation]:
                raise PlanError(
                    f"cover: {self._show(i)} must have the attributes of relation {node.relation}, "
                    f"{as_set(h.relations[node.relation])}"
                )

    def _check_connect(self) -> None:
        for attribute in in_order(frozenset().union(*(node.attributes for node in self.nodes))):
            tops = [
                i
                for i, node in enumerate(self.nodes)
                if attribute in node.attributes
                and (node.parent < 0 or attribute not in self.nodes[node.parent].attributes)
            ]
            if len(tops) > 1:
                raise PlanError(
                    f"connect: {attribute} is in {self._show(tops[0])} and in {self._show(tops[1])}, "
                    "but not in every node between them"
                )

    def _check_generalized(self) -> None:
        for i, node in enumerate(self.nodes):
            if node.parent < 0:
                continue
            parent = self.nodes[node.parent]
            if parent.relation is None and not parent.attributes <= node.attributes:
                raise PlanError(
                    f"guard: {self._show(i)} lacks {as_set(parent.attributes - node.attributes)} "
                    f"of the generalized node {self._show(node.parent)} above it"
                )
            if node.relation is None and parent.relation is not None:
                raise PlanError(
                    f"above: the generalized node {self._show(i)} is below the relation {self._show(node.parent)}"
                )

    def _check_connex(self, output: AttributeSet) -> None:
        covered: AttributeSet = frozenset()
        for i, node in enumerate(self.nodes):
            if not node.output:
                if i == 0:
                    raise PlanError("connex: the root must be an output node")
                continue
            if i > 0 and not self.nodes[node.parent].output:
                raise PlanError(f"connex: {self._show(i)} is an output node, its parent is not; they must be connected")
            hidden = frozenset(self.key(i)) - output
            if hidden:
                raise PlanError(
                    f"connex: the key of output node {self._show(i)} has {as_set(hidden)}, not in the output"
                )
            covered |= node.attributes
        if not output <= covered:
            raise PlanError(f"connex: no output node has {as_set(output - covered)}")

    def _show(self, i: int) -> str:
        node = self.nodes[i]
        attributes = listed(node.attributes)
        return f"[{attributes}]" if node.relation is None else f"R{node.relation + 1}({attributes})"
