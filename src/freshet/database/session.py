"""Transactions of several statements: `with db.transaction()`, BEGIN ... COMMIT.

Law: the changes of an open transaction are *staged*: tables and views contain them whenever its own thread reads, and
never when another thread does. So the transaction reads its own writes everywhere, and no other thread sees a part of
it. The thread holds the writer's lock until it commits, rolls back or ends: other threads can read meanwhile, but their
changes wait. A thread that takes the state's lock gets its own version of the state: for another thread the staged
changes are undone, by the opposite change, and they are applied again for the owner. State depends only on the rows of
the tables, not on the order of their insertion, so this leaves no trace. A commit undoes the staged changes and applies
the sum of all changes as one transaction like any other: one version, one record in the log, one delta for each view.
"""

from __future__ import annotations

import logging
import sys
import threading
import weakref
from collections.abc import Callable

import numpy as np

from freshet.budget import unlimited
from freshet.database.delta import Deltas
from freshet.database.state import State
from freshet.database.transaction import Transaction
from freshet.database.views import Views
from freshet.durable.store import Store
from freshet.engine.table import RowChange, Table
from freshet.errors import ChangeError, EvaluationError, StateError
from freshet.interrupts import Deferred
from freshet.state.rows import Rows

logger = logging.getLogger("freshet")

_OPEN = "commit or roll back first"

Resolved = Callable[[], dict[str, RowChange]]


class Session:
    """The open transaction, if there is one. Only its own thread calls methods other than `mine` and `_show`."""

    def __init__(self, state: State, views: Views, lock: threading.RLock, store: Store | None) -> None:
        self._state = state
        self._views = views
        self._lock = lock
        self._store = store
        self._owner: int | None = None
        self._pending: dict[str, Rows] = {}  # the sum of its changes, by table
        self._staged = False
        self._brought = 0  # texts of its rows
        self._threads = threading.local()  # `last`: of each thread that has begun a transaction

    @property
    def mine(self) -> bool:
        """Whether this thread has a transaction open."""
        return self._owner is not None and self._owner == threading.get_ident()

    def begin(self) -> None:
        if self.mine:
            raise StateError(f"a transaction is open already; {_OPEN}")
        self._lock.acquire()
        self._owner = threading.get_ident()
        if not hasattr(self._threads, "last"):
            self._threads.last = _LastOfThread(self)

    def check_none(self, what: str) -> None:
        if self.mine:
            raise StateError(f"{what} while a transaction is open is not supported; {_OPEN}")

    def add(self, resolved: Resolved) -> Transaction:
        """Stages one more change; if a part of it is invalid, all of it is refused, and the transaction stays open."""
        state, core = self._state, self._state.core
        with Deferred(), state.lock, state.memory.temporary():
            if self._store is not None:
                self._store.stay()  # a rewrite iterates over slots, which change when rows are undone
            before = core.pool.loose
            changes = resolved()
            signed = {name: _signed(core.tables[name], change) for name, change in changes.items()}
            try:
                self._stage(changes)
            except EvaluationError as e:
                reason = f"a view has no answer after it: {e.reason}; correct the rows, or guard the expression"
                raise ChangeError(reason) from e
            self._staged = True
            state.lock.shown = self._show
            self._brought += core.pool.loose - before
            for name, rows in signed.items():
                parts = [part for part in (self._pending.get(name), rows) if part is not None]
                self._pending[name] = core.tables[name].consolidated(parts)
        return Transaction(state.version + 1, Deltas({}), [])

    def _stage(self, changes: dict[str, RowChange]) -> None:
        """Applies changes that are not a transaction yet to tables and views, or leaves everything unchanged."""
        self._state.lock.moves += 1
        try:
            self._state.core.apply(changes, deltas=False)
        except BaseException:
            with unlimited():
                self._views.rebuild(())
            raise

    def _show(self) -> None:
        """Stages the pending changes for the owner, undoes them for any other thread."""
        if self._staged == self.mine:
            return
        with Deferred(), unlimited():
            if self._staged:
                self._take_back()
            else:
                self._stage(self._resolved(1))
            self._staged = not self._staged

    def _resolved(self, sign: int) -> dict[str, RowChange]:
        tables = self._state.core.tables
        return {name: _resolved(tables[name], rows, sign) for name, rows in self._pending.items()}

    def _take_back(self) -> None:
        try:
            self._stage(self._resolved(-1))
        except Exception:  # fallback: undo only the rows of tables, and rebuild every view from them
            core = self._state.core
            for name, change in self._resolved(-1).items():
                table = core.tables[name]
                table.remove(change)
                if len(change.changed):
                    table.reweigh(change)
                table.add(change)
            self._views.rebuild(list(self._views.named))

    def commit(self, transact: Callable[[Resolved], Transaction]) -> Transaction | None:
        """Applies all changes; None if there are none. The transaction is over, also if this fails."""
        tables, pool, brought = self._state.core.tables, self._state.core.pool, self._brought
        try:
            changed = {name: rows for name, rows in self._end().items() if len(rows)}
            if not changed:
                return None
            pool.held(brought)
            return transact(lambda: {n: _resolved(tables[n], r, 1) for n, r in changed.items()})
        finally:
            self._lock.release()

    def rollback(self) -> None:
        try:
            undone = self._end()
            with self._state.lock:
                for name in undone:
                    self._state.core.tables[name].tidy()
        finally:
            self._lock.release()

    def _end(self) -> dict[str, Rows]:
        """Ends the transaction and returns its pending changes, which this thread no longer sees."""
        self._owner = None
        with self._state.lock:
            pending, self._pending, self._staged, self._brought = self._pending, {}, False, 0
            self._state.lock.shown = None
        return pending


class _LastOfThread:
    """Local to a thread that has begun a transaction: rolls back a transaction that the thread left open. Python clears
    a thread's local variables in that thread, as the last thing it does; so the lock is released by the thread that
    holds it, before another thread can get its number."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = weakref.ref(session)

    def __del__(self) -> None:
        session = self._session()
        if session is not None and session.mine and not sys.is_finalizing():
            logger.warning("freshet: a thread ended without COMMIT or ROLLBACK; its transaction was rolled back")
            session.rollback()


def _resolved(table: Table, rows: Rows, sign: int) -> RowChange:
    return table.resolve(table.current(rows.lanes), sign * rows.weights)


def _signed(table: Table, change: RowChange) -> Rows:
    """A change as signed rows, which mean the same in whatever slots they are stored."""
    lanes = table.tuples.lanes.data
    gone = np.ones(len(change.removed), np.int64) if table.weights is None else table.weights.data[change.removed]
    come = np.ones(len(change.added), np.int64) if table.weights is None else change.weights
    rows = [lanes[change.removed], change.added]
    weights = [-gone, come]
    if len(change.changed):
        assert table.weights is not None
        rows.append(lanes[change.changed])
        weights.append(change.changed_to - table.weights.data[change.changed])
    return Rows(np.ascontiguousarray(np.concatenate(rows)), np.concatenate(weights))
