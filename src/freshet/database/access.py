"""The locks that control access to a database.

Any thread may call anything; two locks make this possible. A thread that changes the database holds `Access.lock`, from
reading the changes until the last subscriber has been called; a thread that reads or changes state holds `State.lock`.
What several threads see (catalog, tables, views, state) changes only while both are held, so holding either is enough
to rely on it. They are acquired in that order. No user code runs under `State.lock` but functions in Python, which may
not use the database again (state_lock.py). So kernels, which release the GIL and hold raw addresses, have exclusive use
of the arrays, and while subscribers run, other threads can read. Deltas need neither lock (delta.py), nor do the copies
of state that long reads continue with (state_copy.py).

Signals wait while state is half changed (interrupts.py), so an interruption finds the state before or the state after.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from freshet.budget import Budget
from freshet.database.session import Session
from freshet.database.state import State
from freshet.database.views import Views
from freshet.durable.store import Store
from freshet.errors import StateError
from freshet.interrupts import Deferred, deliver


class Access:
    """`store`: the folder of the database, None for one in memory."""

    def __init__(self, state: State, views: Views, store: Store | None) -> None:
        self.state = state
        self.views = views
        self.store = store
        self.lock = threading.RLock()
        self.session = Session(state, views, self.lock, store)
        self.closed = False
        self._running: set[Budget] = set()  # of queries, and of views being created

    def check_open(self) -> None:
        """Raises StateError if the database cannot be read."""
        self.state.lock.check()
        if self.closed:
            raise StateError("the database is closed; connect again")
        if self.store is not None:
            self.store.check()
        if self.state.core.stale:  # rebuild views that could not be rebuilt before for lack of memory
            with self.state.lock:
                self.views.rebuild(())

    def check_writable(self) -> None:
        self.check_open()
        if self.store is not None and self.store.read_only:
            raise StateError(f"{self.store.path} was opened with read_only; connect without it to change something")

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Definitions have exclusive access and are not interrupted."""
        self.session.check_none("CREATE or DROP")
        try:
            with self.lock:
                self.check_writable()
                with Deferred():
                    yield
        finally:
            deliver()

    @contextmanager
    def given_up(self) -> Iterator[None]:
        """Releases `lock`, which this thread holds (perhaps several times), for the duration of the block."""
        times = 0
        with suppress(RuntimeError):  # once it is fully released
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
        """`interrupt` ends operations that run within this budget."""
        self._running.add(budget)
        try:
            with budget:
                yield budget
        finally:
            self._running.discard(budget)

    def interrupt(self) -> None:
        for budget in tuple(self._running):
            budget.cancel("it was interrupted")
