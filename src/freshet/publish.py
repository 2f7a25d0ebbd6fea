"""Subscribers, and how they hear of transactions.

Law: every subscriber hears of every transaction once, in order of versions, in the thread of the writer, before the
writer's `apply` returns; what a subscriber applies itself is published when all have heard of the transaction at hand.
A transaction that is published has happened: a subscriber that fails is logged and noted in `tx.errors`, and the others
hear all the same. What is meant to stop the program (KeyboardInterrupt, SystemExit) goes on to the writer, after the
others have heard.

While subscribers run, other threads can read deltas, answers and figures of this version; only those that want to
change the database wait. So a subscriber may wait for a thread that reads, but not for one that writes.
"""

from __future__ import annotations

import logging
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from freshet.interrupts import lifted
from freshet.transaction import SubscriberError, Transaction

if TYPE_CHECKING:
    from freshet.view import View

logger = logging.getLogger("freshet")


class Subscription:
    """A callback on its view; `close` ends it. Also a context manager."""

    def __init__(self, view: View, callback: Callable[[Transaction], object]) -> None:
        self._view, self.callback = weakref.ref(view), callback
        self.closed = False

    def close(self) -> None:
        """No transaction is heard of from now on. One that another thread publishes at this moment may be."""
        self.closed = True
        view = self._view()
        if view is not None:
            view.unsubscribe(self)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Publisher:
    """Called by the writer alone, which holds the database's lock and not that of its state. `subscriptions` gives
    those there are, each with the name of its view."""

    def __init__(self, subscriptions: Callable[[], list[tuple[str, Subscription]]]) -> None:
        self._subscriptions = subscriptions
        self._waiting: deque[Transaction] = deque()
        self._publishing = False

    def add(self, tx: Transaction) -> None:
        """Has happened; `publish` comes next."""
        self._waiting.append(tx)

    def publish(self) -> None:
        """Called with signals deferred, so that none keeps a subscriber from being called; while it runs, they come."""
        if self._publishing:
            return
        self._publishing = True
        stop: BaseException | None = None
        try:
            while self._waiting:
                stopped = self._publish(self._waiting.popleft())
                stop = stop or stopped
        finally:
            self._publishing = False
        if stop is not None:
            raise stop

    def _publish(self, tx: Transaction) -> BaseException | None:
        stop: BaseException | None = None
        for view, subscription in self._subscriptions():
            if subscription.closed:
                continue
            try:
                lifted(subscription.callback, tx)
            except Exception as e:
                tx.failed(SubscriberError(view, subscription, e))
                logger.error("a subscriber of view %s failed on version %d", view, tx.version, exc_info=e)
            except BaseException as e:
                stop = stop or e
        return stop
