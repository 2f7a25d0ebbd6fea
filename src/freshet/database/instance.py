"""The internals of a database: its parts, put together. The public classes (db.py, view.py) call these."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from freshet.budget import Memory
from freshet.database.access import Access
from freshet.database.adapt import Adapt
from freshet.database.ddl import Ddl
from freshet.database.one_off import OneOffQueries
from freshet.database.state import Rehearse, State, unrehearsed
from freshet.database.statements import Statements
from freshet.database.transactions import Transactions
from freshet.database.views import Views
from freshet.durable.store import Store
from freshet.engine.crew import Crew
from freshet.errors import StateError
from freshet.interrupts import Deferred, deliver
from freshet.state.arena import Arena


class Instance:
    """`store`: the folder of the database, if it has one; opening.py restores its contents."""

    def __init__(
        self, store: Store | None = None, adapt: Adapt | None = None, memory: Memory | None = None,
        rehearse: Rehearse = unrehearsed, crew: Crew | None = None,
    ) -> None:  # fmt: skip
        memory = Memory() if memory is None else memory
        arena = Arena(memory=memory) if store is None else store.arena(memory)
        self.state = State(arena, memory, store is not None, rehearse, crew)
        self.views = Views(self.state, adapt, self._save)
        self.store = store
        self.access = Access(self.state, self.views, store)
        self.transactions = Transactions(self.access)
        self.ddl = Ddl(self.access)
        self.one_off = OneOffQueries(self.access)
        self.statements = Statements(self.access, self.ddl, self.transactions, self.one_off)
        self._stop: Callable[[], None] | None = None

    def clock_follows(self, system: Callable[[], int], stop: Callable[[], None]) -> None:
        """Has the clock follow a time; `stop` ends what moves it."""
        self.state.system, self._stop = system, stop
        self.views.on_time = self.transactions.follow_clock

    def _save(self) -> None:
        if self.store is not None:
            self.store.save(self.state.described(), self.state.version)

    def close(self) -> None:
        """Publishes transactions that are durable, and releases the folder."""
        if self._stop is not None:
            self._stop()
        try:
            with self.access.lock, Deferred():
                if self.access.closed:
                    return
                if self.access.session.mine:
                    self.access.session.rollback()
                if self.store is not None:
                    self.store.check_process()
                    with suppress(StateError):  # the threads that applied them get the error
                        self.store.settle(self.state.version)
                try:
                    self.transactions.publish()
                finally:
                    self._end()
        finally:
            deliver()

    def _end(self) -> None:
        with self.state.lock:
            self.transactions.unread.settle()
            self.access.closed = True
            if self.store is not None:
                self.store.close(self.state, whole=not self.state.core.stale)
            self.state.core.crew.close()
            self.state.core.arena.release()
