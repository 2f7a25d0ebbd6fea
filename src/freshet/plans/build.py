"""From a bound query to the plan the engine runs: which join tree, which edges, what is left to check on results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from freshet.errors import PlanError, UnsupportedError
from freshet.plans.above import plan_above
from freshet.plans.annotate import annotated
from freshet.plans.attributes import Attributes, column_attribute, equality
from freshet.plans.bags import bag_relation
from freshet.plans.comparisons import Compared, banded, carried, compared, placed_tree, unmarked
from freshet.plans.cost import source_updates
from freshet.plans.guarantee import guarantee
from freshet.plans.implied import without_implied
from freshet.plans.model import (
    AnyPlan,
    Assertion,
    BagPlan,
    Comparison,
    Edge,
    Guarantee,
    Node,
    QueryPlan,
    RelationPlan,
)  # fmt: skip
from freshet.plans.unfit import NullsInCycleError, UnfitError, made_fit, without_null_safe
from freshet.plans.wanted import WantedTrees, labels
from freshet.query import Assertion as TreeAssertion
from freshet.query import Hypergraph, JoinTree, TreeNode, best_tree, classify, decompose, foreign_key_tree, join_trees
from freshet.sql.bound import AnyQuery, Arm, Block, Field, Query, Relation, TableSchema
from freshet.sql.expression import ColumnRef, Expression, describe, references, walk
from freshet.sql.functions import build, nullable

_TREES = 5_000  # join trees looked at where only some will do; far more than small queries have


def build_plan(query: AnyQuery, updates: dict[str, float] | None = None, trees: WantedTrees | None = None) -> AnyPlan:
    """`updates`: expected number of changes of each table, as far as known. `trees`: those asked for, where they are
    not left to be chosen."""
    if isinstance(query, Query):
        query, totals = annotated(query)
        while True:
            try:
                plan = _Planner(query, updates or {}, trees or WantedTrees(())).plan()
                return replace(plan, guarantee=replace(plan.guarantee, totals=totals))
            except UnfitError as unfit:
                query = made_fit(query, unfit)
            except NullsInCycleError:
                query = without_null_safe(query)
    return plan_above(query, lambda below: build_plan(below, updates, trees))


@dataclass
class _Inner:
    """A block's predicates, sorted by what can check them."""

    filters: dict[int, list[Expression]]
    attributes: Attributes
    residual: list[Expression]
    equalities: list[tuple[Expression, Expression, bool]] = field(default_factory=list)


class _Planner:
    def __init__(self, query: Query, updates: dict[str, float], trees: WantedTrees) -> None:
        self.query, self.updates, self.trees = query, updates, trees
        self.labels = labels([r.alias for r in query.relations])
        self.wanted = trees.take(self.labels)
        self.relations = [self._relation(r) for r in query.relations]
        self.nodes: list[Node] = []
        self.filters: dict[int, list[Expression]] = {}
        self.above: frozenset[int] = frozenset()  # relations whose columns are read above the join
        self.described: list[tuple[str, str]] = []

    def _relation(self, relation: Relation) -> RelationPlan:
        source = relation.source
        if isinstance(source, TableSchema):
            return RelationPlan(relation.alias, source, relation.fields)
        return RelationPlan(relation.alias, build_plan(source, self.updates, self.trees), relation.fields)

    def plan(self) -> QueryPlan:
        query, block, outputs = self.query, self.query.block, self.query.outputs
        if not block.relations:
            return self._constant()
        inner = self._sort(block.predicates, set(block.relations))
        residual = [*inner.residual, *query.where]
        self.above = _columns_above(query, [p for p in residual if compared(p) is None])
        shown = self._shown(inner.attributes)
        hypergraph = self._hypergraph(block, inner.attributes, shown)
        keys = [self._primary_key(r, inner.attributes) for r in block.relations]
        verdict = classify(hypergraph, keys)
        tree: JoinTree | None = None
        assertions: tuple[TreeAssertion, ...] = ()
        placed: tuple[Compared, ...] = ()
        distinct_tree = False
        if query.distinct and query.grouping is None and not residual and not _has_left(block):
            tree = self._distinct_tree(block, hypergraph, inner.attributes)
            distinct_tree = tree is not None
        if tree is None:
            joined = Hypergraph(tuple(inner.attributes.of(r) for r in block.relations), frozenset())
            whole = replace(joined, output=joined.attributes)
            if not whole.is_acyclic and foreign_key_tree(whole, keys) is None:
                block, inner, whole = self._store_bags(block, inner, whole)
            found = self._compare(block, whole, inner)
            if found is not None:
                tree, placed = found
                residual = [p for p in residual if p not in {c.predicate for c in placed}]
            else:
                tree, assertions = self._choose(block, whole, keys)
        self._add_tree(block, tree, inner, assertions, placed=placed)
        if distinct_tree:
            outputs = tuple(self._shown_by(o, inner.attributes) for o in outputs)
        for arm in block.arms:
            self._add_arm(query.block, inner.attributes, 0, arm, distinct_tree)
        self.above = _columns_above(query, residual)
        if not distinct_tree:
            self._skip_unread()
        return QueryPlan(
            tuple(self.relations),
            tuple(replace(n, filter=(*n.filter, *self.filters.get(n.relation, ()))) for n in self.nodes),
            tuple(residual),
            query.grouping,
            outputs,
            query.fields,
            query.distinct and not distinct_tree,
            distinct_tree,
            guarantee(query, verdict, tree, residual, assertions, distinct_tree, self.nodes),
            tuple(self.described),
            () if self.wanted is None else self.wanted.shares,
        )

    def _constant(self) -> QueryPlan:
        """A query without tables: one row, unless its WHERE says none."""
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

    # Predicates -----------------------------------------------------------------------------------------------

    def _sort(self, predicates: Sequence[Expression], relations: set[int]) -> _Inner:
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
        for r in relations:
            own = list(attributes.own_filter(r))
            if own:
                filters.setdefault(r, []).extend(own)
        for r, found in filters.items():
            self.filters.setdefault(r, []).extend(found)
        self.described.extend(attributes.described())
        return _Inner(filters, attributes, without_implied(residual), equalities)

    def _primary_key(self, relation: int, attributes: Attributes) -> frozenset[str] | None:
        """The attributes that identify a relation's tuple, when all of its key takes part in joins."""
        columns = self._key_columns(relation)
        if not columns or not isinstance(self.relations[relation].source, TableSchema):
            return None
        found = [attributes.named(c) for c in columns]
        return None if None in found else frozenset(n for n in found if n is not None)

    def _key_columns(self, relation: int) -> list[ColumnRef] | None:
        """The columns that no two tuples agree on, if such are known; none at all where there is one tuple at most."""
        source, fields = self.relations[relation].source, self.relations[relation].fields
        positions = source.primary_key or None if isinstance(source, TableSchema) else unique_columns(source)
        if positions is None:
            return None
        return [ColumnRef(fields[i].type, relation, i, fields[i].name, fields[i].nullable) for i in positions]

    # Trees ----------------------------------------------------------------------------------------------------

    def _shown(self, attributes: Attributes) -> frozenset[str]:
        """The attributes the query shows: what its class depends on."""
        query = self.query
        read = query.outputs if query.grouping is None else query.grouping.keys
        columns = (e for o in read for e in walk(o) if isinstance(e, ColumnRef))
        return frozenset(column_attribute(attributes, c) for c in columns if c.relation >= 0)

    def _hypergraph(self, block: Block, attributes: Attributes, shown: frozenset[str]) -> Hypergraph:
        """Join attributes and shown columns, and for a relation that shows less than identifies its tuples, one hidden
        attribute for the rest."""
        edges = []
        for r in block.relations:
            joins = attributes.of(r)
            fields = self.relations[r].fields
            own = {i: f"{r}.{i}" for i in range(len(fields)) if f"{r}.{i}" in shown}
            here = joins | frozenset(own.values())
            columns = {
                i: attributes.named(ColumnRef(f.type, r, i, f.name, f.nullable)) or own.get(i)
                for i, f in enumerate(fields)
            }
            identity = [c.column for c in self._key_columns(r) or ()] or range(len(fields))
            whole = all(columns[i] is not None and columns[i] in shown for i in identity)
            edges.append(here if whole else here | {f"{r}.*"})
        every = frozenset().union(*edges) if edges else frozenset()
        return Hypergraph(tuple(edges), shown & every)

    def _distinct_tree(self, block: Block, h: Hypergraph, attributes: Attributes) -> JoinTree | None:
        """A tree whose output nodes hold nothing but shown attributes, so that every row comes out once."""
        outputs = self.query.outputs
        if not all(isinstance(o, ColumnRef) for o in outputs) or not h.is_acyclic or not h.is_free_connex:
            return None
        trees = (_projected(t, h.output) for t in islice(join_trees(h), _TREES))
        good = [t for t in trees if all(n.attributes <= h.output for n in t.nodes if n.output) and self._fits(block, t)]
        return min(good, key=lambda t: self._cost(block, t), default=None)

    def _shown_by(self, output: Expression, attributes: Attributes) -> Expression:
        """A shown column as read from an output node."""
        assert isinstance(output, ColumnRef)
        name = column_attribute(attributes, output)
        for node in self.nodes:
            if node.output and name in node.attributes:
                return self._value(node.relation, node.generalized, node.attributes, name, _Inner({}, attributes, []))
        raise AssertionError(f"no output node has {name}")

    def _cost(self, block: Block, tree: JoinTree) -> tuple[float, ...]:
        """What makes one tree worse than another. First, how many values of subqueries do not hang as a leaf: there a
        new value touches only the tuples whose comparison with it changes, and at the root it would touch all."""
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
        """Whether a relation is a query that has one tuple at most for each key, and nobody reads it above the join."""
        source = self.relations[relation].source
        return not isinstance(source, TableSchema) and relation not in self.above and unique_columns(source) is not None

    def _updates(self, relation: int) -> float:
        return source_updates(self.relations[relation].source, self.updates)

    def _compare(
        self, block: Block, h: Hypergraph, inner: _Inner, accept: Callable[[JoinTree], bool] = lambda tree: True
    ) -> tuple[JoinTree, tuple[Compared, ...]] | None:
        """A tree with comparisons on its edges, where there are any it can carry."""
        candidates = [c for c in map(compared, inner.residual) if c is not None]
        if not candidates or not h.is_acyclic:
            return None

        def fits(tree: JoinTree) -> bool:
            return accept(tree) and self._fits(block, unmarked(tree))

        found = placed_tree(h, block.relations, candidates, lambda t: self._cost(block, t), fits)
        return None if found is None else (_all_output(found[0]), found[1])

    def _choose(
        self, block: Block, h: Hypergraph, keys: Sequence[frozenset[str] | None]
    ) -> tuple[JoinTree, tuple[TreeAssertion, ...]]:
        updates = [self._updates(r) for r in block.relations]
        if h.is_acyclic and self.wanted is not None:
            return _all_output(self.wanted.drawn(h, self._labels(block))), ()
        if h.is_acyclic:
            return _all_output(best_tree(h, updates)), ()
        found = foreign_key_tree(h, keys, updates)
        assert found is not None, "what is cyclic otherwise has been given bags"
        if not self._fits(block, found.tree):
            raise PlanError("the joins form a cycle, and their one tree along foreign keys is another than the plan's")
        return found.tree, found.assertions

    def _store_bags(self, block: Block, inner: _Inner, h: Hypergraph) -> tuple[Block, _Inner, Hypergraph]:
        """The block with bags as relations beside its own, which make it acyclic."""
        if any(null_safe for _, _, null_safe in inner.equalities):
            raise NullsInCycleError
        equalities = list(inner.equalities)
        for bag in decompose(h):
            number = len(self.relations)
            made = bag_relation(
                bag, block, self.query.relations, inner.attributes, inner.filters,
                lambda query: build_plan(query, self.updates),
            )  # fmt: skip
            self.relations.append(made)
            self.labels.append(made.alias)
            for i, attribute in enumerate(made.fields):
                column = ColumnRef(attribute.type, number, i, attribute.name, False)
                equalities.append((column, inner.attributes.example(attribute.name), False))
            block = replace(block, relations=(*block.relations, number))
        attributes = Attributes(equalities)
        edges = tuple(attributes.of(r) for r in block.relations)
        return block, replace(inner, attributes=attributes, equalities=equalities), Hypergraph(edges, h.output)

    def _labels(self, block: Block) -> list[str]:
        return [self.labels[r] for r in block.relations]

    def _fits(self, block: Block, tree: JoinTree) -> bool:
        """Whether a tree is the one asked for, if one was."""
        return self.wanted is None or self.wanted.is_drawn(tree, self._labels(block))

    def _add_tree(
        self, block: Block, tree: JoinTree, inner: _Inner, assertions: Sequence[TreeAssertion],
        edge: Edge | None = None, parent: int = -1, output: bool = True, placed: Sequence[Compared] = (),
    ) -> int:  # fmt: skip
        """Appends a tree's nodes, its root hung on `parent` by `edge`; returns the root's number."""
        base = len(self.nodes)
        marked, tree = tree, unmarked(tree)
        numbers: list[int] = []
        for i, n in enumerate(tree.nodes):
            relation = block.relations[n.relation] if n.relation is not None else self._generalize(n.attributes, inner)
            numbers.append(relation)
            names = tuple(sorted(n.attributes))
            if i == 0:
                self.nodes.append(Node(relation, names, parent, edge, n.relation is None, output and n.output))
                continue
            above = tree.nodes[n.parent]
            key = tree.key(i)
            parent_key: tuple[Expression, ...] = ()
            if above.relation is not None:
                parent_key = tuple(inner.attributes.value(numbers[n.parent], a) for a in key)
            kind = "inner" if n.output or not output else "semi"
            link = Edge(
                kind,
                parent_key,
                tuple(self._value(relation, n.relation is None, names, a, inner) for a in key),
                tuple(inner.attributes.null_safe(a) for a in key),
            )
            comparison = carried(marked, i, placed)
            if comparison is not None:
                seen = comparison.seen_from(numbers[n.parent])
                others = [c for c in map(compared, inner.residual) if c is not None and c not in placed]
                link = self._comparing(link, banded(seen, numbers[n.parent], others))
            self.nodes.append(Node(relation, names, base + n.parent, link, n.relation is None, output and n.output))
        for a in assertions:
            self._assert(base, tree, numbers, inner, a)
        return base

    def _comparing(self, edge: Edge, comparison: Comparison) -> Edge:
        """The edge with a comparison; NULL compares with nothing, so a tuple without a value finds nothing there."""
        if nullable(comparison.child):
            (relation,) = references(comparison.child)
            self.filters.setdefault(relation, []).append(build("is_not_null", (comparison.child,)))
        condition = edge.condition
        if nullable(comparison.parent):
            condition = (*condition, build("is_not_null", (comparison.parent,)))
        return replace(edge, comparison=comparison, condition=condition)

    def _value(
        self, relation: int, generalized: bool, names: tuple[str, ...], attribute: str, inner: _Inner
    ) -> Expression:
        if not generalized:
            return inner.attributes.value(relation, attribute)
        position = names.index(attribute)
        f = self.relations[relation].fields[position]
        return ColumnRef(f.type, relation, position, f.name, f.nullable)

    def _generalize(self, attributes: frozenset[str], inner: _Inner) -> int:
        fields = tuple(
            Field(a, inner.attributes.example(a).type, inner.attributes.null_safe(a)) for a in sorted(attributes)
        )
        name = "[" + ", ".join(sorted(attributes)) + "]"
        self.relations.append(RelationPlan(name, TableSchema(name, fields), fields))
        return len(self.relations) - 1

    def _assert(self, base: int, tree: JoinTree, numbers: list[int], inner: _Inner, a: TreeAssertion) -> None:
        left, right = (inner.attributes.value(numbers[n], a.attribute) for n in (a.left, a.right))
        for value, n in ((left, a.left), (right, a.right)):
            if nullable(value):
                self.filters.setdefault(numbers[n], []).append(build("is_not_null", (value,)))
        if not (isinstance(left, ColumnRef) and isinstance(right, ColumnRef)):
            raise UnsupportedError(
                f"the assertion {describe(left)} = {describe(right)} compares expressions; "
                "join on plain columns of one type"
            )
        check = Assertion(
            tuple(base + n for n in _path(tree, a.node, a.left)), left,
            tuple(base + n for n in _path(tree, a.node, a.right)), right,
        )  # fmt: skip
        node = self.nodes[base + a.node]
        self.nodes[base + a.node] = replace(node, assertions=(*node.assertions, check))

    # Arms -----------------------------------------------------------------------------------------------------

    def _add_arm(self, host_block: Block, host: Attributes, base: int, arm: Arm, distinct_tree: bool) -> None:
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
                raise UnfitError(
                    f"{_ARM_NAMES[arm.kind]} on {describe(p)}: only equalities and one comparison of plain values "
                    "connect it to the rest of the query; use =, or compare after the join",
                    host_block,
                    arm,
                )
        inner = self._sort(local, mine)
        above = [*(a for a, _, _ in pairs), *(c.parent for c in compares)]
        inside = [*(b for _, b, _ in pairs), *(c.child for c in compares)]
        at, parent_key = self._host(host_block, host, base, above, condition, arm)
        tree, child_key, placed = self._arm_tree(host_block, arm, inner, inside, bool(compares))
        edge = Edge(arm.kind, parent_key[: len(pairs)], (), tuple(s for _, _, s in pairs), tuple(condition))
        if compares:
            sides = parent_key[len(pairs)], child_key[len(pairs)]
            assert isinstance(sides[1], Expression)
            edge = self._comparing(edge, Comparison(compares[0].operator, sides[0], sides[1]))
        shows = arm.kind == "left" and self.nodes[at].output
        root = self._add_tree(arm.block, tree, inner, (), edge, at, shows, placed)
        node = self.nodes[root]
        names = node.attributes
        keys = tuple(
            k if isinstance(k, Expression) else self._value(node.relation, True, names, k, inner)
            for k in child_key[: len(pairs)]
        )
        assert node.edge is not None
        self.nodes[root] = replace(node, edge=replace(node.edge, child_key=keys))
        for below in arm.block.arms:
            if below.kind == "left" and not shows:
                continue  # whether rows exist does not depend on it
            self._add_arm(arm.block, inner.attributes, root, below, distinct_tree)

    def _host(
        self, block: Block, attributes: Attributes, base: int, values: list[Expression], condition: list[Expression],
        arm: Arm,
    ) -> tuple[int, tuple[Expression, ...]]:  # fmt: skip
        """The node of the block an arm hangs on: one whose relation has all the values it is correlated by."""
        for i in range(base, len(self.nodes)):
            node = self.nodes[i]
            if node.relation not in block.relations or any(references(c) - {node.relation} for c in condition):
                continue
            here = [_seen_from(node.relation, v, attributes) for v in values]
            if all(h is not None for h in here):
                return i, tuple(h for h in here if h is not None)
        names = ", ".join(describe(v) for v in [*values, *condition])
        raise UnfitError(
            f"{_ARM_NAMES[arm.kind]} is connected by {names}, which no single table has; connect it to one table",
            block,
            arm,
            scattered=True,
        )

    def _arm_tree(
        self, host: Block, arm: Arm, inner: _Inner, values: list[Expression], compares: bool
    ) -> tuple[JoinTree, list[Expression | str], tuple[Compared, ...]]:
        """A tree of the arm's relations whose root has all the values it is correlated by, as that root reads them, and
        the comparisons it carries inside. A comparison at its top needs a relation there."""
        block = arm.block
        h = Hypergraph(tuple(inner.attributes.of(r) for r in block.relations), frozenset())
        h = replace(h, output=h.attributes)
        if not h.is_acyclic:
            raise UnfitError(f"the joins inside {_ARM_NAMES[arm.kind]} form a cycle; leave out one of them", host, arm)

        def keys(tree: JoinTree) -> list[Expression | str] | None:
            root = tree.nodes[0]
            if root.relation is None:
                names = [inner.attributes.named(v) for v in values]
                return None if compares or not {*names} <= root.attributes else [n for n in names if n is not None]
            seen = [_seen_from(block.relations[root.relation], v, inner.attributes) for v in values]
            return None if None in seen else [s for s in seen if s is not None]

        def accept(tree: JoinTree) -> bool:
            return keys(tree) is not None and self._fits(block, unmarked(tree))

        found = self._compare(block, h, inner, accept)
        if found is None:
            trees = [t for t in islice(join_trees(h), _TREES) if accept(t)]
            if not trees and self.wanted is not None:
                raise PlanError(
                    f"inside {_ARM_NAMES[arm.kind]} no tree of {', '.join(self._labels(block))} is the plan's"
                )
            if not trees:
                names = ", ".join(describe(v) for v in values)
                raise UnfitError(
                    f"{_ARM_NAMES[arm.kind]} is connected by {names}, which no single table inside it has; "
                    "connect it by one table",
                    host,
                    arm,
                )
            found = _all_output(min(trees, key=lambda t: self._cost(block, t))), ()
        tree, placed = found
        left_over = [p for p in inner.residual if p not in {c.predicate for c in placed}]
        if left_over:
            raise UnfitError(
                f"{describe(left_over[0])} inside {_ARM_NAMES[arm.kind]} cannot be checked on an edge; "
                "only equalities and one comparison of plain values for each pair of tables can",
                host,
                arm,
            )
        found_keys = keys(tree)
        assert found_keys is not None
        return tree, found_keys, placed

    # Columns nobody reads -------------------------------------------------------------------------------------

    def _skip_unread(self) -> None:
        """A child found by its whole primary key adds at most one row. Where nobody reads its columns it only has to
        exist, and enumeration can pass it by."""
        for i in range(len(self.nodes) - 1, 0, -1):
            node = self.nodes[i]
            edge = node.edge
            if edge is None or edge.kind != "inner" or not node.output or node.relation in self.above:
                continue
            below = [n for n in self.nodes if n.parent == i]
            key = {e.column for e in edge.child_key if isinstance(e, ColumnRef)}
            identity = None if node.generalized else self._key_columns(node.relation)
            if identity is not None and {c.column for c in identity} <= key and not any(n.output for n in below):
                self.nodes[i] = replace(node, output=False, edge=replace(edge, kind="semi"))


_ARM_NAMES = {"left": "LEFT JOIN", "semi": "EXISTS / IN", "anti": "NOT EXISTS / NOT IN"}


def unique_columns(plan: AnyPlan) -> tuple[int, ...] | None:
    """Columns of a plan's answer that no two of its rows agree on: a grouping's keys, all of a bag's."""
    if isinstance(plan, BagPlan):
        return tuple(range(len(plan.fields)))
    if not isinstance(plan, QueryPlan) or plan.grouping is None:
        return None
    places = {o.column: i for i, o in enumerate(plan.outputs) if isinstance(o, ColumnRef)}
    keys = range(len(plan.grouping.keys))
    return tuple(places[k] for k in keys) if all(k in places for k in keys) else None


def _columns_above(query: Query, residual: Sequence[Expression]) -> frozenset[int]:
    """Relations whose columns are read above the join, where `residual` is checked."""
    expressions = list(residual)
    if query.grouping is None:
        expressions += query.outputs
    else:
        expressions += query.grouping.keys
        for call in query.grouping.aggregates:
            expressions += call.reads
    return frozenset().union(*(references(e) for e in expressions)) if expressions else frozenset()


def _seen_from(relation: int, value: Expression, attributes: Attributes) -> Expression | None:
    """The value read from this relation: its own, or one that equalities make equal."""
    if references(value) == {relation}:
        return value
    name = attributes.named(value)
    return attributes.value(relation, name) if name is not None and name in attributes.of(relation) else None


def _path(tree: JoinTree, top: int, bottom: int) -> Iterator[int]:
    steps = []
    while bottom != top:
        steps.append(bottom)
        bottom = tree.nodes[bottom].parent
    return reversed(steps)


def _all_output(tree: JoinTree) -> JoinTree:
    """Duplicates are kept, so every relation's tuples count, also those that show nothing."""
    return JoinTree(tuple(replace(n, output=True) for n in tree.nodes))


def _projected(tree: JoinTree, output: frozenset[str]) -> JoinTree:
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


def _has_left(block: Block) -> bool:
    return any(arm.kind == "left" for arm in block.arms)
