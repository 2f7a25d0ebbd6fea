"""How subscribers hear of transactions.

Law: every subscriber hears once of every transaction since it was made, in order of versions, in the thread of a
writer, before the `apply` that made it returns; what a subscriber applies itself is published when all have heard of
the current transaction. Where several threads write and wait for the disk together, one of them publishes for all.

A transaction that is published has happened: a subscriber that fails is logged and noted in `tx.errors`, and the others
hear all the same. What is meant to stop the program (KeyboardInterrupt, SystemExit) goes on to the writer, after the
others have heard.

While subscribers run, other threads can read deltas, answers and figures of this version, or of a later one that is
being synced; only those that want to change the database wait. So a subscriber may wait for a thread that reads, but
not for one that writes.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from freshet.database.transaction import SubscriberError, Subscription, Transaction
from freshet.interrupts import lifted

logger = logging.getLogger("freshet")


class Publisher:
    """Called by the writer alone, which holds the database's lock and not that of its state. `subscriptions` gives
    those there are, each with the name of its view."""

    def __init__(self, subscriptions: Callable[[], list[tuple[str, Subscription]]]) -> None:
        self._subscriptions = subscriptions
        self._waiting: deque[tuple[Transaction, list[SubscriberError]]] = deque()
        self.publishing = False

    def add(self, tx: Transaction, errors: list[SubscriberError]) -> None:
        """A transaction that has happened; `publish` comes next. What goes wrong then is added to `errors`."""
        self._waiting.append((tx, errors))

    def publish(self, settled: Callable[[int], bool]) -> None:
        """Transactions up to the first whose version is not settled. Called with signals deferred, so that none keeps a
        subscriber from being called; while it runs, they come."""
        if self.publishing:
            return
        self.publishing = True
        stop: BaseException | None = None
        try:
            while self._waiting and settled(self._waiting[0][0].version):
                stopped = self._publish(*self._waiting.popleft())
                stop = stop or stopped
        finally:
            self.publishing = False
        if stop is not None:
            raise stop

    def _publish(self, tx: Transaction, errors: list[SubscriberError]) -> BaseException | None:
        stop: BaseException | None = None
        for view, subscription in self._subscriptions():
            if subscription.closed or tx.version <= subscription.since:
                continue
            try:
                lifted(subscription.callback, tx)
            except Exception as e:
                errors.append(SubscriberError(view, subscription, e))
                logger.error("a subscriber of view %s failed on version %d", view, tx.version, exc_info=e)
            except BaseException as e:
                stop = stop or e
        return stop
