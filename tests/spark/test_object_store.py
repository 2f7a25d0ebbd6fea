"""A checkpoint and a copy on an object store: a stream that is killed and started again, and read from there."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import duckdb
import pytest

from tests.spark.s3 import BUCKET, client_jars, server, settings_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

SQL = "SELECT g, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY g"
SCRIPT = """
import json, os, signal, sys
from pyspark.sql import SparkSession
from freshet.spark import maintain, materialize, read_materialized, snapshot
from freshet.spark.sink.versions import VersionedCopy
from tests.spark.conftest import settings

folder, place, killed, given = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
whole = VersionedCopy._commit

def cut(self, version):
    whole(self, version)
    if version.number == killed:
        os.kill(os.getpid(), signal.SIGKILL)

VersionedCopy._commit = cut
builder = SparkSession.builder.master("local[2]")
for name, value in given.items():
    builder = builder.config(name, value)
spark = settings(builder).getOrCreate()
rows = spark.readStream.schema("g INT, v INT, _weight BIGINT").option("maxFilesPerTrigger", "1").json(folder + "/in")
ddl, sql = "CREATE TABLE t (g INT, v INT)", sys.argv[5]
changes = maintain(spark, sql, {"t": rows}, schema=ddl, shards=2, checkpoint=place + "/at", arena=folder + "/arena")
materialize(changes, place + "/copy", checkpoint=place + "/at", trigger={"availableNow": True}).awaitTermination()
for name, found in (("copy", read_materialized(spark, place + "/copy")), ("snapshot", snapshot(spark, place + "/at"))):
    print(name, json.dumps(sorted(tuple(row) for row in found.collect())))
spark.stop()
"""


def _batch(folder: Path, number: int, rng: random.Random, held: Counter[tuple[int, int]]) -> None:
    lines = []
    for _ in range(15):
        there = [row for row, n in held.items() if n]
        gone = bool(there) and rng.random() < 0.4
        row = rng.choice(there) if gone else (rng.randrange(4), rng.randrange(9))
        weight = -1 if gone else 1
        held[row] += weight
        lines.append(json.dumps({"g": row[0], "v": row[1], "_weight": weight}))
    path = folder / f"{number}.json"
    path.write_text("\n".join(lines))
    os.utime(path, (1e9 + number, 1e9 + number))


def test_killed_and_started_again(tmp_path: Path) -> None:
    jars = client_jars()
    with server() as address:
        if jars is None or address is None:
            pytest.skip("the stand-in for S3, or Spark's client for it, cannot be fetched")
        (tmp_path / "in").mkdir()
        (tmp_path / "script.py").write_text(SCRIPT)
        given = {**settings_of(address), "spark.jars": ",".join(map(str, jars))}
        paths = os.pathsep.join(str(Path(__file__).parents[2] / p) for p in ("src", "."))
        environment = {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable}
        rng, held, written = random.Random(3), Counter[tuple[int, int]](), 0
        for more, killed in ((1, 0), (2, 3), (0, 0), (1, 0)):  # the third run only repeats a batch
            for _ in range(more):
                _batch(tmp_path / "in", written, rng, held)
                written += 1
            command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path), f"s3a://{BUCKET}/stream"]
            done = subprocess.run(
                [*command, str(killed), json.dumps(given), SQL], env=environment, capture_output=True, text=True,
                check=False, timeout=300,
            )  # fmt: skip
            assert done.returncode == (-9 if killed else 0), done.stderr[-3000:]
            if killed:
                continue
            rows = ", ".join(map(str, held.elements()))
            expected = sorted(map(list, duckdb.sql(f"WITH t(g, v) AS (VALUES {rows}) {SQL}").fetchall()))
            found = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line[:4] in ("copy", "snap"))
            assert json.loads(found["copy"]) == json.loads(found["snapshot"]) == expected
