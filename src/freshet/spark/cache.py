"""The arena of a shard as a verified cache of its log.

A folder is trusted only if its marker says that it is complete, from this boot of this machine, this version of Freshet
and this job, at exactly the version and token of the state store, and if every file still has the recorded size and
time. The marker is removed before the first change and written again after the last; a process that dies in between
leaves no marker. A lock excludes other processes, in case Spark runs one shard twice at once: the second one works in
memory.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from freshet.spark.arenas import LOCK, MARKER, boot, which_file
from freshet.spark.job import Job
from freshet.spark.private import open_private, private_folder, write_private
from freshet.spark.shard import Shard
from freshet.state.arena import Arena
from freshet.state.kernel_cache import code

logger = logging.getLogger("freshet.spark")

_FILES = "arena"

#: The open shards of this process by folder, with their last marker and the file that contains it.
_open: dict[Path, tuple[Shard, dict[str, Any], tuple[int, int]]] = {}
_MOST_OPEN = 16


@dataclass(slots=True)
class Cached:
    """An opened shard: `whole` if it matches the state store, otherwise empty. `why`: the reason."""

    shard: Shard
    whole: bool
    why: str
    folder: Path | None
    lock: int | None = None

    def begin(self) -> None:
        """Called before the first change."""
        if self.folder is not None:
            (self.folder / MARKER).unlink(missing_ok=True)

    def commit(self, fingerprint: str, version: int, token: bytes, checkpoint: str | None = None) -> None:
        """Marks the shard as complete. If the disk is full, the shard is discarded instead: it can be rebuilt from the
        log."""
        if self.folder is None:
            return
        try:
            marker = _marker(self.folder, fingerprint, version, token, checkpoint)
            fresh = self.folder / (MARKER + ".new")
            write_private(fresh, json.dumps(marker))
            os.replace(fresh, self.folder / MARKER)
        except OSError as e:
            logger.warning("freshet: the arena %s is not kept: %s", self.folder, e.strerror)
            self.discard()
            return
        before = _open.pop(self.folder, None)
        if before is not None and before[0] is not self.shard:
            before[0].close()
        _open[self.folder] = (self.shard, marker, which_file(self.folder / MARKER))
        _forget_stale()

    def close(self) -> None:
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None
        if self.folder is None:
            self.shard.close()

    def discard(self) -> None:
        """Discards a shard that may be damaged."""
        if self.folder is not None:
            _release(self.folder)
            self.shard.close()
            shutil.rmtree(self.folder / _FILES, ignore_errors=True)


def _forget_stale() -> None:
    """Closes shards that another process has continued, or whose folder was deleted, and the least recently used ones
    beyond the limit, which frees their memory and the disk space of deleted files."""
    stale = [folder for folder, (_, _, file) in _open.items() if which_file(folder / MARKER) != file]
    for folder in stale + [f for f in _open if f not in stale][:-_MOST_OPEN]:
        _release(folder)


def _release(folder: Path) -> None:
    opened = _open.pop(folder, None)
    if opened is not None:
        opened[0].close()


def open_shard(
    folder: Path | None, job: Job, fingerprint: str, level: int, number: int, version: int, token: bytes
) -> Cached:
    """The shard as it was last stored, or an empty one to be filled from the log."""
    if folder is None:
        return Cached(Shard(job, level, number, Arena()), version == 0, "no folder for arenas", None)
    lock = None
    try:
        private_folder(folder)
        lock = open_private(folder / LOCK, os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        kept, why = _reusable(folder, job, fingerprint, level, number, version, token)
        if kept is not None:
            return Cached(kept, True, "", folder, lock)
        _release(folder)
        (folder / MARKER).unlink(missing_ok=True)
        shutil.rmtree(folder / _FILES, ignore_errors=True)
        return Cached(Shard(job, level, number, Arena(folder / _FILES)), version == 0, why, folder, lock)
    except OSError as e:
        if lock is not None:
            os.close(lock)
        return Cached(Shard(job, level, number, Arena()), version == 0, f"{e.strerror}: {folder}", None)


def _reusable(
    folder: Path, job: Job, fingerprint: str, level: int, number: int, version: int, token: bytes
) -> tuple[Shard | None, str]:
    try:
        text = (folder / MARKER).read_text()
    except FileNotFoundError:
        return None, "no arena was left whole"
    try:
        left = json.loads(text)
    except ValueError:
        return None, "the arena's marker is not readable"
    if left.get("fingerprint") != fingerprint:
        return None, "the arena is of another query"
    if left.get("freshet") != code():
        return None, f"the arena is of Freshet {left.get('freshet')}, this is {code()}"
    if left.get("boot") != boot():
        return None, "the arena was left before the machine was restarted"
    if left.get("version") != version or left.get("token") != token.hex():
        return None, f"the arena is at version {left.get('version')}, the state store at {version}"
    if left.get("files") != _stats(folder / _FILES):
        return None, "the arena's files are not as they were left"
    opened = _open.get(folder)
    if opened is not None and opened[1] == left:
        return opened[0], ""
    try:
        return Shard(job, level, number, Arena(folder / _FILES)), ""
    except Exception as e:  # in any case, the log exists
        return None, f"the arena cannot be attached ({e})"


def _marker(folder: Path, fingerprint: str, version: int, token: bytes, checkpoint: str | None) -> dict[str, Any]:
    return {
        "checkpoint": checkpoint,
        "fingerprint": fingerprint,
        "version": version,
        "token": token.hex(),
        "boot": boot(),
        "freshet": code(),
        "files": _stats(folder / _FILES),
    }


def _stats(folder: Path) -> dict[str, list[int]]:
    with os.scandir(folder) as entries:
        found = [(e.name, e.stat()) for e in entries]
    return {name: [s.st_size, s.st_mtime_ns] for name, s in sorted(found)}
