"""kill -9 of a Python worker and of an executor in the middle of a stream: it continues, and the sink holds every
change exactly once."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from tests.spark.test_kills import check, feed, start

pytestmark = pytest.mark.long

BATCHES = 6


def command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def python_worker(process: psutil.Process) -> bool:
    """Workers are forked by a daemon of the same command line."""
    parent = process.parent()
    return "pyspark.daemon" in command(process) and parent is not None and "pyspark.daemon" in command(parent)


def executor(process: psutil.Process) -> bool:
    return "CoarseGrainedExecutorBackend" in command(process) and process.name() == "java"


def kill_one(
    running: subprocess.Popen[bytes], folder: Path, batch: int, wanted: Callable[[psutil.Process], bool]
) -> bool:
    """Kills one of the stream's own processes once a batch is done; False if the stream was faster."""
    while running.poll() is None:
        if (folder / "checkpoint" / "commits" / str(batch)).exists():
            for process in psutil.Process(running.pid).children(recursive=True):
                try:
                    if wanted(process):
                        process.kill()
                        return True
                except psutil.NoSuchProcess:
                    continue
        time.sleep(0.02)
    return False


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("master", "wanted"),
    [("local[2,4]", python_worker), ("local-cluster[2,1,1024]", executor)],
    ids=["worker", "executor"],
)
def test_kill_of_a_part(
    spark: SparkSession, tmp_path: Path, master: str, wanted: Callable[[psutil.Process], bool]
) -> None:
    feed(tmp_path, BATCHES)
    running = start(tmp_path, master)
    assert kill_one(running, tmp_path, 0, wanted), (tmp_path / "log").read_text()[-3000:]
    kill_one(running, tmp_path, 2, wanted)
    if running.wait() != 0:  # Spark gave up: the checkpoint is there
        assert start(tmp_path, master).wait() == 0, (tmp_path / "log").read_text()[-3000:]
    check(spark, tmp_path, BATCHES)
