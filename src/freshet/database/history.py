"""Earlier versions: a view's deltas and answers, reconstructed from the log.

A state in memory replays the log up to a version, with this one view; from there each transaction is applied separately
and gives the same delta as before. The log reaches back to its last rewrite; with `retain` older logs are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from freshet.budget import Memory
from freshet.database.access import Access
from freshet.database.delta import Delta
from freshet.database.reading import whole
from freshet.database.replay import Replay
from freshet.database.state import State
from freshet.database.views import Views
from freshet.durable.kept_logs import KeptLogs
from freshet.durable.log import Record
from freshet.durable.record import SNAPSHOT, TRANSACTION
from freshet.errors import StateError
from freshet.state.arena import Arena


def history_of(access: Access, view: str, version: int) -> History:
    """A view at an earlier version, from the log."""
    if access.store is None:
        raise StateError(f"version {version} is past, and a database in memory keeps no log; follow it from now on")
    with access.state.lock:
        access.check_open()
        access.store.log.flush()
        functions = {name: f.body for name, f in access.state.catalog.functions.items()}
    return History(access.store.path, view.lower(), version, access.state.memory, functions)


class History:
    """One view at an earlier version, and then at one version after the other."""

    def __init__(
        self, folder: Path, key: str, version: int, memory: Memory, functions: Mapping[str, Callable[..., Any]]
    ) -> None:
        self.key, self._logs = key, KeptLogs(folder)
        self.state = State(Arena(memory=memory), memory)
        self.state.given.update(functions)
        self.views = Views(self.state)
        self._log = self._logs.holding(version)
        catalog: dict[str, Any] = {"numbers": 0, "tables": {}, "views": {}}
        self._replay = Replay(self.state, self.views, self._log, catalog, only=key)
        self._replay.run(until=version)
        if self.state.version != version or key not in self.views.named:
            self.close()
            raise StateError(f"there is no version {version} of view {key} in the log of {folder}")

    def answer(self) -> pa.Table:
        view = self.views.named[self.key]
        return whole(view.operator, view.plan.root.fields, self.state.memory)

    def deltas(self, until: int) -> Iterator[tuple[int, pa.Table]]:
        """The delta of each version up to `until`."""
        while self.state.version < until:
            for version, delta in self._recorded():
                yield version, delta
                if version >= until:
                    return
            if self.state.version < until:
                self._next_log()

    def new_deltas(self) -> Iterator[tuple[int, pa.Table]]:
        """The delta of each version that the writer has logged since; ends when there are no more at the moment."""
        while True:
            replaced = self._log.replaced  # before its end is read: nothing is appended to it after that
            yield from self._recorded()
            if not replaced:
                return
            self._next_log()

    def _recorded(self) -> Iterator[tuple[int, pa.Table]]:
        for record in self._log.records(self._log.end):
            if record.kind == TRANSACTION:
                yield record.version, self._delta(record)
            else:
                self._replay.take(record)
                self._replay.finish()

    def _delta(self, record: Record) -> pa.Table:
        if self.key not in self.views.named:
            raise StateError(f"view {self.key} was dropped after version {self.state.version}; follow another one")
        rows = self._replay.take(record)[self.key]
        return Delta(self.views.named[self.key].operator, rows).table()

    def _next_log(self) -> None:
        """Continues with the next log, after the rows with which it begins: these are already here."""
        after = self._logs.holding(self.state.version)
        if after.id == self._log.id:
            after.close()
            raise StateError(f"{after.path} ends before version {self.state.version + 1}; restore it from a copy")
        self._log.close()
        self._log = self._replay.log = after
        for record in after.records(after.first):
            if record.kind == SNAPSHOT:
                break

    def close(self) -> None:
        self._log.close()
        self.state.core.close()
