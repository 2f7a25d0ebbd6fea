"""What a database reports about itself: its version, its size, and the cost of its views."""

from __future__ import annotations

from typing import Any

from freshet.database.explaining import metrics
from freshet.database.instance import Instance


class Figures:
    """The part of `Database` that only reports."""

    def __init__(self, inner: Instance) -> None:
        self._inner = inner

    @property
    def version(self) -> int:
        """The number of transactions so far.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> tx = db.execute("INSERT INTO t VALUES (1)")
        >>> db.version
        1
        """
        return self._inner.state.version

    @property
    def changes(self) -> int:
        """Rows changed by all transactions so far.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> tx = db.execute("INSERT INTO t VALUES (1), (2)")
        >>> db.changes
        2
        """
        return self._inner.state.changes

    def metrics(self) -> dict[str, Any]:
        """Return the size of the state, and the cost of maintaining each view.

        Returns
        -------
        dict
            ``version``, ``changes``, ``tuples``, ``state_bytes``, ``tree_switches``, under ``late_rows`` how many late
            rows of each table were dropped since the database was opened, and under ``views`` the figures of
            `View.metrics` by name.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> metrics = db.metrics()
        >>> metrics["version"], metrics["tuples"], metrics["views"]
        (0, 0, {})
        """
        state, views = self._inner.state, self._inner.views
        with state.lock:
            self._inner.access.check_open()
            kept, readers = views.named, state.core.sharing.reading()
            return {
                "version": state.version,
                "changes": state.changes,
                "tuples": state.core.live_rows(),
                "state_bytes": state.core.arena.nbytes(),
                "late_rows": dict(self._inner.state.late),
                "tree_switches": sum(view.following.chosen.moves for view in kept.values()),
                "views": {name: metrics(view, views.clock, readers) for name, view in kept.items()},
            }

    def nbytes(self) -> int:
        """Return the bytes of all state: tables, views and text.

        Returns
        -------
        int
            Reserved memory, whether rows fill it or not.

        Examples
        --------
        >>> import freshet
        >>> freshet.connect().nbytes() > 0
        True
        """
        with self._inner.state.lock:
            self._inner.access.check_open()
            return self._inner.state.core.arena.nbytes()

    def tuples(self) -> int:
        """Return the number of tuples stored in tables.

        Returns
        -------
        int
            Copies of a row in a table without primary key are one tuple.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> tx = db.execute("INSERT INTO t VALUES (1), (1), (2)")
        >>> db.tuples()
        2
        """
        with self._inner.state.lock:
            self._inner.access.check_open()
            return self._inner.state.core.live_rows()

    @property
    def on_disk(self) -> bool:
        """Whether the database is in a folder.

        Examples
        --------
        >>> import freshet
        >>> freshet.connect().on_disk
        False
        """
        return self._inner.store is not None

    @property
    def closed(self) -> bool:
        """Whether `close` was called.

        Examples
        --------
        >>> import freshet
        >>> with freshet.connect() as db:
        ...     pass
        >>> db.closed
        True
        """
        return self._inner.access.closed
