"""`freshet run`: the page of a job, a stop on each signal, continuing from the checkpoint, another job refused."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("starlette")

from tests.cli.running import running

JOB = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, total DECIMAL(10, 2))
  USING csv OPTIONS (path 'in', changes '_change_type');
CREATE MATERIALIZED VIEW sums AS SELECT customer, COUNT(*) AS n, SUM(total) AS total FROM orders GROUP BY customer;
CREATE SINK feed FROM sums USING json OPTIONS (path 'out');
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "job.sql").write_text(JOB)
    (tmp_path / "in" / "0.csv").write_text("1,ada,10.50,insert\n2,grace,20.00,insert\n3,ada,5.00,insert\n")
    return tmp_path


def shown(address: str) -> dict[str, int]:
    with urllib.request.urlopen(address + "api/state", timeout=10) as answer:
        sizes: dict[str, int] = json.load(answer)["sizes"]
        return sizes


def test_a_job_is_watched_stopped_and_goes_on(folder: Path) -> None:
    with running(folder, "--web", "--port", "0") as job:
        first = job.batch()
        assert first["version"] == 0 and first["changes"] == 3
        assert first["views"] == {"sums": {"appeared": 2, "vanished": 0}}
        address = job.said().split("the page is at ")[1].split()[0]
        assert shown(address) == {"sums": 2}
        job.signal(signal.SIGTERM)
        job.ends()
        assert job.said().endswith("stopped\n") and "Traceback" not in job.said()

    (folder / "in" / "1.csv").write_text("2,grace,20.00,delete\n4,ada,1.00,insert\n")
    (folder / "job.sql").write_text("SET trigger = 'available now';" + JOB)
    with running(folder, "--web", "--port", "0") as job:
        second = job.batch()
        assert second["version"] == 1 and second["changes"] == 2
        assert second["views"] == {"sums": {"appeared": 1, "vanished": 2}}
        job.ends()
        assert "continuing from the checkpoint" in job.said()

    (folder / "job.sql").write_text(JOB.replace("SUM(total)", "MAX(total)"))
    with running(folder) as job:
        job.ends(2)
        (refused,) = job.rest()
        assert "was created by another job:\n  view sums: its query was\n" in refused["error"]
        assert "MAX(total)" in refused["error"] and refused["error"] in job.said()
        assert "Traceback" not in job.said()
    assert sorted(p.name for p in (folder / "out").iterdir()) == ["version=0", "version=1"]


def test_as_many_shards_as_the_rows_need(folder: Path) -> None:
    (folder / "job.sql").write_text("SET trigger = 'available now';" + JOB)
    for number in range(2):
        (folder / "in" / f"{number}.csv").write_text(f"{number},ada,10.50,insert\n")
        with running(folder, "--shards", "auto", "--rebuild") as job:
            assert job.batch()["changes"] == 1
            job.ends()
            assert "1 sink, as many shards as the rows need" in job.said()
            assert "partitions stay empty" not in job.said()
    assert json.loads((folder / "checkpoint" / "freshet" / "query.json").read_text())["shards"] == 1


def test_standard_output_has_json_only(folder: Path) -> None:
    """Next to a sink that prints, and at the end a row that stops the stream."""
    (folder / "job.sql").write_text(JOB + "CREATE SINK shown FROM sums USING console;")
    with running(folder) as job:
        assert job.batch()["changes"] == 3
        (folder / "in" / "1.csv").write_text("9,ada,1.00,delete\n")
        job.ends(2)
        (refused,) = job.rest()
        assert "the table does not hold" in refused["error"] and "Traceback" not in job.said()
        assert "+1  customer=ada" in job.said()


@pytest.mark.long
def test_a_stream_without_end_stops_on_ctrl_c(tmp_path: Path) -> None:
    """Rows from `rate` arrive all the time, so that a micro-batch is running when the signal arrives; the same rows are
    counted before and after, each once."""
    (tmp_path / "job.sql").write_text(
        "CREATE TABLE ticks (timestamp TIMESTAMP, value BIGINT) USING rate OPTIONS (rowsPerSecond '20');\n"
        "CREATE MATERIALIZED VIEW counted AS SELECT COUNT(*) AS n, SUM(value) AS total FROM ticks;\n"
        "CREATE SINK feed FROM counted USING csv OPTIONS (path 'out');\n"
    )
    for _ in range(2):
        with running(tmp_path) as job:
            batches = [job.batch(), job.batch()]
            assert all(b["changes"] for b in batches)
            job.signal(signal.SIGINT)
            job.ends()
            assert job.said().endswith("stopped\n") and "Traceback" not in job.said()
    assert "continuing from the checkpoint" in job.said()
    weights: dict[tuple[int, int], int] = {}
    for part in (tmp_path / "out").glob("version=*/*.csv"):
        for line in part.read_text().splitlines():
            n, total, weight = (int(v or 0) for v in line.split(","))
            weights[n, total] = weights.get((n, total), 0) + weight
    ((n, total),) = (row for row, weight in weights.items() if weight)
    assert n >= 40 and total == n * (n - 1) // 2


@pytest.mark.long
def test_when_spark_itself_ends(folder: Path) -> None:
    with running(folder) as job:
        job.batch()
        (spark,) = (p for p in job.processes() if "SparkSubmit" in p.command)
        os.kill(spark.pid, signal.SIGKILL)
        job.ends(2)
        assert "Spark's own process has ended (" in job.said()
        assert job.said().endswith("run the job again to continue from its checkpoint\n")
