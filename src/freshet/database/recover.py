"""Recovery of a damaged log: the part before the damage becomes the log, and the damaged one is kept. If not even its
head is readable, the log is made from the checkpoint."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from freshet.database.opening import open_instance
from freshet.durable import checkpoint
from freshet.durable.folder import FolderLock
from freshet.durable.kept_logs import first_version
from freshet.durable.log import Durability, Log, NewerFormatError, RecordPosition, sync_folder
from freshet.durable.record import SNAPSHOT
from freshet.durable.store import Store
from freshet.errors import StateError
from freshet.state.kernel_cache import compile_kernels


@dataclass(frozen=True, slots=True)
class Recovered:
    """Up to which version the log is intact, how many bytes follow, and where they are kept; None: nothing was done,
    because the log is intact, or will be when it is opened."""

    version: int
    lost: int
    kept: Path | None


def recover(path: Path) -> Recovered:
    if not any((path / name).is_file() for name in ("log", "checkpoint")):
        raise StateError(f"{path} is not a database; give the folder of one")
    claim = FolderLock(path)
    try:
        try:
            log = Log(path / "log")
        except NewerFormatError:
            raise
        except StateError:
            claim.release()
            return _salvage(path)
        try:
            return _recover(path, log)
        finally:
            log.close()
    finally:
        claim.release()


def _recover(path: Path, log: Log) -> Recovered:
    saved = checkpoint.read(path / "checkpoint")
    version, start = 0, log.first
    if not isinstance(saved, str) and log.holds(RecordPosition(*saved[0]["place"])):
        version, start = saved[0]["version"], log.end
    whole = start > log.first or not first_version(log)  # whether all the initial rows of the log have been read
    for record in log.records(start):
        version, whole = record.version, whole or record.kind == SNAPSHOT
    lost = log.size - log.end
    if not lost or log.whole_after(log.end) is None:
        return Recovered(version, lost, None)
    if not whole:
        raise StateError(
            f"{log.path} is damaged at byte {log.end:,}, among its initial rows, so the part before the damage is not "
            "usable; restore it from a copy"
        )
    kept = _unused(path / "log.damaged")
    os.link(log.path, kept)
    fresh = path / "log.new"
    with open(log.path, "rb") as source, open(fresh, "wb") as target:
        shutil.copyfileobj(source, target)
        target.truncate(log.end)
        target.flush()
        os.fsync(target.fileno())
    os.replace(fresh, log.path)
    sync_folder(path)
    return Recovered(version, lost, kept)


def _salvage(path: Path) -> Recovered:
    saved = checkpoint.read(path / "checkpoint")
    if isinstance(saved, str):
        raise StateError(f"the log in {path} is lost, and its checkpoint is not usable: {saved}; restore a copy")
    kept = _unused(path / "log.damaged")
    lost = 0
    if (path / "log").exists():
        lost = (path / "log").stat().st_size
        os.rename(path / "log", kept)
    compile_kernels()
    opened = open_instance(Store(path, Durability.FSYNC, False, salvage=True))
    try:
        return Recovered(opened.state.version, lost, kept)
    finally:
        opened.close()


def _unused(path: Path) -> Path:
    free, n = path, 1
    while free.exists():
        n += 1
        free = path.with_name(f"{path.name}-{n}")
    return free
