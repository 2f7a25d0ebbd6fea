"""The public class of a transaction of several statements."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol

import pyarrow as pa

from freshet.database.delta import Deltas
from freshet.database.session import Session
from freshet.database.transaction import SubscriberError, Transaction
from freshet.errors import StateError
from freshet.sql.parameters import ParameterValues


class _Database(Protocol):
    """What runs the statements."""

    @property
    def version(self) -> int: ...

    def apply(self, changes: Any, *, deltas: bool = True) -> Transaction: ...

    def execute(self, sql: str, params: ParameterValues | None = None) -> Any: ...

    def query(self, sql: str, params: ParameterValues | None = None) -> pa.Table: ...


class Progress(StrEnum):
    """How far a transaction has come, as messages say it."""

    NEW = "new"
    OPEN = "open"
    OVER = "over"  # its commit has begun
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"


class PendingTransaction:
    """Several statements that become one transaction, created by `Database.transaction`.

    A context manager: the end of the block commits, an exception rolls back. Once committed, it has the attributes of a
    `Transaction`.

    Examples
    --------
    >>> import freshet
    >>> db = freshet.connect()
    >>> db.execute("CREATE TABLE t (a INT)")
    >>> with db.transaction() as tx:
    ...     tx.apply({"t": [{"a": 1}]})
    ...     tx.query("SELECT a FROM t").num_rows
    1
    >>> tx.version
    1
    """

    def __init__(self, db: _Database, session: Session, commit: Callable[[], Transaction | None]) -> None:
        self._db = db
        self._session = session
        self._commit = commit
        self._done: Transaction | None = None
        self._progress = Progress.NEW

    def __enter__(self) -> PendingTransaction:
        if self._progress is not Progress.NEW:
            raise StateError("a transaction can be used only once; call db.transaction() again")
        self._session.begin()
        self._progress = Progress.OPEN
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._progress is not Progress.OPEN:
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def apply(self, changes: Any) -> None:
        """Change tables, as `Database.apply` does, within this transaction.

        Parameters
        ----------
        changes
            The rows of each table, as `Database.apply` takes them.

        Raises
        ------
        ChangeError
            A row is refused. The transaction continues without these changes.
        StateError
            The transaction is over, or another thread's.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> with db.transaction() as tx:
        ...     tx.apply({"t": [{"a": 1}, {"a": 2}]})
        >>> db.query("SELECT COUNT(*) AS n FROM t").to_pylist()
        [{'n': 2}]
        """
        self._check()
        self._db.apply(changes)

    def execute(self, sql: str, params: ParameterValues | None = None) -> Any:
        """Run SQL statements, as `Database.execute` does, within this transaction.

        Parameters
        ----------
        sql
            The statements.
        params
            Values for `?` or `:name`.

        Returns
        -------
        object
            What `Database.execute` returns. A change has its version and deltas when the transaction is committed.

        Raises
        ------
        StateError
            The transaction is over, or another thread's.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> with db.transaction() as tx:
        ...     staged = tx.execute("INSERT INTO t VALUES (?)", [7])
        >>> db.query("SELECT a FROM t").to_pylist()
        [{'a': 7}]
        """
        self._check()
        return self._db.execute(sql, params)

    def query(self, sql: str, params: ParameterValues | None = None) -> pa.Table:
        """Run a query, as `Database.query` does; it sees the changes of this transaction.

        Parameters
        ----------
        sql
            The query.
        params
            Values for `?` or `:name`.

        Returns
        -------
        pyarrow.Table
            The answer.

        Raises
        ------
        StateError
            The transaction is over, or another thread's.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> with db.transaction() as tx:
        ...     tx.apply({"t": [{"a": 1}]})
        ...     tx.query("SELECT a FROM t").to_pylist()
        [{'a': 1}]
        """
        self._check()
        return self._db.query(sql, params)

    def commit(self) -> None:
        """Apply all changes as one transaction, before the block ends.

        Raises
        ------
        StateError
            The transaction is over, or another thread's.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> with db.transaction() as tx:
        ...     tx.apply({"t": [{"a": 1}]})
        ...     tx.commit()
        ...     db.version
        1
        """
        self._check()
        self._progress = Progress.OVER
        self._done = self._commit()
        self._progress = Progress.COMMITTED

    def rollback(self) -> None:
        """Discard all changes; the block continues without them, outside of any transaction.

        Raises
        ------
        StateError
            The transaction is over, or another thread's.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> with db.transaction() as tx:
        ...     tx.apply({"t": [{"a": 1}]})
        ...     tx.rollback()
        >>> db.version
        0
        """
        self._check()
        self._progress = Progress.ROLLED_BACK
        self._session.rollback()

    def _check(self) -> None:
        if self._progress is not Progress.OPEN:
            raise StateError(f"the transaction is {self._progress}; call db.transaction() again")
        if not self._session.mine:
            ended = "has ended, by COMMIT, ROLLBACK or close, or is another thread's"
            raise StateError(f"the transaction {ended}; call db.transaction() again")

    def _committed(self) -> Transaction:
        if self._progress is not Progress.COMMITTED:
            raise StateError(f"the transaction is {self._progress}; it has a version and deltas once it is committed")
        return self._done or Transaction(self._db.version, Deltas({}), [])

    @property
    def version(self) -> int:
        """The resulting version.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> with db.transaction() as tx:
        ...     tx.apply({"t": [{"a": 1}]})
        >>> tx.version
        1
        """
        return self._committed().version

    @property
    def deltas(self) -> Deltas:
        """The delta of every view; empty if nothing was changed.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> view = db.create_view("v", "SELECT a FROM t")
        >>> with db.transaction() as tx:
        ...     tx.apply({"t": [{"a": 1}]})
        >>> tx.deltas["v"].to_pylist()
        [{'a': 1, '_weight': 1}]
        """
        return self._committed().deltas

    @property
    def errors(self) -> tuple[SubscriberError, ...]:
        """The subscribers that failed on it; the transaction itself stays applied.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> with db.transaction() as tx:
        ...     tx.apply({"t": [{"a": 1}]})
        >>> tx.errors
        ()
        """
        return self._committed().errors

    def __repr__(self) -> str:
        return f"PendingTransaction({self._progress})"
