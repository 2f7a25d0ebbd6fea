"""Maintains a select: join, then aggregation, then projection, then DISTINCT, as its plan says.

Nested queries are maintained in the same way and write their deltas to a table of their own, which the join reads like
any other; two nested queries that differ only in names are maintained once, and their table then has two roles. The
table of a nested query that is shared (engine/shared.py) changes like a stored one. Within a transaction, changes of
every table are first applied to every join that reads it; then nested deltas are passed on, innermost first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from freshet.budget import look
from freshet.engine.aggregate import Aggregate
from freshet.engine.descriptions import TO_GROUPS, TO_PENDING, TO_PYTHON, TO_RAW
from freshet.engine.distinct import DistinctOperator
from freshet.engine.group_members import GroupMembers
from freshet.engine.join import Join
from freshet.engine.joined_finders import joined_finders
from freshet.engine.maintained import ALWAYS, LOAD, NEVER, Finder, Maintained, Outlet, keeps, maintain
from freshet.engine.members import Members
from freshet.engine.native import Native, is_covered
from freshet.engine.nest import NativeNest
from freshet.engine.passing import Passing
from freshet.engine.select_columns import distinguishes_tuples, evaluated, wanted_columns
from freshet.engine.select_finders import group_finders, row_finders
from freshet.engine.shown_rows import stored_rows, weighted_rows
from freshet.engine.table import Table
from freshet.engine.work import CHECKED, DISTINCT, FED, GROUPED, PLACED, Work
from freshet.errors import TooMuchTextError
from freshet.logical.query import TableSchema
from freshet.plans.content import Content, content_of
from freshet.plans.expressions import columns_read
from freshet.plans.lookups import lookups
from freshet.plans.model import QueryPlan
from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate, evaluate_filter
from freshet.scalar.expression import ColumnRef, Reference
from freshet.scalar.functions.compiled import is_total
from freshet.scalar.lanes import pack, unpack, width
from freshet.state.arena import Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.rows import HeldRows, Rows, Sink, added_up, consolidated, joined, multiplied
from freshet.state.strings import StringPool
from freshet.state.tuples import Slots

Reader = Callable[[Reference], Column]

QUERY, ROWS = "query", "rows"  # the scopes of a nested query and its rows


class _Used:
    """A sink that passes rows on as they arrive."""

    __slots__ = ("_use",)

    def __init__(self, use: Callable[[Iterable[Rows]], None]) -> None:
        self._use = use

    def extend(self, chunks: Iterable[Rows], /) -> None:
        self._use(chunks)


@keeps(QueryPlan)
class Select(Maintained):
    def __init__(
        self, scope: Scope, plan: QueryPlan, tables: Mapping[str, Table], pool: StringPool, outlet: Outlet
    ) -> None:
        super().__init__(scope, plan, pool)
        self.plan: QueryPlan = plan
        self.inputs: list[tuple[Maintained, Table]] = []  # nested queries whose rows are stored here, or pass
        self.below: list[Maintained] = []
        self.reads: list[Maintained] = []
        self._known: dict[Content, tuple[Maintained, Table]] = {}  # nested queries and their rows
        sources = [self._source(i, tables) for i in range(len(plan.relations)) if not self._is_generalized(i)]
        self.wanted = wanted_columns(plan)
        self.row_types = [c.type for c in self.wanted]  # of the input rows
        grouping = plan.grouping
        certain = all(is_total(e) for e in evaluated(plan))
        # If state is built from join results, or some of them may fail, they are always computed.
        self.outlet = ALWAYS if grouping is not None or plan.distinct or not certain else outlet
        self.pending = HeldRows()  # rows of the delta
        self.raw = HeldRows()  # join results not evaluated yet
        plain = grouping is None and not plan.residual and not plan.copies and tuple(self.wanted) == plan.outputs
        self.results: Sink = self.pending if plain else self.raw if self._waits() else _Used(self._pass_on)
        self.passing = Passing(self.below[0], plan, self.wanted, pool) if plan.passes else None
        self.join: Join | None = None
        if plan.nodes and self.passing is None:
            self.join = Join(scope.scope("join"), plan, sources, self.wanted, pool, self.results, self.outlet)
        self.aggregate: Aggregate | None = None
        if grouping is not None:
            keys = [k.type for k in grouping.keys]
            self.aggregate = Aggregate(scope.scope("groups"), pool, keys, grouping.aggregates, grand_total=not keys)
        self.distinct = DistinctOperator(scope.scope("distinct"), pool, self.types) if plan.distinct else None
        self.sources = sources
        self.distinguishes = plain and distinguishes_tuples(plan)  # whether different join results are different rows
        self.listener: Callable[[Maintained, Rows], None] | None = None  # called with the changes of nested queries
        self.members: Members | None = None
        self.touched = False  # whether groups have changed since the last flush
        covered = self.passing is not None if self.join is None else is_covered(self.join)
        self.native = Native(self) if covered else None
        if self.join is not None:
            self.join.native = self.native
        self.nest = NativeNest.of(self)

    def sink(self) -> int:
        if self.results is self.pending:
            return TO_PENDING
        if self.results is self.raw:
            return TO_RAW
        return TO_PYTHON if self.aggregate is None else TO_GROUPS

    def _waits(self) -> bool:
        """Whether join results are evaluated only at the end of the transaction. During a transaction a row may appear
        and disappear again: the NULL row of a LEFT JOIN until its partner is inserted, or a row joined with an old row
        of a nested query. If evaluation can fail, such rows must not be evaluated (rows that are too large are refused
        even so: delaying all rows because of them would cost far more). Otherwise results are processed at once, so at
        most one chunk is held in memory."""
        passing = bool(self.inputs) or any(n.edge is not None and n.edge.kind.turns for n in self.plan.nodes)
        return passing and not all(is_total(e, but_for_size=True) for e in evaluated(self.plan))

    def _is_generalized(self, relation: int) -> bool:
        return any(n.generalized and n.relation == relation for n in self.plan.nodes)

    def _source(self, relation: int, tables: Mapping[str, Table]) -> Table:
        source = self.plan.relations[relation].source
        if isinstance(source, TableSchema):
            table = tables[source.name.lower()]
            table.intern(columns_read(self.plan)[relation])
            return table
        same = content_of(source)
        if same not in self._known:
            scope = self.scope.scope(f"input{relation}")
            child = maintain(scope.scope(QUERY), source, tables, self.pool)
            rows = None if self.plan.passes else child.stored(self.steps)
            fed = Table(scope.scope(ROWS), source.fields, (), self.pool) if rows is None else rows
            self._known[same] = child, fed
            self.below.append(child)
            if rows is None:
                self.inputs.append((child, fed))
        child, fed = self._known[same]
        self.reads.append(child)
        return fed

    def rows_scope(self, query: Maintained) -> str:
        """Where the rows of a nested query are stored, if they are stored here."""
        return f"{query.scope.prefix.removesuffix(QUERY)}{ROWS}"

    # Transactions ---------------------------------------------------------------------------------------------

    @property
    def relays(self) -> bool:
        return self.join is None

    def remove(self, table: Table, slots: Slots) -> None:
        if self.nest is not None and not self.nest.is_observed:
            self.nest.remove(table, slots)
            return
        for child in self.below:
            child.remove(table, slots)
        if self.join is not None:
            self.join.remove(table, slots)

    def reweigh(self, table: Table, slots: Slots, before: Int64s) -> None:
        if self.nest is not None:
            self.nest.changed = True
        for child in self.below:
            child.reweigh(table, slots, before)
        if self.join is not None:
            self.join.reweigh(table, slots, before)

    def insert(self, table: Table, slots: Slots) -> None:
        if self.nest is not None and not self.nest.is_observed:
            self.nest.insert(table, slots)
            return
        for child in self.below:
            child.insert(table, slots)
        if self.join is not None:
            self.join.insert(table, slots)

    def finish(self) -> Rows:
        if self.nest is not None and not self.nest.is_observed:
            return self.nest.end()
        for child, fed in self.inputs:
            change = child.finish()
            if len(change):
                self.steps.data[FED] += len(change)
                if self.listener is not None:
                    self.listener(child, change)
                self._take(fed, change)
        self._settle()
        if self.aggregate is not None and self.touched:
            self.touched = False
            self._above_groups(*self._flush(self.aggregate))
        parts = self.pending.take()
        if self.join is not None:
            self.join.sweep()
        if not parts:
            return joined(parts, self.width)
        if self.distinct is not None:
            return self._into_distinct(consolidated(parts, self.width))
        if self.distinguishes and not any(s.counted for s in self.sources):
            return joined(parts, self.width)
        return consolidated(parts, self.width)

    def _into_distinct(self, rows: Rows) -> Rows:
        assert self.distinct is not None
        self.steps.data[DISTINCT] += len(rows)
        return self.distinct.apply(rows)

    def _take(self, fed: Table, rows: Rows) -> None:
        """Applies the delta of a nested query."""
        if self.passing is not None:
            if self.outlet.open:
                if self.passing.filter:
                    self.steps.data[CHECKED] += len(rows)
                self.results.extend([self.passing.rows(rows)])
            return
        assert self.join is not None
        change = fed.resolve(rows.lanes, rows.weights)
        first = self.join.comes_first(fed)
        if first:
            self.join.insert(fed, fed.add(change))
        self.join.remove(fed, change.removed)
        fed.remove(change)
        if len(change.changed):
            self.join.reweigh(fed, change.changed, fed.reweigh(change))
        if not first:
            self.join.insert(fed, fed.add(change))

    def _settle(self) -> None:
        """Evaluates the remaining join results at the end of the transaction."""
        if self.native is not None:
            self.touched |= self.native.settle()
        if self.raw:
            self._pass_on([consolidated(self.raw.take(), width(self.row_types))])

    def _pass_on(self, chunks: Iterable[Rows]) -> None:
        """Passes join results on: to the groups, or evaluated to the output."""
        for rows in chunks:
            if self.plan.residual:
                self.steps.data[CHECKED] += len(rows)
            read, weights, n = self._checked(rows)
            if not n:
                continue
            if self.aggregate is not None:
                self._into_groups(read, weights, n)
            else:
                columns = [evaluate(o, read, n) for o in self.plan.outputs]
                self.pending.append(Rows(pack(columns, self.pool, n), weights))

    def _checked(self, rows: Rows) -> tuple[Reader, Int64s, int]:
        """Result rows that satisfy the residual predicates, as columns."""
        read = self._reader(unpack(rows.lanes, self.row_types, self.pool))
        weights, n = rows.weights, len(rows)
        if self.plan.residual:
            keep = evaluate_filter(self.plan.residual, read, n)
            if not keep.all():
                weights = weights[keep]
                read, n = self._reader(unpack(rows.lanes[keep], self.row_types, self.pool)), len(weights)
        return read, multiplied(weights, [read(c).data for c in self.plan.copies]), n

    def _reader(self, columns: Sequence[Column]) -> Reader:
        by_place = {(c.relation, c.column): column for c, column in zip(self.wanted, columns, strict=True)}

        def read(c: Reference) -> Column:
            assert isinstance(c, ColumnRef)
            return by_place[c.relation, c.column]

        return read

    def _into_groups(self, read: Reader, weights: Int64s, n: int) -> None:
        grouping = self.plan.grouping
        assert grouping is not None and self.aggregate is not None
        keys = [evaluate(k, read, n) for k in grouping.keys]
        args, filters = [], []
        for call in grouping.aggregates:
            mask: Bools | None = None if call.filter is None else evaluate_filter((call.filter,), read, n)
            copies = () if call.copies is None else (call.copies,)
            args.append([evaluate(a, read, n) for a in (*call.args, *copies)])
            filters.append(mask)
        self.touched = True
        self.steps.data[GROUPED] += n
        self.aggregate.apply(keys, args, filters, weights)

    def _flush(self, aggregate: Aggregate) -> tuple[list[Column], Int64s]:
        change = aggregate.flush()
        if aggregate.in_order:
            self.steps.data[PLACED] += aggregate.visits()
        return change

    def _above_groups(self, columns: list[Column], weights: Int64s) -> None:
        if not len(weights):
            return
        outputs, mask = self._project_groups(columns, len(weights))
        n = len(weights) if mask is None else int(mask.sum())
        self.pending.append(Rows(pack(outputs, self.pool, n), weights if mask is None else weights[mask]))

    def _project_groups(self, columns: list[Column], n: int) -> tuple[list[Column], Bools | None]:
        grouping = self.plan.grouping
        assert grouping is not None
        mask = None
        if grouping.having is not None:
            mask = evaluate_filter((grouping.having,), lambda c: columns[c.column], n)
            columns, n = [c.take(mask) for c in columns], int(mask.sum())
        return [evaluate(o, lambda c: columns[c.column], n) for o in self.plan.outputs], mask

    # Answers --------------------------------------------------------------------------------------------------

    def batches(self, rows: int) -> Iterator[list[Column]]:
        if self.distinct is not None:
            yield from self.distinct.batches(rows)
        elif self.aggregate is not None:
            for columns in self.aggregate.batches(rows):
                yield self._project_groups(columns, len(columns[0]) if columns else 1)[0]
        elif self.passing is not None:
            for part in self.passing.answer():
                yield from self._shown(part, rows)
        elif self.join is not None and self._reads_one_table():
            for slots, weights in self.join.alive(rows):
                yield from stored_rows(self.sources[0], self.plan.outputs, slots, weights, rows)
        elif self.join is not None:
            for part in self.join.answer(rows):
                yield from self._shown(part, rows)
        else:
            yield from self._constant()

    def _reads_one_table(self) -> bool:
        """Whether each tuple of one table is a row of the answer, and nothing else is checked on it."""
        plan = self.plan
        return len(plan.nodes) == 1 and not (plan.nodes[0].generalized or plan.residual or plan.copies)

    def _shown(self, part: Rows, rows: int) -> Iterator[list[Column]]:
        for columns, weights in self._valued(part):
            yield from weighted_rows(columns, weights, rows)

    def _valued(self, part: Rows) -> Iterator[tuple[list[Column], Int64s]]:
        """The outputs of join results, and the weight of each; in several parts if they have much text."""
        read, weights, n = self._checked(part)
        if not n:
            return
        try:
            columns = [evaluate(o, read, n) for o in self.plan.outputs]
        except TooMuchTextError:
            if len(part) == 1:
                raise
            half = len(part) // 2
            yield from self._valued(Rows(part.lanes[:half], part.weights[:half]))
            yield from self._valued(Rows(part.lanes[half:], part.weights[half:]))
            return
        yield columns, weights

    def _constant(self) -> Iterator[list[Column]]:
        """SELECT without FROM: one row, unless WHERE is not true."""
        read = self._reader([])
        if evaluate_filter(self.plan.residual, read, 1).all():
            yield [evaluate(o, read, 1) for o in self.plan.outputs]

    def finders(self) -> list[Finder]:
        if self.distinct is not None:
            return []
        if self.aggregate is not None:
            return group_finders(self.plan, self.aggregate, lambda columns, n: self._project_groups(columns, n)[0])
        if not self.plan.key:
            return row_finders(self.plan, self.sources)
        return joined_finders(self.plan, self.sources, self._nested(), self.pool)

    def count(self) -> int:
        if self.distinct is not None:
            return self.distinct.count()
        if self.aggregate is not None and (self.plan.grouping is None or self.plan.grouping.having is None):
            return self.aggregate.count()
        rows = self.passing or self.join
        if self.aggregate is None and rows is not None and not self.plan.residual and not self.plan.copies:
            return rows.count()
        if self.plan.copies and self.join is not None:
            return sum(added_up(self._checked(part)[1]) for part in self.join.answer(LOAD))
        return sum(len(columns[0]) for columns in self.batches(LOAD))

    def copies(self, columns: list[Column], rows: int) -> Int64s:
        if self.aggregate is not None:
            return self._groups(self.aggregate).copies(columns, rows)
        if self.members is None:
            asked = lookups(self.plan)
            assert asked is not None and self.join is not None, "the plan says which queries are looked up"
            self.members = Members(self.join.tree, asked, self._nested(), self.pool)
        return self.members.copies(columns, rows)

    def among(self, keys: list[Column], rows: int) -> tuple[Slots, list[Column]]:
        assert self.aggregate is not None, "the plan says whose groups are looked up"
        return self._groups(self.aggregate).among(keys, rows)

    def _groups(self, aggregate: Aggregate) -> GroupMembers:
        return GroupMembers(self.plan, aggregate, self._project_groups, self.pool)

    def _nested(self) -> dict[int, Maintained]:
        """The nested queries, by relation."""
        places = (i for i, r in enumerate(self.plan.relations) if not isinstance(r.source, TableSchema))
        return dict(zip(places, self.reads, strict=True))

    def weighted(self, rows: int) -> Iterator[tuple[list[Column], Int64s]]:
        if self.join is None or self.aggregate is not None:
            yield from super().weighted(rows)
            return
        for part in self.join.answer(rows):
            yield from self._valued(part)

    # Loading and closing --------------------------------------------------------------------------------------

    def load(self, tables: Sequence[Table]) -> None:
        if self.join is not None and self.aggregate is None and self.distinct is None:
            self._load_unseen(self.join, tables)
        else:
            self._load_results(tables)

    def _load_unseen(self, join: Join, tables: Sequence[Table]) -> None:
        """No state depends on the results, so they are not enumerated during loading. If some may fail, all are
        evaluated at the end, a chunk at a time, so that the whole answer is never in memory."""
        join.emit_through(NEVER)
        try:
            self._load_rows(tables)
        finally:
            join.emit_through(self.outlet)
        if not all(map(is_total, evaluated(self.plan))):
            for part in join.answer(LOAD):
                look()
                for _ in self._valued(part):
                    pass

    def _load_results(self, tables: Sequence[Table]) -> None:
        self._load_rows(tables)
        if self.join is None and self.passing is None and self.aggregate is not None:
            read = self._reader([])
            if evaluate_filter(self.plan.residual, read, 1).all():
                self._into_groups(read, np.ones(1, np.int64), 1)
        self._settle()
        if self.aggregate is not None:
            self._above_groups(*self._flush(self.aggregate))
        self._forget_deltas()

    def _load_rows(self, tables: Sequence[Table]) -> None:
        for child, fed in self.inputs:
            child.load(tables)
            for rows in child.packed():
                self._take(fed, rows)
                if self.aggregate is None:
                    self._forget_deltas()
        for table in tables:
            slots = table.tuples.slots()
            for start in range(0, len(slots), LOAD):
                if self.join is not None:
                    self.join.insert(table, slots[start : start + LOAD])
                    if self.aggregate is None:
                        self._forget_deltas()

    def _forget_deltas(self) -> None:
        if self.native is not None:
            self.touched |= self.native.settle()
        parts = self.pending.copy()
        self.pending.clear()
        if self.distinct is not None:
            self._into_distinct(consolidated(parts, self.width))

    def close(self) -> None:
        super().close()
        if self.native is not None:
            self.native.close()
            self.native = self.nest = None
        if self.join is not None:
            self.join.native = None
            self.join.unwatch()
        # frees their memory at once, although the sink refers to this query
        self.join = self.aggregate = self.members = None

    def string_marks(self, marked: Bools) -> None:
        super().string_marks(marked)
        for _, fed in self.inputs:
            fed.string_marks(marked)
        for kept in (self.aggregate, self.distinct):
            if kept is not None:
                kept.string_marks(marked)
        if self.join is not None:
            self.join.string_marks(marked)
        if self.native is not None:
            self.native.string_marks(marked)

    def statistics(self) -> list[tuple[int, int]]:
        return [] if self.join is None else self.join.statistics()

    def own_work(self) -> Work:
        own = super().own_work()
        return own if self.join is None else own + Work.kept(self.join.work.data)
