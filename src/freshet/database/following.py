"""`view.changes(since=)`: every version's delta, one after the other, those that were and those that come.

What was comes from the log (history.py), what comes from the transactions themselves. They are kept until they are
asked for, but not more than so many: a reader that falls behind goes on from the log, and where there is none it hears
what it has missed. So a reader that keeps the version it has dealt with goes on after it, without gap or duplicate.

A database that was opened with read_only has no transactions of its own: there the log is followed as its writer adds
to it, by one state that moves from version to version.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Iterator

import pyarrow as pa

from freshet.database.access import Access
from freshet.database.history import History, history_of
from freshet.database.kept_view import KeptView
from freshet.database.transaction import Subscription, Transaction
from freshet.errors import StateError

_WAIT = 0.2  # seconds until a waiting reader looks whether the database was closed

Change = tuple[int, pa.Table]


class _Ear:
    """Hears for a reader as long as there is one."""

    def __init__(self, reader: Changes) -> None:
        self._reader = weakref.ref(reader)
        self.subscription: Subscription | None = None

    def __call__(self, tx: Transaction) -> None:
        reader = self._reader()
        if reader is not None:
            reader._hear(tx)
        elif self.subscription is not None:
            self.subscription.close()


class Changes(Iterator[Change], AsyncIterator[Change]):
    """Versions and deltas; iterate over it with `for` or `async for`. `version` is the last one given. Ends when the
    view is dropped or the database closed; without `follow`, when there is no more to give."""

    def __init__(self, access: Access, view: KeptView, since: int | None, follow: bool, buffer: int) -> None:
        with access.state.lock:
            now = access.state.version
            self.version = now if since is None else since
            if not 0 <= self.version <= now:
                raise StateError(f"there is no version {since}; the database is at {now}")
            made = view.made
            if self.version < made:
                raise StateError(f"view {view.name} was made at version {made}; ask for its changes since then")
            if self.version < now and access.store is None:
                raise StateError(
                    f"version {self.version} is past, and a database in memory keeps no log; follow from version {now}"
                )
            self._access, self._view, self._follow = access, view, follow
            self._coming: deque[Transaction] = deque(maxlen=buffer)
            self._heard = now  # the last version that came, or was there before
            self._came = threading.Condition()
            self._history: tuple[History, Iterator[Change]] | None = None
            self._elsewhere = follow and access.store is not None and access.store.read_only  # where the writer is
            self._next: Change | None = None
            self._closed = False
            ear = _Ear(self)
            self._subscription = ear.subscription = view.subscribe(ear)

    def _hear(self, tx: Transaction) -> None:
        with self._came:
            self._heard = max(self._heard, tx.version)
            self._coming.append(tx)  # at its most, the oldest goes: it is missed, and noticed
            self._came.notify_all()

    def _prepare(self, wait: bool) -> bool:
        """Whether the next change is there; waits for it a little."""
        if self._next is None:
            self._next = self._from_writer() if self._elsewhere else self._from_log() or self._from_transactions()
        if self._next is None and wait:
            with self._came:
                if not self._coming:
                    self._came.wait(_WAIT)
        return self._next is not None

    def _from_writer(self) -> Change | None:
        if self._history is None:
            history = history_of(self._access, self._view.name, self.version)
            self._history = history, history.news()
        found = next(self._history[1], None)
        if found is None:  # for now
            self._history = self._history[0], self._history[0].news()
        return found

    def _from_log(self) -> Change | None:
        if self._history is None:
            return None
        found = next(self._history[1], None)
        if found is None:
            self._end_history()
        return found

    def _from_transactions(self) -> Change | None:
        name = self._view.name
        with self._came:
            while self._coming and self._coming[0].version <= self.version:
                self._coming.popleft()
            if self._coming and self._coming[0].version == self.version + 1 and name in self._coming[0].deltas:
                tx = self._coming.popleft()
                return tx.version, tx.deltas[name]
            now = self._heard
        if now == self.version:
            return None
        if self._access.store is None:
            raise StateError(
                f"versions {self.version + 1} to {now} were missed: more came than the buffer holds, or they were "
                "applied with deltas=False; read the whole view and go on from there"
            )
        return self._read_log(now)

    def _read_log(self, until: int) -> Change | None:
        history = history_of(self._access, self._view.name, self.version)
        self._history = history, history.deltas(until)
        return self._from_log()

    def _given(self) -> Change:
        assert self._next is not None
        found, self._next = self._next, None
        self.version = found[0]
        return found

    def _over(self) -> bool:
        return self._closed or not self._follow or self._view.closed or self._access.closed

    def __next__(self) -> Change:
        while not self._prepare(self._follow):
            if self._over():
                raise StopIteration
        return self._given()

    def __iter__(self) -> Changes:
        return self

    def __aiter__(self) -> Changes:
        return self

    async def __anext__(self) -> Change:
        import asyncio  # slow to import, and few follow a view this way

        while not await asyncio.to_thread(self._prepare, self._follow):
            if self._over():
                raise StopAsyncIteration
        return self._given()

    def close(self) -> None:
        self._closed = True
        self._subscription.close()
        self._end_history()

    def _end_history(self) -> None:
        if self._history is not None:
            self._history[0].close()
            self._history = None

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
