"""The folder of arenas on a machine: private to its user, with a folder for each shard; those of deleted queries are
removed.

An arena is a cache of its shard's log. An arena that no process holds is removed if it is useless (it is incomplete, or
from before the machine was restarted), if its checkpoint was deleted, or if it was not used for `IDLE` seconds.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import logging
import os
import re
import shutil
import time
from pathlib import Path

from freshet.spark.private import default_arenas, given_folder, open_private, private_folder

MARKER, LOCK = "marker.json", "lock"
IDLE = 7 * 86_400.0
TORN = 3_600.0  # seconds within which a new shard acquires its lock

logger = logging.getLogger("freshet.spark")


def check_arenas(given: str | None) -> None:
    """StateError if the folder exists and cannot be used. ("": the default; None: no arenas.)"""
    if given == "" and os.path.lexists(default_arenas()):
        private_folder(default_arenas())
    elif given and os.path.exists(given):
        given_folder(Path(given))


@functools.cache
def arenas_folder(given: str | None) -> Path | None:
    """The folder on this machine, cleaned up once per process."""
    if given is None:
        return None
    folder = Path(given) if given else default_arenas()
    with contextlib.suppress(OSError):  # a full or broken disk: shards then work in memory, and say so
        (given_folder if given else private_folder)(folder)
        remove_abandoned(folder)
    return folder


def remove_abandoned(folder: Path) -> None:
    for home in folder.iterdir():
        if not re.fullmatch("[0-9a-f]{32}", home.name) or home.is_symlink():
            continue
        why, seen = _abandoned(home), which_file(home / MARKER)
        if why is None:
            continue
        with contextlib.suppress(OSError):  # another process holds or has removed it
            lock = open_private(home / LOCK, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if which_file(home / MARKER) == seen:
                    shutil.rmtree(home)
                    logger.info("freshet: the arena %s is removed: %s", home, why)
            finally:
                os.close(lock)


def _abandoned(home: Path) -> str | None:
    """The reason why an arena is no longer needed."""
    try:
        marker = home / MARKER
        if not marker.exists():
            return "it was left torn" if time.time() - home.stat().st_mtime > TORN else None
        left = json.loads(marker.read_text())
        if not isinstance(left, dict):
            return None
        if left.get("boot") != boot():
            return "the machine was started again since"
        if left.get("checkpoint") is not None and not os.path.exists(left["checkpoint"]):
            return f"its checkpoint {left['checkpoint']} is gone"
        return "it was not used for a week" if time.time() - marker.stat().st_mtime > IDLE else None
    except (OSError, ValueError):
        return None


def which_file(path: Path) -> tuple[int, int]:
    """The identity of the file at the path; (0, 0) if there is none."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_ino, found.st_mtime_ns


def boot() -> str:
    """Identifies the current boot of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"
