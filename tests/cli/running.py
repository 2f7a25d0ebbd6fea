"""`freshet run` in a process of its own, as a shell starts it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Process(NamedTuple):
    pid: int
    command: str


@dataclass(slots=True)
class Running:
    process: subprocess.Popen[str]
    errors: Path

    def batch(self) -> dict[str, Any]:
        """The next reported micro-batch."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.said()
        batch_line: dict[str, Any] = json.loads(line)
        return batch_line

    def rest(self) -> list[dict[str, Any]]:
        """All else on its standard output, which is JSON line by line."""
        assert self.process.stdout is not None
        return [json.loads(line) for line in self.process.stdout]

    def said(self) -> str:
        return self.errors.read_text()

    def signal(self, number: signal.Signals) -> None:
        """To all of its processes, as a terminal and a service manager do."""
        os.killpg(self.process.pid, number)

    def processes(self) -> list[Process]:
        """Those of its session."""
        running = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                session = int(stat.read_text().rpartition(")")[2].split()[3])
                if session == self.process.pid:
                    running.append(
                        Process(int(stat.parent.name), (stat.parent / "cmdline").read_text().replace("\0", " "))
                    )
        return running

    def ends(self, code: int = 0, seconds: float = 120) -> None:
        assert self.process.wait(seconds) == code, self.said()


@contextmanager
def running(
    folder: Path, *arguments: str, job: str = "job.sql", checkpoint: str = "checkpoint", **environment: str
) -> Iterator[Running]:
    """The folder's job, with its micro-batches as JSON."""
    command = [sys.executable, "-m", "freshet.cli", "run", str(folder / job), "--master", "local[1]", "--shards", "1"]
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(
            [*command, "--checkpoint", str(folder / checkpoint), "--json", *arguments],
            stdout=subprocess.PIPE, stderr=said, text=True, cwd=folder, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
        )  # fmt: skip
    try:
        yield Running(process, folder / "said")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
