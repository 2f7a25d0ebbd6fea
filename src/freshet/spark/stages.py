"""Plans to a job: which operators run at which level, what each reads, and over which grid.

A nested query is an operator of its own, one level below its reader. Where several cells can speak of one group or one
distinct row, the operator is split and a merge stands a level above it. What is no select gets its inputs' rows hashed
on what must meet in one cell: a window's partition, the whole row for a set operation. UNION ALL is no operator: its
inputs all send to whoever reads it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from freshet.errors import PlanError, UnsupportedError
from freshet.plans.model import (
    AnyPlan,
    QueryPlan,
    RelationPlan,
    TopPlan,
    UnionAllPlan,
    ValuesPlan,
    WindowPlan,
    schemas,
    with_inputs,
)
from freshet.plans.model import inputs as inputs_of
from freshet.spark.job import Dimension, Job, Normalized, Operator, Stream, ViewOutput
from freshet.spark.partials import Split, over_rows, split_distinct, split_grouping
from freshet.spark.shares import Grid, choose_grid, covers
from freshet.sql.bound import TableSchema
from freshet.sql.expression import AggregateCall, ColumnRef, Expression, describe, transform, walk


def make_job(
    plans: Mapping[str, AnyPlan],
    shards: int,
    sizes: Mapping[str, float] | None = None,
    normalized: Sequence[str] = (),
    quarantine: bool = False,
) -> Job:
    """The job that keeps all the views; `sizes` are rows by table, as far as known; `normalized` are tables whose
    changes come in an order that matters; `quarantine`: bad changes are set aside instead of refused."""
    job = _Stages(shards, {k.lower(): v for k, v in (sizes or {}).items()}).job(plans)
    ordered = {n.lower() for n in normalized}
    wanted = [t for t in job.tables if quarantine or t.name.lower() in ordered]
    return replace(_normalized(job, wanted, ordered), quarantine=quarantine) if wanted else job


def _normalized(job: Job, tables: Sequence[TableSchema], ordered: Collection[str]) -> Job:
    """The job with a level below all others that keeps the tables' rows by primary key, or by all they hold."""
    streams = [replace(s, level=s.level + 1) for s in job.streams]
    found = []
    for table in tables:
        name = table.name.lower()
        if name in ordered and not table.primary_key:
            raise PlanError(
                f"table {table.name} has no primary key, by which changes in sequence are told apart; declare one"
            )
        columns = tuple(sorted({*read_of(job.streams, name), *table.primary_key}))
        key = tuple(
            ColumnRef(table.fields[c].type, 0, c, table.fields[c].name, table.fields[c].nullable)
            for c in table.primary_key or columns
        )
        grid = (Dimension(job.shards, "key", key),) if job.shards > 1 and key else ()
        stream = f"{name}/key"
        streams.append(Stream(stream, f"key of {name}", 0, columns, _projected(table, stream, columns), (), grid))
        found.append(Normalized(name, stream, name in ordered))
    operators = tuple(replace(o, level=o.level + 1) for o in job.operators)
    return replace(job, streams=tuple(streams), operators=operators, normalized=tuple(found))


def read_of(streams: Sequence[Stream], table: str) -> set[int]:
    """Positions of the columns of a table that its streams, their filters and their grids read."""
    found: set[int] = set()
    for s in (s for s in streams if s.source == table):
        read = [e for f in s.filters for e in f] + [e for d in s.grid for e in d.hashed]
        found |= {*s.columns, *(c.column for e in read for c in walk(e) if isinstance(c, ColumnRef))}
    return found


@dataclass(slots=True)
class _Use:
    """One relation of one operator, and the rows it needs."""

    operator: int
    relation: int
    sources: tuple[str, ...]
    schema: TableSchema
    level: int
    grid: tuple[Dimension, ...]
    filter: tuple[Expression, ...]
    columns: frozenset[int]


class _Stages:
    def __init__(self, shards: int, sizes: dict[str, float]) -> None:
        self.shards, self.sizes = shards, sizes
        self.operators: list[Operator] = []
        self.uses: list[_Use] = []
        self.tables: dict[str, TableSchema] = {}

    def job(self, plans: Mapping[str, AnyPlan]) -> Job:
        views = []
        for name, plan in plans.items():
            made = self.operators[self._add(plan)]
            views.append(ViewOutput(name, made.name, plan.fields))
        streams = self._streams()
        return Job(self.shards, tuple(self.tables.values()), streams, tuple(self.operators), tuple(views))

    # Operators ------------------------------------------------------------------------------------------------

    def _add(self, plan: AnyPlan) -> int:
        """Adds the operators of a plan; returns the number of the one whose output is the plan's."""
        if isinstance(plan, ValuesPlan):
            raise UnsupportedError("VALUES is not maintained on Spark; put the rows in a table of their own")
        if not isinstance(plan, QueryPlan):
            return self._above(plan)
        if not any(not n.generalized for n in plan.nodes):
            raise UnsupportedError("a query without tables never changes; read at least one table")
        inputs = {
            i: self._together(r.source) for i, r in enumerate(plan.relations) if not isinstance(r.source, TableSchema)
        }
        level = max((self.operators[o].level + 1 for together in inputs.values() for o in together), default=0)
        used = used_columns(plan)
        sizes = {
            i: self.sizes[r.source.name.lower()]
            for i, r in enumerate(plan.relations)
            if isinstance(r.source, TableSchema) and r.source.name.lower() in self.sizes
        }
        grid = choose_grid(plan, self.shards, sizes, used)
        split = self._split(plan, grid)
        if split is None:
            number = self._operator(plan, level, inputs, grid, used)
        else:
            number = self._operator(split.shard, level, inputs, grid, used_columns(split.shard), split.averages)
            number = self._merge(split, number)
        if plan.distinct and plan.grouping is not None and self.shards > 1:
            number = self._merge(split_distinct(plan), number)
        return number

    def _together(self, plan: AnyPlan) -> tuple[int, ...]:
        """The operators whose outputs together are the plan's rows."""
        if isinstance(plan, UnionAllPlan):
            return tuple(o for each in plan.inputs for o in self._together(each))
        return (self._add(plan),)

    def _above(self, plan: AnyPlan) -> int:
        below = [self._together(p) for _, p in inputs_of(plan)]
        if isinstance(plan, TopPlan) and not plan.partition and plan.limit is not None and self.shards > 1:
            # The first of all are among the first of each cell, so that one cell alone sees few rows.
            first = replace(plan, offset=0, limit=plan.offset + plan.limit, fields=plan.source.fields)
            below = [(self._meeting(first, below, range(len(first.fields))),)]
        if isinstance(plan, (TopPlan, WindowPlan)):
            return self._meeting(plan, below, plan.partition)
        return self._meeting(plan, below, range(len(plan.fields)))

    def _meeting(self, plan: AnyPlan, below: Sequence[tuple[int, ...]], columns: Sequence[int]) -> int:
        """An operator that is no select; input rows with equal values of the columns go to one cell."""
        number, level = len(self.operators), 1 + max(self.operators[o].level for together in below for o in together)
        fields = [p.fields for _, p in inputs_of(plan)]
        read = [over_rows("rows", f, None, False) for f in fields]
        spread = self.shards if columns else 1
        self.operators.append(Operator(f"#{number}", level, with_inputs(plan, read), spread))
        for i, (together, rows) in enumerate(zip(below, read, strict=True)):
            grid = (Dimension(spread, "row", tuple(rows.outputs[c] for c in columns)),) if spread > 1 else ()
            schema, every = TableSchema("rows", rows.fields), frozenset(range(len(rows.fields)))
            self.uses.append(_Use(number, i, self._names(together), schema, level, grid, (), every))
        return number

    def _names(self, operators: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.operators[o].name for o in operators)

    def _split(self, plan: QueryPlan, grid: Grid) -> Split | None:
        if not grid.shares:
            return None
        if plan.grouping is not None:
            return None if plan.grouping.keys and covers(grid, plan.grouping.keys) else split_grouping(plan)
        if plan.distinct:
            return None if covers(grid, plan.outputs) else split_distinct(plan)
        return None

    def _merge(self, split: Split, below: int) -> int:
        grid = Grid([], [], [])
        if split.keys:
            grid = Grid(["group" if split.merge.grouping is not None else "row"], [self.shards], [{0: split.keys}])
        return self._operator(
            split.merge, self.operators[below].level + 1, {0: (below,)}, grid, used_columns(split.merge, every=True)
        )

    def _operator(
        self, plan: QueryPlan, level: int, inputs: Mapping[int, tuple[int, ...]], grid: Grid,
        used: Mapping[int, frozenset[int]], averages: tuple[tuple[int, int], ...] = (),
    ) -> int:  # fmt: skip
        number = len(self.operators)
        self.operators.append(Operator(f"#{number}", level, plan, math.prod(grid.shares), averages))
        for node in plan.nodes:
            if node.generalized:
                continue
            r = node.relation
            relation = plan.relations[r]
            if r in inputs:
                sources = self._names(inputs[r])
                schema = TableSchema("rows", relation.fields)
            else:
                assert isinstance(relation.source, TableSchema)
                schema, sources = relation.source, (relation.source.name.lower(),)
                self.tables.setdefault(sources[0], schema)
            dimensions = tuple(
                Dimension(share, name, tuple(_as_source(e) for e in of.get(r, ())))
                for name, share, of in zip(grid.names, grid.shares, grid.hashed, strict=True)
            )
            columns = used[r] | set(schema.primary_key)
            filters = tuple(_as_source(f) for f in node.filter)
            self.uses.append(_Use(number, r, sources, schema, level, dimensions, filters, frozenset(columns)))
        return number

    # Streams --------------------------------------------------------------------------------------------------

    def _streams(self) -> tuple[Stream, ...]:
        shared: dict[tuple[object, ...], list[_Use]] = {}
        for use in self.uses:
            where = tuple((d.share, tuple(map(_unnamed, d.hashed))) for d in use.grid)
            shared.setdefault((use.sources, use.level, where), []).append(use)
        streams = []
        for number, uses in enumerate(shared.values()):
            first = uses[0]
            own, told = len(uses) == 1, first.sources[0].startswith("#")  # told by operators, or read from a table
            kept: set[int] = set().union(*(u.columns for u in uses))
            if not own or told:
                for u in uses:
                    kept |= {e.column for f in u.filter for e in walk(f) if isinstance(e, ColumnRef)}
            columns = tuple(sorted(kept))
            name = f"{'+'.join(first.sources)}/{number}"
            schema = _projected(first.schema, name, columns)
            filters = () if any(not u.filter for u in uses) else tuple(dict.fromkeys(u.filter for u in uses))
            streams += [Stream(name, s, first.level, columns, schema, filters, first.grid) for s in first.sources]
            for u in uses:
                self._read(u, schema, columns, own and not told)
        return tuple(streams)

    def _read(self, use: _Use, schema: TableSchema, columns: tuple[int, ...], filtered: bool) -> None:
        """Makes an operator read its relation from the stream."""
        operator = self.operators[use.operator]
        place = {c: i for i, c in enumerate(columns)}
        plan = operator.plan
        if not isinstance(plan, QueryPlan):
            read = [below for _, below in inputs_of(plan)]
            read[use.relation] = over_rows(schema.name, schema.fields, None, False)
            self.operators[use.operator] = replace(operator, plan=with_inputs(plan, read))
            return

        def moved(e: Expression) -> Expression:
            if isinstance(e, ColumnRef) and e.relation == use.relation:
                return replace(e, column=place[e.column])
            return e

        if filtered:
            plan = replace(
                plan, nodes=tuple(replace(n, filter=()) if n.relation == use.relation else n for n in plan.nodes)
            )
        plan = map_expressions(plan, lambda e: transform(e, moved))
        relations = list(plan.relations)
        relations[use.relation] = RelationPlan(relations[use.relation].alias, schema, schema.fields)
        self.operators[use.operator] = replace(operator, plan=replace(plan, relations=tuple(relations)))


def _projected(schema: TableSchema, name: str, columns: tuple[int, ...]) -> TableSchema:
    place = {c: i for i, c in enumerate(columns)}
    return TableSchema(name, tuple(schema.fields[c] for c in columns), tuple(place[c] for c in schema.primary_key))


def _as_source(expression: Expression) -> Expression:
    return transform(expression, lambda e: replace(e, relation=0) if isinstance(e, ColumnRef) else e)


def _unnamed(expression: Expression) -> Expression:
    return transform(expression, lambda e: replace(e, name="") if isinstance(e, ColumnRef) else e)


# Expressions of a plan ------------------------------------------------------------------------------------------


def map_expressions(plan: QueryPlan, change: Callable[[Expression], Expression]) -> QueryPlan:
    """The plan with every expression over its relations changed; nested plans are left alone."""

    def each(expressions: tuple[Expression, ...]) -> tuple[Expression, ...]:
        return tuple(map(change, expressions))

    def call(c: AggregateCall) -> AggregateCall:
        return replace(c, args=each(c.args), filter=None if c.filter is None else change(c.filter))

    nodes = []
    for n in plan.nodes:
        edge = n.edge
        if edge is not None:
            compared = edge.comparison
            if compared is not None:
                compared = replace(compared, parent=change(compared.parent), child=change(compared.child))
            edge = replace(
                edge, parent_key=each(edge.parent_key), child_key=each(edge.child_key), condition=each(edge.condition),
                comparison=compared,
            )  # fmt: skip
        checks = tuple(
            replace(a, left_value=change(a.left_value), right_value=change(a.right_value)) for a in n.assertions
        )
        nodes.append(replace(n, edge=edge, filter=each(n.filter), assertions=checks))
    grouping = plan.grouping
    if grouping is not None:
        having = None if grouping.having is None else change(grouping.having)
        grouping = replace(
            grouping, keys=each(grouping.keys), aggregates=tuple(map(call, grouping.aggregates)), having=having
        )
    return replace(
        plan, nodes=tuple(nodes), residual=each(plan.residual), grouping=grouping, outputs=each(plan.outputs)
    )


def used_columns(plan: QueryPlan, every: bool = False) -> dict[int, frozenset[int]]:
    """The columns of each relation that are read anywhere but in its own filter, or `every` column."""
    if every:
        return {i: frozenset(range(len(r.fields))) for i, r in enumerate(plan.relations)}
    found: dict[int, set[int]] = {i: set() for i in range(len(plan.relations))}

    def note(e: Expression) -> Expression:
        for x in walk(e):
            if isinstance(x, ColumnRef) and x.relation >= 0:
                found[x.relation].add(x.column)
        return e

    map_expressions(replace(plan, nodes=tuple(replace(n, filter=()) for n in plan.nodes)), note)
    return {i: frozenset(columns) for i, columns in found.items()}


def _shown(plan: AnyPlan) -> str:
    if isinstance(plan, QueryPlan):
        return "reads " + ", ".join(plan.relations[n.relation].alias for n in plan.nodes if not n.generalized)
    sources = ", ".join(s.name.split("/")[0] for s in schemas(plan))
    return f"{plan.guarantee.query_class} of {sources}"


def explain_job(job: Job) -> str:
    """The grid and the levels, for people."""
    return "\n".join(_lines(job))


def _lines(job: Job) -> Iterator[str]:
    yield f"shards     {job.shards}"
    for level in range(job.levels):
        yield f"level {level}"
        for operator in (o for o in job.operators if o.level == level):
            views = [v.name for v in job.views if v.operator == operator.name]
            gives = f", gives view {', '.join(views)}" if views else ""
            yield f"  {operator.name} {_shown(operator.plan)}{gives}"
        for s in (s for s in job.streams if s.level == level):
            columns = ", ".join(f.name for f in s.schema.fields)
            parts = [
                f"{'×'.join(str(d.share) for d in s.grid) or '1'} cells",
                *(
                    f"{d.name}: {'hashed on ' + ', '.join(describe(e) for e in d.hashed) if d.hashed else 'copied'}"
                    for d in s.grid
                ),
            ]
            yield f"  {s.source} ({columns}) · " + " · ".join(parts)
