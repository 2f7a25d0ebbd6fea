"""The result of a transaction: its version, the delta of each view, and the errors of subscribers."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from freshet.database.delta import Deltas


class Subscription:
    """A callback on a view, created by `View.subscribe`. Also a context manager that closes it.

    Attributes
    ----------
    callback
        Called with each `Transaction`.
    since
        The version at which the subscription was created; the callback is called for later versions.
    closed
        Whether it has ended, because it was closed or its view was dropped.

    Examples
    --------
    >>> import freshet
    >>> db = freshet.connect()
    >>> db.execute("CREATE TABLE t (a INT)")
    >>> view = db.create_view("v", "SELECT a FROM t")
    >>> subscription = view.subscribe(lambda tx: print("version", tx.version))
    >>> tx = db.apply({"t": [{"a": 1}]})
    version 1
    >>> subscription.close()
    >>> tx = db.apply({"t": [{"a": 2}]})
    """

    def __init__(
        self, callback: Callable[[Transaction], object], since: int, forget: Callable[[Subscription], None]
    ) -> None:
        self.callback = callback
        self.since = since
        self.closed = False
        self._forget = weakref.WeakMethod(forget)  # a subscription does not keep its view in memory

    def close(self) -> None:
        """End the subscription.

        The callback may still be called for a transaction that another thread is publishing, but for no later one.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> subscription = db.create_view("v", "SELECT a FROM t").subscribe(print)
        >>> subscription.close()
        >>> subscription.closed
        True
        """
        self.closed = True
        forget = self._forget()
        if forget is not None:
            forget(self)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class SubscriberError:
    """A subscriber that failed on a transaction, one of `Transaction.errors`.

    Attributes
    ----------
    view
        The name of the view.
    subscription
        The subscription that failed.
    exception
        The exception that it raised.

    Examples
    --------
    >>> import logging, freshet
    >>> logging.getLogger("freshet").setLevel(logging.CRITICAL)  # failures are logged as well
    >>> db = freshet.connect()
    >>> db.execute("CREATE TABLE t (a INT)")
    >>> subscription = db.create_view("v", "SELECT a FROM t").subscribe(lambda tx: 1 / 0)
    >>> [error] = db.apply({"t": [{"a": 1}]}).errors
    >>> error.view, error.exception
    ('v', ZeroDivisionError('division by zero'))
    >>> logging.getLogger("freshet").setLevel(logging.NOTSET)
    """

    view: str
    subscription: Subscription
    exception: Exception


class Transaction:
    """The result of a transaction. Any thread may read it, now or later.

    Attributes
    ----------
    version
        The resulting version.
    deltas
        A mapping from the name of each view to its delta, a ``pyarrow.Table`` with the view's columns and ``_weight``;
        names are case-insensitive. Empty if the transaction was applied with ``deltas=False``.
    late
        How many rows were dropped because they came too late, by table (``WITH (lateness = ...)``).

    Examples
    --------
    >>> import freshet
    >>> db = freshet.connect()
    >>> db.execute("CREATE TABLE t (a INT)")
    >>> view = db.create_view("v", "SELECT a FROM t")
    >>> tx = db.apply({"t": [{"a": 7}]})
    >>> tx.version, tx.deltas["v"].to_pylist()
    (1, [{'a': 7, '_weight': 1}])
    """

    __slots__ = ("_errors", "deltas", "late", "version")

    def __init__(
        self, version: int, deltas: Deltas, errors: list[SubscriberError], late: Mapping[str, int] | None = None
    ) -> None:
        self.version = version
        self.deltas = deltas
        self.late = dict(late or {})
        self._errors = errors

    @property
    def errors(self) -> tuple[SubscriberError, ...]:
        """The subscribers that have failed so far; the transaction itself stays applied.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> db.execute("INSERT INTO t VALUES (1)").errors
        ()
        """
        return tuple(self._errors)

    def __repr__(self) -> str:
        return f"Transaction(version={self.version}, views={list(self.deltas)})"
