"""Plans to a job: which operators run at which level, what each reads, and over which grid.

A nested query is an operator of its own, one level below its reader. Where several cells can speak of one group or one
distinct row, the operator is split and a merge stands a level above it. On one shard nothing has to be sent anywhere
between a nested query and its reader, so that a view is one operator, as in one process, and all views one level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from freshet.errors import UnsupportedError
from freshet.logical.query import CLOCK, Field, RecursiveRows, TableSchema, Watermark, is_internal
from freshet.plans.expressions import map_expressions, map_selects, used_columns, with_source
from freshet.plans.model import (
    AnyPlan,
    BagPlan,
    BoundedSumsPlan,
    FlattenedPlan,
    LookedUpPlan,
    Node,
    QueryPlan,
    RecursivePlan,
    RelationPlan,
    SetPlan,
    TimedPlan,
    TopPlan,
    UnionAllPlan,
    WindowPlan,
    inputs,
    schemas,
)
from freshet.scalar.expression import ColumnRef, Expression, transform, walk
from freshet.spark.cuts import Strategy, choose_cuts, is_part, rows_of, trunk_name
from freshet.spark.first_level import clocks, everywhere, projected, with_first_level
from freshet.spark.heavy import Heavy, in_lower_case, split_heavy
from freshet.spark.job import Dimension, Job, Operator, Stream, ViewOutput
from freshet.spark.partials import ShardSplit, over_rows, split_distinct, split_grouping
from freshet.spark.shares import Grid, HeavyValues, cheapest_shares, choose_grid, covers
from freshet.state.ranked import ENDLESS


def make_job(
    plans: Mapping[str, AnyPlan],
    shards: int,
    sizes: Mapping[str, float] | None = None,
    normalized: Sequence[str] = (),
    quarantine: bool = False,
    checked: bool = False,
    folded: bool = True,
    layout: Strategy = Strategy.CHEAPEST,
    heavy: Heavy | None = None,
) -> Job:
    """The job that keeps all the views; `sizes` are rows by table, as far as known; `normalized` are tables whose
    changes come in an order that matters; `quarantine`: bad changes are set aside instead of refused; `checked`: those
    of tables with a primary key are found wherever they are; `folded`: nested queries share an operator with their
    reader where they can; `layout`: how joins are spread over several shards; `heavy`: values of join keys with many
    rows."""
    known = {k.lower(): v for k, v in (sizes or {}).items()}
    job = _Stages(shards, known, folded and shards == 1, layout, heavy).job(plans)
    ordered = {n.lower() for n in normalized}
    tables = [t for t in job.tables if t != CLOCK]
    wanted = [t for t in tables if quarantine or (checked and t.primary_key) or t.name.lower() in ordered]
    return replace(with_first_level(job, wanted, ordered), quarantine=quarantine) if wanted else job


@dataclass(slots=True)
class _Use:
    """What one operator reads from one table, or from other operators, and the rows it needs. `leaf`: what its plan
    calls the source until streams are made; None where all columns are read, under the name of the schema."""

    operator: int
    leaf: str | None
    sources: tuple[str, ...]
    schema: TableSchema
    level: int
    grid: tuple[Dimension, ...]
    filter: tuple[Expression, ...]
    columns: frozenset[int]


class _Stages:
    def __init__(
        self, shards: int, sizes: dict[str, float], folded: bool, layout: Strategy, heavy: Heavy | None
    ) -> None:
        self.shards, self.sizes, self.folded, self.layout, self.given_heavy = shards, sizes, folded, layout, heavy
        self.heavy: Heavy = {}
        self.operators: list[Operator] = []
        self.uses: list[_Use] = []
        self.tables: dict[str, TableSchema] = {}
        self.over: dict[int, list[QueryPlan]] = {}  # selects that an operator's rows pass through, innermost first

    def job(self, plans: Mapping[str, AnyPlan]) -> Job:
        views = []
        self.heavy = in_lower_case(self.given_heavy, [t for plan in plans.values() for t in schemas(plan)])
        for name, plan in plans.items():
            views.append(ViewOutput(name, self._names(self._add(plan)), plan.fields))
        if not self.tables:
            raise UnsupportedError("a query without tables never changes; read at least one table")
        streams = self._streams()
        streams += tuple(clocks(streams, self.shards, "rows", self.tables))
        if any(s.sources == (CLOCK.name,) for s in streams):
            self.tables.setdefault(CLOCK.name, CLOCK)
        for number, selects in self.over.items():
            for select in selects:
                operator = self.operators[number]
                reads = replace(select.relations[0], source=operator.plan)
                self.operators[number] = replace(operator, plan=replace(select, relations=(reads,)))
        return Job(self.shards, tuple(self.tables.values()), streams, tuple(self.operators), tuple(views))

    def _names(self, operators: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.operators[o].name for o in operators)

    # Operators ------------------------------------------------------------------------------------------------

    def _add(self, plan: AnyPlan) -> list[int]:
        """Adds the operators of a plan; returns the numbers of those whose outputs together are the plan's."""
        if next(schemas(plan), None) is None:
            self.operators.append(Operator(f"#{len(self.operators)}", 0, plan, 1))
            return [len(self.operators) - 1]
        if self.folded and _follows_from_tables(plan):
            return [self._whole(plan)]
        if isinstance(plan, RecursivePlan):
            return [self._recursive(plan)]
        if isinstance(plan, UnionAllPlan):
            return [o for each in plan.inputs for o in self._add(each)]
        if isinstance(plan, (SetPlan, LookedUpPlan)):
            return [self._set_operation(plan)]
        if isinstance(plan, BoundedSumsPlan):
            sides = [(self._add(p), p.fields) for p in (plan.rows, plan.bounds)]
            by_key = [(self.shards, range(plan.keys))]
            return [self._above(sides, [by_key] * 2, lambda rows: replace(plan, rows=rows[0], bounds=rows[1]))]
        if isinstance(plan, BagPlan):
            return [self._bag(plan)]
        if isinstance(plan, TimedPlan):
            return [self._timed(plan)]
        if isinstance(plan, (TopPlan, WindowPlan)):
            return [self._in_order(plan)]
        if isinstance(plan, FlattenedPlan):
            fields = plan.source.fields
            spread = [(self.shards, range(len(fields)))]
            return [self._above([(self._add(plan.source), fields)], [spread], lambda r: replace(plan, source=r[0]))]
        assert isinstance(plan, QueryPlan)
        if plan.passes and plan.grouping is None and not plan.distinct:
            source = plan.relations[plan.nodes[0].relation].source
            assert not isinstance(source, TableSchema)
            below = self._add(source)
            for o in below:
                self.over.setdefault(o, []).append(plan)
            return below
        return [self._select(plan)]

    def _set_operation(self, plan: SetPlan | LookedUpPlan) -> int:
        """A shard stores the rows of both sides that are its own: those it could look up are on other shards."""
        sides = [(self._add(p), p.fields) for p in (plan.left, plan.right)]
        whole = [(self.shards, range(len(plan.fields)))]
        return self._above(
            sides, [whole] * 2, lambda rows: SetPlan(plan.kind, plan.all, rows[0], rows[1], plan.fields, plan.guarantee)
        )

    def _recursive(self, plan: RecursivePlan) -> int:
        """Rows of an iteration are wanted on any shard by those of the next: so one has all of them, and all that the
        step reads. What is constant of the anchor is there from the first transaction on."""
        begins = plan.anchor.inputs if isinstance(plan.anchor, UnionAllPlan) else (plan.anchor,)
        if not all(_follows_from_tables(p) or not _reads(p) for p in begins) or not _follows_from_tables(plan.step):
            what = f"WITH RECURSIVE {plan.name} that joins tables with constant rows, in a view on Spark,"
            raise UnsupportedError(f"{what} is not supported; store those rows in a table")
        return self._whole(plan)

    def _select(self, plan: QueryPlan) -> int:
        expected: tuple[float, ...] = ()
        if self.shards > 1 and not is_part(plan) and self._is_sized(plan):
            chosen = choose_cuts(plan, self.layout, self._load)
            if chosen.plan is not plan:
                plan, expected = chosen.plan, (chosen.rows, chosen.uncut)
        inputs = {i: self._add(r.source) for i, r in enumerate(plan.relations) if not isinstance(r.source, TableSchema)}
        used = used_columns(plan)
        sizes = rows_of(plan, self.sizes)
        grid = split_heavy(plan, choose_grid(plan, self.shards, sizes, used), self.heavy, sizes, used)
        split = self._split(plan, grid)
        if split is None:
            number = joined = self._operator(plan, inputs, grid, used)
        else:
            joined = self._operator(split.shard, inputs, grid, used_columns(split.shard), split.averages)
            number = self._merge(split, joined)
        if expected or is_part(plan):
            of = trunk_name(plan) if is_part(plan) else ""
            self.operators[joined] = replace(self.operators[joined], trunk=of, expected=expected)
        if plan.distinct and plan.grouping is not None and self.shards > 1:
            made = self.operators[number].plan
            assert isinstance(made, QueryPlan)
            number = self._merge(split_distinct(made), number)
        return number

    def _note(self, schema: TableSchema) -> None:
        """A table that is read; the rows of others make a watermark."""
        if not isinstance(schema, Watermark):
            self.tables.setdefault(schema.name.lower(), schema)

    def _is_sized(self, plan: QueryPlan) -> bool:
        """Whether the rows of all that it reads are known."""
        return rows_of(plan, self.sizes).keys() >= {n.relation for n in plan.nodes if not n.generalized}

    def _load(self, plan: QueryPlan) -> float:
        sizes = rows_of(plan, self.sizes)
        return choose_grid(plan, self.shards, sizes, used_columns(plan)).load(sizes)

    def _split(self, plan: QueryPlan, grid: Grid) -> ShardSplit | None:
        if not grid.shares:
            return None
        if plan.grouping is not None:
            return None if plan.grouping.keys and covers(grid, plan.grouping.keys) else split_grouping(plan)
        if plan.distinct:
            return None if covers(grid, plan.outputs) else split_distinct(plan)
        return None

    def _merge(self, split: ShardSplit, below: int) -> int:
        grid = Grid([], [], [])
        if split.keys:
            grid = Grid(["group" if split.merge.grouping is not None else "row"], [self.shards], [{0: split.keys}])
        return self._operator(split.merge, {0: [below]}, grid, used_columns(split.merge, every=True))

    def _operator(
        self, plan: QueryPlan, inputs: Mapping[int, Sequence[int]], grid: Grid, used: Mapping[int, frozenset[int]],
        averages: tuple[tuple[int, int], ...] = (),
    ) -> int:  # fmt: skip
        number, level = len(self.operators), self._level(inputs.values())
        relations = list(plan.relations)
        for node in plan.nodes:
            if node.generalized:
                continue
            r = node.relation
            relation = plan.relations[r]
            if r in inputs:
                sources = self._names(inputs[r])
                schema = TableSchema("+".join(sources), relation.fields)
            else:
                assert isinstance(relation.source, TableSchema)
                schema, sources = relation.source, (relation.source.name.lower(),)
                self._note(schema)
            dimensions = tuple(
                _dimension(name, share, of.get(r, ()), grid.splits.get(d), r)
                for d, (name, share, of) in enumerate(zip(grid.names, grid.shares, grid.hashed, strict=True))
            )
            relations[r] = self._use(number, plan, node, sources, schema, level, dimensions, used[r])
        plan = replace(plan, relations=tuple(relations))
        self.operators.append(Operator(f"#{number}", level, plan, math.prod(grid.shares), averages))
        return number

    def _use(
        self, operator: int, plan: QueryPlan, node: Node, sources: tuple[str, ...], schema: TableSchema, level: int,
        grid: tuple[Dimension, ...], used: frozenset[int],
    ) -> RelationPlan:  # fmt: skip
        """Notes what a node of a select reads; its relation over a leaf, for now."""
        leaf = f"leaf{len(self.uses)}"
        filters = tuple(_as_source(f) for f in node.filter)
        columns = used | set(schema.primary_key)
        columns |= {rule.column for rule in (schema.retention, schema.lateness) if rule is not None}
        if is_internal(schema):
            grid = everywhere(self.shards)
        self.uses.append(_Use(operator, leaf, sources, schema, level, grid, filters, frozenset(columns)))
        return replace(plan.relations[node.relation], source=replace(schema, name=leaf))

    def _timed(self, plan: TimedPlan) -> int:
        """Each row by itself on one shard, and the clock on all."""
        source = plan.source
        if not (isinstance(source, QueryPlan) and _is_one_table(source)):
            below, fields = self._add(source), source.fields
            spread, level = [(self.shards, range(len(fields)))], self._level([below])

            def made(rows: Sequence[QueryPlan]) -> TimedPlan:
                return replace(plan, source=rows[0], clock=self._reading(len(self.operators), plan.clock, level))

            return self._above([(below, fields)], [spread], made)
        number, hashed = len(self.operators), tuple(map(_as_source, source.outputs))
        grid = (Dimension(self.shards, "row", hashed),) if self.shards > 1 else ()
        rows, clock = self._reading(number, source, 0, grid), self._reading(number, plan.clock, 0)
        self.operators.append(Operator(f"#{number}", 0, replace(plan, source=rows, clock=clock), self.shards))
        return number

    def _whole(self, plan: AnyPlan) -> int:
        """One operator for a plan and all that is nested in it, on the first shard."""
        number = len(self.operators)
        self.operators.append(Operator(f"#{number}", 0, self._reading(number, plan, 0), 1))
        return number

    def _reading(self, operator: int, plan: AnyPlan, level: int, grid: tuple[Dimension, ...] = ()) -> AnyPlan:
        """A plan and all that is nested in it, as an operator of that level reads its tables."""

        def select(each: QueryPlan) -> QueryPlan:
            used = used_columns(each)
            choose_grid(each, 1, {}, used)  # refuses shares that were asked for
            relations = list(each.relations)
            for node in (n for n in each.nodes if not n.generalized):
                schema = each.relations[node.relation].source
                if isinstance(schema, TableSchema) and not isinstance(schema, RecursiveRows):
                    name = schema.name.lower()
                    self._note(schema)
                    relations[node.relation] = self._use(
                        operator, each, node, (name,), schema, level, grid, used[node.relation]
                    )
            return replace(each, relations=tuple(relations))

        return map_selects(plan, select)

    def _level(self, inputs: Iterable[Sequence[int]]) -> int:
        return max((self.operators[o].level + 1 for below in inputs for o in below), default=0)

    def _in_order(self, plan: TopPlan | WindowPlan) -> int:
        """Rows in order: a partition on one shard. The first rows of all are the first of each shard's first rows."""
        fields = plan.source.fields
        below = self._add(plan.source)
        if isinstance(plan, TopPlan) and not plan.partition and plan.limit is not None and self.shards > 1:
            own = replace(plan, offset=0, limit=min(plan.offset + plan.limit, ENDLESS), fields=fields)
            spread = [(self.shards, range(len(fields)))]
            below = [self._above([(below, fields)], [spread], lambda rows: replace(own, source=rows[0]))]
        partition = [(self.shards if plan.partition else 1, plan.partition)]
        return self._above([(below, fields)], [partition], lambda rows: replace(plan, source=rows[0]))

    def _bag(self, plan: BagPlan) -> int:
        """A grid over the bag's attributes: each of its rows is found in one cell, where all that it is made of is."""
        made = {each: self._add(each) for each in dict.fromkeys(plan.inputs)}
        attributes = range(len(plan.fields))
        shares = cheapest_shares(self.shards, len(plan.fields), [(1.0, {*of}) for of in plan.attributes])
        grids = [
            [(shares[a], [of.index(a)] if a in of else []) for a in attributes if shares[a] > 1]
            for of in plan.attributes
        ]
        below = [(made[each], each.fields) for each in plan.inputs]
        return self._above(below, grids, lambda rows: replace(plan, inputs=tuple(rows)))

    def _above(
        self, inputs: Sequence[tuple[Sequence[int], tuple[Field, ...]]],
        grids: Sequence[Sequence[tuple[int, Sequence[int]]]], made: Callable[[Sequence[QueryPlan]], AnyPlan],
    ) -> int:  # fmt: skip
        """An operator over the whole rows of others. Each input has a grid: the share of each dimension, the same for
        all, and the columns hashed there (none: its rows are copied)."""
        number, level = len(self.operators), self._level(below for below, _ in inputs)
        shards = math.prod(share for share, _ in grids[0])
        leaves = []
        for i, ((below, fields), dimensions) in enumerate(zip(inputs, grids, strict=True)):
            leaf = over_rows(f"rows{i}", fields, None, False)
            leaves.append(leaf)
            grid = tuple(
                Dimension(share, "row", tuple(leaf.outputs[c] for c in hashed))
                for share, hashed in dimensions
                if share > 1
            )
            schema = TableSchema(f"rows{i}", fields)
            every = frozenset(range(len(fields)))
            self.uses.append(_Use(number, None, self._names(below), schema, level, grid, (), every))
        self.operators.append(Operator(f"#{number}", level, made(leaves), shards))
        return number

    # Streams --------------------------------------------------------------------------------------------------

    def _streams(self) -> tuple[Stream, ...]:
        shared: dict[tuple[object, ...], list[_Use]] = {}
        for use in self.uses:
            where = tuple(
                (d.share, tuple(map(_unnamed, d.hashed)), d.heavy, tuple(map(_unnamed, d.row))) for d in use.grid
            )
            shared.setdefault((use.sources, use.level, where), []).append(use)
        streams = []
        for number, uses in enumerate(shared.values()):
            first = uses[0]
            own = len(uses) == 1
            fed = first.sources[0].startswith("#")  # by operators, which filter nothing for others
            kept: set[int] = set().union(*(u.columns for u in uses))
            if not own or fed:
                for u in uses:
                    kept |= {e.column for f in u.filter for e in walk(f) if isinstance(e, ColumnRef)}
            columns = tuple(sorted(kept))
            name = f"{'+'.join(first.sources)}/{number}"
            schema = projected(first.schema, name, columns)
            filters = () if any(not u.filter for u in uses) else tuple(dict.fromkeys(u.filter for u in uses))
            streams.append(Stream(name, first.sources, first.level, columns, schema, filters, first.grid))
            for u in uses:
                self._read(u, schema, columns, own and not fed)
        return tuple(streams)

    def _read(self, use: _Use, schema: TableSchema, columns: tuple[int, ...], filtered: bool) -> None:
        """Makes an operator read from the stream."""
        operator = self.operators[use.operator]
        if use.leaf is None:
            plan = with_source(operator.plan, use.schema.name, schema)
        else:
            plan = map_selects(operator.plan, partial(_reading, use.leaf, schema, columns, filtered))
        self.operators[use.operator] = replace(operator, plan=plan)


def _dimension(
    name: str, share: int, hashed: tuple[Expression, ...], split: HeavyValues | None, relation: int
) -> Dimension:
    """A dimension as one relation meets it."""
    own = tuple(map(_as_source, hashed))
    if split is None or not own:
        return Dimension(share, name, own)
    row = tuple(map(_as_source, split.row)) if relation == split.relation else ()
    return Dimension(share, name, own, split.hashes, row)


def _follows_from_tables(plan: AnyPlan) -> bool:
    """Whether changes of tables say all there is to it: no part of it is constant."""
    return _reads(plan) and all(_follows_from_tables(each) for _, each in inputs(plan))


def _reads(plan: AnyPlan) -> bool:
    """Whether it reads tables, or rows of the recursion that it is the step of."""
    if isinstance(plan, QueryPlan) and any(isinstance(r.source, RecursiveRows) for r in plan.relations):
        return True
    return next(schemas(plan), None) is not None or any(_reads(each) for _, each in inputs(plan))


def _is_one_table(plan: QueryPlan) -> bool:
    """Whether each of its rows is made of one row of a table."""
    return (
        len(plan.relations) == 1
        and isinstance(plan.relations[0].source, TableSchema)
        and plan.grouping is None
        and not plan.distinct
    )


def _reading(leaf: str, schema: TableSchema, columns: tuple[int, ...], filtered: bool, plan: QueryPlan) -> QueryPlan:
    """A select over a stream of these columns, where it reads the leaf; itself where it does not."""
    names = [r.source.name if isinstance(r.source, TableSchema) else "" for r in plan.relations]
    if leaf not in names:
        return plan
    relation = names.index(leaf)
    place = {c: i for i, c in enumerate(columns)}

    def moved(e: Expression) -> Expression:
        if isinstance(e, ColumnRef) and e.relation == relation:
            return replace(e, column=place[e.column])
        return e

    if filtered:
        plan = replace(plan, nodes=tuple(replace(n, filter=()) if n.relation == relation else n for n in plan.nodes))
    plan = map_expressions(plan, lambda e: transform(e, moved))
    relations = list(plan.relations)
    relations[relation] = RelationPlan(relations[relation].alias, schema, schema.fields)
    return replace(plan, relations=tuple(relations))


def _as_source(expression: Expression) -> Expression:
    return transform(expression, lambda e: replace(e, relation=0) if isinstance(e, ColumnRef) else e)


def _unnamed(expression: Expression) -> Expression:
    return transform(expression, lambda e: replace(e, name="") if isinstance(e, ColumnRef) else e)
