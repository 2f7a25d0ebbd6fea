"""A standalone cluster of two machines, as far as folders tell: each has its own for arenas, shuffles and work. One is
added while a stream runs, and the other one is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy
import psutil
import pyspark
import pytest
from pyspark.sql import SparkSession

from freshet.spark.ship import DEPENDENCIES
from tests.spark.conftest import ROOT
from tests.spark.test_kills import check, feed

pytestmark = pytest.mark.long

DEFAULTS = """
spark.executor.memory 600m
spark.executor.cores 1
spark.locality.wait 0
"""


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"spark://127.0.0.1:{self.port}"
        self.running: list[subprocess.Popen[bytes]] = []
        self._start("master", "org.apache.spark.deploy.master.Master", "--port", str(self.port))

    def add(self, name: str, host: str = "127.0.0.1", **environment: str) -> subprocess.Popen[bytes]:
        own = ("--cores", "1", "--memory", "800m", "--work-dir", str(self.folder / name / "work"), self.url)
        return self._start(name, "org.apache.spark.deploy.worker.Worker", *own, host=host, **environment)

    def _start(
        self, name: str, *command: str, host: str = "127.0.0.1", **given: str
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        home = self.folder / name
        (home / "tmp").mkdir(parents=True)
        own = {"TMPDIR": str(home / "tmp"), "SPARK_LOCAL_DIRS": str(home / "local")}
        environment = {**self.environment(), **own, **given}
        spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        begin = [spark_class, command[0], "--host", host, "--webui-port", "0", *command[1:]]
        return self._run(home / "log", begin, environment)

    def stream(
        self, folder: Path, settings: str = "", arguments: Sequence[str] = (), **given: str
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        (self.folder / "conf").mkdir(exist_ok=True)
        (self.folder / "conf" / "spark-defaults.conf").write_text(DEFAULTS + settings)
        environment = {**self.environment(), "SPARK_CONF_DIR": str(self.folder / "conf"), **given}
        script = str(ROOT / "tests" / "spark" / "killed_stream.py")
        return self._run(folder / "log", [sys.executable, script, str(folder), self.url, "", *arguments], environment)

    def environment(self) -> dict[str, str]:
        paths = os.pathsep.join(str(ROOT / p) for p in ("src", "."))
        given = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": paths, "SPARK_DAEMON_MEMORY": "256m"}
        return {**os.environ, **given}

    def _run(self, log: Path, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        with open(log, "ab") as out:
            made = subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)
        self.running.append(made)
        return made

    def end(self) -> None:
        for process in self.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # the session that it was started in
                process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster")
    yield made
    made.end()


@pytest.mark.timeout(1800)
def test_a_machine_is_added_and_one_is_lost(spark: SparkSession, tmp_path: Path, cluster: Cluster) -> None:
    log, commits = tmp_path / "log", tmp_path / "checkpoint" / "commits"
    fed = 1

    def more(holds: Callable[[], bool]) -> None:
        """Feeds batches, one after the other, until something holds after one."""
        nonlocal fed
        while True:
            fed += 1
            feed(tmp_path, fed, fed - 1)
            while not (commits / str(fed - 1)).exists():
                assert running.poll() is None, log.read_text()[-3000:]
                time.sleep(0.05)
            if holds():
                return

    def arenas(machine: str) -> bool:
        return any((cluster.folder / machine / "tmp").glob(f"freshet-{os.getuid()}/*/marker.json"))

    feed(tmp_path, 1)
    first = cluster.add("first")
    running = cluster.stream(tmp_path)
    more(lambda: arenas("first"))
    cluster.add("second")
    more(lambda: arenas("second"))
    os.killpg(first.pid, signal.SIGKILL)
    begun = fed
    more(lambda: fed > begun + 8)
    (tmp_path / "end").touch()
    assert running.wait() == 0, log.read_text()[-3000:]
    check(spark, tmp_path, fed)


SPECULATION = """
spark.speculation true
spark.speculation.interval 100ms
spark.speculation.quantile 0.5
spark.speculation.minTaskRuntime 500ms
spark.speculation.task.duration.threshold 1s
spark.eventLog.enabled true
spark.eventLog.rolling.enabled false
spark.eventLog.compress false
spark.eventLog.dir """
STOPS = 4


def _python_of(machine: subprocess.Popen[bytes]) -> list[psutil.Process]:
    below = psutil.Process(machine.pid).children(recursive=True)
    return [p for p in below if p.is_running() and "python" in p.name()]


@pytest.mark.timeout(1800)
def test_speculative_tasks(spark: SparkSession, tmp_path: Path, cluster: Cluster) -> None:
    """The workers of a machine hang in the middle of a batch: its tasks are run again elsewhere, and what has hung goes
    on when the batch is over."""
    log, commits, events = tmp_path / "log", tmp_path / "checkpoint" / "commits", tmp_path / "events"
    events.mkdir()
    fed = 0
    cluster.add("first")
    slow = cluster.add("second", "127.0.0.2")
    running = cluster.stream(tmp_path, SPECULATION + events.as_uri() + "\n")

    def more() -> None:
        nonlocal fed
        fed += 1
        feed(tmp_path, fed, fed - 1)
        while not (commits / str(fed - 1)).exists():
            assert running.poll() is None, log.read_text()[-3000:]
            time.sleep(0.05)

    while not _python_of(slow):
        more()
        assert fed < 20, "the second machine gets no task"
    for _ in range(STOPS):
        hung = _python_of(slow)
        for process in hung:
            process.suspend()
        try:
            more()
        finally:
            for process in hung:
                if process.is_running():
                    process.resume()
        more()
    (tmp_path / "end").touch()
    assert running.wait() == 0, log.read_text()[-3000:]
    check(spark, tmp_path, fed)
    (written,) = (p for p in events.iterdir() if not p.name.startswith("."))
    told = [json.loads(line) for line in written.read_text().splitlines()]
    stages = [e["Stage Info"] for e in told if e["Event"] == "SparkListenerStageCompleted"]
    stateful = {stage["Stage ID"] for stage in stages if "TransformWithState" in json.dumps(stage["RDD Info"])}
    ended = [e for e in told if e["Event"] == "SparkListenerTaskEnd" and e["Task Info"]["Speculative"]]
    first = [e["Stage ID"] for e in ended if e["Task End Reason"]["Reason"] == "Success"]
    assert stateful & {*first}, "no speculative task of a stateful step was the first"


def _python_without_freshet(folder: Path) -> Path:
    """A Python with what Spark's Python functions need, and nothing that Freshet needs besides."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    lacking = ("freshet", "_editable_impl_freshet", *DEPENDENCIES)
    for path in Path(numpy.__file__).parents[1].iterdir():
        if not path.name.startswith(lacking) and not (packages / path.name).exists():
            (packages / path.name).symlink_to(path)
    python = folder / "bin" / "python"
    for name in ("freshet", *DEPENDENCIES):
        done = subprocess.run([python, "-c", f"import {name}"], cwd=folder, env={}, capture_output=True, check=False)
        assert b"ModuleNotFoundError" in done.stderr
    return python


@pytest.mark.timeout(1800)
def test_machines_without_freshet(spark: SparkSession, tmp_path: Path, cluster: Cluster) -> None:
    """Freshet is sent to them, with its kernels; without it, the query says in one sentence what to do."""
    python = str(_python_without_freshet(tmp_path / "python"))
    cache = tmp_path / "cache"
    cluster.add("first", PYTHONPATH="", FRESHET_CACHE=str(cache))
    own = os.pathsep.join([cluster.environment()["PYTHONPATH"], str(Path(numpy.__file__).parents[1])])
    feed(tmp_path, 3)
    (tmp_path / "end").touch()
    running = cluster.stream(tmp_path, "spark.task.maxFailures 1\n", PYSPARK_PYTHON=python, PYTHONPATH=own)
    assert running.wait() != 0
    log = tmp_path / "log"
    assert "the Python of Spark's workers has no module freshet; send Freshet to them with " in log.read_text()
    shutil.rmtree(tmp_path / "checkpoint", ignore_errors=True)
    running = cluster.stream(tmp_path, "", ["ship"], PYSPARK_PYTHON=python, PYTHONPATH=own)
    assert running.wait() == 0, log.read_text()[-3000:]
    check(spark, tmp_path, 3)
    assert not cache.exists(), "a worker has compiled kernels"
    sent = cluster.folder.glob("first/**/freshet/spark/level.py")
    assert any(sent), "the workers had Freshet from elsewhere"
