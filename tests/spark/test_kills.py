"""kill -9 of the whole driver at ten random moments of one run, each in the middle of a batch: after the last restart
the sink holds every change exactly once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from freshet.spark import snapshot
from tests.oracle import duckdb_answer, same_bag
from tests.spark.conftest import ROOT
from tests.spark.streams import Sum, view_part, write_files
from tests.spark.test_snapshot import SCHEMAS, VIEWS, both, orders

pytestmark = pytest.mark.long

KILLS = int(os.environ.get("FRESHET_KILLS", "10"))
LIVE, STEP = 4_000, 1_000  # enough for logs to be rewritten every few batches


def start(folder: Path, *master: str) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(str(ROOT / p) for p in ("src", "."))
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": paths}
    with open(folder / "log", "ab") as log:
        command = [sys.executable, str(ROOT / "tests" / "spark" / "killed_stream.py"), str(folder), *master]
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)


def feed(folder: Path, count: int, first: int = 0) -> None:
    """Orders that are inserted and deleted: there are LIVE of them after each transaction."""
    steps = [_step(number) for number in range(first, count)]
    write_files(folder / "in", SCHEMAS, steps, first)


def _step(number: int) -> dict[str, pa.Table]:
    if number == 0:
        return orders(0, LIVE, 1)
    gone = STEP * (number - 1)
    return both(orders(LIVE + gone, LIVE + gone + STEP, 1), orders(gone, gone + STEP, -1))


def check(spark: SparkSession, folder: Path, count: int) -> None:
    """The sum of all deltas in the sink equals the answer, and so does the checkpoint."""
    out = spark.read.parquet(str(folder / "out")).toArrow()
    first = STEP * (count - 1)
    present = orders(first, first + LIVE, 1)
    for view, sql in VIEWS.items():
        delta = view_part(out, view)
        total = Sum()
        total.add(delta)
        expected = duckdb_answer(sql, present)
        same_bag(total.answer(delta.schema.remove(len(delta.schema) - 1)), expected)
        same_bag(snapshot(spark, str(folder / "checkpoint"), view).toArrow(), expected)
    # Logs were rewritten meanwhile.
    assert {p.parent.name for p in (folder / "checkpoint" / "freshet" / "log").glob("*/*")} >= {"0.0", "0.1"}


def begun(folder: Path) -> int:
    """How many batches have begun."""
    return len(list((folder / "checkpoint" / "offsets").glob("[0-9]*")))


@pytest.mark.timeout(3600)
def test_kill_of_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(3)
    count, killed = KILLS + 4, 0
    feed(tmp_path, count)
    while killed < KILLS:
        running, before = start(tmp_path), begun(tmp_path)
        # The batch that was killed is done first; the next one is killed some time after it begins.
        while begun(tmp_path) == before and running.poll() is None:
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 2))
        assert running.poll() is None, (tmp_path / "log").read_text()[-3000:]
        os.killpg(running.pid, signal.SIGKILL)  # the session we started: Python, the JVM and its workers
        running.wait()
        killed += 1
    assert start(tmp_path).wait() == 0, (tmp_path / "log").read_text()[-3000:]
    check(spark, tmp_path, count)
