"""`view.changes(since=)`: the delta of every version in order, past and future.

Past versions come from the log (history.py), future ones from the transactions themselves. These are buffered until
they are read, up to a limit: a reader that falls behind continues from the log, and if there is none, an error says
which versions it has missed. So a reader that stores the last version it has processed can continue after it, without
gaps or duplicates.

A database that was opened with read_only has no transactions of its own: there one state follows the log from version
to version as its writer appends to it.
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

_WAIT = 0.2  # seconds until a waiting reader checks whether the database was closed

Change = tuple[int, pa.Table]


class _Receiver:
    """Receives transactions for a reader as long as the reader exists."""

    def __init__(self, reader: Changes) -> None:
        self._reader = weakref.ref(reader)
        self.subscription: Subscription | None = None

    def __call__(self, tx: Transaction) -> None:
        reader = self._reader()
        if reader is not None:
            reader._receive(tx)
        elif self.subscription is not None:
            self.subscription.close()


class Changes(Iterator[Change], AsyncIterator[Change]):
    """Versions and deltas; iterate over it with `for` or `async for`. `version` is the last one returned. It ends when
    the view is dropped or the database closed; without `follow`, when all existing versions were returned."""

    def __init__(self, access: Access, view: KeptView, since: int | None, follow: bool, buffer: int) -> None:
        with access.state.lock:
            now = access.state.version
            self.version = now if since is None else since
            if not 0 <= self.version <= now:
                raise StateError(f"there is no version {since}; the database is at {now}")
            made = view.made
            if self.version < made:
                raise StateError(f"view {view.name} was created at version {made}; ask for its changes since then")
            if self.version < now and access.store is None:
                raise StateError(
                    f"version {self.version} is past, and a database in memory keeps no log; follow from version {now}"
                )
            self._access = access
            self._view = view
            self._follow = follow
            self._coming: deque[Transaction] = deque(maxlen=buffer)
            self._arrived = now  # the last version that arrived, or existed before
            self._came = threading.Condition()
            self._history: tuple[History, Iterator[Change]] | None = None
            self._elsewhere = follow and access.store is not None and access.store.read_only  # another process writes
            self._next: Change | None = None
            self._closed = False
            receiver = _Receiver(self)
            self._subscription = receiver.subscription = view.subscribe(receiver)

    def _receive(self, tx: Transaction) -> None:
        with self._came:
            self._arrived = max(self._arrived, tx.version)
            self._coming.append(tx)  # when it is full, the oldest is discarded, which the reader detects
            self._came.notify_all()

    def _prepare(self, wait: bool) -> bool:
        """Whether the next change is available; waits for it briefly."""
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
            self._history = history, history.new_deltas()
        change = next(self._history[1], None)
        if change is None:  # for now
            self._history = self._history[0], self._history[0].new_deltas()
        return change

    def _from_log(self) -> Change | None:
        if self._history is None:
            return None
        change = next(self._history[1], None)
        if change is None:
            self._end_history()
        return change

    def _from_transactions(self) -> Change | None:
        name = self._view.name
        with self._came:
            while self._coming and self._coming[0].version <= self.version:
                self._coming.popleft()
            if self._coming and self._coming[0].version == self.version + 1 and name in self._coming[0].deltas:
                tx = self._coming.popleft()
                return tx.version, tx.deltas[name]
            now = self._arrived
        if now == self.version:
            return None
        if self._access.store is None:
            raise StateError(
                f"versions {self.version + 1} to {now} were missed: more arrived than the buffer holds, or they were "
                "applied with deltas=False; read the whole view and continue from there"
            )
        return self._read_log(now)

    def _read_log(self, until: int) -> Change | None:
        history = history_of(self._access, self._view.name, self.version)
        self._history = history, history.deltas(until)
        return self._from_log()

    def _given(self) -> Change:
        assert self._next is not None
        change, self._next = self._next, None
        self.version = change[0]
        return change

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
        import asyncio  # slow to import, and rarely used

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
