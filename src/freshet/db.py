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

A database in a folder (durable/) writes each transaction and each definition to its log when all else has succeeded and
before anybody hears of it; if that fails, it is taken back like any other failure. Signals wait meanwhile
(interrupts.py), so an interruption finds the state before or the state after.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from freshet import dml
from freshet.adapt import Adapt
from freshet.arrow import to_batches
from freshet.changes import resolve
from freshet.durable.history import History
from freshet.durable.record import number_of
from freshet.durable.store import Store
from freshet.engine.operators import maintain
from freshet.engine.rows import Rows
from freshet.engine.table import RowChange, Table
from freshet.engine.undo import Undo
from freshet.errors import ChangeError, EvaluationError, PlanError, SqlError, StateError
from freshet.interrupts import Deferred, deliver
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
from freshet.state.kernel_cache import compile_kernels
from freshet.state.strings import StringPool
from freshet.transaction import Delta, Deltas, Transaction, Unread
from freshet.view import BATCH, View, as_schema
from freshet.views import Views, tables_of


def connect(
    directory: str | os.PathLike[str] | None = None, *, adapt: bool | Adapt = True, durability: str = "fsync",
    read_only: bool = False, retain: int = 0,
) -> Database:  # fmt: skip
    """A database in memory, or in the folder `directory`, going on where it stopped, however that was.

    `adapt`: whether, or when, views move to another join tree as the updates of their tables change. `durability` says
    what a transaction that was applied survives: "fsync" a loss of power, "os" the end of the process, "none" neither;
    only what was closed. `read_only`: the last version there is, while another process may write. `retain`: so many
    versions can be read again, by `view.changes(since=)` and `view.at(version)`; more where the log still has them."""
    compile_kernels()
    when = (Adapt() if adapt else None) if isinstance(adapt, bool) else adapt
    if directory is None:
        if read_only:
            raise ValueError("a database in memory cannot be read only; give the folder of one")
        return Database(None, when)
    return Database(Store(Path(directory), durability, read_only, retain), when)


class Database:
    def __init__(self, store: Store | None = None, adapt: Adapt | None = None) -> None:
        self.adapt, self.clock = adapt, Clock()
        self.lock, self.state_lock = threading.RLock(), threading.RLock()
        self._store = store
        self.catalog = Catalog()
        self.tables: dict[str, Table] = {}
        self._views = Views(self, self._number, self._defining, self._save)
        self._numbers = 0  # every table and view has its own name in the arena, also after a drop
        self._changed: dict[str, Growable] = {}  # rows changed in each table
        self._unread, self._publisher = Unread(), Publisher(self._views.subscriptions)
        self._closed = False
        try:
            self.arena = Arena() if store is None else store.arena()
            self.pool = StringPool(self.arena.scope("text"))
            self._meta = self.arena.array("database", np.int64)  # version, changes applied
            self._version, self._applied = int(self._meta.data[0]), int(self._meta.data[1])
            if store is not None:
                store.restore(self)
        except BaseException:
            if store is not None:
                store.release()
            raise

    @property
    def views(self) -> dict[str, View]:
        """The views there are at this moment, by name in lower case."""
        with self.state_lock:
            return dict(self._views.named)

    @property
    def on_disk(self) -> bool:
        return self._store is not None

    @property
    def closed(self) -> bool:
        return self._closed

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
        if isinstance(statement, AnyQuery):
            return self._answer(statement)
        self._check_writable()
        match statement:
            case CreateTable():
                with self._changing():
                    return self._create_table(statement)
            case DropTable() | DropView():
                with self._changing():
                    return self._drop(statement)
            case CreateView():
                if statement.if_not_exists and statement.name.lower() in self._views.named:
                    return self._views.named[statement.name.lower()]
                return self.create_view(statement.name, statement.sql)
            case Insert():
                return self._insert(statement)
            case Delete(query=query) | Update(query=query) if query is not None:
                schema = self.catalog.tables[statement.table.lower()]
                return self.apply({statement.table: dml.replaced(statement, schema, self._answer(query))})
            case Delete() | Update():
                return self._transact(lambda: self._in_place(statement))
        raise AssertionError(f"no way to execute {statement}")

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Whoever defines something is alone, and not interrupted."""
        try:
            with self.lock:
                self._check_writable()
                with Deferred():
                    yield
        finally:
            deliver()

    @contextmanager
    def _defining(self) -> Iterator[None]:
        """Tables and views become other ones: all of it and on disk, or nothing."""
        views, catalog = self._views, self.catalog
        kept: list[dict[str, Any]] = [self.tables, self._changed, catalog.tables, catalog.views, catalog.reads]
        kept += [views.named, views.definitions]
        before = [dict(entries) for entries in kept]
        try:
            yield
            self._save()
        except BaseException:
            for entries, old in zip(kept, before, strict=True):
                entries.clear()
                entries.update(old)
            raise

    def _create_table(self, statement: CreateTable) -> None:
        schema = statement.schema
        name = schema.name.lower()
        if name in self.tables:
            if statement.if_not_exists:
                return
            raise SqlError(f"there is a table {schema.name} already; drop it first, or choose another name")
        if name in self._views.named:
            raise SqlError(f"there is a view {schema.name} already; choose another name")
        number = self._number()
        try:
            with self.state_lock, self._defining():
                self._restore_table(schema, number)
        except BaseException:
            self.arena.drop(f"table{number}/")
            raise

    def _restore_table(self, schema: TableSchema, number: int) -> None:
        self.catalog.add(schema)
        self._add_table(schema, number)

    def _add_table(self, schema: TableSchema, number: int) -> None:
        scope = self.arena.scope(f"table{number}")
        self.tables[schema.name.lower()] = Table(scope, schema.fields, schema.primary_key, self.pool)
        self._changed[schema.name.lower()] = changes_of(scope)

    def _drop(self, statement: DropTable | DropView) -> None:
        names = self.catalog.dropped(statement)  # binding has refused what there is not
        tables = {name: self.tables[name] for name in names if name in self.tables}
        with self.state_lock:
            with self._defining():
                views = [self._views.take(name) for name in names if name not in tables]
                for name in tables:
                    del self.tables[name], self._changed[name]
                    self.catalog.drop(name)
            for view in views:
                self._views.end(view)
            for table in tables.values():
                table.scope.drop()

    def _remove_table(self, name: str) -> None:
        self.tables.pop(name).scope.drop()
        del self._changed[name]
        self.catalog.drop(name)

    def create_view(self, name: str, query: str | Plan) -> View:
        """Registers a view over the tables and views there are, with whatever rows they hold."""
        with self._changing():
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
            self._check_writable()
            if not isinstance(changes, Mapping):
                raise ChangeError(f"changes are a {type(changes).__name__}; give a dict of table name to rows")
            return self._transact(lambda: self._resolved(changes), deltas)

    def _transact(self, resolved: Callable[[], dict[str, RowChange]], deltas: bool = True) -> Transaction:
        """What is resolved is applied under one lock of the state, and then published: also if what follows the
        transaction fails, for it has happened."""
        try:
            with Deferred():
                try:
                    with self.state_lock:
                        tx = self._commit(resolved(), deltas)
                        self._publisher.add(tx)
                        if self.pool.wants_sweep():
                            self._sweep_text()
                        self._views.follow()
                        if self._store is not None:
                            self._store.tidy(self)
                finally:
                    self._publisher.publish()
        finally:
            deliver()
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
        except BaseException:
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
        try:
            found = self._change(resolved, deltas, self._record(resolved))
        except EvaluationError as e:
            reason = f"a view has no answer after it: {e.reason}; correct the rows, or guard the expression"
            raise ChangeError(reason) from e
        self._count({name: len(change) for name, change in resolved.items()}, self._version + 1)
        shown = {name: Delta(views[name].maintained, rows) for name, rows in found.items()} if deltas else {}
        self._unread.add(shown.values())
        return Transaction(self._version, Deltas(shown))

    def _record(self, resolved: dict[str, RowChange]) -> bytes | None:
        if self._store is None:
            return None
        return self._store.transaction([(self.tables[n], c) for n, c in resolved.items()], self._version + 1)

    def _change(self, resolved: dict[str, RowChange], deltas: bool, record: bytes | None = None) -> dict[str, Rows]:
        """Tables and views take the changes in, and the log their record; or all is as it was."""
        views = self._views.named
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
                    table.reserve(len(change.added))
                    slots = table.add(change)
                    undo.append(Undo(table, None, None, slots))
                    for view in kept:
                        view.insert(table, slots, deltas)
            found = {name: v.maintained.finish(deltas) for name, v in views.items()}
            if record is not None and self._store is not None:
                self._store.commit(record)
        except BaseException:
            self._undo(undo)
            raise
        return found

    def _count(self, rows: Mapping[str, int], version: int) -> None:
        for name, n in rows.items():
            self._changed[name].data[0] += n
        self._stand_at(version, self._applied + sum(rows.values()))

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
                found = maintained.batches(BATCH)
                return pa.Table.from_batches([b for c in found for b in to_batches(c, schema)], schema)
            except EvaluationError as e:
                remedy = "correct the rows, or guard the expression"
                raise ChangeError(f"the query has no answer: {e.reason}; {remedy}") from e
            except SystemError as e:  # how numba gives an exception that a signal handler has raised
                raise (e.__cause__ or e) from None
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
        if self._store is not None:
            self._store.check_process()
        if self._views.stale:  # for want of memory they could not be built when they had to
            with self.state_lock:
                self._views.build_anew()

    def _check_writable(self) -> None:
        self.check_open()
        if self._store is not None and self._store.read_only:
            raise StateError(f"{self._store.path} was opened with read_only; connect without it to change something")

    # On disk --------------------------------------------------------------------------------------------------

    def _described(self) -> dict[str, Any]:
        """The catalog, as it is kept on disk."""
        tables = {
            name: {"number": number_of(table), "schema": codec.encode(self.catalog.tables[name])}
            for name, table in self.tables.items()
        }
        return {"numbers": self._numbers, "tables": tables, "views": self._views.definitions}

    def _changed_rows(self) -> dict[str, int]:
        return {name: int(rows.data[0]) for name, rows in self._changed.items()}

    def _save(self) -> None:
        if self._store is not None:
            self._store.save(self._described(), self._version)

    def _attach(self, kept: dict[str, Any]) -> None:
        """Tables and views whose state is there already."""
        self._numbers = int(kept["numbers"])
        for described in kept["tables"].values():
            self._restore_table(codec.decode(described["schema"]), int(described["number"]))
        for definition in kept["views"].values():
            self._views.attach(definition)

    def _stand_at(self, version: int, applied: int) -> None:
        self._version, self._applied = version, applied
        self._meta.data[:2] = version, applied

    def history(self, view: str, version: int) -> History:
        """A view as it was, from the log."""
        if self._store is None:
            raise StateError(f"version {version} is past, and a database in memory keeps no log; follow it from now")
        with self.state_lock:
            self.check_open()
            self._store.log.flush()
        return History(self._store.path, view.lower(), version)

    def close(self) -> None:
        """Ends the session; a database in a folder can be connected to again. Deltas and answers handed out stay as
        they are."""
        try:
            with self.lock, Deferred(), self.state_lock:
                if self._closed:
                    return
                if self._store is not None:
                    self._store.check_process()
                self._unread.settle()
                self._closed = True
                if self._store is not None:
                    self._store.close(self, not self._views.stale)
                self.arena.release()
        finally:
            deliver()

    def __reduce__(self) -> NoReturn:
        raise StateError("a database cannot be pickled; send its folder, and connect there with read_only=True")

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
