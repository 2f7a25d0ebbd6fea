"""One select as a plan: its join tree, its edges, and what remains to check on result rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from freshet.logical.attributes import Attributes, ColumnAttribute, HiddenAttribute, column_attribute
from freshet.logical.kinds import JoinKind
from freshet.logical.query import Block, Grouping, Query, Relation
from freshet.logical.unfit import fitted, without_null_safe
from freshet.plans.armed import with_arms
from freshet.plans.arms import Arms
from freshet.plans.bags import bag_relation
from freshet.plans.choice import Choice
from freshet.plans.comparisons import Compared, compared, is_further
from freshet.plans.counted import with_counted
from freshet.plans.distinct_tree import distinct_tree
from freshet.plans.guarantee import described, guarantee
from freshet.plans.layout import Inner, TreeLayout
from freshet.plans.model import NO_GUARANTEE, AnyPlan, Guarantee, QueryPlan, RelationPlan
from freshet.plans.wanted import WantedTrees, labels
from freshet.query import Attribute, Classification, Hypergraph, JoinTree, TreeAssertion, classify, decompose
from freshet.query.attribute import AttributeSet, in_order
from freshet.scalar.describe import describe
from freshet.scalar.expression import AggregateCall, Call, ColumnRef, Expression, Literal, references, transform, walk
from freshet.scalar.functions.compiled import is_total

#: A hypergraph, the primary keys of its relations and the predicates between them, with readable names.
_Readable = tuple[Hypergraph, list[frozenset[str] | None], dict[str, frozenset[str]]]


class Plans(Protocol):
    """The plans of the whole query, as a select needs them."""

    trees: WantedTrees
    updates: dict[str, float]

    def relation(self, relation: Relation, passes: bool) -> RelationPlan:
        """`passes`: whether its rows pass through the query that reads it, and are not stored there or above."""
        ...

    def alone(self, query: Query) -> AnyPlan:
        """The plan of a query that is not part of the text: required trees do not include it."""
        ...


class SelectPlanner:
    """Plans one select: its nodes are laid out along the chosen tree, with the arms attached to it."""

    def __init__(self, query: Query, plans: Plans, stored: bool) -> None:
        self.query, self.plans = query, plans
        wanted = plans.trees.take(labels([r.alias for r in query.relations]))  # before those of nested queries
        passes = len(query.relations) == 1 and not query.distinct and (query.grouping is not None or not stored)
        self.relations = [plans.relation(r, passes) for r in query.relations]
        self.layout = TreeLayout(self.relations)
        self.choice = Choice(self.relations, plans.updates, wanted)
        self.arms = Arms(self.layout, self.choice)

    def plan(self) -> QueryPlan | Query:
        """The plan, or an equivalent query to plan instead, in which every arm has a place."""
        query, block, outputs = self.query, self.query.block, self.query.outputs
        if not block.relations:
            return self._constant()
        inner = self.layout.sort(block.predicates, set(block.relations))
        residual = [*inner.residual, *query.where]
        self.choice.above = _columns_above(query, [p for p in residual if compared(p) is None])
        shown = self._shown(inner.attributes)
        predicates = self._join_conditions(inner)
        hypergraph = self._hypergraph(block, inner.attributes, shown, frozenset().union(*predicates.values()))
        joined = Hypergraph(tuple(inner.attributes.of(r) for r in block.relations), frozenset())
        whole = replace(joined, output=joined.attributes)
        keys = [self.layout.primary_key(r, inner.attributes) for r in block.relations]
        along = None if whole.is_acyclic else self.choice.along_keys(block, whole, keys, inner)
        if not whole.is_acyclic and along is None:
            keys = [None] * len(keys)
        readable = self._readable(block, hypergraph, keys, predicates)
        if not whole.is_acyclic and along is None:
            if any(null_safe for _, _, null_safe in inner.equalities):
                return without_null_safe(query)  # bags hold keys without NULLs
            block, inner, whole = self._store_bags(block, inner, whole)
        assertions: tuple[TreeAssertion, ...] = ()
        placed: tuple[Compared, ...] = ()
        compared_tree = self._distinct_tree(block, inner, residual)
        produces_once = compared_tree is not None
        if compared_tree is None:
            compared_tree = self.choice.compare(block, whole, inner)
        if compared_tree is not None:
            tree, placed = compared_tree
            residual = [p for p in residual if p not in {c.predicate for c in placed}]
        else:
            tree, assertions = self.choice.choose(block, whole, along)
        self.layout.add_tree(block, tree, inner, assertions, placed=placed)
        edges = [n.edge.comparison for n in self.layout.nodes if n.edge is not None]
        residual = [p for p in residual if not is_further(p, edges)]
        if produces_once:
            outputs = tuple(self._shown_by(o, inner.attributes) for o in outputs)
            residual = [self._shown_by(p, inner.attributes) for p in residual]
        arms_from = len(self.layout.nodes)
        for arm in block.arms:
            unfit = self.arms.add(query.block, inner.attributes, 0, arm, produces_once)
            if unfit is not None:
                return fitted(query, unfit)
        self.choice.above = _columns_above(query, residual)
        if not produces_once:
            self._skip_unread()
        plan = QueryPlan(
            tuple(self.relations),
            tuple(replace(n, filter=(*n.filter, *self.layout.filters.get(n.relation, ()))) for n in self.layout.nodes),
            tuple(residual),
            None if query.grouping is None else _guarded(query.grouping),
            outputs,
            query.fields,
            query.distinct and not produces_once,
            produces_once,
            NO_GUARANTEE,
            tuple(self.layout.described),
            () if self.choice.wanted is None else self.choice.wanted.shares,
            copies=query.copies,
        )
        plan = with_counted(plan)
        return replace(plan, guarantee=guarantee(query, self._verdict(readable, inner.attributes, arms_from), plan))

    def _constant(self) -> QueryPlan:
        """A query without tables: one row, or none if its WHERE is not true."""
        query, block = self.query, self.query.block
        return QueryPlan(
            tuple(self.relations),
            (),
            (*block.predicates, *query.where),
            query.grouping,
            query.outputs,
            query.fields,
            query.distinct and query.grouping is not None,
            False,
            Guarantee("constant", 0, "the view never changes", "constant"),
        )

    # Trees ----------------------------------------------------------------------------------------------------

    def _shown(self, attributes: Attributes) -> AttributeSet:
        """The attributes the query outputs, which determine its class."""
        query = self.query
        read = query.outputs if query.grouping is None else query.grouping.keys
        columns = (e for o in read for e in walk(o) if isinstance(e, ColumnRef))
        return frozenset(column_attribute(attributes, c) for c in columns)

    def _join_conditions(self, inner: Inner) -> dict[str, AttributeSet]:
        """The join conditions other than equalities: for each its text, and the attributes it reads."""
        return {
            described(p, self.query): frozenset(
                column_attribute(inner.attributes, e) for e in walk(p) if isinstance(e, ColumnRef)
            )
            for p in inner.residual
        }

    def _hypergraph(
        self, block: Block, attributes: Attributes, shown: AttributeSet, compared: AttributeSet
    ) -> Hypergraph:
        """Join attributes, shown and compared columns, and for a relation that shows less than identifies its tuples,
        one hidden attribute for the rest."""
        edges, read = [], shown | compared
        for r in block.relations:
            joins = attributes.of(r)
            fields = self.relations[r].fields
            own = {i: a for i in range(len(fields)) if (a := ColumnAttribute(r, i)) in read}
            here = joins | frozenset(own.values())
            columns = [
                own.get(i, attributes.named(ColumnRef(f.type, r, i, f.name, f.nullable))) for i, f in enumerate(fields)
            ]
            identity = [c.column for c in self.layout.key_columns(r) or ()] or range(len(fields))
            whole = all(columns[i] in shown for i in identity)
            edges.append(here if whole else here | {HiddenAttribute(r)})
        every = frozenset().union(*edges) if edges else frozenset()
        return Hypergraph(tuple(edges), shown & every)

    def _readable(
        self,
        block: Block,
        h: Hypergraph,
        keys: Sequence[AttributeSet | None],
        predicates: Mapping[str, AttributeSet],
    ) -> _Readable:
        """The same with the names of relations and columns, because the reasons of a verdict are read by people."""

        names_of = {r: Counter(f.name for f in self.relations[r].fields) for r in block.relations}

        def readable(attribute: Attribute) -> str:
            match attribute:
                case ColumnAttribute(relation, column):
                    name = self.relations[relation].fields[column].name
                    alone = names_of[relation][name] == 1
                    return f"{self.choice.labels[relation]}.{name if alone else column}"
                case HiddenAttribute(relation):
                    return f"{self.choice.labels[relation]}.*"
                case _:
                    return str(attribute)

        def all_of(attributes: AttributeSet) -> frozenset[str]:
            return frozenset(map(readable, attributes))

        names = tuple(self.choice.labels[r] for r in block.relations)
        return (
            Hypergraph(tuple(map(all_of, h.relations)), all_of(h.output), names),
            [None if key is None else all_of(key) for key in keys],
            {words: all_of(read) for words, read in predicates.items()},
        )

    def _verdict(self, readable: _Readable, attributes: Attributes, arms_from: int) -> Classification:
        """The class of the query, arms included. A join that is cyclic by itself keeps the class that keys or bags give
        it."""
        h, keys, predicates = readable
        if not h.is_acyclic:
            return classify(h, keys, predicates)

        def named(relation: int, e: Expression) -> str:
            joined = attributes.named(e)
            return f"{self.choice.labels[relation]}.{describe(e, lambda c: c.name)}" if joined is None else str(joined)

        armed = with_arms(
            h, predicates, self.query.block.relations, self.layout.nodes, arms_from,
            labels([r.alias for r in self.relations]), named,
        )  # fmt: skip
        unknown = [None] * (len(armed.hypergraph.relations) - len(keys))
        return classify(armed.hypergraph, [*keys, *unknown], armed.predicates)

    def _distinct_tree(
        self, block: Block, inner: Inner, checks: Sequence[Expression]
    ) -> tuple[JoinTree, tuple[Compared, ...]] | None:
        """A tree that produces every row once, if there is a DISTINCT."""
        query, attributes = self.query, inner.attributes
        if not query.distinct or query.grouping is not None or _has_left(block):
            return None
        if not all(isinstance(o, ColumnRef) for o in query.outputs):
            return None
        h = self._hypergraph(block, attributes, self._decided(block, attributes), frozenset())

        def reads(tree: JoinTree, check: Expression) -> bool:
            shown = [n for n in tree.nodes if n.output]
            own = {block.relations[n.relation] for n in shown if n.relation is not None}
            held = frozenset[Attribute]().union(*(n.attributes for n in shown))
            columns = (c for c in walk(check) if isinstance(c, ColumnRef))
            return all(c.relation in own or column_attribute(attributes, c) in held for c in columns)

        return distinct_tree(
            h, block.relations, self.choice.candidates(block, h, inner), checks, reads,
            lambda t: self.choice.cost(block, t), lambda t: self.choice.fits(block, t),
        )  # fmt: skip

    def _decided(self, block: Block, attributes: Attributes) -> AttributeSet:
        """The shown attributes, and those that they determine by primary keys, which add no rows."""
        shown, found = self._shown(attributes), -1
        while found != len(shown):
            found = len(shown)
            for r in block.relations:
                key = self.layout.key_columns(r)
                if key is not None and {column_attribute(attributes, c) for c in key} <= shown:
                    shown |= attributes.of(r)
        return shown

    def _shown_by(self, e: Expression, attributes: Attributes) -> Expression:
        """An expression over columns that output nodes have, as read from them."""
        own = {n.relation for n in self.layout.nodes if n.output}

        def shown(column: Expression) -> Expression:
            if not isinstance(column, ColumnRef) or column.relation in own:
                return column
            attribute = column_attribute(attributes, column)
            node = next(n for n in self.layout.nodes if n.output and str(attribute) in n.attributes)
            return self.layout.value(
                node.relation, node.generalized, node.attributes, attribute, Inner({}, attributes, [])
            )

        return transform(e, shown)

    def _store_bags(self, block: Block, inner: Inner, h: Hypergraph) -> tuple[Block, Inner, Hypergraph]:
        """The block with bags as additional relations, which make it acyclic."""
        equalities = list(inner.equalities)
        for bag in decompose(h):
            number = len(self.relations)
            made = bag_relation(
                bag, block, self.query.relations, inner.attributes, inner.filters, self.plans.alone
            )  # fmt: skip
            self.relations.append(made)
            self.choice.labels.append(made.alias)
            for i, (attribute, f) in enumerate(zip(in_order(bag.attributes), made.fields, strict=True)):
                column = ColumnRef(f.type, number, i, f.name, False)
                equalities.append((column, inner.attributes.example(attribute), False))
            block = replace(block, relations=(*block.relations, number))
        attributes = Attributes(equalities)
        edges = tuple(attributes.of(r) for r in block.relations)
        return block, replace(inner, attributes=attributes, equalities=equalities), Hypergraph(edges, h.output)

    # Unread columns -------------------------------------------------------------------------------------------

    def _skip_unread(self) -> None:
        """A child found by its whole primary key adds at most one row. If its columns are not read, it only has to
        exist, and enumeration can skip it; but not if it must satisfy several comparisons, because support is that of
        the first one alone."""
        for i in range(len(self.layout.nodes) - 1, 0, -1):
            node = self.layout.nodes[i]
            edge = node.edge
            if edge is None or edge.kind is not JoinKind.INNER or not node.output or node.relation in self.choice.above:
                continue
            if edge.comparison is not None and edge.comparison.second is not None:
                continue
            below = [n for n in self.layout.nodes if n.parent == i]
            key = {e.column for e in edge.child_key if isinstance(e, ColumnRef)}
            identity = None if node.generalized else self.layout.key_columns(node.relation)
            if identity is not None and {c.column for c in identity} <= key and not any(n.output for n in below):
                self.layout.nodes[i] = replace(node, output=False, edge=replace(edge, kind=JoinKind.SEMI))


def _guarded(grouping: Grouping) -> Grouping:
    """The grouping, in which arguments that may fail are computed only on the rows that satisfy FILTER."""

    def guarded(call: AggregateCall) -> AggregateCall:
        only = call.filter
        if only is None or all(map(is_total, call.args)):
            return call
        return replace(call, args=tuple(Call(a.type, "case", (only, a, Literal(a.type, None))) for a in call.args))

    return replace(grouping, aggregates=tuple(map(guarded, grouping.aggregates)))


def _columns_above(query: Query, residual: Sequence[Expression]) -> frozenset[int]:
    """Relations whose columns are read above the join, where `residual` is checked."""
    expressions = [*residual, *query.copies]
    if query.grouping is None:
        expressions += query.outputs
    else:
        expressions += query.grouping.keys
        for call in query.grouping.aggregates:
            expressions += call.reads
    return frozenset().union(*(references(e) for e in expressions)) if expressions else frozenset()


def _has_left(block: Block) -> bool:
    return any(arm.kind is JoinKind.LEFT for arm in block.arms)
