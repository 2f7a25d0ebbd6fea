"""The transaction core: stored tables and the operators over them, which are changed together.

Law: a resolved change is applied whole or not at all. First, table by table, deleted rows are removed from every
operator and then from their table; then rows with a changed weight get it; then inserted rows are added to their table
and to every operator. So an old row of one table never joins a new row of another, and no joined row appears only to
disappear again. Finally the operators finish and emit their deltas together. If anything fails, the tables are
restored; the operators are then half changed, and `stale` until they are rebuilt from the tables' rows.

A database, the replay of its log and a shard on Spark all change their state through this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import numpy as np

from freshet.budget import Memory, unlimited
from freshet.engine.maintained import Maintained, Outlet
from freshet.engine.nest import NativeNest, NativeTransaction
from freshet.engine.operators import maintain
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

    def __init__(self, arena: Arena) -> None:
        self.arena, self.pool = arena, StringPool(arena.scope(TEXT))
        self.tables: dict[str, Table] = {}
        self.operators: dict[str, Maintained] = {}
        self.stale: set[str] = set()  # operators that must be rebuilt before they are used
        self._outlet = Outlet()
        self._known: list[Maintained] = []  # the operators that these steps are of
        self._natives: dict[tuple[str, ...], NativeTransaction | None] = {}

    # Transactions ---------------------------------------------------------------------------------------------

    def apply(
        self, changes: Mapping[str, RowChange], *, deltas: bool = True, commit: Callable[[], None] | None = None
    ) -> dict[str, Rows]:
        """Applies changes that were resolved against the tables, and calls `commit` once all are applied. Returns the
        delta of every operator; without `deltas`, these may be incomplete."""
        undo: list[Undo] = []
        self._outlet.open = deltas
        try:
            native = self._native(tuple(changes)) if deltas else None
            if native is None or not native.run([*changes.values()], undo):
                self._pass_on(changes, undo)
            emitted = {name: operator.finish() for name, operator in self.operators.items()}
            if commit is not None:
                commit()
        except BaseException:
            self._take_back(undo, [self.tables[name] for name in changes])
            raise
        finally:
            self._outlet.open = True
        return emitted

    def _pass_on(self, changes: Mapping[str, RowChange], undo: list[Undo]) -> None:
        """Passes changes to the operators one after the other, and adds to `undo` what is done to the tables."""
        tables, operators = self.tables, self.operators.values()
        for name, change in changes.items():
            if len(change.removed):
                table = tables[name]
                undo.append(Undo.before(table, change))
                for operator in operators:
                    operator.remove(table, change.removed)
                table.remove(change)
        for name, change in changes.items():
            if len(change.changed):
                table = tables[name]
                before = table.reweigh(change)
                undo.append(Undo(table, None, before, change.changed))
                for operator in operators:
                    operator.reweigh(table, change.changed, before)
        for name, change in changes.items():
            if len(change.added):
                table = tables[name]
                if table.weights is not None:  # both get room, or neither is changed
                    table.reserve(len(change.added))
                slots = table.add(change)
                undo.append(Undo(table, None, None, slots))
                for operator in operators:
                    operator.insert(table, slots)

    def _native(self, names: tuple[str, ...]) -> NativeTransaction | None:
        """The steps of transactions that change these tables; None if some of their readers are not native."""
        operators = [*self.operators.values()]
        if operators != self._known or len(self._natives) > _MOST_STEPS:
            self._known, self._natives = operators, {}
        if names not in self._natives:
            self._natives[names] = self._described(names)
        return self._natives[names]

    def _described(self, names: tuple[str, ...]) -> NativeTransaction | None:
        changed, tables = set(names), [self.tables[name] for name in names]
        nests = [getattr(o, "nest", None) for o in self._known if not tables_of(o.plan).isdisjoint(changed)]
        native = [nest for nest in nests if isinstance(nest, NativeNest)]
        if not native or len(native) < len(nests) or any(table.agenda is not None for table in tables):
            return None
        if not all(any(id(table) in nest.enter for nest in native) for table in tables):
            return None
        return NativeTransaction(tables, native)

    def _take_back(self, undo: Sequence[Undo], tables: Sequence[Table]) -> None:
        """Restores the tables, and frees the memory they had grown by."""
        self.stale.update(self.operators)
        with unlimited():
            for step in reversed(undo):
                step.take_back()
            with suppress(MemoryError):
                for table in tables:
                    if table.tuples.used > 2 * table.tuples.live + _FEW:
                        table.repack()
                    else:
                        table.tuples.shrink()

    def enter(self, table: Table, change: RowChange) -> Slots:
        """Adds rows to their table and to every operator, as part of a load, which ends with `finish`."""
        slots = table.add(change)
        if len(slots):
            for operator in self.operators.values():
                operator.insert(table, slots)
        return slots

    def finish(self) -> None:
        """Ends a load."""
        for operator in self.operators.values():
            operator.finish()

    @contextmanager
    def without_deltas(self) -> Iterator[None]:
        """Within this block operators need not emit deltas."""
        self._outlet.open = False
        try:
            yield
        finally:
            self._outlet.open = True

    # Tables and operators -------------------------------------------------------------------------------------

    def table(self, scope: str, schema: TableSchema) -> Table:
        """A table with the rows stored in its scope of the arena."""
        return Table(self.arena.scope(scope), schema.fields, schema.primary_key, self.pool, schema.retention)

    def attach(self, scope: str, plan: AnyPlan) -> Maintained:
        """The operator whose state is in that scope; an empty operator if the scope is empty."""
        return maintain(self.arena.scope(scope), plan, self.tables, self.pool, self._outlet)

    def build(self, scope: str, plan: AnyPlan, memory: Memory) -> Maintained:
        """Creates an operator over the tables' rows; if that fails, nothing of it remains."""
        try:
            operator = self.attach(scope, plan)
            try:
                with memory.temporary(), self.without_deltas():
                    operator.load([self.tables[name] for name in sorted(tables_of(plan))])
            except BaseException:
                operator.close()
                raise
        except BaseException:
            self.arena.scope(scope).drop()
            raise
        return operator

    def rebuild(self, name: str, memory: Memory) -> None:
        """Rebuilds an operator from the tables' rows."""
        self.stale.add(name)
        old = self.operators[name]
        self.discard(old)
        with unlimited():
            self.operators[name] = self.build(old.scope.prefix, old.plan, memory)
        self.stale.discard(name)

    def discard(self, operator: Maintained) -> None:
        """Closes an operator and drops its state."""
        self._known, self._natives = [], {}
        operator.close()
        operator.scope.drop()

    def close(self) -> None:
        """Frees its memory at once; reference cycles between operators and arrays would delay that."""
        self._known, self._natives = [], {}
        for operator in self.operators.values():
            operator.close()
        self.arena.release()

    # Maintenance ----------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Frees texts that no table or operator refers to."""
        marked = np.zeros(self.pool.used, np.bool_)
        for table in self.tables.values():
            table.string_marks(marked)
        for operator in self.operators.values():
            operator.string_marks(marked)
        self.pool.sweep(marked)

    def live_rows(self) -> int:
        return sum(table.tuples.live for table in self.tables.values())


def changes_of(table: Scope) -> Growable:
    """Stored with each table of a database: the number of rows changed since the table was created."""
    return table.array("changes", np.int64)


def tables_of(plan: AnyPlan) -> set[str]:
    """The tables that a plan reads, in lower case."""
    return {schema.name.lower() for schema in schemas(plan)}
