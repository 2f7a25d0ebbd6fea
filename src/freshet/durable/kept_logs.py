"""The logs of a folder: the one that is written, and with `retain` those before it, each of which begins where the one
before it ends."""

from __future__ import annotations

import re
from pathlib import Path

from freshet.durable.log import Log
from freshet.errors import StateError

_KEPT = re.compile(r"log\.(\d+)-(\d+)")  # a log that was: its first and its last version


class KeptLogs:
    """The logs of a folder, from the one on that holds a version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[tuple[int, int, Path]]:
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
            for first, last, file in self.all():
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
