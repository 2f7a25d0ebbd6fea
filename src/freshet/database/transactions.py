"""Transactions: changes resolved, applied, logged, acknowledged and published.

A transaction is resolved whole before anything changes, and then applied by the core (engine/core.py). If an expression
has no value on some joined row (an overflow, a division by zero), or the log cannot be written, the tables are put back
and the views are rebuilt from them: slow, rare, and always right.

A database in a folder (durable/) writes each transaction to its log after everything else has succeeded, and before it
is published. A transaction that must be synced is applied first: other threads can read its version, and write the next
one, while this thread waits for the disk without any lock (`_acknowledge`). It is published, and `apply` returns, once
it is on disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from freshet.budget import hold, unbudgeted, unlimited
from freshet.database.access import Access
from freshet.database.advancing import Time, shown, time_of
from freshet.database.changes import resolve
from freshet.database.delta import Delta, Deltas, Unread
from freshet.database.intake import gathered
from freshet.database.lateness import in_time, rise, watermark
from freshet.database.publish import Publisher
from freshet.database.transaction import SubscriberError, Transaction
from freshet.engine.core import tables_of
from freshet.engine.table import RowChange, Table
from freshet.errors import ChangeError, EvaluationError, StateError
from freshet.interrupts import Deferred, deliver
from freshet.logical.query import CLOCK, TableSchema, watermark_of
from freshet.logical.statements import Bracket
from freshet.state.allocators import give_back
from freshet.state.rows import Rows

logger = logging.getLogger("freshet")

_REPACKED = 1 << 16  # slots from which on the memory of a table is freed

#: The change of each table by a transaction, resolved under the lock of the state.
Resolved = Callable[[], dict[str, RowChange]]


class Transactions:
    def __init__(self, access: Access) -> None:
        self._access = access
        self._state = access.state
        self._views = access.views
        self._store = access.store
        self.unread = Unread()
        self._empty: dict[str, Delta] = {}  # of views by name: the same object if nothing changed
        self._publisher = Publisher(access.views.subscriptions)
        self._late: dict[str, int] = {}  # late rows that the transaction has dropped, by table
        self._keeps = False  # whether the writer's lock is kept until more has been done

    @contextmanager
    def keeping(self, lock: bool) -> Iterator[None]:
        """Keeps the lock while waiting for the disk, because the statements that follow are already bound."""
        before = self._keeps
        self._keeps = before or lock
        try:
            yield
        finally:
            self._keeps = before

    def apply(self, changes: Mapping[str, Any], deltas: bool = True) -> Transaction:
        """Changes as users give them."""
        if not isinstance(changes, Mapping):
            raise ChangeError(f"changes are a {type(changes).__name__}; give a dict of table name to rows")
        changes = {name: gathered(str(name), rows) for name, rows in changes.items()}
        with self._access.lock:
            self._access.check_writable()
            return self.transact(lambda: self.in_time(self._resolved(changes)), deltas)

    def advance(self, to: Time) -> Transaction:
        """Advances the clock; the rows that become due are part of the transaction."""
        with self._access.lock:
            self._access.check_writable()
            self._access.session.check_none("advancing the clock")
            if self._state.system is not None:
                raise StateError('the clock follows the system\'s; connect without clock="system" to advance it')
            self._views.have_clock()
            return self.transact(lambda: self._clock_at(time_of(to, self._state.clock_time())))

    def follow_clock(self) -> None:
        """Advances the clock to the system's time, if it follows it and is behind."""
        with self._access.lock:
            state = self._state
            if state.system is None or self._access.closed or self._access.session.mine:
                return
            time = state.now()
            if time > state.clock_time():
                self._views.have_clock()
                self.transact(lambda: self._clock_at(time))

    def transact(self, resolved: Resolved, deltas: bool = True) -> Transaction:
        """Resolves and applies changes under one acquisition of the state's lock, and then acknowledges them, even if
        later steps fail, because the transaction is then applied. The caller holds the writer's lock. Within an open
        transaction the changes are staged instead."""
        if self._access.session.mine:
            return self._access.session.add(resolved)
        tx: Transaction | None = None
        state = self._state
        try:
            with Deferred():
                try:
                    with state.lock:
                        with state.memory.temporary():
                            changes, tx = self._take(resolved, deltas)
                        self._tidy(changes)
                finally:
                    if tx is not None:
                        self._acknowledge(tx)
        finally:
            deliver()
        return tx

    def in_time(self, changes: dict[str, RowChange]) -> dict[str, RowChange]:
        """The changes of a user without late rows, which are counted."""
        made = dict(changes)
        for name, change in changes.items():
            table, schema = self._state.core.tables[name], self._state.schema(name)
            if schema.lateness is not None:
                made[name], late = in_time(table, schema, change, watermark(self._marks(schema)))
                if late:
                    table.pool.loosened((len(change.added) - len(made[name].added)) * len(table.text_lanes))
                    self._late[name] = late
                    self._state.late[name] = self._state.late.get(name, 0) + late
        return made

    def _marks(self, schema: TableSchema) -> Table:
        return self._state.core.tables[watermark_of(schema).name]

    def bracket(self, statement: Bracket) -> Transaction | None:
        """BEGIN, COMMIT and ROLLBACK."""
        session = self._access.session
        if statement is Bracket.BEGIN:
            self._access.check_writable()
            session.begin()
            return None
        if not session.mine:
            raise StateError(f"{statement.value} without a transaction; BEGIN one first")
        if statement is Bracket.COMMIT:
            return session.commit(self.transact)
        session.rollback()
        return None

    # One after the other --------------------------------------------------------------------------------------

    def _resolved(self, changes: Mapping[str, Any]) -> dict[str, RowChange]:
        core, catalog = self._state.core, self._state.catalog
        mark = None  # mark in the pool, before the first table that adds texts
        ends: list[tuple[Table, int]] = []  # of the heaps of tables
        resolved: dict[str, RowChange] = {}
        try:
            for name, rows in changes.items():
                key = str(name).lower()
                schema = catalog.tables.get(key)
                if schema is None:
                    raise self._no_table(str(name))
                if key in resolved:
                    raise ChangeError(f"table {name} is given twice; put its rows together")
                table = core.tables[key]
                if mark is None and table.pooled_lanes:
                    mark = core.pool.mark()
                ends.append((table, table.mark()))
                resolved[key] = resolve(table, schema, rows)
        except BaseException:
            if mark is not None:
                core.pool.undo(mark)
            for table, end in ends:
                table.undo(end)
            raise
        return resolved

    def _clock_at(self, time: int) -> dict[str, RowChange]:
        clock, now = self._state.core.tables[CLOCK.name], self._state.clock_time()
        if time < now:
            what = f"the clock is at {shown(now)} and cannot go back to {shown(time)}"
            raise ChangeError(f"{what}; give a later time")
        rows = np.array([[now, 0], [time, 0]], np.int64)
        gone = 1 - clock.tuples.live
        moved = {CLOCK.name: clock.resolve(rows[gone:], np.array([-1, 1])[gone:])}
        for name, table in self._state.core.tables.items():
            if len(slots := table.overdue(time)):
                moved[name] = RowChange(slots, np.empty((0, table.width), np.int64), np.empty(0, np.int64))
        return moved

    def _no_table(self, name: str) -> ChangeError:
        if name.lower() in self._views.named:
            return ChangeError(f"{name} is a view; change the tables it reads")
        tables = ", ".join(sorted(self._state.catalog.tables)) or "none yet"
        return ChangeError(f"no table {name}; the tables are {tables}")

    def _take(self, resolved: Resolved, deltas: bool) -> tuple[dict[str, RowChange], Transaction]:
        """Counts the texts of added rows as held, and those of removed rows as loose."""
        pool, tables = self._state.core.pool, self._state.core.tables
        before = pool.loose
        self._late = {}
        changes = self._with_watermarks(resolved())
        brought, gone = pool.loose - before, 0
        for name, change in changes.items():
            gone += len(change.removed) * len(tables[name].text_lanes)
        try:
            tx = self._commit(changes, deltas)
        except BaseException:
            for name in changes:
                tables[name].tidy()
            raise
        if brought:
            pool.held(brought)
        if gone:
            pool.loosened(gone)
        return changes, tx

    def _with_watermarks(self, changes: dict[str, RowChange]) -> dict[str, RowChange]:
        """Changes, with those of the watermarks that they raise."""
        made = dict(changes)
        for name, change in changes.items():
            schema = self._state.schema(name)
            if schema.lateness is not None and len(change.added):
                risen = rise(self._state.core.tables[name], schema, change, self._marks(schema))
                if risen is not None:
                    made[watermark_of(schema).name] = risen
        return made

    def _commit(self, changes: dict[str, RowChange], deltas: bool) -> Transaction:
        state = self._state
        version = state.version + 1
        self._views.note()
        commit = None if self._store is None else self._record(changes, version)
        try:
            found = state.core.apply(changes, deltas=deltas, commit=commit)
        except BaseException as e:
            self._put_back()
            if isinstance(e, EvaluationError):
                reason = f"a view has no answer after it: {e.reason}; correct the rows, or guard the expression"
                raise ChangeError(reason) from e
            raise
        state.count(changes, version)
        errors: list[SubscriberError] = []
        tx = Transaction(version, self._deltas(found) if deltas else Deltas({}), errors, self._late)
        self._publisher.add(tx, errors)
        return tx

    def _deltas(self, found: Mapping[str, Rows]) -> Deltas:
        operators = self._state.core.operators
        shown = {}
        for name, rows in found.items():
            operator = operators[name]
            if not len(rows):
                delta = self._empty.get(name)
                if delta is None or not delta.is_empty_of(operator):
                    delta = self._empty[name] = Delta(operator, rows)
            else:
                delta = Delta(operator, rows)
                if delta.borrows:
                    self.unread.add(delta)
            shown[name] = delta
        return Deltas(shown)

    def _record(self, changes: dict[str, RowChange], version: int) -> Callable[[], None]:
        """Prepares the log record of a transaction, before its rows change."""
        store = self._store
        assert store is not None
        record = store.transaction([(self._state.core.tables[n], c) for n, c in changes.items()], version)
        hold(len(record))
        return lambda: store.commit(record, version)

    def _put_back(self) -> None:
        """Rebuilds the views after the tables were restored."""
        if self._store is not None:
            self._store.stay()
        with unlimited():
            self._views.rebuild(())

    def _acknowledge(self, tx: Transaction) -> None:
        """Waits until a transaction is durable, and publishes it. Meanwhile the writer's lock is released, so that
        others can write and share the sync; but not while subscribers are called, for whom nothing may change then."""
        store = self._store
        if store is not None and not store.settled(tx.version):
            if self._publisher.publishing or self._keeps:
                store.settle(tx.version)
            else:
                with self._access.given_up():
                    store.settle(tx.version)
        with unbudgeted():
            self.publish()

    def publish(self) -> None:
        """Publishes durable transactions."""
        self._publisher.publish(self._settled)

    def _settled(self, version: int) -> bool:
        return self._store is None or self._store.settled(version)

    # Between two transactions ---------------------------------------------------------------------------------

    def _tidy(self, changes: dict[str, RowChange]) -> None:
        core, removes, texts = self._state.core, False, False
        if self._store is not None:
            self._store.tidy(self._state, [(core.tables[name], c) for name, c in changes.items()])
        for name, change in changes.items():
            removes |= len(change.removed) > 0
            texts |= bool(core.tables[name].text_lanes)
            core.tables[name].tidy(len(change.removed))
        if texts and core.pool.wants_sweep():
            self.unread.settle()
            core.sweep()
        if removes:
            self._repack()
        self._views.follow()

    def _repack(self) -> None:
        """Compacts tables in which most slots are free, and rebuilds the views over them. The cost is proportional to
        the number of rows read, and it is done only if more rows than that were deleted since the last time."""
        core = self._state.core
        gone = {n: t.tuples.used - t.tuples.live for n, t in core.tables.items() if t.tuples.used >= _REPACKED}
        if not gone:
            return
        gone = {name: rows for name, rows in gone.items() if rows > 7 * core.tables[name].tuples.live}
        if not gone:
            return
        views = self._views.reading(gone)
        read = {*gone, *(t for key in views for t in tables_of(self._views.named[key].plan.root))}
        if sum(core.tables[name].tuples.live for name in read) > sum(gone.values()):
            return
        if self._store is not None:
            self._store.stay()
        core.spoil(views)
        try:
            for name in gone:
                core.tables[name].repack()
            self._views.rebuild(views)
            give_back()
        except Exception as e:
            # the transaction is applied; views that could not be rebuilt are rebuilt before they are next read
            logger.warning("freshet: views could not be rebuilt: %s", e)
