"""Versions that were: a view's deltas and answers, made again from the log.

A database in memory replays the log up to the wanted version, with this one view; from there each transaction is
applied by itself and gives the delta it gave. The log reaches back to where it was last rewritten; with `retain` the
logs before are kept, each of which begins where the one before it ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from freshet.budget import Memory
from freshet.database.transaction import Delta
from freshet.durable.log import Log, Record
from freshet.durable.record import SNAPSHOT, TRANSACTION
from freshet.durable.replay import Replay
from freshet.errors import StateError

_KEPT = re.compile(r"log\.(\d+)-(\d+)")  # a log that was: its first and its last version


class Logs:
    """The logs of a folder, from the one on that holds a version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def kept(self) -> list[tuple[int, int, Path]]:
        """First and last version of each log that was kept, the oldest first."""
        found = ((_KEPT.fullmatch(f.name), f) for f in self.folder.iterdir())
        return sorted((int(name[1]), int(name[2]), f) for name, f in found if name is not None)

    def holding(self, version: int) -> Log:
        """The log in which the transaction after that version is, or will be."""
        for _ in range(3):  # the writer may rewrite the log in between
            now = Log(self.folder / "log", write=False)
            if first_version(now) <= version:
                return now
            now.close()
            for first, last, file in self.kept():
                if first <= version < last:
                    try:
                        return Log(file, write=False)
                    except StateError:
                        break
        raise StateError(
            f"the log of {self.folder} no longer reaches back to version {version}; read the whole view, and keep more "
            "versions with connect(retain=)"
        )


def first_version(log: Log) -> int:
    """The version a log begins with."""
    head = log.head(log.first)
    return 0 if head is None else head[-2]


class History:
    """One view as it was at a version, and then at one after the other."""

    def __init__(self, folder: Path, key: str, version: int, memory: Memory) -> None:
        from freshet.database.db import Database

        self.db, self.key, self._logs = Database(memory=memory), key, Logs(folder)
        self.db.rehearses = False
        self._log = self._logs.holding(version)
        catalog: dict[str, Any] = {"numbers": 0, "tables": {}, "views": {}}
        self._replay = Replay(self.db, self._log, catalog, only=key)
        self._replay.run(until=version)
        if self.db.version != version or key not in self.db.views:
            self.close()
            raise StateError(f"there is no version {version} of view {key} in the log of {folder}")

    def answer(self) -> pa.Table:
        return self.db.view(self.key).to_arrow()

    def deltas(self, until: int) -> Iterator[tuple[int, pa.Table]]:
        """The delta of each version up to `until`."""
        while self.db.version < until:
            for record in self._log.records(self._log.end):
                if record.kind == TRANSACTION:
                    yield record.version, self._delta(record)
                    if record.version >= until:
                        return
                else:
                    self._replay.take(record)
                    self._replay.finish()
            if self.db.version < until:
                self._next_log()

    def _delta(self, record: Record) -> pa.Table:
        rows = self._replay.take(record)[self.key]
        return Delta(self.db.view(self.key).maintained, rows).table()

    def _next_log(self) -> None:
        """Goes on with the log after this one, behind the rows it begins with: those are here already."""
        after = self._logs.holding(self.db.version)
        if after.id == self._log.id:
            after.close()
            raise StateError(f"{after.path} ends before version {self.db.version + 1}; restore it from a copy")
        self._log.close()
        self._log = self._replay.log = after
        for record in after.records(after.first):
            if record.kind == SNAPSHOT:
                break

    def close(self) -> None:
        self._log.close()
        self.db.close()
