"""Transactions of several statements: `with db.transaction()`, BEGIN ... COMMIT.

Law: what an open transaction has changed is *staged*: tables and views hold it whenever its own thread looks, and never
when another thread does. So the transaction reads its own writes wherever it reads, and nobody sees half of it. The
thread holds the database's `lock` until it commits or rolls back: others read meanwhile, and wait with changes. Whoever
takes `state_lock` finds the state as it is for him: what is staged is taken back for another thread, by the opposite
change, and put there again when the owner comes back (`StateLock`). State is a function of the tables' rows, whatever
order they came in, so neither leaves a trace. To commit is to take back what is staged, and to apply the sum of all
changes as one transaction like any other: one version, one record in the log, one delta for each view.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from freshet.budget import unlimited
from freshet.database.transaction import Deltas, SubscriberError, Transaction
from freshet.engine.table import RowChange, Table
from freshet.errors import ChangeError, EvaluationError, StateError
from freshet.interrupts import Deferred
from freshet.state.rows import Rows, consolidated

if TYPE_CHECKING:
    import pyarrow as pa

    from freshet.database.db import Database
    from freshet.sql.parameters import Given

_OPEN = "commit or roll back first"


class StateLock:
    """The lock of whoever touches state; entered, the state is as this thread may see it."""

    __slots__ = ("_lock", "session")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.session: Session | None = None

    def __enter__(self) -> None:
        self._lock.acquire()
        if self.session is not None and self.session.pending:
            try:
                self.session.show()
            except BaseException:
                self._lock.release()
                raise

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Session:
    """The transaction that is open, if one is. Only its own thread calls anything but `show` and `moves`."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._owner: int | None = None
        self.pending: dict[str, Rows] = {}  # the sum of its changes, by table
        self._staged = False
        self._brought = 0  # texts that its rows have brought
        self.moves = 0  # how often state was staged or taken back: readers under way cannot go on

    @property
    def mine(self) -> bool:
        """Whether this thread has a transaction open."""
        return self._owner is not None and self._owner == threading.get_ident()

    def begin(self) -> None:
        if self.mine:
            raise StateError(f"a transaction is open already; {_OPEN}")
        self._db.lock.acquire()
        self._owner = threading.get_ident()

    def check_none(self, what: str) -> None:
        if self.mine:
            raise StateError(f"{what} while a transaction is open is not supported; {_OPEN}")

    def add(self, resolved: Callable[[], dict[str, RowChange]]) -> Transaction:
        """Stages one more change; it is refused whole if any of it is bad, and the transaction stays open."""
        db = self._db
        with Deferred(), db.state_lock, db.memory.lend():
            before = db.pool.loose
            changes = resolved()
            signed = {name: _signed(db.tables[name], change) for name, change in changes.items()}
            try:
                db.stage(changes)
            except EvaluationError as e:
                reason = f"a view has no answer after it: {e.reason}; correct the rows, or guard the expression"
                raise ChangeError(reason) from e
            self._staged = True
            self.moves += 1
            self._brought += db.pool.loose - before
            for name, rows in signed.items():
                parts = [part for part in (self.pending.get(name), rows) if part is not None]
                self.pending[name] = consolidated(parts, db.tables[name].width)
        return Transaction(db.version + 1, Deltas({}))

    def show(self) -> None:
        """Stages what is pending for the owner, takes it back for any other thread. Called under the state's lock."""
        if self._staged == self.mine:
            return
        sign = -1 if self._staged else 1
        with Deferred(), unlimited():
            self.moves += 1
            db = self._db
            try:
                db.stage(self._resolved(sign))
            except Exception:
                if sign > 0:
                    raise
                self._take_back()
            self._staged = not self._staged

    def _resolved(self, sign: int) -> dict[str, RowChange]:
        tables = self._db.tables
        return {name: tables[name].resolve(rows.lanes, sign * rows.weights) for name, rows in self.pending.items()}

    def _take_back(self) -> None:
        """The long way: the tables' rows, and every view made of them again."""
        for name, change in self._resolved(-1).items():
            table = self._db.tables[name]
            table.remove(change)
            if len(change.changed):
                table.reweigh(change)
            table.add(change)
        self._db.rebuild_views()

    def commit(self) -> Transaction | None:
        """Applies all of it; None where nothing was changed. The transaction is over, also if that fails."""
        db = self._db
        pending, brought = self.pending, self._brought
        try:
            self._unstage()
            if not any(len(rows) for rows in pending.values()):
                return None
            db.pool.held(brought)
            return db.transact(
                lambda: {n: db.tables[n].resolve(r.lanes, r.weights) for n, r in pending.items() if len(r)}
            )
        finally:
            db.lock.release()

    def rollback(self) -> None:
        try:
            self._unstage()
        finally:
            self._db.lock.release()

    def _unstage(self) -> None:
        """From here on this thread is like any other."""
        self._owner = None
        with self._db.state_lock:  # which takes back what is staged
            self.pending, self._staged, self._brought = {}, False, 0


def _signed(table: Table, change: RowChange) -> Rows:
    """A change as signed rows, which say the same whatever slots they have."""
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


class PendingTransaction:
    """Several statements that become one transaction, made by `Database.transaction`.

    A context manager: the block's end commits, an exception rolls back. Once committed it has what a `Transaction` has.
    """

    def __init__(self, db: Database, session: Session) -> None:
        self._db, self._session = db, session
        self._done: Transaction | None = None
        self._state = "new"

    def __enter__(self) -> PendingTransaction:
        if self._state != "new":
            raise StateError("a transaction is used once; call db.transaction() again")
        self._session.begin()
        self._state = "open"
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._state != "open":
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def apply(self, changes: Any) -> None:
        """Change tables, as `Database.apply` does, within this transaction."""
        self._check()
        self._db.apply(changes)

    def execute(self, sql: str, params: Given | None = None) -> Any:
        """Run SQL statements, as `Database.execute` does, within this transaction."""
        self._check()
        return self._db.execute(sql, params)

    def query(self, sql: str, params: Given | None = None) -> pa.Table:
        """Ask a query, as `Database.query` does; it sees what this transaction has changed."""
        self._check()
        return self._db.query(sql, params)

    def commit(self) -> None:
        """Apply all changes as one transaction, before the block ends."""
        self._check()
        self._state = "over"
        self._done = self._session.commit()
        self._state = "committed"

    def rollback(self) -> None:
        """Forget all changes; the block goes on without them, outside of any transaction."""
        self._check()
        self._state = "rolled back"
        self._session.rollback()

    def _check(self) -> None:
        if self._state != "open" or not self._session.mine:
            raise StateError(f"the transaction is {self._state}, or another thread's; call db.transaction() again")

    def _committed(self) -> Transaction:
        if self._state != "committed":
            raise StateError(f"the transaction is {self._state}; it has a version and deltas once it is committed")
        return self._done or Transaction(self._db.version, Deltas({}))

    @property
    def version(self) -> int:
        """The version it led to."""
        return self._committed().version

    @property
    def deltas(self) -> Deltas:
        """Every view's delta; none at all if nothing was changed."""
        return self._committed().deltas

    @property
    def errors(self) -> tuple[SubscriberError, ...]:
        """The subscribers that failed on it; the transaction itself stands."""
        return self._committed().errors

    def __repr__(self) -> str:
        return f"PendingTransaction({self._state})"
