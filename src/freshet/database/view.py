"""The public class of a materialized view. Any thread may use it: code that touches state holds the state's lock or
reads a copy (view_reader.py), and results are copies too."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any, NoReturn

import pyarrow as pa

from freshet.database.access import Access
from freshet.database.explaining import explained, metrics
from freshet.database.filtering import filtered
from freshet.database.following import Changes
from freshet.database.history import history_of
from freshet.database.kept_view import KeptView
from freshet.database.reading import BATCH, as_schema
from freshet.database.rows import RowCollection
from freshet.database.transaction import Subscription, Transaction
from freshet.database.view_reader import ViewReader
from freshet.errors import StateError, brief
from freshet.plans import Plan


class View(RowCollection):
    """A view that is kept fresh. `Database.create_view` creates it, `Database.view` returns it by name.

    Examples
    --------
    >>> import freshet
    >>> db = freshet.connect()
    >>> db.execute("CREATE TABLE t (a INT)")
    >>> view = db.create_view("doubled", "SELECT a, 2 * a AS twice FROM t")
    >>> tx = db.apply({"t": [{"a": 4}]})
    >>> view.to_arrow().to_pylist()
    [{'a': 4, 'twice': 8}]
    """

    def __init__(self, access: Access, kept: KeptView) -> None:
        self._access = access
        self._state = access.state
        self._kept = kept
        self._reader = ViewReader(access, kept)

    @property
    def name(self) -> str:
        """The name it was created with.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> db.create_view("Totals", "SELECT SUM(a) AS total FROM t").name
        'Totals'
        """
        return self._kept.name

    @property
    def plan(self) -> Plan:
        """The current plan; `explain` shows it with its cost.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> db.create_view("v", "SELECT a FROM t").plan.sql
        'SELECT a FROM t'
        """
        return self._kept.plan

    @property
    def schema(self) -> pa.Schema:
        """The answer's columns, as a ``pyarrow.Schema``.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> db.create_view("v", "SELECT a FROM t").schema.names
        ['a']
        """
        return as_schema(self._kept.plan.root.fields)

    def batches(self, rows: int = BATCH, *, ordered: bool = True, copy: bool = False) -> Iterator[pa.RecordBatch]:
        """Read the answer in batches, in memory that does not grow with it.

        A transaction in between ends the read with an error, because an answer belongs to one version. Read from a copy
        if the read may take long.

        Parameters
        ----------
        rows
            The maximal number of rows in a batch.
        ordered
            Whether a view with ORDER BY and no LIMIT is sorted, in memory that grows with its answer; False reads the
            rows unsorted.
        copy
            Whether to copy the view's state first, its tables and their text included, and read the copy. Then
            transactions in between do not affect the read, and no thread waits for it.

        Yields
        ------
        pyarrow.RecordBatch
            At least one row each.

        Raises
        ------
        StateError
            The view has changed to another version, or was dropped.
        BudgetError
            The memory limit does not allow a copy.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> view = db.create_view("v", "SELECT a FROM t")
        >>> tx = db.apply({"t": [{"a": a} for a in range(5)]})
        >>> [batch.num_rows for batch in view.batches(2)]
        [2, 2, 1]
        """
        if not isinstance(rows, Integral) or rows < 1:
            raise ValueError(f"a batch of {rows!r} rows; ask for 1 or more")
        yield from self._reader.copied(rows, ordered) if copy else self._reader.batches(rows, ordered)

    def to_arrow(self) -> pa.Table:
        """Return the whole answer as a ``pyarrow.Table``.

        Returns
        -------
        pyarrow.Table
            All rows of one version, duplicates as repeated rows.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> view = db.create_view("v", "SELECT a FROM t")
        >>> tx = db.apply({"t": [{"a": 1}, {"a": 2}]})
        >>> view.to_arrow().to_pydict()
        {'a': [1, 2]}
        """
        answer = self._reader.whole()
        assert answer is not None
        return answer

    def to_pandas(self) -> Any:
        """Return the whole answer as a pandas DataFrame.

        Returns
        -------
        pandas.DataFrame
            What `to_arrow` returns, converted.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> view = db.create_view("v", "SELECT a FROM t")
        >>> tx = db.apply({"t": [{"a": 1}, {"a": 2}]})
        >>> view.to_pandas()["a"].tolist()
        [1, 2]
        """
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return the whole answer as a polars DataFrame.

        Returns
        -------
        polars.DataFrame
            What `to_arrow` returns, converted.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> view = db.create_view("v", "SELECT a FROM t")
        >>> tx = db.apply({"t": [{"a": 1}, {"a": 2}]})
        >>> view.to_polars()["a"].to_list()
        [1, 2]
        """
        import polars

        return polars.from_arrow(self.to_arrow())

    def count(self) -> int:
        """Return the number of rows in the answer, without enumerating them if the plan allows it.

        Returns
        -------
        int
            Duplicates are counted.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> view = db.create_view("v", "SELECT a FROM t")
        >>> tx = db.apply({"t": [{"a": 1}, {"a": 2}]})
        >>> view.count()
        2
        """
        return self._reader.count()

    def subscribe(self, callback: Callable[[Transaction], object], *, where: str | None = None) -> Subscription:
        """Call a function after each transaction.

        It is called in the thread of the writer, before `Database.apply` returns; it reads the version `tx.version`, or
        a later one if several threads write and share an fsync. Other threads can read meanwhile, but their changes
        wait: do not wait in a callback for a thread that writes. A callback that fails is logged and listed in
        `tx.errors`; the transaction stays applied, and the other callbacks are called.

        Parameters
        ----------
        callback
            Called with the `Transaction`.
        where
            A condition in SQL over the view's columns: the callback is called only for transactions whose delta has a
            row, added or removed, that satisfies it, and for those applied with ``deltas=False``.

        Returns
        -------
        Subscription
            Close it to end the calls.

        Raises
        ------
        SqlError
            `where` is not a condition on the view's columns, or its value changes with time.
        ValueError
            `callback` cannot be called.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> seen = []
        >>> view = db.create_view("v", "SELECT a FROM t")
        >>> with view.subscribe(lambda tx: seen.append(tx.version), where="a > 10"):
        ...     for a in (1, 11, 2):
        ...         tx = db.apply({"t": [{"a": a}]})
        >>> seen
        [2]
        """
        if not callable(callback):
            raise ValueError(f"callback is {brief(callback)}; give something that can be called")
        with self._state.lock:
            self._check_open()
            if where is not None:
                callback = filtered(self.name, self._kept.plan.root.fields, self._state.catalog, where, callback)
            return self._kept.subscribe(callback)

    def changes(self, since: int | None = None, *, follow: bool = True, buffer: int = 10_000) -> Changes:
        """Iterate over versions and the view's delta at each, past ones first, with ``for`` or ``async for``.

        Parameters
        ----------
        since
            The version after which to begin; by default the current one. A consumer that stores the last version it has
            processed can resume there without gaps or duplicates.
        follow
            Whether to wait for future transactions, in a read-only database for those of its writer; False ends at the
            current version.
        buffer
            A reader that is more than this many transactions behind continues from the log; in memory an error says
            which versions it has missed.

        Returns
        -------
        Changes
            An iterator of ``(version, pyarrow.Table)``.

        Raises
        ------
        StateError
            The log no longer reaches back to that version, or versions were missed and there is no log.
        ValueError
            `buffer` is not a number of transactions, 1 or more, or `since` not a number.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> changes = db.create_view("v", "SELECT a FROM t").changes()
        >>> tx = db.apply({"t": [{"a": 7}]})
        >>> version, delta = next(changes)
        >>> version, delta.to_pylist()
        (1, [{'a': 7, '_weight': 1}])
        >>> changes.close()
        """
        if type(buffer) is not int or buffer < 1:
            raise ValueError(f"buffer is {buffer!r}; give the number of transactions to keep, 1 or more")
        if since is not None:
            _check_version("since", since)
        self._check_open()
        return Changes(self._access, self._kept, since, follow, buffer)

    def at(self, version: int) -> pa.Table:
        """Return the answer as it was at an earlier version.

        Parameters
        ----------
        version
            An earlier version that is still in the log of the folder; see ``retain`` of `freshet.connect`.

        Returns
        -------
        pyarrow.Table
            All rows of that version.

        Raises
        ------
        StateError
            That version is no longer in the log, or the database is in memory.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> view = db.create_view("v", "SELECT a FROM t")
        >>> tx = db.apply({"t": [{"a": 1}, {"a": 2}]})
        >>> view.at(1).num_rows
        2
        """
        _check_version("version", version)
        answer = self._reader.whole(version)
        if answer is not None:
            return answer
        with self._state.lock:
            self._check_open()
            made, now = self._kept.made, self._state.version
            if not made <= version < now:
                raise StateError(f"view {self.name} has versions {made} to {now}, not {version}")
        history = history_of(self._access, self.name, version)
        try:
            return history.answer()
        finally:
            history.close()

    def metrics(self) -> dict[str, Any]:
        """Return the measured cost of maintaining the view.

        Returns
        -------
        dict
            ``changes`` of its tables and their cost, in total and for each change, since the view was created and over
            the ``last_minute``: counters changed, joined rows enumerated, joined rows checked against predicates that
            no edge expresses, rows that entered groups, rows counted by DISTINCT and set operations, places visited in
            ordered structures (O(log n) for each row placed or looked for), rows changed by nested queries, and their
            sum, ``steps``. What the queries in it that it shares with other views have paid since they exist
            (``shared``), which is part of the steps of each of these views. How often the view has switched to another
            join tree (``tree_switches``) and since which version it has had its current one (``tree_since``).

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> view = db.create_view("v", "SELECT a FROM t")
        >>> tx = db.apply({"t": [{"a": 1}, {"a": 2}]})
        >>> view.metrics()["changes"]
        2
        """
        with self._state.lock:
            self._check_open()
            return metrics(self._kept, self._access.views.clock)

    def explain(self, form: str = "text") -> str:
        """Describe how the view is maintained: class, join tree, guarantees, sizes and work done.

        Parameters
        ----------
        form
            ``"text"`` or ``"json"``.

        Returns
        -------
        str
            A text, or a JSON document with the same contents.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> print(db.create_view("v", "SELECT a FROM t").explain().splitlines()[0])
        view       v
        """
        if form not in ("text", "json"):
            raise ValueError(f'no form {form!r}; explain gives "text" or "json"')
        with self._state.lock:
            self._check_open()
            text, figures = explained(self._kept, self._access.views.clock)
        return text if form == "text" else json.dumps(figures, indent=2, ensure_ascii=False)

    def _check_open(self) -> None:
        self._reader.check_open()

    def __reduce__(self) -> NoReturn:
        raise StateError("a view cannot be pickled; send its answer, to_arrow()")

    def __repr__(self) -> str:
        if self._kept.closed or self._access.closed:
            return f"View({self.name!r}, closed)"
        columns = ", ".join(f"{field.name} {field.type}" for field in self._kept.plan.root.fields)
        return f"View({self.name!r}, version={self._state.version}, columns=({columns}))"


def _check_version(name: str, version: object) -> None:
    if not isinstance(version, Integral):
        raise ValueError(f"{name} is {brief(version)}; give the number of a version")
