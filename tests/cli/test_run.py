"""`freshet run` in a process of its own: the page beside it, a clean stop on SIGTERM, going on from the checkpoint."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("starlette")

ROOT = Path(__file__).resolve().parents[2]
JOB = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, total DECIMAL(10, 2))
  USING csv OPTIONS (path 'in', changes '_change_type');
CREATE MATERIALIZED VIEW sums AS SELECT customer, COUNT(*) AS n, SUM(total) AS total FROM orders GROUP BY customer;
CREATE SINK feed FROM sums USING json OPTIONS (path 'out');
"""


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "freshet.cli",
        "run",
        str(folder / "job.sql"),
        "--master",
        "local[1]",
        "--shards",
        "1",
    ]
    with (folder / "said").open("w") as said:
        return subprocess.Popen(
            [*command, "--checkpoint", str(folder / "checkpoint"), "--json", *arguments],
            stdout=subprocess.PIPE, stderr=said, text=True, cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )  # fmt: skip


def batch(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


def shown(address: str) -> dict[str, int]:
    with urllib.request.urlopen(address + "api/state", timeout=10) as answer:
        found: dict[str, int] = json.load(answer)["sizes"]
        return found


def test_a_job_is_watched_stopped_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "job.sql").write_text(JOB)
    (tmp_path / "in" / "0.csv").write_text("1,ada,10.50,insert\n2,grace,20.00,insert\n3,ada,5.00,insert\n")
    process = started(tmp_path, "--web", "--port", "0")
    try:
        first = batch(process)
        assert first["version"] == 0 and first["changes"] == 3
        assert first["views"] == {"sums": {"appeared": 2, "vanished": 0}}
        said = (tmp_path / "said").read_text()
        address = said.split("the page is at ")[1].split()[0]
        assert shown(address) == {"sums": 2}
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert (tmp_path / "said").read_text().endswith("stopped\n")
    finally:
        process.kill()
        process.communicate()

    (tmp_path / "in" / "1.csv").write_text("2,grace,20.00,delete\n4,ada,1.00,insert\n")
    (tmp_path / "job.sql").write_text("SET trigger = 'available now';" + JOB)
    process = started(tmp_path, "--web", "--port", "0")
    try:
        second = batch(process)
        assert second["version"] == 1 and second["changes"] == 2
        assert second["views"] == {"sums": {"appeared": 1, "vanished": 2}}
        assert process.wait(60) == 0
        assert "going on from the checkpoint" in (tmp_path / "said").read_text()
    finally:
        process.kill()
        process.communicate()

    (tmp_path / "job.sql").write_text(JOB.replace("SUM(total)", "MAX(total)"))
    process = started(tmp_path)
    try:
        assert process.wait(120) == 2
        said = (tmp_path / "said").read_text()
        assert "was made by another job:\n  view sums: its query was\n" in said and "MAX(total)" in said
        assert "Traceback" not in said
    finally:
        process.kill()
        process.communicate()
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["version=0", "version=1"]
