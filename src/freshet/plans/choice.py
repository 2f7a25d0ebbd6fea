"""The choice of a block's join tree: the required one, or the cheapest of those that can carry its predicates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice

from freshet.errors import PlanError
from freshet.logical.query import Block, TableSchema
from freshet.plans.comparisons import MOST_COMPARED, Compared, Places, compared, elsewhere, placed_tree, unmarked
from freshet.plans.cost import source_updates
from freshet.plans.layout import Inner, unique_columns
from freshet.plans.model import RelationPlan
from freshet.plans.wanted import WantedTree, labels
from freshet.query import ForeignKeyTree, Hypergraph, JoinTree, TreeAssertion, best_tree, foreign_key_tree
from freshet.query.attribute import AttributeSet
from freshet.scalar.expression import ColumnRef
from freshet.scalar.functions import nullable


class Choice:
    def __init__(self, relations: list[RelationPlan], updates: dict[str, float], wanted: WantedTree | None) -> None:
        """`updates`: expected number of changes of each table. `wanted`: the required tree."""
        self.relations, self.updates, self.wanted = relations, updates, wanted
        self.labels = labels([r.alias for r in relations])
        self.above: frozenset[int] = frozenset()  # relations whose columns are read above the join
        self._updates = cache(self._source_updates)

    def cost(self, block: Block, tree: JoinTree) -> tuple[float, ...]:
        """The cost of a tree. First, the number of subquery values that are not leaves: at a leaf a new value touches
        only the tuples whose comparison with it changes; at the root it would touch all of them."""
        inner = {n.parent for n in tree.nodes}
        exposed = sum(
            (i == 0 or i in inner) and self._is_value(block.relations[n.relation])
            for i, n in enumerate(tree.nodes)
            if n.relation is not None
        )
        weight = sum(
            tree.depth(i) * self._updates(block.relations[n.relation])
            for i, n in enumerate(tree.nodes)
            if n.relation is not None
        )
        return exposed, tree.height, weight, len(tree.nodes)

    def _is_value(self, relation: int) -> bool:
        """Whether a relation is a query that has at most one tuple for each key and is not read above the join."""
        source = self.relations[relation].source
        return not isinstance(source, TableSchema) and relation not in self.above and unique_columns(source) is not None

    def _source_updates(self, relation: int) -> float:
        return source_updates(self.relations[relation].source, self.updates)

    def compare(
        self, block: Block, h: Hypergraph, inner: Inner, accept: Callable[[JoinTree], bool] = lambda tree: True
    ) -> tuple[JoinTree, tuple[Compared, ...]] | None:
        """A tree with comparisons on its edges, if there are any it can carry."""
        candidates = self.candidates(block, h, inner)
        if not candidates or not h.is_acyclic:
            return None

        def good(tree: JoinTree) -> bool:
            return accept(tree) and (self.wanted is None or self.fits(block, unmarked(tree)))

        best = placed_tree(h, block.relations, candidates, lambda t: self.cost(block, t), good)
        return None if best is None else (all_output(best[0]), best[1])

    def candidates(self, block: Block, h: Hypergraph, inner: Inner) -> list[Compared]:
        """The comparisons that edges might carry; if edges cannot carry all, also in the forms read from other
        relations."""
        comparisons = [c for c in map(compared, inner.residual) if c is not None]
        if comparisons and len(Places(h, block.relations).independent(comparisons)) < len(comparisons):
            others = (e for c in comparisons for e in elsewhere(c, block.relations, inner.attributes))
            comparisons += islice(others, MOST_COMPARED)
        return comparisons

    def along_keys(
        self, block: Block, h: Hypergraph, keys: Sequence[AttributeSet | None], inner: Inner
    ) -> ForeignKeyTree | None:
        """A tree along foreign keys whose assertions can be checked by following slots to columns."""
        along = foreign_key_tree(h, keys, [self._updates(r) for r in block.relations])
        if along is None:
            return None
        for a in along.assertions:
            for n in (a.left, a.right):
                relation = along.tree.nodes[n].relation
                assert relation is not None
                value = inner.attributes.value(block.relations[relation], a.attribute)
                # a NULL cannot be followed to a column
                equal_nulls = inner.attributes.null_safe(a.attribute) and nullable(value)
                if not isinstance(value, ColumnRef) or equal_nulls:
                    return None
        return along

    def choose(
        self, block: Block, h: Hypergraph, along: ForeignKeyTree | None
    ) -> tuple[JoinTree, tuple[TreeAssertion, ...]]:
        """`along`: the tree along foreign keys of a cyclic join."""
        if h.is_acyclic and self.wanted is not None:
            return all_output(self.wanted.drawn(h, self.labels_of(block))), ()
        if h.is_acyclic:
            return all_output(best_tree(h, [self._updates(r) for r in block.relations])), ()
        assert along is not None, "other cyclic joins have bags"
        if not self.fits(block, along.tree):
            raise PlanError("the joins form a cycle, and their one tree along foreign keys is another than the plan's")
        return along.tree, along.assertions

    def labels_of(self, block: Block) -> list[str]:
        return [self.labels[r] for r in block.relations]

    def fits(self, block: Block, tree: JoinTree) -> bool:
        """Whether a tree is the required one, or none is required."""
        return self.wanted is None or self.wanted.is_drawn(tree, self.labels_of(block))


def all_output(tree: JoinTree) -> JoinTree:
    """Duplicates are kept, so every relation's tuples count, also those that show nothing."""
    return JoinTree(tuple(replace(n, output=True) for n in tree.nodes))
