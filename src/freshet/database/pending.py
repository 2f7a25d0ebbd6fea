"""Several statements as one transaction, as their user holds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from freshet.database.delta import Deltas
from freshet.database.session import Session
from freshet.database.transaction import SubscriberError, Transaction
from freshet.errors import StateError
from freshet.sql.parameters import Given


class _Database(Protocol):
    """What runs the statements."""

    @property
    def version(self) -> int: ...

    def apply(self, changes: Any, *, deltas: bool = True) -> Transaction: ...

    def execute(self, sql: str, params: Given | None = None) -> Any: ...

    def query(self, sql: str, params: Given | None = None) -> pa.Table: ...


class PendingTransaction:
    """Several statements that become one transaction, made by `Database.transaction`.

    A context manager: the block's end commits, an exception rolls back. Once committed it has what a `Transaction` has.
    """

    def __init__(self, db: _Database, session: Session, commit: Callable[[], Transaction | None]) -> None:
        self._db, self._session, self._commit = db, session, commit
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
        self._done = self._commit()
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
        return self._done or Transaction(self._db.version, Deltas({}), [])

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
