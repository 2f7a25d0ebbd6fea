"""The nodes of a plan: the predicates of a block sorted by where they can be checked, and join trees laid out with
their edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from freshet.logical.attributes import Attributes, equality
from freshet.logical.implied import without_implied
from freshet.logical.kinds import JoinKind
from freshet.logical.query import Block, Field, TableSchema
from freshet.plans.comparisons import Compared, banded, carried, doubled, unmarked
from freshet.plans.distances import Distances, implied_limits
from freshet.plans.model import AnyPlan, Assertion, BagPlan, Comparison, Edge, Node, QueryPlan, RelationPlan
from freshet.plans.wanted import generalized_label
from freshet.query import Attribute, JoinTree, TreeAssertion
from freshet.query.attribute import AttributeSet, in_order
from freshet.scalar.expression import ColumnRef, Expression, GroupRef, references
from freshet.scalar.functions import build, nullable
from freshet.scalar.functions.compiled import is_total


@dataclass
class Inner:
    """The predicates of a block, sorted by where they can be checked."""

    filters: dict[int, list[Expression]]
    attributes: Attributes
    residual: list[Expression]
    equalities: list[tuple[Expression, Expression, bool]] = field(default_factory=list)


class TreeLayout:
    """A plan being made, node by node: its relations, their filters, and the nodes that read them."""

    def __init__(self, relations: list[RelationPlan]) -> None:
        self.relations = relations
        self.nodes: list[Node] = []
        self.filters: dict[int, list[Expression]] = {}
        self.described: list[tuple[str, str]] = []

    def sort(self, predicates: Sequence[Expression], relations: set[int]) -> Inner:
        filters: dict[int, list[Expression]] = {}
        equalities: list[tuple[Expression, Expression, bool]] = []
        residual = []
        for p in predicates:
            read = references(p)
            pair = equality(p)
            if len(read) == 1:
                filters.setdefault(next(iter(read)), []).append(p)
            elif pair is not None:
                equalities.append(pair)
            else:
                residual.append(p)
        attributes = Attributes(equalities)
        for r in sorted(relations):
            own = list(attributes.own_filter(r))
            if own:
                filters.setdefault(r, []).extend(own)
            # by equalities it has all values that some predicates read
            own = [here for p in residual if is_total(p) and (here := attributes.seen_from(r, p)) is not None]
            if own:
                filters.setdefault(r, []).extend(own)
                residual = [p for p in residual if not is_total(p) or attributes.seen_from(r, p) is None]
        for r, limit in list(implied_limits(relations, filters, residual, attributes.named)):
            filters.setdefault(r, []).append(limit)
        for r, own in filters.items():
            self.filters.setdefault(r, []).extend(own)
        self.described.extend(attributes.described())
        return Inner(filters, attributes, without_implied(residual, attributes.named), equalities)

    def primary_key(self, relation: int, attributes: Attributes) -> AttributeSet | None:
        """The attributes that identify a tuple of a relation, if its whole key takes part in joins."""
        columns = self.key_columns(relation)
        if not columns or not isinstance(self.relations[relation].source, TableSchema):
            return None
        joined = [attributes.named(c) for c in columns]
        return None if None in joined else frozenset(joined)

    def key_columns(self, relation: int) -> list[ColumnRef] | None:
        """Columns on which no two tuples agree, if known; no columns if there is at most one tuple."""
        source, fields = self.relations[relation].source, self.relations[relation].fields
        positions = source.primary_key or None if isinstance(source, TableSchema) else unique_columns(source)
        if positions is None:
            return None
        return [ColumnRef(fields[i].type, relation, i, fields[i].name, fields[i].nullable) for i in positions]

    def add_tree(
        self, block: Block, tree: JoinTree, inner: Inner, assertions: Sequence[TreeAssertion],
        edge: Edge | None = None, parent: int = -1, output: bool = True, placed: Sequence[Compared] = (),
    ) -> int:  # fmt: skip
        """Appends the nodes of a tree, its root attached to `parent` by `edge`; returns the number of the root."""
        base = len(self.nodes)
        marked, tree = tree, unmarked(tree)
        distances = Distances(inner.residual, inner.attributes.named)
        numbers: list[int] = []
        for i, n in enumerate(tree.nodes):
            relation = block.relations[n.relation] if n.relation is not None else self._generalize(n.attributes, inner)
            numbers.append(relation)
            names = tuple(map(str, in_order(n.attributes)))
            if i == 0:
                self.nodes.append(Node(relation, names, parent, edge, n.relation is None, output and n.output))
                continue
            above = tree.nodes[n.parent]
            key = tree.key(i)
            parent_key: tuple[Expression, ...] = ()
            if above.relation is not None:
                parent_key = tuple(inner.attributes.value(numbers[n.parent], a) for a in key)
            kind = JoinKind.INNER if n.output or not output else JoinKind.SEMI
            link = Edge(
                kind,
                parent_key,
                tuple(self.value(relation, n.relation is None, names, a, inner) for a in key),
                tuple(inner.attributes.null_safe(a) for a in key),
            )
            comparison = carried(marked, i, placed)
            if comparison is not None:
                seen = comparison.seen_from(numbers[n.parent])
                seen = banded(seen, distances)
                if kind is JoinKind.INNER and parent < 0:
                    seen = doubled(seen, inner.residual, numbers[n.parent], relation)
                link = self.comparing(link, seen)
            self.nodes.append(Node(relation, names, base + n.parent, link, n.relation is None, output and n.output))
        for a in assertions:
            self._assert(base, tree, numbers, inner, a)
        return base

    def comparing(self, edge: Edge, comparison: Comparison) -> Edge:
        """The edge with a comparison; NULL matches nothing, so a tuple with NULL has no partners."""
        if nullable(comparison.child):
            (relation,) = references(comparison.child)
            self.filters.setdefault(relation, []).append(build("is_not_null", (comparison.child,)))
        if comparison.second is not None:
            edge = self.comparing(edge, comparison.second)
        condition = edge.condition
        if nullable(comparison.parent):
            condition = (*condition, build("is_not_null", (comparison.parent,)))
        return replace(edge, comparison=comparison, condition=condition)

    def value(
        self, relation: int, generalized: bool, names: tuple[str, ...], attribute: Attribute, inner: Inner
    ) -> Expression:
        if not generalized:
            return inner.attributes.value(relation, attribute)
        position = names.index(str(attribute))
        f = self.relations[relation].fields[position]
        return ColumnRef(f.type, relation, position, f.name, f.nullable)

    def _generalize(self, attributes: AttributeSet, inner: Inner) -> int:
        fields = tuple(
            Field(str(a), inner.attributes.example(a).type, inner.attributes.null_safe(a)) for a in in_order(attributes)
        )
        name = generalized_label(attributes)
        self.relations.append(RelationPlan(name, TableSchema(name, fields), fields))
        return len(self.relations) - 1

    def _assert(self, base: int, tree: JoinTree, numbers: list[int], inner: Inner, a: TreeAssertion) -> None:
        left, right = (inner.attributes.value(numbers[n], a.attribute) for n in (a.left, a.right))
        for value, n in ((left, a.left), (right, a.right)):
            if nullable(value):
                self.filters.setdefault(numbers[n], []).append(build("is_not_null", (value,)))
        check = Assertion(
            tuple(base + n for n in _path(tree, a.node, a.left)), left,
            tuple(base + n for n in _path(tree, a.node, a.right)), right,
        )  # fmt: skip
        node = self.nodes[base + a.node]
        self.nodes[base + a.node] = replace(node, assertions=(*node.assertions, check))


def unique_columns(plan: AnyPlan) -> tuple[int, ...] | None:
    """Columns of a plan's answer on which no two rows agree: the keys of a grouping, all columns of a bag."""
    if isinstance(plan, BagPlan):
        return tuple(range(len(plan.fields)))
    if isinstance(plan, QueryPlan) and plan.key:
        return plan.key
    if not isinstance(plan, QueryPlan) or plan.grouping is None:
        return None
    places = {o.column: i for i, o in enumerate(plan.outputs) if isinstance(o, GroupRef)}
    keys = range(len(plan.grouping.keys))
    return tuple(places[k] for k in keys) if all(k in places for k in keys) else None


def _path(tree: JoinTree, top: int, bottom: int) -> Iterator[int]:
    steps = []
    while bottom != top:
        steps.append(bottom)
        bottom = tree.nodes[bottom].parent
    return reversed(steps)
