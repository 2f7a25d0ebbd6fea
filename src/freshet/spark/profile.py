"""Timings of a batch, as lines of JSON in a folder, with a separate file for each process."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any


def note(folder: str | None, step: str, **measured: Any) -> None:
    """Writes the measurements of a step; does nothing without a folder."""
    if folder is None:
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    with open(Path(folder) / f"{os.getpid()}.jsonl", "a") as f:
        f.write(json.dumps({"step": step, "at": time.time(), **measured}) + "\n")


def notes(folder: str) -> list[dict[str, Any]]:
    """All notes so far, in order of time."""
    found = [json.loads(line) for path in Path(folder).glob("*.jsonl") for line in path.read_text().splitlines()]
    return sorted(found, key=lambda n: float(n["at"]))
