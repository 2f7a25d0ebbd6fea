"""The database in one process: tables, transactions, views.

A transaction is resolved whole before anything changes. Then, table by table, its old rows leave every view and the
table; after them, its new rows enter each table and every view; last, the views finish and their deltas are published
together. If an expression has no value on some joined row (an overflow, a division by zero), the tables are put back
and the views are built again from them: slow, rare, and always right.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from freshet import dml
from freshet.adapt import Adapt
from freshet.changes import resolve
from freshet.directory import Directory
from freshet.engine.operators import maintain
from freshet.engine.table import RowChange, Table
from freshet.engine.undo import Undo
from freshet.errors import ChangeError, EvaluationError, FreshetError, PlanError, SqlError, StateError
from freshet.metrics import Clock, changes_of
from freshet.plans import Plan, build_plan, codec
from freshet.sql.bound import (
    AnyQuery,
    CreateTable,
    CreateView,
    Delete,
    DropTable,
    DropView,
    Insert,
    TableSchema,
    Update,
)
from freshet.sql.catalog import Catalog
from freshet.sql.parse import parse
from freshet.state.arena import Arena, Growable
from freshet.state.kernel import compile_kernels
from freshet.state.strings import StringPool
from freshet.view import BATCH, Delta, Deltas, Transaction, View, as_batch, as_schema
from freshet.views import Views, tables_of


def connect(directory: str | os.PathLike[str] | None = None, *, adapt: bool | Adapt = True) -> Database:
    """A database in memory, or in files under `directory`, going on where it was closed. `adapt`: whether, or when,
    views move to another join tree as the updates of their tables change."""
    compile_kernels()
    when = (Adapt() if adapt else None) if isinstance(adapt, bool) else adapt
    return Database(None if directory is None else Path(directory), when)


class Database:
    def __init__(self, directory: Path | None = None, adapt: Adapt | None = None) -> None:
        self.adapt, self.clock = adapt, Clock()
        self.lock = threading.RLock()
        self._directory = None if directory is None else Directory(directory)
        self.catalog = Catalog()
        self.tables: dict[str, Table] = {}
        self._views = Views(self, self._number, self._save)
        self._numbers = 0  # every table and view has its own name in the arena, also after a drop
        self._changed: dict[str, Growable] = {}  # rows changed in each table
        self._unread: weakref.WeakSet[Delta] = weakref.WeakSet()
        self._closed = False
        self._untold: list[Transaction] = []
        self._telling = False
        try:
            self.arena = Arena() if self._directory is None else self._directory.arena()
            self.pool = StringPool(self.arena.scope("text"))
            self._meta = self.arena.array("database", np.int64)  # version, changes applied
            kept = None if self._directory is None else self._directory.catalog()
            if kept is not None:
                self._attach(kept)
        except BaseException:
            self._release()
            raise

    @property
    def views(self) -> dict[str, View]:
        """The views by name, in lower case."""
        return self._views.named

    @property
    def on_disk(self) -> bool:
        return self._directory is not None

    @property
    def version(self) -> int:
        return int(self._meta.data[0])

    @property
    def changes(self) -> int:
        """Rows changed by all transactions so far."""
        return int(self._meta.data[1])

    # Statements -----------------------------------------------------------------------------------------------

    def execute(self, sql: str) -> Any:
        """Runs statements one after the other; returns what the last one gives: a Transaction for a change, a View for
        CREATE MATERIALIZED VIEW, an Arrow table for a query, None otherwise."""
        with self.lock:
            self._check_open()
            result = None
            for statement in parse(sql, self.catalog):
                result = self._execute(statement)
            return result

    def _execute(self, statement: Any) -> Any:
        match statement:
            case CreateTable():
                return self._create_table(statement)
            case DropTable():
                return self._drop_table(statement)
            case CreateView():
                if statement.if_not_exists and statement.name.lower() in self.views:
                    return self.views[statement.name.lower()]
                return self.create_view(statement.name, statement.sql)
            case DropView():
                return self._drop_view(statement)
            case Insert():
                return self._insert(statement)
            case Delete(query=query) | Update(query=query) if query is not None:
                schema = self.catalog.tables[statement.table.lower()]
                return self.apply({statement.table: dml.replaced(statement, schema, self._answer(query))})
            case Delete():
                name = statement.table.lower()
                return self._apply({name: dml.deleted(statement, self.tables[name])})
            case Update():
                name = statement.table.lower()
                return self._apply({name: dml.updated(statement, self.catalog.tables[name], self.tables[name])})
        return self._answer(statement)

    def _create_table(self, statement: CreateTable) -> None:
        schema = statement.schema
        name = schema.name.lower()
        if name in self.tables:
            if statement.if_not_exists:
                return
            raise SqlError(f"there is a table {schema.name} already; drop it first, or choose another name")
        if name in self.views:
            raise SqlError(f"there is a view {schema.name} already; choose another name")
        self.catalog.add(schema)
        self._add_table(schema, self._number())
        self._save()

    def _add_table(self, schema: TableSchema, number: int) -> None:
        scope = self.arena.scope(f"table{number}")
        self.tables[schema.name.lower()] = Table(scope, schema.fields, schema.primary_key, self.pool)
        self._changed[schema.name.lower()] = changes_of(scope)

    def _drop_table(self, statement: DropTable) -> None:
        name = statement.name.lower()
        if name not in self.tables:
            if statement.if_exists:
                return
            raise SqlError(f"no table {statement.name}; the tables are {', '.join(sorted(self.tables)) or 'none yet'}")
        users = [v.name for v in self.views.values() if name in tables_of(v.plan.root)]
        if users:
            raise PlanError(f"view {users[0]} reads table {statement.name}; drop the view first")
        self.tables.pop(name).scope.drop()
        del self._changed[name]
        del self.catalog.tables[name]
        self._save()

    def _drop_view(self, statement: DropView) -> None:
        name = statement.name.lower()
        if name not in self.views:
            if statement.if_exists:
                return
            raise SqlError(f"no view {statement.name}; the views are {', '.join(sorted(self.views)) or 'none yet'}")
        self._views.drop(name)

    def create_view(self, name: str, query: str | Plan) -> View:
        """Registers a view over the tables and views there are, with whatever rows they hold."""
        with self.lock:
            self._check_open()
            key = name.lower()
            if key in self.views or key in self.tables:
                kind = "view" if key in self.views else "table"
                raise SqlError(f"there is a {kind} {name} already; drop it first, or choose another name")
            return self._views.create(name, query)

    def view(self, name: str) -> View:
        with self.lock:
            self._check_open()
            if name.lower() not in self.views:
                raise PlanError(f"no view {name}; the views are {', '.join(sorted(self.views)) or 'none yet'}")
            return self.views[name.lower()]

    # Transactions ---------------------------------------------------------------------------------------------

    def apply(self, changes: Mapping[str, Any], *, deltas: bool = True) -> Transaction:
        """One transaction over any number of tables. `deltas=False` skips producing the views' deltas."""
        with self.lock:
            self._check_open()
            if not isinstance(changes, Mapping):
                raise ChangeError(f"changes are a {type(changes).__name__}; give a dict of table name to rows")
            mark = self.pool.mark()
            resolved: dict[str, RowChange] = {}
            try:
                for name, rows in changes.items():
                    key = str(name).lower()
                    schema = self.catalog.table(key)
                    if schema is None:
                        raise self._no_table(str(name))
                    if key in resolved:
                        raise ChangeError(f"table {name} is given twice; put its rows together")
                    resolved[key] = resolve(self.tables[key], schema, rows)
            except FreshetError:
                self.pool.undo(mark)
                raise
            return self._apply(resolved, deltas)

    def _no_table(self, name: str) -> ChangeError:
        if name.lower() in self.views:
            return ChangeError(f"{name} is a view; change the tables it reads")
        return ChangeError(f"no table {name}; the tables are {', '.join(sorted(self.tables)) or 'none yet'}")

    def _apply(self, resolved: dict[str, RowChange], deltas: bool = True) -> Transaction:
        self.clock.strike(self.views.values())
        undo: list[Undo] = []
        kept = [v.maintained for v in self.views.values()]
        changes = [(self.tables[name], change) for name, change in resolved.items()]
        try:
            # All that goes goes first: no row appears only to vanish again.
            for table, change in changes:
                if len(change.removed):
                    undo.append(Undo.before(table, change))
                    for view in kept:
                        view.remove(table, change.removed, deltas)
                    table.remove(change)
            for table, change in changes:
                if len(change.changed):
                    before = table.reweigh(change)
                    undo.append(Undo(table, None, before, change.changed))
                    for view in kept:
                        view.reweigh(table, change.changed, before, deltas)
            for table, change in changes:
                if len(change.added):
                    slots = table.add(change)
                    undo.append(Undo(table, None, None, slots))
                    for view in kept:
                        view.insert(table, slots, deltas)
            found = {name: v.maintained.finish(deltas) for name, v in self.views.items()}
        except BaseException as e:
            self._undo(undo)
            if isinstance(e, EvaluationError):
                reason = f"a view has no answer after it: {e.reason}; correct the rows, or guard the expression"
                raise ChangeError(reason) from e
            raise
        for name, change in resolved.items():
            self._changed[name].data[0] += len(change)
        self._meta.data[:2] += (1, sum(len(c) for c in resolved.values()))
        shown = {name: Delta(self.views[name].maintained, rows) for name, rows in found.items()} if deltas else {}
        tx = Transaction(self.version, Deltas(shown))
        if shown:
            self._unread.update(shown.values())
        if self.pool.wants_sweep():
            self._sweep_text()
        try:
            self._views.follow()
        finally:
            self._publish(tx)
        return tx

    def _undo(self, undo: list[Undo]) -> None:
        """Puts the tables back, and builds every view from them again."""
        for step in reversed(undo):
            step.take_back()
        self._views.build_anew()

    def _publish(self, tx: Transaction) -> None:
        """Every subscriber hears of the transaction, also when another one fails; then the first failure is raised.
        What a subscriber applies itself is told when all have heard of this one: versions come in order."""
        self._untold.append(tx)
        if self._telling:
            return
        self._telling, failure = True, None
        try:
            while self._untold:
                failed = self._tell(self._untold.pop(0))
                failure = failure or failed
        finally:
            self._telling = False
            self._untold.clear()
        if failure is not None:
            raise failure

    def _tell(self, tx: Transaction) -> Exception | None:
        failure: Exception | None = None
        for view in list(self.views.values()):
            for subscription in list(view.subscriptions):
                try:
                    subscription(tx)
                except Exception as e:
                    failure = failure or e
        return failure

    def _sweep_text(self) -> None:
        for delta in self._unread:
            delta.table()
        self._unread.clear()
        marked = np.zeros(self.pool.used, np.bool_)
        for table in self.tables.values():
            table.string_marks(marked)
        for view in self.views.values():
            view.maintained.string_marks(marked)
        self.pool.sweep(marked)

    # Queries asked once ---------------------------------------------------------------------------------------

    def _insert(self, statement: Insert) -> Transaction:
        schema = self.catalog.tables[statement.table.lower()]
        if statement.query is None:
            return self.apply({statement.table: dml.inserted(statement, schema)})
        names = [schema.fields[i].name for i in statement.columns]
        return self.apply({statement.table: self._answer(statement.query).rename_columns(names)})

    def _answer(self, query: AnyQuery) -> pa.Table:
        """The answer to a query asked once: a view made, read and thrown away."""
        plan = Plan("", build_plan(query, self.row_counts()))
        arena = Arena()
        maintained = maintain(arena.scope("query"), plan.root, self.tables, self.pool)
        try:
            maintained.load([self.tables[n] for n in sorted(tables_of(plan.root))])
            schema = as_schema(plan.root.fields)
            return pa.Table.from_batches([as_batch(c, schema) for c in maintained.batches(BATCH)], schema)
        except EvaluationError as e:
            raise ChangeError(f"the query has no answer: {e.reason}; correct the rows, or guard the expression") from e
        finally:
            maintained.close()

    # Upkeep ---------------------------------------------------------------------------------------------------

    def row_counts(self) -> dict[str, float]:
        """Rows of each table stand in for its updates, until more is known; an empty database says nothing."""
        counts = {name: float(t.tuples.live) for name, t in self.tables.items()}
        return counts if any(counts.values()) else {}

    def metrics(self) -> dict[str, Any]:
        """How the database is doing, and of each view what keeping it has cost so far and over the last minute."""
        with self.lock:
            self._check_open()
            return {
                "version": self.version,
                "changes": self.changes,
                "tuples": self.tuples(),
                "state_bytes": self.nbytes(),
                "tree_switches": sum(v.following.chosen.moves for v in self.views.values()),
                "views": {name: v.metrics() for name, v in self.views.items()},
            }

    def nbytes(self) -> int:
        """Bytes of all state: tables, views, text."""
        return self.arena.nbytes()

    def tuples(self) -> int:
        """Tuples stored in tables."""
        return sum(t.tuples.live for t in self.tables.values())

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _check_open(self) -> None:
        if self._closed:
            raise StateError("the database is closed; connect again")

    # On disk --------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        if self._directory is None:
            return
        tables = {
            name: {
                "number": table.scope.prefix.removeprefix("table"),
                "schema": codec.encode(self.catalog.tables[name]),
            }
            for name, table in self.tables.items()
        }
        views = list(self._views.definitions.values())
        self._directory.save({"numbers": self._numbers, "tables": tables, "views": views})

    def _attach(self, kept: dict[str, Any]) -> None:
        self._numbers = int(kept["numbers"])
        for described in kept["tables"].values():
            schema = codec.decode(described["schema"])
            self.catalog.add(schema)
            self._add_table(schema, int(described["number"]))
        for definition in kept["views"]:
            self._views.attach(definition)

    def close(self) -> None:
        """Ends the session; a database in files can be connected to again."""
        with self.lock:
            if self._closed:
                return
            self._closed = True
            self.arena.flush()
            self._release()

    def _release(self) -> None:
        if self._directory is not None:
            self._directory.release()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
