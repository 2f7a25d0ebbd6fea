"""A standalone cluster of two machines, as far as folders tell: each has its own for arenas, shuffles and work. One is
added while a stream runs, and the other one is lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

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

    def add(self, name: str) -> subprocess.Popen[bytes]:
        own = ("--cores", "1", "--memory", "800m", "--work-dir", str(self.folder / name / "work"), self.url)
        return self._start(name, "org.apache.spark.deploy.worker.Worker", *own)

    def _start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        home = self.folder / name
        (home / "tmp").mkdir(parents=True)
        environment = {**self.environment(), "TMPDIR": str(home / "tmp"), "SPARK_LOCAL_DIRS": str(home / "local")}
        spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        begin = [spark_class, command[0], "--host", "127.0.0.1", "--webui-port", "0", *command[1:]]
        return self._run(home / "log", begin, environment)

    def stream(self, folder: Path) -> subprocess.Popen[bytes]:
        (self.folder / "conf").mkdir()
        (self.folder / "conf" / "spark-defaults.conf").write_text(DEFAULTS)
        environment = {**self.environment(), "SPARK_CONF_DIR": str(self.folder / "conf")}
        script = str(ROOT / "tests" / "spark" / "killed_stream.py")
        return self._run(folder / "log", [sys.executable, script, str(folder), self.url, ""], environment)

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
