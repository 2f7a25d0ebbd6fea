"""Arms of a block (LEFT JOIN, EXISTS, NOT EXISTS): separate trees, attached to the node that has the columns they are
correlated by."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from freshet.errors import PlanError
from freshet.logical.attributes import Attributes, equality
from freshet.logical.kinds import JoinKind
from freshet.logical.query import Arm, Block
from freshet.logical.unfit import Unfit
from freshet.plans.choice import Choice, all_output
from freshet.plans.comparisons import Compared, compared, unmarked
from freshet.plans.layout import Inner, TreeLayout
from freshet.plans.model import Comparison, Edge
from freshet.query import Attribute, Hypergraph, JoinTree, plain_trees, some_trees
from freshet.scalar.describe import describe
from freshet.scalar.expression import Expression, references

_NODES = 10_000  # of trees examined for one arm: a query may have many arms


class Arms:
    def __init__(self, layout: TreeLayout, choice: Choice) -> None:
        self.layout, self.choice = layout, choice

    def add(self, host_block: Block, host: Attributes, base: int, arm: Arm, distinct_tree: bool) -> Unfit | None:
        """Attaches an arm, with the arms below it, to the block's nodes; returns the arm that cannot be placed, if
        there is one."""
        mine, theirs = set(arm.block.relations), set(host_block.relations)
        local: list[Expression] = []
        pairs: list[tuple[Expression, Expression, bool]] = []
        condition: list[Expression] = []
        compares: list[Comparison] = []
        for p in arm.block.predicates:
            read = references(p)
            pair = equality(p)
            comparison = compared(p)
            if read <= mine:
                local.append(p)
            elif read <= theirs:
                condition.append(p)
            elif pair is not None and len(read & mine) == 1 and read <= mine | theirs:
                left, right, null_safe = pair
                pairs.append((left, right, null_safe) if references(left) <= theirs else (right, left, null_safe))
            elif comparison is not None and len(read & mine) == 1 and read <= mine | theirs and not compares:
                (host_relation,) = read & theirs
                compares.append(comparison.seen_from(host_relation))
            else:
                return Unfit(
                    f"{arm.kind.written} on {describe(p)}: only equalities and one comparison of plain values "
                    "connect it to the rest of the query; use =, or compare after the join",
                    host_block,
                    arm,
                )
        inner = self.layout.sort(local, mine)
        above = [*(a for a, _, _ in pairs), *(c.parent for c in compares)]
        inside = [*(b for _, b, _ in pairs), *(c.child for c in compares)]
        attached = self._host(host_block, host, base, above, condition, arm)
        if isinstance(attached, Unfit):
            return attached
        drawn = self._arm_tree(host_block, arm, inner, inside, bool(compares))
        if isinstance(drawn, Unfit):
            return drawn
        (at, parent_key), (tree, child_key, placed) = attached, drawn
        edge = Edge(arm.kind, parent_key[: len(pairs)], (), tuple(s for _, _, s in pairs), tuple(condition))
        if compares:
            sides = parent_key[len(pairs)], child_key[len(pairs)]
            assert isinstance(sides[1], Expression)
            edge = self.layout.comparing(edge, Comparison(compares[0].operator, sides[0], sides[1]))
        shows = arm.kind is JoinKind.LEFT and self.layout.nodes[at].output
        root = self.layout.add_tree(arm.block, tree, inner, (), edge, at, shows, placed)
        node = self.layout.nodes[root]
        names = node.attributes
        keys = tuple(
            k if isinstance(k, Expression) else self.layout.value(node.relation, True, names, k, inner)
            for k in child_key[: len(pairs)]
        )
        assert node.edge is not None
        self.layout.nodes[root] = replace(node, edge=replace(node.edge, child_key=keys))
        for below in arm.block.arms:
            if below.kind is JoinKind.LEFT and not shows:
                continue  # whether rows exist does not depend on it
            unfit = self.add(arm.block, inner.attributes, root, below, distinct_tree)
            if unfit is not None:
                return unfit
        return None

    def _host(
        self, block: Block, attributes: Attributes, base: int, values: list[Expression], condition: list[Expression],
        arm: Arm,
    ) -> tuple[int, tuple[Expression, ...]] | Unfit:  # fmt: skip
        """The node of the block that an arm is attached to: one whose relation has all the values it is correlated
        by."""
        for i in range(base, len(self.layout.nodes)):
            node = self.layout.nodes[i]
            if node.relation not in block.relations or any(references(c) - {node.relation} for c in condition):
                continue
            here = [attributes.seen_from(node.relation, v) for v in values]
            if all(h is not None for h in here):
                return i, tuple(h for h in here if h is not None)
        names = ", ".join(describe(v) for v in [*values, *condition])
        return Unfit(
            f"{arm.kind.written} is connected by {names}, which no single table has; connect it to one table",
            block,
            arm,
            scattered=True,
        )

    def _arm_tree(
        self, host: Block, arm: Arm, inner: Inner, values: list[Expression], compares: bool
    ) -> tuple[JoinTree, list[Expression | Attribute], tuple[Compared, ...]] | Unfit:
        """A tree of the arm's relations whose root has all the correlated values, as the root reads them, and the
        comparisons that the tree's own edges carry. A comparison with the host requires a relation at the root."""
        block = arm.block
        h = Hypergraph(tuple(inner.attributes.of(r) for r in block.relations), frozenset())
        h = replace(h, output=h.attributes)
        if not h.is_acyclic:
            return Unfit(f"the joins inside {arm.kind.written} form a cycle; leave out one of them", host, arm)

        def keys(tree: JoinTree) -> list[Expression | Attribute] | None:
            root = tree.nodes[0]
            if root.relation is None:
                joined = [inner.attributes.named(v) for v in values]
                return None if compares or not {*joined} <= root.attributes else [a for a in joined if a is not None]
            seen = [inner.attributes.seen_from(block.relations[root.relation], v) for v in values]
            return None if None in seen else [s for s in seen if s is not None]

        def accept(tree: JoinTree) -> bool:
            return keys(tree) is not None and self.choice.fits(block, unmarked(tree))

        chosen = self.choice.compare(block, h, inner, accept)
        if chosen is None:
            some = some_trees(h, _NODES) if self.choice.wanted is None else some_trees(h)
            trees = [t for t in chain(some, plain_trees(h)) if accept(t)]
            if not trees and self.choice.wanted is not None:
                raise PlanError(
                    f"inside {arm.kind.written} no tree of {', '.join(self.choice.labels_of(block))} is the plan's"
                )
            if not trees:
                names = ", ".join(describe(v) for v in values)
                return Unfit(
                    f"{arm.kind.written} is connected by {names}, which no single table inside it has; "
                    "connect it by one table",
                    host,
                    arm,
                )
            chosen = all_output(min(trees, key=lambda t: self.choice.cost(block, t))), ()
        tree, placed = chosen
        left_over = [p for p in inner.residual if p not in {c.predicate for c in placed}]
        if left_over:
            return Unfit(
                f"{describe(left_over[0])} inside {arm.kind.written} cannot be checked on an edge; "
                "only equalities and one comparison of plain values for each pair of tables can",
                host,
                arm,
            )
        found_keys = keys(tree)
        assert found_keys is not None
        return tree, found_keys, placed
