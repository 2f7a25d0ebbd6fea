"""The transaction core: stored tables and the operators over them, which are changed together.

Law: a resolved change is applied whole or not at all. First, table by table, deleted rows are removed from every
operator and then from their table; then rows with a changed weight get it; then inserted rows are added to their table
and to every operator. So an old row of one table never joins a new row of another, and no joined row appears only to
disappear again. Finally the operators finish and emit their deltas together. If anything fails, the tables are
restored; the operators are then half changed, and `stale` until they are rebuilt from the tables' rows. Queries that
several operators read (shared.py) finish before those, one after the other, and their rows change as a table's do.

A database, the replay of its log and a shard on Spark all change their state through this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import numpy as np

from freshet.budget import Memory, unlimited
from freshet.engine.crew import Crew
from freshet.engine.maintained import Maintained, Outlet, Tables
from freshet.engine.nest import NativeJoin, NativeNest, NativeTransaction, end_together, nests_of
from freshet.engine.operators import maintain
from freshet.engine.shared import loaded
from freshet.engine.sharing import Sharing
from freshet.engine.table import RowChange, Table
from freshet.engine.undo import Undo
from freshet.logical.query import TableSchema
from freshet.plans.model import AnyPlan, schemas
from freshet.state.arena import Arena, Growable, Scope
from freshet.state.rows import Rows
from freshet.state.strings import StringPool
from freshet.state.tuples import Slots

_FEW = 1024  # fewer slots than this are not worth freeing

_MOST_STEPS = 256  # sets of tables whose steps are kept

TEXT = "text"  # the scope of the pool


class Core:
    """Tables and operators by name, over one arena and one pool of texts. An operator reads tables by their names."""

    def __init__(self, arena: Arena, crew: Crew | None = None) -> None:
        self.crew = Crew() if crew is None else crew
        self.arena, self.pool = arena, StringPool(arena.scope(TEXT))
        self.tables = Tables()
        self.operators: dict[str, Maintained] = {}
        self.stale: set[str] = set()  # operators that must be rebuilt before they are used
        self.sharing = Sharing(arena, self.pool, self.tables, self.operators, self.attach)
        self._outlet = Outlet()
        self._know_nothing()

    # Transactions ---------------------------------------------------------------------------------------------

    def apply(
        self, changes: Mapping[str, RowChange], *, deltas: bool = True, commit: Callable[[], None] | None = None
    ) -> dict[str, Rows]:
        """Applies changes that were resolved against the tables, and calls `commit` once all are applied. Returns the
        delta of every operator; without `deltas`, these may be incomplete."""
        undo: list[Undo] = []
        self._outlet.open = deltas
        try:
            self._know()
            self._change([self.tables[name] for name in changes], [*changes.values()], undo)
            emitted = self._finished(sum(map(len, changes.values())))
            if commit is not None:
                commit()
        except BaseException:
            self._take_back(undo, [self.tables[name] for name in changes])
            raise
        finally:
            self._outlet.open = True
        return emitted

    def _finished(self, rows: int) -> dict[str, Rows]:
        """Ends a transaction of that many rows: the delta of every operator."""
        shared = self.sharing.queries
        for query in shared:
            change = query.finish()
            if change is not None and query.rows is not None:
                self._change([query.rows], [change], [])  # no undo: it is rebuilt after a failure
        if not self._ends:
            end_together(self._whole, self.crew, rows)
        emitted = {name: operator.finish() for name, operator in self.operators.items()}
        for query in shared:
            query.settle()
        return emitted

    def _change(self, tables: Sequence[Table], changes: Sequence[RowChange], undo: list[Undo]) -> None:
        """Applies changes of tables to them and to all who read them, and adds to `undo` what is done to the tables."""
        steps = self._native(tables)
        if steps is None or not steps.run(changes, undo):
            self._pass_on(tables, changes, undo)

    def _pass_on(self, tables: Sequence[Table], changes: Sequence[RowChange], undo: list[Undo]) -> None:
        """The same, from one operator to the next."""
        operators = self._known
        for table, change in zip(tables, changes, strict=True):
            if len(change.removed):
                undo.append(Undo.before(table, change))
                for operator in operators:
                    operator.remove(table, change.removed)
                table.remove(change)
        for table, change in zip(tables, changes, strict=True):
            if len(change.changed):
                before = table.reweigh(change)
                undo.append(Undo(table, None, before, change.changed))
                for operator in operators:
                    operator.reweigh(table, change.changed, before)
        for table, change in zip(tables, changes, strict=True):
            if len(change.added):
                if table.weights is not None:  # both get room, or neither is changed
                    table.reserve(len(change.added))
                slots = table.add(change)
                undo.append(Undo(table, None, None, slots))
                for operator in operators:
                    operator.insert(table, slots)

    def _know_nothing(self) -> None:
        """Called before an operator closes: native steps refer to its state by address."""
        self._known: list[Maintained] = []  # the operators that these steps are of
        self._readers: tuple[list[NativeNest | NativeJoin], list[Maintained]] = [], []  # native, and others
        self._whole: list[NativeNest] = []  # those that end natively, too
        self._ends = False  # whether all do, in the call that applies a change
        self._natives: dict[tuple[int, ...], NativeTransaction | None] = {}

    def _know(self) -> None:
        """Notes the current operators, and how they take changes."""
        operators = [*self.operators.values()]
        if self.sharing.queries:
            operators = [query.query for query in self.sharing.queries] + operators
        if operators == self._known and len(self._natives) <= _MOST_STEPS:
            return
        self._know_nothing()
        self._known = operators
        for operator in operators:
            nests = nests_of(operator)
            if nests is None:
                self._readers[1].append(operator)
            else:
                self._readers[0].extend(nests)
        nests, others = self._readers
        self._whole = [nest for nest in nests if isinstance(nest, NativeNest)]
        self._ends = len(self._whole) == len(nests) and not others and not self.sharing.queries

    def _native(self, tables: Sequence[Table]) -> NativeTransaction | None:
        """The steps of changes of these tables; None if they have no native readers."""
        key = tuple(map(id, tables))
        if key not in self._natives:
            nests, others = self._readers
            covered = all(t.agenda is None and any(id(t) in nest.enter for nest in nests) for t in tables)
            able = bool(tables) and covered
            self._natives[key] = NativeTransaction(tables, nests, others, self._ends, self.crew) if able else None
        return self._natives[key]

    def _take_back(self, undo: Sequence[Undo], tables: Sequence[Table]) -> None:
        """Restores the tables, and frees the memory they had grown by."""
        self.spoil(self.operators)
        with unlimited():
            for step in reversed(undo):
                step.take_back()
            with suppress(MemoryError):
                for table in tables:
                    if table.tuples.used > 2 * table.tuples.live + _FEW:
                        table.repack()
                    else:
                        table.tuples.shrink()

    def spoil(self, names: Iterable[str]) -> None:
        """Operators that must be rebuilt before they are used."""
        self.stale.update(names)
        self.sharing.spoil(self.stale)

    def enter(self, table: Table, change: RowChange) -> Slots:
        """Adds rows to their table and to every operator, as part of a load, which ends with `finish`."""
        self._know()
        slots = table.add(change)
        if len(slots):
            for operator in self._known:
                operator.insert(table, slots)
        return slots

    def finish(self) -> None:
        """Ends a load."""
        self._know()
        self._finished(0)

    @contextmanager
    def without_deltas(self) -> Iterator[None]:
        """Within this block operators need not emit deltas."""
        self._outlet.open = False
        try:
            yield
        finally:
            self._outlet.open = True

    # Tables and operators -------------------------------------------------------------------------------------

    def table(self, scope: str, schema: TableSchema, plain: bool = False) -> Table:
        """A table with the rows stored in its scope of the arena. `plain`: whether texts that no operator reads may be
        plain."""
        return Table(self.arena.scope(scope), schema.fields, schema.primary_key, self.pool, schema.retention, plain)

    def attach(self, scope: str, plan: AnyPlan) -> Maintained:
        """The operator whose state is in that scope; an empty operator if the scope is empty."""
        return maintain(self.arena.scope(scope), plan, self.tables, self.pool, self._outlet)

    def build(self, scope: str, plan: AnyPlan, memory: Memory) -> Maintained:
        """Creates an operator over the tables' rows, which shares what others maintain already; if that fails, nothing
        of it remains."""
        try:
            with memory.temporary(), self.without_deltas():
                if not self.stale:
                    self.sharing.prepare(plan)
                operator = self._loaded(scope, plan)
        except BaseException:
            self.sharing.end_unread()
            raise
        self.sharing.note(operator)
        self.sharing.end_unread()
        return self.sharing.roots[scope]

    def _loaded(self, scope: str, plan: AnyPlan) -> Maintained:
        try:
            operator = self.attach(scope, plan)
            try:
                operator.load(loaded(operator, self.tables))
            except BaseException:
                operator.close()
                raise
        except BaseException:
            self.arena.scope(scope).drop()
            raise
        return operator

    def rebuild(self, name: str, memory: Memory) -> None:
        """Rebuilds an operator from the tables' rows, and first the shared queries that only stale operators read."""
        self.stale.add(name)
        old = self.operators[name]
        with unlimited(), memory.temporary(), self.without_deltas():
            self.sharing.rebuild()
            self._forget(old)
            self.operators[name] = self._loaded(old.scope.prefix, old.plan)
        self.sharing.note(self.operators[name])
        self.stale.discard(name)

    def discard(self, *operators: Maintained) -> None:
        """Closes operators and drops their state, and that of shared queries that nothing reads any more."""
        for operator in operators:
            self._forget(operator)
        self.sharing.end_unread()

    def _forget(self, operator: Maintained) -> None:
        self._know_nothing()
        self.sharing.forget(operator)
        operator.close()
        operator.scope.drop()

    def close(self) -> None:
        """Frees its memory at once; reference cycles between operators and arrays would delay that."""
        self._know_nothing()
        for operator in self.operators.values():
            operator.close()
        self.sharing.close()
        self.crew.close()
        self.arena.release()

    # Maintenance ----------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Frees texts that no table or operator refers to."""
        marked = np.zeros(self.pool.used, np.bool_)
        for table in self.tables.values():
            table.string_marks(marked)
        for operator in self.operators.values():
            operator.string_marks(marked)
        for query in self.sharing.queries:
            query.string_marks(marked)
        self.pool.sweep(marked)

    def live_rows(self) -> int:
        return sum(table.tuples.live for table in self.tables.values())


def changes_of(table: Scope) -> Growable:
    """Stored with each table of a database: the number of rows changed since the table was created."""
    return table.array("changes", np.int64)


def tables_of(plan: AnyPlan) -> set[str]:
    """The tables that a plan reads, in lower case."""
    return {schema.name.lower() for schema in schemas(plan)}
