"""Who may use a database, and when.

Any thread may call anything. Two locks make that so. Whoever changes the database holds `Access.lock`, from reading the
changes until the last subscriber has heard of them; whoever touches state, to read it or to change it, holds
`State.lock`. What several threads see (catalog, tables, views, state) changes only under both, so either is enough to
rely on it. They are taken in that order, and no code of the user's runs under `State.lock`. So kernels, which let other
threads run and hold bare addresses, have the arrays to themselves, and while subscribers run, other threads can read.
Deltas need neither lock (delta.py), nor do copies of state that long readings go on with (aside.py).

Signals wait while state is half changed (interrupts.py), so an interruption finds the state before or the state after.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from freshet.budget import Budget
from freshet.database.state import State
from freshet.database.views import Views
from freshet.durable.store import Store
from freshet.errors import StateError
from freshet.interrupts import Deferred, deliver


class Access:
    """`store`: the folder of the database, None for one in memory."""

    def __init__(self, state: State, views: Views, store: Store | None) -> None:
        self.state, self.views, self.store = state, views, store
        self.lock = threading.RLock()
        self.closed = False
        self._running: set[Budget] = set()  # of queries and views being made

    def check_open(self) -> None:
        """Raises StateError if nothing can be asked."""
        if self.closed:
            raise StateError("the database is closed; connect again")
        if self.store is not None:
            self.store.check()
        if self.state.core.stale:  # views that could not be rebuilt when they had to, for want of memory
            with self.state.lock:
                self.views.rebuild(())

    def check_writable(self) -> None:
        self.check_open()
        if self.store is not None and self.store.read_only:
            raise StateError(f"{self.store.path} was opened with read_only; connect without it to change something")

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Whoever defines something is alone, and not interrupted."""
        try:
            with self.lock:
                self.check_writable()
                with Deferred():
                    yield
        finally:
            deliver()

    @contextmanager
    def given_up(self) -> Iterator[None]:
        """Without `lock`, which this thread has, however often it has it."""
        times = 0
        with suppress(RuntimeError):  # when it has it no more
            while True:
                self.lock.release()
                times += 1
        try:
            yield
        finally:
            for _ in range(times):
                self.lock.acquire()

    @contextmanager
    def interruptible(self, budget: Budget) -> Iterator[Budget]:
        """What runs within this budget is ended by `interrupt`."""
        self._running.add(budget)
        try:
            with budget:
                yield budget
        finally:
            self._running.discard(budget)

    def interrupt(self) -> None:
        for budget in tuple(self._running):
            budget.cancel("it was interrupted")
