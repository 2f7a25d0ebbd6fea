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
Deltas need neither lock (transaction.py), nor do copies of state that long readings go on with (aside.py).

A database in a folder (durable/) writes each transaction and each definition to its log when all else has succeeded and
before anybody hears of it; if that fails, it is taken back like any other failure. Signals wait meanwhile
(interrupts.py), so an interruption finds the state before or the state after.

A transaction that must be synced is applied first: other threads can read its version, and write the next one, while
the disk is waited for without any lock (`_acknowledge`). It is published, and `apply` returns, when the disk has it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from freshet.budget import Budget, Memory, hold, parse_size, unbudgeted, unlimited
from freshet.database import dml
from freshet.database.adapt import Adapt
from freshet.database.aside import read
from freshet.database.changes import resolve
from freshet.database.metrics import Clock, changes_of
from freshet.database.prepared import Prepared
from freshet.database.publish import Publisher
from freshet.database.reading import ask, reading
from freshet.database.rehearsal import rehearse
from freshet.database.session import PendingTransaction, Session, StateLock
from freshet.database.statements import run_text, told
from freshet.database.transaction import Delta, Deltas, Transaction, Unread
from freshet.database.view import View
from freshet.database.views import Views, tables_of
from freshet.durable.history import History
from freshet.durable.record import number_of
from freshet.durable.store import Store
from freshet.engine.table import RowChange, Table
from freshet.engine.undo import Undo
from freshet.errors import ChangeError, EvaluationError, FreshetError, PlanError, SqlError, StateError
from freshet.interrupts import Deferred, deliver
from freshet.logical.query import (
    AnyQuery,
    Bracket,
    CreateIndex,
    CreateTable,
    CreateView,
    Delete,
    DropIndex,
    DropTable,
    DropView,
    Insert,
    TableSchema,
    Update,
)
from freshet.plans import Plan, codec
from freshet.sql.catalog import Catalog
from freshet.sql.parameters import Given
from freshet.sql.parse import asks_only
from freshet.sql.source import Source, Statement
from freshet.state.allocators import give_back
from freshet.state.arena import Arena, Growable
from freshet.state.kernel_cache import compile_kernels
from freshet.state.rows import Rows
from freshet.state.strings import StringPool

logger = logging.getLogger("freshet")

_REPACKED = 1 << 16  # slots from which on a table gives room back
_FEW = 1024  # slots that are not worth it
_MUCH = 1 << 22  # bytes dropped that go back to the system


def connect(
    directory: str | os.PathLike[str] | None = None, *, adapt: bool | Adapt = True, durability: str = "fsync",
    read_only: bool = False, retain: int = 0, memory_limit: int | str | None = None,
) -> Database:  # fmt: skip
    """Open a database, in memory or in a folder.

    A folder is opened as the last process left it, however that process ended: what was acknowledged is recovered.

    Parameters
    ----------
    directory
        The folder of a database, made if it is not there. Without one the database lives in memory.
    adapt
        Whether, or when, views move to another join tree as the updates of their tables change.
    durability
        What a transaction survives once `apply` has returned: ``"fsync"`` a loss of power, ``"os"`` the end of the
        process, ``"none"`` neither, only what was closed.
    read_only
        Read the last published version, while another process may write.
    retain
        How many versions back `View.changes` and `View.at` can read; more where the log still has them.
    memory_limit
        Bytes that tables, views, queries and answers being read may take together, a number or a text such as
        ``"2GB"``. Whatever would take more is refused with `BudgetError` and changes nothing.

    Returns
    -------
    Database
        Safe to use from any thread, and a context manager that closes it.

    Raises
    ------
    StateError
        The folder is in use by another process, damaged, or of a newer version; the message says what to do.

    Examples
    --------
    >>> import freshet
    >>> db = freshet.connect()
    >>> db.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, total BIGINT)")
    >>> view = db.create_view("spent", "SELECT customer, SUM(total) AS total FROM orders GROUP BY customer")
    >>> tx = db.apply({"orders": [{"id": 1, "customer": "Ann", "total": 30}]})
    >>> tx.deltas["spent"].to_pylist()
    [{'customer': 'Ann', 'total': 30, '_weight': 1}]
    >>> db.close()
    """
    memory = Memory(parse_size(memory_limit))
    compile_kernels()
    when = (Adapt() if adapt else None) if isinstance(adapt, bool) else adapt
    if directory is None:
        if read_only:
            raise ValueError("a database in memory cannot be read only; give the folder of one")
        return Database(None, when, memory)
    return Database(Store(Path(directory), durability, read_only, retain), when, memory)


class Database:
    """Tables and the views over them, made by `connect`.

    Everything on it can be called from any thread. A transaction is either applied whole or not at all, and every
    view stands at the same version.

    Examples
    --------
    >>> import freshet
    >>> with freshet.connect() as db:
    ...     db.execute("CREATE TABLE t (a INT)")
    ...     db.version
    0
    """

    def __init__(self, store: Store | None = None, adapt: Adapt | None = None, memory: Memory | None = None) -> None:
        self.adapt, self.clock = adapt, Clock()
        self.memory = Memory() if memory is None else memory
        self._running: set[Budget] = set()  # of queries and views being made
        self.lock, self.state_lock = threading.RLock(), StateLock()
        self.session = self.state_lock.session = Session(self)
        self.prepared = Prepared(self)
        self._store = store
        self.catalog = Catalog()
        self.tables: dict[str, Table] = {}
        self._views = Views(self, self._number, self._defining, self._save)
        self._numbers = 0  # every table and view has its own name in the arena, also after a drop
        self._changed: dict[str, Growable] = {}  # rows changed in each table
        self._unread, self._publisher = Unread(), Publisher(self._views.subscriptions)
        self.rehearses = store is None or not store.read_only  # what is made is rehearsed (rehearsal.py)
        self._kept = False  # whether `lock` is kept until more has been done
        self._closed = False
        try:
            self.arena = Arena(memory=self.memory) if store is None else store.arena(self.memory)
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
        """Whether the database is in a folder."""
        return self._store is not None

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
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

    def execute(
        self, sql: str, params: Given | None = None, *, seconds: float | None = None, rows: int | None = None
    ) -> Any:
        """Run SQL statements, one after the other.

        Parameters
        ----------
        sql
            One or more statements, separated by semicolons: CREATE TABLE, CREATE MATERIALIZED VIEW, DROP, INSERT,
            UPDATE, DELETE, BEGIN, COMMIT, ROLLBACK, or a query.
        params
            Values for each ``?`` of the text in order, or a dict of values for each ``:name``.
        seconds
            How long the queries may take together.
        rows
            How many rows an answer may have.

        Returns
        -------
        object
            What the last statement gives: a `Transaction` for a change (within an open transaction, one without
            deltas), a `View` for CREATE MATERIALIZED VIEW, a ``pyarrow.Table`` for a query, None otherwise.

        Raises
        ------
        SqlError
            The text cannot be read or bound; it carries line and column.
        UnsupportedError
            It asks for what Freshet does not maintain; the message names what works instead.
        ChangeError
            A change was refused; it has changed nothing.
        BudgetError
            A query took more than `seconds`, `rows` or the memory limit, or was stopped by `interrupt`.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT, b INT)")
        >>> db.execute("INSERT INTO t VALUES (1, 10), (2, 20)").version
        1
        >>> db.execute("SELECT SUM(b) AS total FROM t").to_pylist()
        [{'total': 30}]
        """
        return self._run(Source(sql, params).statements(), seconds, rows)

    def _run(self, statements: list[Statement], seconds: float | None, rows: int | None) -> Any:
        for name, most in (("seconds", seconds), ("rows", rows)):
            if most is not None and not most > 0:
                raise ValueError(f"{name} is {most!r}; give a number above 0, or leave it out")

        def budget() -> AbstractContextManager[Budget]:
            return self._interruptible(Budget(seconds, rows=rows, remedy="ask for less, or allow more"))

        if asks_only(statements):
            result = None
            for number, statement in enumerate(statements):
                try:
                    with budget():
                        result = ask(self, statement)
                except FreshetError as e:
                    told(e, number, len(statements), "a query changes nothing")
                    raise
            return result
        with self.lock:
            self.check_open()
            return run_text(statements, self, budget)

    def ask(self, statement: Statement) -> pa.Table:
        """The answer to one statement that is a query."""
        return ask(self, statement)

    def query(
        self, sql: str, params: Given | None = None, *, seconds: float | None = None, rows: int | None = None
    ) -> pa.Table:
        """Ask one query, and return its answer.

        Views are read as the answers they are, tables by their keys: a condition that fixes a primary key, the groups
        of a view or the columns of an index finds its rows at once, and LIMIT ends the reading when there are enough.

        Parameters
        ----------
        sql
            One query: SELECT, WITH or VALUES.
        params
            Values for each ``?`` of the text in order, or a dict of values for each ``:name``.
        seconds
            How long it may take.
        rows
            How many rows the answer may have.

        Returns
        -------
        pyarrow.Table
            The answer, in the order that ORDER BY says.

        Raises
        ------
        SqlError
            The text cannot be read or bound, is no query, or lacks the value of a parameter.
        ChangeError
            The query has no answer over the rows that are there, for example because a sum overflows.
        BudgetError
            It took more than `seconds`, `rows` or the memory limit, or was stopped by `interrupt`.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT, b INT)")
        >>> tx = db.execute("INSERT INTO t VALUES (?, ?), (?, ?)", [1, 10, 2, 20])
        >>> db.query("SELECT b FROM t WHERE a = :a", {"a": 2}).to_pylist()
        [{'b': 20}]
        """
        statements = Source(sql, params).statements()
        if len(statements) != 1 or not asks_only(statements):
            raise SqlError("query() takes one SELECT; run other statements with execute()", sql, 1, 1)
        answer = self._run(statements, seconds, rows)
        assert isinstance(answer, pa.Table)
        return answer

    def transaction(self) -> PendingTransaction:
        """Make one transaction of several statements.

        Within the block this thread reads what it has written, in queries and in views; other threads read what was
        before, and wait with changes. The block's end commits, an exception rolls back. ``BEGIN``, ``COMMIT`` and
        ``ROLLBACK`` do the same in SQL. Tables and views cannot be made or dropped within it.

        Returns
        -------
        PendingTransaction
            A context manager; after the block it has the version and every view's delta.

        Raises
        ------
        StateError
            The thread has a transaction open already.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE account (name STRING PRIMARY KEY, money BIGINT)")
        >>> view = db.create_view("total", "SELECT SUM(money) AS money FROM account")
        >>> with db.transaction() as tx:
        ...     tx.apply({"account": [{"name": "Ann", "money": 5}]})
        ...     transfer = tx.execute("UPDATE account SET money = money + ? WHERE name = ?", [2, "Ann"])
        ...     tx.query("SELECT money FROM total").to_pylist()
        [{'money': 7}]
        >>> tx.version
        1
        """
        self._check_writable()
        return PendingTransaction(self, self.session)

    @contextmanager
    def keeping_lock(self, lock: bool) -> Iterator[None]:
        """Whether whoever has `lock` keeps it while it waits for the disk: statements follow that were bound before."""
        before, self._kept = self._kept, self._kept or lock
        try:
            yield
        finally:
            self._kept = before

    def interrupt(self) -> None:
        """Ends the statements and definitions that are under way in other threads: each raises BudgetError and has
        changed nothing. What begins later is not affected."""
        for budget in tuple(self._running):
            budget.cancel("it was interrupted")

    @contextmanager
    def _interruptible(self, budget: Budget) -> Iterator[Budget]:
        self._running.add(budget)
        try:
            with budget:
                yield budget
        finally:
            self._running.discard(budget)

    def run(self, statement: Any) -> Any:
        """A bound statement that is no query."""
        self._check_writable()
        match statement:
            case Bracket():
                return self._bracket(statement)
            case CreateTable():
                with self._changing():
                    return self._create_table(statement)
            case DropTable() | DropView():
                with self._changing():
                    return self._drop(statement)
            case CreateView():
                if statement.if_not_exists and statement.name.lower() in self._views.named:
                    return self._views.named[statement.name.lower()]
                return self._create_view(statement.name, statement.sql, statement.replace)
            case CreateIndex() | DropIndex():
                with self._changing():
                    return self._views.index(statement)
            case Insert():
                return self._insert(statement)
            case Delete(query=query) | Update(query=query) if query is not None:
                schema = self.catalog.tables[statement.table.lower()]
                return self.apply({statement.table: dml.replaced(statement, schema, self._answer(query))})
            case Delete() | Update():
                return self.transact(lambda: self._in_place(statement))
        raise AssertionError(f"no way to execute {statement}")

    def _bracket(self, statement: Bracket) -> Transaction | None:
        session = self.session
        if statement is Bracket.BEGIN:
            session.begin()
            return None
        if not session.mine:
            raise StateError(f"{statement.value} without a transaction; BEGIN one first")
        if statement is Bracket.COMMIT:
            return session.commit()
        session.rollback()
        return None

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Whoever defines something is alone, and not interrupted."""
        self.session.check_none("CREATE or DROP")
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
        old = self.tables.get(name) if statement.replace else None
        if name in self.tables and old is None:
            if statement.if_not_exists:
                return
            raise SqlError(f"there is a table {schema.name} already; drop it first, or choose another name")
        if name in self._views.named:
            raise SqlError(f"there is a view {schema.name} already; choose another name")
        if old is not None:
            self.catalog.dropped(DropTable(schema.name))  # which refuses where views read it
        number = self._number()
        try:
            with self.state_lock, self._defining():
                self._restore_table(schema, number)
        except BaseException:
            self.arena.drop(f"table{number}/")
            raise
        if old is not None:
            with self.state_lock:
                old.scope.drop()

    def _restore_table(self, schema: TableSchema, number: int) -> None:
        if self.rehearses:
            rehearse(type(self), [schema])
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
            before = self.arena.nbytes()
            for view in views:
                self._views.end(view)
            for table in tables.values():
                table.scope.drop()
            if before - self.arena.nbytes() > _MUCH:
                give_back()

    def _remove_table(self, name: str) -> None:
        self.tables.pop(name).scope.drop()
        del self._changed[name]
        self.catalog.drop(name)

    def create_view(self, name: str, query: str | Plan, *, replace: bool = False) -> View:
        """Register a view over the tables and views there are, with whatever rows they hold.

        Parameters
        ----------
        name
            A name that no table and no view has.
        query
            SQL, or a `Plan` made by `freshet.plan` and perhaps edited.
        replace
            Whether a view of that name is replaced, if no other view reads it; its subscribers are closed.

        Returns
        -------
        View
            Up to date from the start, and after every transaction.

        Raises
        ------
        SqlError
            The query cannot be read, or the name is taken.
        PlanError
            The plan is not one of its query over these tables.
        ChangeError
            The query has no answer over the rows that are there, for example because a sum overflows.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> db.create_view("n", "SELECT COUNT(*) AS n FROM t").to_arrow().to_pylist()
        [{'n': 0}]
        """
        return self._create_view(name, query, replace)

    def _create_view(self, name: str, query: str | Plan, replace: bool) -> View:
        with self._changing():
            key = name.lower()
            if key in self.tables or (key in self._views.named and not replace):
                kind = "view" if key in self._views.named else "table"
                raise SqlError(f"there is a {kind} {name} already; drop it first, or choose another name")
            with self._interruptible(Budget()):
                return self._views.create(name, query)

    def view(self, name: str) -> View:
        """Find a view by name; names ignore case.

        Parameters
        ----------
        name
            The view's name.

        Raises
        ------
        PlanError
            There is no such view; the message lists those there are.
        """
        with self.state_lock:
            self.check_open()
            found = self._views.named.get(name.lower())
            if found is None:
                raise PlanError(f"no view {name}; the views are {self._views.listed()}")
            return found

    # Transactions ---------------------------------------------------------------------------------------------

    def apply(self, changes: Mapping[str, Any], *, deltas: bool = True) -> Transaction:
        """Apply one transaction over any number of tables.

        Parameters
        ----------
        changes
            Rows by table name: a ``pyarrow.Table`` or ``RecordBatch``, a pandas or polars DataFrame, or a list of
            dicts. Columns match by name. Rows are inserted, unless ``_weight`` (+n adds n copies, -n removes n) or
            ``_change_type`` (insert, delete, update_preimage, update_postimage, upsert) says otherwise.
        deltas
            False skips the views' deltas, where nobody reads them.

        Returns
        -------
        Transaction
            The version it led to and every view's delta.

        Raises
        ------
        ChangeError
            Some row cannot be applied; the message says which and why, and nothing has changed.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> view = db.create_view("n", "SELECT COUNT(*) AS n FROM t")
        >>> tx = db.apply({"t": [{"a": 1}, {"a": 2}]})
        >>> sorted((row["_weight"], row["n"]) for row in tx.deltas["n"].to_pylist())
        [(-1, 0), (1, 2)]
        """
        with self.lock:
            self._check_writable()
            if not isinstance(changes, Mapping):
                raise ChangeError(f"changes are a {type(changes).__name__}; give a dict of table name to rows")
            return self.transact(lambda: self._resolved(changes), deltas)

    def transact(self, resolved: Callable[[], dict[str, RowChange]], deltas: bool = True) -> Transaction:
        """What is resolved is applied under one lock of the state, and then acknowledged: also if what follows the
        transaction fails, for it has happened. Within an open transaction it is staged instead."""
        if self.session.mine:
            return self.session.add(resolved)
        tx: Transaction | None = None
        try:
            with Deferred():
                try:
                    with self.state_lock:
                        with self.memory.lend():
                            changes, tx = self._take(resolved, deltas)
                        self._publisher.add(tx)
                        if self._store is not None:
                            self._store.tidy(self, [(self.tables[name], c) for name, c in changes.items()])
                        if self.pool.wants_sweep():
                            self._sweep_text()
                        if any(len(c.removed) for c in changes.values()):
                            self._repack()
                        self._views.follow()
                finally:
                    if tx is not None:
                        self._acknowledge(tx)
        finally:
            deliver()
        return tx

    def _acknowledge(self, tx: Transaction) -> None:
        """Waits until a transaction is safe, and has it published. Whoever has `lock` gives it up meanwhile, so that
        others can write and share the sync; but not while subscribers are called, for whom nothing changes then."""
        store = self._store
        if store is not None and not store.settled(tx.version):
            if self._publisher.publishing or self._kept:
                store.settle(tx.version)
            else:
                with _given_up(self.lock):
                    store.settle(tx.version)
        with unbudgeted():
            self._publisher.publish(self._settled)

    def _settled(self, tx: Transaction) -> bool:
        return self._store is None or self._store.settled(tx.version)

    def _take(
        self, resolved: Callable[[], dict[str, RowChange]], deltas: bool
    ) -> tuple[dict[str, RowChange], Transaction]:
        """The texts that rows bring are held by them until they go."""
        before = self.pool.loose
        changes = resolved()
        brought = self.pool.loose - before
        gone = sum(len(c.removed) * len(self.tables[name].text_lanes) for name, c in changes.items())
        tx = self._commit(changes, deltas)
        self.pool.held(brought)
        self.pool.loosened(gone)
        return changes, tx

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
        self.clock.tick(views.values())
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
        record = self._store.transaction([(self.tables[n], c) for n, c in resolved.items()], self._version + 1)
        hold(len(record))
        return record

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
                self._store.commit(record, self._version + 1)
        except BaseException:
            self._undo(undo, [table for table, _ in changes])
            raise
        return found

    def stage(self, resolved: dict[str, RowChange]) -> None:
        """Tables and views take changes in that are no transaction yet; or all is as it was."""
        self._change(resolved, False)

    def rebuild_views(self) -> None:
        """Makes every view again from the tables' rows."""
        self._views.rebuild()

    def _count(self, rows: Mapping[str, int], version: int) -> None:
        for name, n in rows.items():
            self._changed[name].data[0] += n
        self._stand_at(version, self._applied + sum(rows.values()))

    def _undo(self, undo: list[Undo], tables: list[Table]) -> None:
        """Puts the tables back, without the room they grew by, and builds every view from them again."""
        if self._store is not None:
            self._store.stay()
        with unlimited():
            for step in reversed(undo):
                step.take_back()
            with suppress(MemoryError):
                for table in tables:
                    if table.tuples.used > 2 * table.tuples.live + _FEW:
                        table.repack()
                    else:
                        table.tuples.shrink()
            self._views.rebuild()

    def _sweep_text(self) -> None:
        self._unread.settle()
        marked = np.zeros(self.pool.used, np.bool_)
        for table in self.tables.values():
            table.string_marks(marked)
        for view in self._views.named.values():
            view.maintained.string_marks(marked)
        self.pool.sweep(marked)

    def _repack(self) -> None:
        """Tables of which most rows are gone give their room back, and the views over them are built again. That costs
        as much as there are rows to be read, and is done when more have gone since it was last done."""
        gone = {n: t.tuples.used - t.tuples.live for n, t in self.tables.items() if t.tuples.used >= _REPACKED}
        gone = {name: rows for name, rows in gone.items() if rows > 7 * self.tables[name].tuples.live}
        if not gone:
            return
        views = self._views.reading(gone)
        read = {*gone, *(t for key in views for t in tables_of(self._views.named[key].plan.root))}
        if sum(self.tables[name].tuples.live for name in read) > sum(gone.values()):
            return
        if self._store is not None:
            self._store.stay()
        self._views.stale = True
        try:
            for name in gone:
                self.tables[name].repack()
            self._views.rebuild(views)
            give_back()
        except Exception as e:  # the transaction stands; what could not be built is built before it is next asked for
            logger.warning("freshet: views could not be built again: %s", e)

    # Queries asked once ---------------------------------------------------------------------------------------

    def _insert(self, statement: Insert) -> Transaction:
        schema = self.catalog.tables[statement.table.lower()]
        if statement.query is None:
            return self.apply({statement.table: dml.inserted(statement, schema)})
        names = [schema.fields[i].name for i in statement.columns]
        return self.apply({statement.table: self._answer(statement.query).rename_columns(names)})

    def _answer(self, query: AnyQuery) -> pa.Table:
        """The answer to a query that is part of a change."""
        return read(self, lambda: reading(self, query, set()))

    # Upkeep ---------------------------------------------------------------------------------------------------

    def row_counts(self) -> dict[str, float]:
        """Rows of each table stand in for its updates, until more is known; an empty database says nothing."""
        with self.state_lock:
            self.check_open()
            counts = {name: float(t.tuples.live) for name, t in self.tables.items()}
            return counts if any(counts.values()) else {}

    def metrics(self) -> dict[str, Any]:
        """What the database holds, and what keeping each view has cost.

        Returns
        -------
        dict
            ``version``, ``changes``, ``tuples``, ``state_bytes``, ``tree_switches``, and under ``views`` the
            figures of `View.metrics` by name.
        """
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
        """Raise StateError if the database was closed."""
        if self._closed:
            raise StateError("the database is closed; connect again")
        if self._store is not None:
            self._store.check()
        if self._views.stale:  # for want of memory they could not be built when they had to
            with self.state_lock:
                self._views.rebuild()

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
        return History(self._store.path, view.lower(), version, self.memory)

    def close(self) -> None:
        """End the session. A database in a folder can be connected to again; deltas and answers handed out stay as
        they are.
        """
        try:
            with self.lock, Deferred():
                if self._closed:
                    return
                if self.session.mine:
                    self.session.rollback()
                if self._store is not None:
                    self._store.check_process()
                    with suppress(StateError):  # whoever has applied them hears of it
                        self._store.settle(self._version)
                try:
                    self._publisher.publish(self._settled)
                finally:
                    self._end()
        finally:
            deliver()

    def _end(self) -> None:
        with self.state_lock:
            self._unread.settle()
            self._closed = True
            if self._store is not None:
                self._store.close(self, not self._views.stale)
            self.arena.release()

    def __repr__(self) -> str:
        if self._closed:
            return "Database(closed)"
        where = "in memory" if self._store is None else str(self._store.path)
        return f"Database({where}, version={self.version}, tables={list(self.tables)}, views={list(self.views)})"

    def __reduce__(self) -> NoReturn:
        raise StateError("a database cannot be pickled; send its folder, and connect there with read_only=True")

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _given_up(lock: threading.RLock) -> Iterator[None]:
    """Without a lock that this thread has, however often it has it."""
    times = 0
    with suppress(RuntimeError):  # when it has it no more
        while True:
            lock.release()
            times += 1
    try:
        yield
    finally:
        for _ in range(times):
            lock.acquire()
