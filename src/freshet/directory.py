"""The folder of a database kept on disk: its arrays under `state/`, its catalog, and a mark while it is open.

The catalog is replaced whole, so that it is always that of one moment. The mark stays when a process dies: what it left
may be half a transaction, and is not opened again.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from freshet.errors import StateError
from freshet.state.arena import Arena

_CATALOG, _OPEN = "catalog.json", "in-use"
_FORMAT = 2  # goes up when state written by one version cannot be read by the next


class Directory:
    """Claimed by whoever makes it, until it is released."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        try:
            (path / _OPEN).touch(exist_ok=False)
        except FileExistsError:
            raise StateError(
                f"{path} is open elsewhere or was not closed; "
                f"close it there, or restore a copy and remove its {_OPEN} file"
            ) from None

    def arena(self) -> Arena:
        return Arena(self.path / "state")

    def catalog(self) -> dict[str, Any] | None:
        """What was saved last, if anything was."""
        kept = self.path / _CATALOG
        if not kept.exists():
            return None
        found: dict[str, Any] = json.loads(kept.read_text())
        if found.get("format") != _FORMAT:
            raise StateError(
                f"{self.path} was written by a version of Freshet with another format ({found.get('format')}, here "
                f"{_FORMAT}); open it with that version, or fill a new folder from the tables' sources"
            )
        return found

    def save(self, catalog: dict[str, Any]) -> None:
        fresh = self.path / (_CATALOG + ".new")
        fresh.write_text(json.dumps({"format": _FORMAT, **catalog}))
        os.replace(fresh, self.path / _CATALOG)

    def release(self) -> None:
        (self.path / _OPEN).unlink(missing_ok=True)
