"""The logs of a folder: the current one, and with `retain` older ones, each of which begins where the one before it
ends."""

from __future__ import annotations

import re
from pathlib import Path

from freshet.durable.log import Log
from freshet.errors import StateError

_KEPT = re.compile(r"log\.(\d+)-(\d+)")  # an older log: its first and its last version


class KeptLogs:
    """The logs of a folder, starting with the one that holds a version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[tuple[int, int, Path]]:
        """First and last version of each older log, the oldest first."""
        files = ((_KEPT.fullmatch(f.name), f) for f in self.folder.iterdir())
        return sorted((int(name[1]), int(name[2]), f) for name, f in files if name is not None)

    def holding(self, version: int) -> Log:
        """The log that has, or will have, the transaction after that version."""
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
    """The first version of a log."""
    head = log.head(log.first)
    return 0 if head is None else head[-2]
