"""The public class of a database. The parts of an `Instance` (instance.py) do the work."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, overload

import pyarrow as pa

from freshet.database.advancing import Time
from freshet.database.inspecting import changes_nothing
from freshet.database.instance import Instance
from freshet.database.kept_view import KeptView
from freshet.database.pending import PendingTransaction
from freshet.database.transaction import Transaction
from freshet.database.view import View
from freshet.database.view_collection import ViewCollection
from freshet.errors import PlanError, SqlError, StateError
from freshet.logical.statements import Bracket
from freshet.plans import Plan
from freshet.sql.catalog import Catalog
from freshet.sql.parameters import ParameterValues
from freshet.sql.source import SqlText


class Database(ViewCollection):
    """Tables and the views over them, created by `connect`.

    All methods can be called from any thread. A transaction is either applied as a whole or not at all, and all views
    are at the same version.

    Examples
    --------
    >>> import freshet
    >>> with freshet.connect() as db:
    ...     db.execute("CREATE TABLE t (a INT)")
    ...     db.version
    0
    """

    def __init__(self, inner: Instance) -> None:
        super().__init__(inner)
        self._faces: weakref.WeakKeyDictionary[KeptView, View] = weakref.WeakKeyDictionary()

    # Statements and views -------------------------------------------------------------------------------------

    def execute(
        self, sql: str, params: ParameterValues | None = None, *, seconds: float | None = None, rows: int | None = None
    ) -> Any:
        """Run SQL statements, one after the other.

        Parameters
        ----------
        sql
            One or more statements, separated by semicolons: CREATE TABLE, CREATE MATERIALIZED VIEW, DROP, INSERT,
            UPDATE, DELETE, BEGIN, COMMIT, ROLLBACK, a query, or SHOW TABLES, SHOW VIEWS, DESCRIBE and EXPLAIN.
        params
            Values for each ``?`` of the text in order, or a dict of values for each ``:name``.
        seconds
            How long the queries may take together.
        rows
            How many rows an answer may have.

        Returns
        -------
        object
            The result of the last statement: a `Transaction` for a change (within an open transaction, one without
            deltas), a `View` for CREATE MATERIALIZED VIEW, a ``pyarrow.Table`` for a query, None otherwise.

        Raises
        ------
        SqlError
            The text cannot be parsed or bound; the error has the line and column.
        UnsupportedError
            Freshet does not support a part of it; the message names an alternative.
        ChangeError
            A change was refused and has changed nothing. If there are several statements, the message says which one
            failed and what was kept.
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
        result = self._inner.statements.execute(SqlText(sql, params).statements(), seconds, rows)
        return self._face(result) if isinstance(result, KeptView) else result

    def query(
        self, sql: str, params: ParameterValues | None = None, *, seconds: float | None = None, rows: int | None = None
    ) -> pa.Table:
        """Run one query and return its answer.

        Views are read from their stored answers. A condition that fixes the primary key of a table, the groups of a
        view or the columns of an index looks its rows up directly, and LIMIT ends the read when there are enough rows.

        Parameters
        ----------
        sql
            One query: SELECT, WITH or VALUES; or SHOW, DESCRIBE or EXPLAIN.
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
            The text cannot be parsed or bound, is not a query, or the value of a parameter is missing.
        ChangeError
            The query has no answer over the current rows, for example because a sum overflows.
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
        statements = SqlText(sql, params).statements()
        if len(statements) != 1 or not changes_nothing(statements):
            raise SqlError("query() takes one SELECT; run other statements with execute()", sql, 1, 1)
        answer = self._inner.statements.execute(statements, seconds, rows)
        assert isinstance(answer, pa.Table)
        return answer

    def transaction(self) -> PendingTransaction:
        """Combine several statements into one transaction.

        Within the block this thread reads its own writes, in queries and in views; other threads read the version
        before, and their changes wait. The end of the block commits, an exception rolls back. ``BEGIN``, ``COMMIT`` and
        ``ROLLBACK`` do the same in SQL. Tables and views cannot be created or dropped within it.

        Returns
        -------
        PendingTransaction
            A context manager; after the block it has the version and the delta of every view.

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
        session, commit = self._inner.access.session, self._inner.transactions.bracket
        self._inner.access.check_writable()
        return PendingTransaction(self, session, lambda: commit(Bracket.COMMIT))

    def create_view(self, name: str, query: str | Plan, *, replace: bool = False) -> View:
        """Create a view over existing tables and views, which may already have rows.

        Parameters
        ----------
        name
            The name of the view; no table or other view may have it.
        query
            SQL, or a `Plan` made by `freshet.plan`, which may be edited.
        replace
            Whether to replace an existing view of that name, if no other view reads it; its subscriptions end.

        Returns
        -------
        View
            Up to date from the start, and after every transaction.

        Raises
        ------
        SqlError
            The query cannot be parsed or bound, or the name is taken.
        PlanError
            The plan is not one of its query over these tables.
        ChangeError
            The query has no answer over the current rows, for example because a sum overflows.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> db.create_view("n", "SELECT COUNT(*) AS n FROM t").to_arrow().to_pylist()
        [{'n': 0}]
        """
        return self._face(self._inner.ddl.create_view(name, query, replace))

    def create_function(
        self, name: str, function: Callable[..., Any], *, returns: str, deterministic: bool = True
    ) -> None:
        """Make a Python function callable from SQL.

        It is called once for each batch of changes, with each distinct row of arguments once. It must not use the
        database. If it raises an exception, the transaction is refused. On disk a view stores only the name of the
        function: pass the function again with `freshet.connect(folder, functions={name: function})`.

        Parameters
        ----------
        name
            A name that is not a function of SQL.
        function
            Takes a ``pyarrow.Array`` for each argument, all of one length, and returns as many values: an Arrow array,
            a numpy array or a list.
        returns
            The type of its values, as in SQL. ``TABLE(a INT, b STRING)`` makes a table function, each value of which
            is a list of rows.
        deterministic
            Whether it always gives the same value for the same arguments. Views call only such functions; others may
            be called by statements that run once, such as INSERT and UPDATE, which store the value with the row.

        Raises
        ------
        SqlError
            The name is taken, or views call another function of that name, or the type is unknown.

        Examples
        --------
        >>> import freshet
        >>> import pyarrow.compute as pc
        >>> db = freshet.connect()
        >>> db.create_function("score", lambda x: pc.sqrt(x), returns="DOUBLE")
        >>> db.execute("CREATE TABLE t (a DOUBLE)")
        >>> view = db.create_view("v", "SELECT SUM(score(a)) AS s FROM t")
        >>> tx = db.apply({"t": [{"a": 4.0}, {"a": 9.0}]})
        >>> view.to_dicts()
        [{'s': 5.0}]
        """
        self._inner.ddl.create_function(name, function, returns, deterministic)

    def view(self, name: str) -> View:
        """Find a view by name, ignoring case.

        Parameters
        ----------
        name
            The view's name.

        Returns
        -------
        View
            The object that `create_view` returned.

        Raises
        ------
        PlanError
            There is no such view; the message lists the existing ones.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> view = db.create_view("Totals", "SELECT SUM(a) AS total FROM t")
        >>> db.view("totals") is view
        True
        """
        with self._inner.state.lock:
            self._inner.access.check_open()
            kept = self._inner.views.named.get(name.lower())
            if kept is None:
                raise PlanError(f"no view {name}; the views are {self._inner.views.listed()}")
            return self._face(kept)

    def _face(self, kept: KeptView) -> View:
        """The one public object for a view."""
        with self._inner.state.lock:
            face = self._faces.get(kept)
            if face is None:
                face = self._faces[kept] = View(self._inner.access, kept)
            return face

    @property
    def views(self) -> dict[str, View]:
        """The current views, by name in lower case.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> view = db.create_view("Totals", "SELECT SUM(a) AS total FROM t")
        >>> db.views
        {'totals': View('Totals', version=0, columns=(total BIGINT))}
        """
        with self._inner.state.lock:
            return {key: self._face(kept) for key, kept in self._inner.views.named.items()}

    @property
    def catalog(self) -> Catalog:
        """The definitions of tables and views, as `freshet.plan` takes them.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> freshet.plan("SELECT a FROM t", db.catalog).sql
        'SELECT a FROM t'
        """
        return self._inner.state.catalog

    # Transactions ---------------------------------------------------------------------------------------------

    def apply(self, changes: Mapping[str, Any], *, deltas: bool = True) -> Transaction:
        """Apply one transaction over any number of tables.

        Parameters
        ----------
        changes
            Rows by table name: a ``pyarrow.Table`` or ``RecordBatch``, anything else with ``__arrow_c_stream__`` (a
            reader, a DuckDB relation, a view), a pandas or polars DataFrame, an iterator of batches, or a list of dicts
            or tuples. Columns are matched by name, tuples by position. Dates, timestamps and decimals in dicts and
            tuples may be strings in ISO 8601 and plain digits. Rows are inserted, unless ``_weight`` (+n adds n copies,
            -n removes n) or ``_change_type`` (insert, delete, update_preimage, update_postimage, upsert) says
            otherwise.
        deltas
            False skips the views' deltas if they are not needed.

        Returns
        -------
        Transaction
            The resulting version and the delta of every view.

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
        return self._inner.transactions.apply(changes, deltas)

    def advance(self, to: Time) -> Transaction:
        """Advance the clock: the value of NOW() and CURRENT_DATE in views.

        This is one transaction, in which rows enter and leave views that compare times with the clock. The clock of a
        database begins at 1970-01-01 and changes only when it is advanced.

        Parameters
        ----------
        to
            The new time: a datetime (in UTC, if it has no time zone), a date, or a text in ISO 8601. A timedelta is
            relative to the current time of the clock.

        Returns
        -------
        Transaction
            The version it led to and every view's delta.

        Raises
        ------
        ChangeError
            The time is in the past, or is not valid.
        StateError
            A transaction is open.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE event (id INT, ts TIMESTAMP)")
        >>> view = db.create_view("recent", "SELECT id FROM event WHERE ts > NOW() - INTERVAL 1 HOUR")
        >>> tx = db.apply({"event": [{"id": 1, "ts": "2026-01-31 12:00:00"}]})
        >>> db.advance("2026-01-31 13:00:00").deltas["recent"].to_pylist()
        [{'id': 1, '_weight': -1}]
        """
        return self._inner.transactions.advance(to)

    def interrupt(self) -> None:
        """End the statements and definitions that other threads are executing. Each of them raises `BudgetError` and
        has changed nothing. What begins later is not affected.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.interrupt()  # nothing is under way
        """
        self._inner.access.interrupt()

    def close(self) -> None:
        """Close the database.

        A database in a folder can be opened again; existing deltas and answers remain valid.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.close()
        >>> db.execute("SELECT 1")
        Traceback (most recent call last):
        freshet.errors.StateError: the database is closed; connect again
        """
        self._inner.close()

    def __repr__(self) -> str:
        if self.closed:
            return "Database(closed)"
        where = "in memory" if self._inner.store is None else str(self._inner.store.path)
        tables = ", ".join(schema.name for schema in self.catalog.tables.values())
        views = ", ".join(view.name for view in self.views.values())
        return f"Database({where}, version={self.version}, tables=[{tables}], views=[{views}])"

    def __reduce__(self) -> NoReturn:
        raise StateError("a database cannot be pickled; send its folder, and connect there with read_only=True")

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@overload
def inside(face: Database) -> Instance: ...


@overload
def inside(face: View) -> KeptView: ...


def inside(face: Database | View) -> Instance | KeptView:
    """The internals behind a public object, for rooms that need more than users do."""
    return face._inner if isinstance(face, Database) else face._kept
