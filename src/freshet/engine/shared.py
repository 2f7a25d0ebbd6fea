"""A query that several others read, in one view or in several, maintained once for all of them.

Law: within a transaction a shared query finishes once all changes that it reads have reached it, and before any of its
readers finish. Its readers get its delta from it; those that join its rows find them in one table, which changes like a
stored one: rows leave all readers, then the table; rows come to the table, then to all readers. A step is counted where
it is taken: those of the shared query in it, once, and a row that it changes in the input of a reader with that reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from freshet.engine.maintained import Finder, Maintained, PlanOver, Tables, maintain
from freshet.engine.table import RowChange, Table
from freshet.engine.work import FED, Work
from freshet.plans.model import AnyPlan
from freshet.scalar.column import Column
from freshet.state.arena import Arena, Growable, Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.rows import Rows, no_rows
from freshet.state.strings import StringPool
from freshet.state.tuples import Slots

QUERY, ROWS = "query", "rows"  # the scopes of a shared query and its rows


class Shared:
    """`joined`: whether some reader joins its rows, so that they are stored."""

    def __init__(
        self, number: int, arena: Arena, plan: AnyPlan, tables: Tables, pool: StringPool, joined: bool
    ) -> None:
        self.number, self.scope = number, arena.scope(f"shared{number}")
        self.plan, self.tables, self.pool = plan, tables, pool
        self.known_as: PlanOver = tables.plan_over(plan)
        self.query = self.attach()
        self.rows: Table | None = self._table() if joined else None
        self.delta = no_rows(self.query.width)
        self.counting: dict[int, Growable] = {}  # the steps of the operators that join its rows, by reader

    def attach(self) -> Maintained:
        """The operator whose state is in its scope; it does not read itself."""
        itself = self.tables.shared.pop(self.known_as, None)
        try:
            return maintain(self.scope.scope(QUERY), self.plan, self.tables, self.pool)
        finally:
            if itself is not None:
                self.tables.shared[self.known_as] = itself

    def _table(self) -> Table:
        return Table(self.scope.scope(ROWS), self.plan.fields, (), self.pool)

    def reader(self, scope: Scope, plan: AnyPlan) -> SharedReader:
        return SharedReader(scope, plan, self)

    def joinable(self) -> Table:
        """The table of its rows."""
        if self.rows is None:
            self.rows = self._table()
            self._fill(self.rows)
        return self.rows

    def _fill(self, table: Table) -> None:
        for rows in self.query.packed():
            change = table.resolve(rows.lanes, rows.weights)
            if len(change.changed):
                table.reweigh(change)
            table.add(change)

    def load(self) -> None:
        """Loads the rows that the tables already contain."""
        self.query.load(loaded(self.query, self.tables))
        if self.rows is not None:
            self._fill(self.rows)

    def rebuild(self) -> None:
        """Makes its state again from the tables' rows; readers have to be rebuilt after it."""
        spent, joined = self.query.steps.data.copy(), self.rows is not None
        self.query.close()
        self.scope.drop()
        self.query = self.attach()
        self.rows = self._table() if joined else None
        self.load()
        self.query.steps.data[:] += spent

    def finish(self) -> RowChange | None:
        """Ends its part of a transaction; returns the change of its table, which is not applied yet."""
        self.delta = rows = self.query.finish()
        if self.rows is None or not len(rows):
            return None
        for steps in self.counting.values():
            steps.data[FED] += len(rows)
        return self.rows.resolve(rows.lanes, rows.weights.copy())

    def settle(self) -> None:
        """Called when all readers have finished."""
        if len(self.delta):
            self.delta = no_rows(self.query.width)

    def string_marks(self, marked: Bools) -> None:
        self.query.string_marks(marked)
        if self.rows is not None:
            self.rows.string_marks(marked)


class SharedReader(Maintained):
    """Where an operator reads a shared query."""

    def __init__(self, scope: Scope, plan: AnyPlan, shared: Shared) -> None:
        super().__init__(scope, plan, shared.pool)
        self.shared = shared

    @property
    def reads(self) -> Sequence[Maintained]:  # type: ignore[override]  # another query's, which may be rebuilt
        return self.shared.query.reads or self.shared.query.below

    def stored(self, steps: Growable) -> Table:
        self.shared.counting[id(self)] = steps
        return self.shared.joinable()

    def close(self) -> None:
        self.shared.counting.pop(id(self), None)
        super().close()

    def finish(self) -> Rows:
        return Rows(self.shared.delta.lanes, self.shared.delta.weights.copy())

    def batches(self, rows: int) -> Iterator[list[Column]]:
        return self.shared.query.batches(rows)

    def unordered(self, rows: int) -> Iterator[list[Column]]:
        return self.shared.query.unordered(rows)

    def count(self) -> int:
        return self.shared.query.count()

    def finders(self) -> Sequence[Finder]:
        return self.shared.query.finders()

    def copies(self, columns: list[Column], rows: int) -> Int64s:
        return self.shared.query.copies(columns, rows)

    def among(self, keys: list[Column], rows: int) -> tuple[Slots, list[Column]]:
        return self.shared.query.among(keys, rows)

    def weighted(self, rows: int) -> Iterator[tuple[list[Column], Int64s]]:
        return self.shared.query.weighted(rows)

    def packed(self) -> Iterator[Rows]:
        return self.shared.query.packed()

    def statistics(self) -> list[tuple[int, int]]:
        return self.shared.query.statistics()

    def work(self, counted: set[int] | None = None) -> Work:
        counted = set() if counted is None else counted
        if id(self.shared) in counted:
            return Work()
        counted.add(id(self.shared))
        return self.shared.query.work(counted)

    def own_work(self) -> Work:
        return self.shared.query.own_work()


def shared_by(operator: Maintained) -> list[Shared]:
    """The shared queries that an operator and the queries below it read, each once."""
    found: dict[int, Shared] = {}

    def visit(query: Maintained) -> None:
        if isinstance(query, SharedReader):
            found[id(query.shared)] = query.shared
        for below in query.below:
            visit(below)

    visit(operator)
    return [*found.values()]


def loaded(operator: Maintained, tables: Tables) -> list[Table]:
    """The tables that an operator loads: those it reads, and those of the shared queries below it."""
    stored = [tables[name] for name in sorted({name for name, _ in tables.plan_over(operator.plan)[1]})]
    return stored + [shared.rows for shared in shared_by(operator) if shared.rows is not None]
