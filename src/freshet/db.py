"""The database in one process: tables, transactions, views.

A transaction is resolved whole before anything changes. Then, table by table, its old rows leave every view and the
table; after them, its new rows enter each table and every view; last, the views finish and their deltas are published
together. If an expression has no value on some joined row (an overflow, a division by zero), the tables are put back
and the views are built again from them: slow, rare, and always right.

Any thread may call anything. Two locks make that so. Whoever changes the database holds `lock`, from reading the
changes until the last subscriber has heard of them; whoever touches state, to read it or to change it, holds
`state_lock`. What several threads see (catalog, tables, views, state) changes only under both, so either is enough to
rely on it. They are taken in that order, and no code of the user's runs under `state_lock`. So kernels, which let other
threads run and hold bare addresses, have the arrays to themselves, and while subscribers run, other threads can read.
Deltas need neither lock (freshet/transaction).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
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
from freshet.publish import Publisher
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
from freshet.sql.parse import asks_only, bind_all
from freshet.sql.source import Source
from freshet.state.arena import Arena, Growable
from freshet.state.kernel import compile_kernels
from freshet.state.strings import StringPool
from freshet.transaction import Delta, Deltas, Transaction, Unread
from freshet.view import BATCH, View, as_batch, as_schema
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
        self.lock, self.state_lock = threading.RLock(), threading.RLock()
        self._directory = None if directory is None else Directory(directory)
        self.catalog = Catalog()
        self.tables: dict[str, Table] = {}
        self._views = Views(self, self._number, self._save)
        self._numbers = 0  # every table and view has its own name in the arena, also after a drop
        self._changed: dict[str, Growable] = {}  # rows changed in each table
        self._unread, self._publisher = Unread(), Publisher(self._views.subscriptions)
        self._closed = False
        try:
            self.arena = Arena() if self._directory is None else self._directory.arena()
            self.pool = StringPool(self.arena.scope("text"))
            self._meta = self.arena.array("database", np.int64)  # version, changes applied
            self._version, self._applied = int(self._meta.data[0]), int(self._meta.data[1])
            kept = None if self._directory is None else self._directory.catalog()
            if kept is not None:
                self._attach(kept)
        except BaseException:
            self._release()
            raise

    @property
    def views(self) -> dict[str, View]:
        """The views there are at this moment, by name in lower case."""
        with self.state_lock:
            return dict(self._views.named)

    @property
    def on_disk(self) -> bool:
        return self._directory is not None

    @property
    def version(self) -> int:
        """How many transactions there have been."""
        return self._version

    @property
    def changes(self) -> int:
        """Rows changed by all transactions so far."""
        return self._applied

    # Statements -----------------------------------------------------------------------------------------------

    def execute(self, sql: str) -> Any:
        """Runs statements one after the other; returns what the last one gives: a Transaction for a change, a View for
        CREATE MATERIALIZED VIEW, an Arrow table for a query, None otherwise."""
        statements = Source(sql).statements()
        with self.state_lock if asks_only(statements) else self.lock:
            self.check_open()
            result = None
            for statement in bind_all(statements, self.catalog):
                result = self._execute(statement)
            return result

    def _execute(self, statement: Any) -> Any:
        match statement:
            case CreateTable():
                return self._create_table(statement)
            case DropTable():
                return self._drop_table(statement)
            case CreateView():
                if statement.if_not_exists and statement.name.lower() in self._views.named:
                    return self._views.named[statement.name.lower()]
                return self.create_view(statement.name, statement.sql)
            case DropView():
                return self._drop_view(statement)
            case Insert():
                return self._insert(statement)
            case Delete(query=query) | Update(query=query) if query is not None:
                schema = self.catalog.tables[statement.table.lower()]
                return self.apply({statement.table: dml.replaced(statement, schema, self._answer(query))})
            case Delete() | Update():
                return self._transact(lambda: self._in_place(statement))
        return self._answer(statement)

    def _create_table(self, statement: CreateTable) -> None:
        schema = statement.schema
        name = schema.name.lower()
        if name in self.tables:
            if statement.if_not_exists:
                return
            raise SqlError(f"there is a table {schema.name} already; drop it first, or choose another name")
        if name in self._views.named:
            raise SqlError(f"there is a view {schema.name} already; choose another name")
        with self.state_lock:
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
        users = [v.name for v in self._views.named.values() if name in tables_of(v.plan.root)]
        if users:
            raise PlanError(f"view {users[0]} reads table {statement.name}; drop the view first")
        with self.state_lock:
            self.tables.pop(name).scope.drop()
            del self._changed[name]
            del self.catalog.tables[name]
            self._save()

    def _drop_view(self, statement: DropView) -> None:
        name = statement.name.lower()
        if name not in self._views.named:
            if statement.if_exists:
                return
            raise SqlError(f"no view {statement.name}; the views are {self._views.listed()}")
        self._views.drop(name)

    def create_view(self, name: str, query: str | Plan) -> View:
        """Registers a view over the tables and views there are, with whatever rows they hold."""
        with self.lock:
            self.check_open()
            key = name.lower()
            if key in self._views.named or key in self.tables:
                kind = "view" if key in self._views.named else "table"
                raise SqlError(f"there is a {kind} {name} already; drop it first, or choose another name")
            return self._views.create(name, query)

    def view(self, name: str) -> View:
        with self.state_lock:
            self.check_open()
            found = self._views.named.get(name.lower())
            if found is None:
                raise PlanError(f"no view {name}; the views are {self._views.listed()}")
            return found

    # Transactions ---------------------------------------------------------------------------------------------

    def apply(self, changes: Mapping[str, Any], *, deltas: bool = True) -> Transaction:
        """One transaction over any number of tables. `deltas=False` skips producing the views' deltas."""
        with self.lock:
            self.check_open()
            if not isinstance(changes, Mapping):
                raise ChangeError(f"changes are a {type(changes).__name__}; give a dict of table name to rows")
            return self._transact(lambda: self._resolved(changes), deltas)

    def _transact(self, resolved: Callable[[], dict[str, RowChange]], deltas: bool = True) -> Transaction:
        """What is resolved is applied under one lock of the state, and then published: also if what follows the
        transaction fails, for it has happened."""
        tx: Transaction | None = None
        try:
            with self.state_lock:
                tx = self._commit(resolved(), deltas)
                if self.pool.wants_sweep():
                    self._sweep_text()
                self._views.follow()
        finally:
            if tx is not None:
                self._publisher.publish(tx)
        return tx

    def _resolved(self, changes: Mapping[str, Any]) -> dict[str, RowChange]:
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
        return resolved

    def _in_place(self, statement: Delete | Update) -> dict[str, RowChange]:
        """What a statement changes in the rows of its table."""
        name = statement.table.lower()
        table = self.tables[name]
        if isinstance(statement, Delete):
            return {name: dml.deleted(statement, table)}
        return {name: dml.updated(statement, self.catalog.tables[name], table)}

    def _no_table(self, name: str) -> ChangeError:
        if name.lower() in self._views.named:
            return ChangeError(f"{name} is a view; change the tables it reads")
        return ChangeError(f"no table {name}; the tables are {', '.join(sorted(self.tables)) or 'none yet'}")

    def _commit(self, resolved: dict[str, RowChange], deltas: bool) -> Transaction:
        """Takes all that was found good into tables and views."""
        views = self._views.named
        self.clock.strike(views.values())
        undo: list[Undo] = []
        kept = [v.maintained for v in views.values()]
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
            found = {name: v.maintained.finish(deltas) for name, v in views.items()}
        except BaseException as e:
            self._undo(undo)
            if isinstance(e, EvaluationError):
                reason = f"a view has no answer after it: {e.reason}; correct the rows, or guard the expression"
                raise ChangeError(reason) from e
            raise
        for name, change in resolved.items():
            self._changed[name].data[0] += len(change)
        self._version += 1
        self._applied += sum(len(c) for c in resolved.values())
        self._meta.data[:2] = self._version, self._applied
        shown = {name: Delta(views[name].maintained, rows) for name, rows in found.items()} if deltas else {}
        self._unread.add(shown.values())
        return Transaction(self._version, Deltas(shown))

    def _undo(self, undo: list[Undo]) -> None:
        """Puts the tables back, and builds every view from them again."""
        for step in reversed(undo):
            step.take_back()
        self._views.build_anew()

    def _sweep_text(self) -> None:
        self._unread.settle()
        marked = np.zeros(self.pool.used, np.bool_)
        for table in self.tables.values():
            table.string_marks(marked)
        for view in self._views.named.values():
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
        with self.state_lock:
            arena = Arena()
            maintained = maintain(arena.scope("query"), plan.root, self.tables, self.pool)
            try:
                maintained.load([self.tables[n] for n in sorted(tables_of(plan.root))])
                schema = as_schema(plan.root.fields)
                return pa.Table.from_batches([as_batch(c, schema) for c in maintained.batches(BATCH)], schema)
            except EvaluationError as e:
                remedy = "correct the rows, or guard the expression"
                raise ChangeError(f"the query has no answer: {e.reason}; {remedy}") from e
            finally:
                maintained.close()

    # Upkeep ---------------------------------------------------------------------------------------------------

    def row_counts(self) -> dict[str, float]:
        """Rows of each table stand in for its updates, until more is known; an empty database says nothing."""
        with self.state_lock:
            self.check_open()
            counts = {name: float(t.tuples.live) for name, t in self.tables.items()}
            return counts if any(counts.values()) else {}

    def metrics(self) -> dict[str, Any]:
        """How the database is doing, and of each view what keeping it has cost so far and over the last minute."""
        with self.state_lock:
            self.check_open()
            views = self._views.named
            return {
                "version": self.version,
                "changes": self.changes,
                "tuples": self.tuples(),
                "state_bytes": self.nbytes(),
                "tree_switches": sum(v.following.chosen.moves for v in views.values()),
                "views": {name: v.metrics() for name, v in views.items()},
            }

    def nbytes(self) -> int:
        """Bytes of all state: tables, views, text."""
        with self.state_lock:
            self.check_open()
            return self.arena.nbytes()

    def tuples(self) -> int:
        """Tuples stored in tables."""
        with self.state_lock:
            self.check_open()
            return sum(t.tuples.live for t in self.tables.values())

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def check_open(self) -> None:
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
        """Ends the session; a database in files can be connected to again. Deltas and answers handed out stay as they
        are."""
        with self.lock, self.state_lock:
            if self._closed:
                return
            self._unread.settle()
            self._closed = True
            self.arena.flush()
            self.arena.release()
            self._release()

    def _release(self) -> None:
        if self._directory is not None:
            self._directory.release()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
