"""The arena of a shard as a verified cache of its log.

A folder is trusted only if its marker says that it was left whole, on this boot of this machine, for this job, at
exactly the version and token the state store holds, and if every file still has the size and time it was left with. The
marker is taken away before the first change and put back after the last; a process that dies in between leaves none.
A lock keeps two processes apart, should Spark try one shard twice at once: the second works in memory.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from freshet.spark.job import Job
from freshet.spark.shard import Shard
from freshet.state.arena import Arena

_MARKER, _LOCK, _FILES = "marker.json", "lock", "arena"

#: Shards this process has open, by folder, with the marker they were left with.
_open: dict[Path, tuple[Shard, dict[str, Any]]] = {}
_MOST_OPEN = 16


@dataclass(slots=True)
class Cached:
    """A shard in hand: `whole` if it holds what the state store says, else it is empty. `why` says what was wrong."""

    shard: Shard
    whole: bool
    why: str
    folder: Path | None
    lock: int | None = None

    def begin(self) -> None:
        """The first change is about to come."""
        if self.folder is not None:
            (self.folder / _MARKER).unlink(missing_ok=True)

    def commit(self, fingerprint: str, version: int, token: bytes) -> None:
        if self.folder is None:
            return
        marker = _marker(self.folder, fingerprint, version, token)
        fresh = self.folder / (_MARKER + ".new")
        fresh.write_text(json.dumps(marker))
        os.replace(fresh, self.folder / _MARKER)
        _open[self.folder] = (self.shard, marker)
        while len(_open) > _MOST_OPEN:
            _open.pop(next(iter(_open)))

    def close(self) -> None:
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def discard(self) -> None:
        """Throws away a shard that may be spoiled."""
        if self.folder is not None:
            _open.pop(self.folder, None)
            shutil.rmtree(self.folder / _FILES, ignore_errors=True)


def open_shard(
    folder: Path | None, job: Job, fingerprint: str, level: int, number: int, version: int, token: bytes
) -> Cached:
    """The shard as it was left, or an empty one to be filled from the log."""
    if folder is None:
        return Cached(Shard(job, level, number, Arena()), version == 0, "no folder for arenas", None)
    lock = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        kept, why = _left(folder, job, fingerprint, level, number, version, token)
        if kept is not None:
            return Cached(kept, True, "", folder, lock)
        _open.pop(folder, None)
        (folder / _MARKER).unlink(missing_ok=True)
        shutil.rmtree(folder / _FILES, ignore_errors=True)
        return Cached(Shard(job, level, number, Arena(folder / _FILES)), version == 0, why, folder, lock)
    except OSError as e:
        if lock is not None:
            os.close(lock)
        return Cached(Shard(job, level, number, Arena()), version == 0, f"{e.strerror}: {folder}", None)


def _left(
    folder: Path, job: Job, fingerprint: str, level: int, number: int, version: int, token: bytes
) -> tuple[Shard | None, str]:
    try:
        text = (folder / _MARKER).read_text()
    except FileNotFoundError:
        return None, "no arena was left whole"
    try:
        left = json.loads(text)
    except ValueError:
        return None, "the arena's marker is not readable"
    if left.get("fingerprint") != fingerprint:
        return None, "the arena is of another query"
    if left.get("boot") != _boot():
        return None, "the arena was left before the machine started anew"
    if left.get("version") != version or left.get("token") != token.hex():
        return None, f"the arena is at version {left.get('version')}, the state store at {version}"
    if left.get("files") != _stats(folder / _FILES):
        return None, "the arena's files are not as they were left"
    opened = _open.get(folder)
    if opened is not None and opened[1] == left:
        return opened[0], ""
    try:
        return Shard(job, level, number, Arena(folder / _FILES)), ""
    except Exception as e:  # whatever is wrong with it, the log is there
        return None, f"the arena cannot be attached ({e})"


def _marker(folder: Path, fingerprint: str, version: int, token: bytes) -> dict[str, Any]:
    return {
        "fingerprint": fingerprint,
        "version": version,
        "token": token.hex(),
        "boot": _boot(),
        "files": _stats(folder / _FILES),
    }


def _stats(folder: Path) -> dict[str, list[int]]:
    with os.scandir(folder) as entries:
        found = [(e.name, e.stat()) for e in entries]
    return {name: [s.st_size, s.st_mtime_ns] for name, s in sorted(found)}


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"
