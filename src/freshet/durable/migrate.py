"""Folders written before logs existed: `catalog.json`, one file per array under `state/`, and a mark while open.

One that was closed is read from its arrays and written as a log; only then is the old form removed, so an interruption
leaves one of the two. One that was not closed may hold half a transaction, and is refused.
"""

from __future__ import annotations

import contextlib
import json
import logging
import mmap
from pathlib import Path
from typing import Any

import numpy as np

from freshet.durable import log
from freshet.durable.log import Durability
from freshet.durable.snapshot import snapshot
from freshet.engine.core import changes_of
from freshet.engine.table import Table
from freshet.errors import StateError
from freshet.plans import codec
from freshet.state.arena import Arena, SavedArray
from freshet.state.strings import StringPool

logger = logging.getLogger("freshet")

_CATALOG, _STATE, _ARRAYS, _OPEN = "catalog.json", "state", "arena.json", "in-use"
_FORMAT = 2


def is_old(path: Path) -> bool:
    """Whether the folder has files of the old form, complete or not."""
    if (path / _STATE / _ARRAYS).exists():
        return True
    try:
        return {"format", "numbers", "tables", "views"}.issubset(json.loads((path / _CATALOG).read_text()).keys())
    except (OSError, ValueError, AttributeError):
        return False


def clear(path: Path) -> None:
    """Removes the remaining files of the old form once there is a log, and nothing else."""
    if is_old(path):
        for file in (path / _CATALOG, path / _OPEN, *(path / _STATE).glob("*.bin"), path / _STATE / _ARRAYS):
            file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            (path / _STATE).rmdir()


def check_closed(path: Path) -> None:
    if (path / _OPEN).exists():
        raise StateError(
            f"{path} was written by an earlier version of Freshet and is open or was not closed; close it with that "
            "version, or fill a new folder from the tables' sources"
        )


def refuse_to_read(path: Path) -> None:
    if is_old(path):
        check_closed(path)
        raise StateError(
            f"{path} was written by an earlier version of Freshet; open it once without read_only, which migrates it"
        )


def to_log(path: Path, file: Path, level: Durability) -> None:
    """Writes the contents of the folder as a log."""
    check_closed(path)
    if not (path / _CATALOG).exists():  # opened once, without definitions
        if any(name.startswith("table") for name in _known(path / _STATE)):
            raise StateError(f"{path / _CATALOG} is missing; restore it from a copy")
        log.make(file, level).close()
        return
    kept: dict[str, Any] = json.loads((path / _CATALOG).read_text())
    if kept.get("format") != _FORMAT:
        raise StateError(
            f"{path} was written by a version of Freshet with another format ({kept.get('format')}, here up to "
            f"{log.FORMAT}); open it with that version, or fill a new folder from the tables' sources"
        )
    logger.warning("freshet: %s was written by an earlier version; its rows are written as a log", path)
    arena = Arena(kept=_arrays(path / _STATE))
    pool = StringPool(arena.scope("text"))
    tables, changed = {}, {}
    for name, described in kept["tables"].items():
        schema, scope = codec.decode(described["schema"]), arena.scope(f"table{described['number']}")
        tables[name] = Table(scope, schema.fields, schema.primary_key, pool)
        changed[name] = int(changes_of(scope).data[0])
    views = {definition["name"].lower(): definition for definition in kept["views"]}
    catalog = {"numbers": kept["numbers"], "tables": kept["tables"], "views": views}
    version, changes = (int(n) for n in arena.array("database", np.int64).data[:2])
    log.make(file, level, snapshot(version, catalog, tables, changes, changed)).close()


def _known(state: Path) -> dict[str, list[Any]]:
    try:
        arrays: dict[str, list[Any]] = json.loads((state / _ARRAYS).read_text())
        return arrays
    except (OSError, ValueError) as e:
        raise StateError(f"{state / _ARRAYS} is not readable ({e}); restore it from a copy") from None


def _arrays(state: Path) -> dict[str, SavedArray]:
    """The arrays, mapped so that nothing is written to their files."""
    arrays: dict[str, SavedArray] = {}
    for name, described in _known(state).items():
        file = state / (name.replace("/", ".") + ".bin")
        try:
            with open(file, "rb") as opened:
                mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
        except (OSError, ValueError):
            raise StateError(f"{file} is missing or empty; restore it from a copy") from None
        dtype = np.dtype(described[0])
        if len(mapped) % (dtype.itemsize * max(described[1], 1)):
            raise StateError(f"{file} is torn; restore it from a copy")
        arrays[name] = described, np.frombuffer(mapped, dtype)
    return arrays
