"""How transactions are published to subscribers.

Law: every subscriber is called once for every transaction after it was created, in order of versions, in the thread of
a writer, before the transaction's `apply` returns. A transaction that a subscriber itself applies is published after
all have been called for the current one. If several threads write and wait for the disk together, one of them publishes
for all.

A published transaction stays applied: a subscriber that fails is logged and added to `tx.errors`, and the others are
still called. Exceptions that stop the program (KeyboardInterrupt, SystemExit) propagate to the writer after the others
have been called.

While subscribers run, other threads can read deltas, answers and metrics of this version, or of a later one that is
being synced; only threads that change the database wait. So a subscriber may wait for a thread that reads, but not for
one that writes.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from freshet.database.transaction import SubscriberError, Subscription, Transaction
from freshet.interrupts import lifted

logger = logging.getLogger("freshet")


class Publisher:
    """Called only by the writer, which holds the database's lock but not the state's. `subscriptions` returns the
    current ones, each with the name of its view."""

    def __init__(self, subscriptions: Callable[[], list[tuple[str, Subscription]]]) -> None:
        self._subscriptions = subscriptions
        self._waiting: deque[tuple[Transaction, list[SubscriberError]]] = deque()
        self.publishing = False

    def add(self, tx: Transaction, errors: list[SubscriberError]) -> None:
        """An applied transaction; `publish` comes next. Errors of subscribers are added to `errors`."""
        self._waiting.append((tx, errors))

    def publish(self, settled: Callable[[int], bool]) -> None:
        """Publishes transactions up to the first whose version is not settled. Called with signals deferred, so that no
        signal prevents a subscriber from being called; signals arrive while a subscriber runs."""
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
