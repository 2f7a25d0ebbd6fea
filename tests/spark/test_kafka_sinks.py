"""Sinks in Kafka whose job is killed after it has sent a micro-batch: what the topics say in the end is the answer."""

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

from tests.spark.kafka import broker, connector_jars, console

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

SQL = "SELECT g, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY g"
RUN = """
import os, signal, sys, threading
from pathlib import Path
from pyspark.sql import SparkSession
from freshet.job import read_job
from freshet.job.run import JobRun
from tests.spark.conftest import settings

folder, jars, killed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def kill(changes, number, query):
    if number == killed:
        os.kill(os.getpid(), signal.SIGKILL)

job, mistakes = read_job((folder / "job.sql").read_text(), folder)
assert not mistakes, mistakes
spark = settings(SparkSession.builder.master("local[2]").config("spark.jars", jars)).getOrCreate()
run = JobRun(spark, job, shards=2, checkpoint=str(folder / "at"), watchers=[kill], arena=str(folder / "arena"))
run.wait(threading.Event(), lambda progress, sinks: None)
spark.stop()
"""
READ = """
import sys
from pyspark.sql import SparkSession
from freshet.spark import debezium, maintain
from tests.spark.conftest import settings

folder, jars, address = sys.argv[1:]
spark = settings(SparkSession.builder.master("local[2]").config("spark.jars", jars)).getOrCreate()
options = {"kafka.bootstrap.servers": address, "subscribe": "said", "startingOffsets": "earliest"}
ddl = "CREATE TABLE sums (g BIGINT PRIMARY KEY, n BIGINT, total BIGINT)"
sums = debezium(spark.readStream.format("kafka").options(**options).load(), ddl, "sums")
changes = maintain(
    spark, "SELECT g, n, total FROM sums", {"sums": sums}, schema=ddl, sequence="_sequence", arena=folder + "/arena2"
)
writer = changes.writeStream.format("memory").queryName("found").option("checkpointLocation", folder + "/read")
writer.trigger(availableNow=True).start().awaitTermination()
for g, n, total, weight in spark.table("found").collect():
    print("row", g, n, total, weight)
spark.stop()
"""


def _python(script: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = folder / "script.py"
    path.write_text(script)
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
    command = [sys.executable, str(path), str(folder), *arguments]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False)


def _batches(folder: Path) -> list[tuple[int, int]]:
    """Writes files of changes; returns the rows of the table after them."""
    rng, held = random.Random(5), Counter[tuple[int, int]]()
    folder.mkdir()
    for number in range(4):
        lines = []
        for _ in range(12):
            gone = rng.random() < 0.45 and bool(held)
            row = rng.choice(list(held)) if gone else (rng.randrange(5), rng.randrange(9))
            held[row] += -1 if gone else 1
            held = +held
            lines.append(json.dumps({"g": row[0], "v": row[1], "_weight": -1 if gone else 1}))
        path = folder / f"{number}.json"
        path.write_text("\n".join(lines))
        os.utime(path, (1e9 + number, 1e9 + number))
    return list(held.elements())


def test_a_job_that_is_killed_after_sending(tmp_path: Path) -> None:
    connector = connector_jars()
    with broker() as address:
        if connector is None or address is None:
            pytest.skip("Kafka's broker, or Spark's connector to it, cannot be fetched")
        jars = ",".join(map(str, connector))
        rows = _batches(tmp_path / "in")
        where = f"kafka.bootstrap.servers '{address}', key 'g'"
        (tmp_path / "job.sql").write_text(
            "SET trigger = 'available now';\nCREATE TABLE t (g INT, v INT) USING json"
            " OPTIONS (path 'in', changes '_weight', maxFilesPerTrigger '1');\n"
            f"CREATE MATERIALIZED VIEW sums AS {SQL};\n"
            f"CREATE SINK ups FROM sums USING kafka OPTIONS ({where}, topic 'ups', envelope 'upsert');\n"
            f"CREATE SINK said FROM sums USING kafka OPTIONS ({where}, topic 'said', envelope 'debezium');\n"
        )
        for killed in (1, 2, -1):
            done = _python(RUN, tmp_path, jars, str(killed))
            assert done.returncode == (-9 if killed >= 0 else 0), done.stderr[-3000:]

        expected = {
            g: (n, total)
            for g, n, total in duckdb.sql(f"WITH t(g, v) AS (VALUES {', '.join(map(str, rows))}) {SQL}").fetchall()
        }
        found: dict[int, tuple[int, int]] = {}
        said = 0
        printed = console(
            address, "consumer.ConsoleConsumer", "--topic", "ups", "--from-beginning", "--timeout-ms", "15000",
            "--property", "print.key=true",
        )  # fmt: skip
        for line in printed.splitlines():
            key, value = line.split("\t")
            said += 1
            found.pop(json.loads(key)["g"], None)
            if value != "null":
                row = json.loads(value)
                found[row["g"]] = (row["n"], row["total"])
        assert found == expected
        once = console(
            address, "consumer.ConsoleConsumer", "--topic", "said", "--from-beginning", "--timeout-ms", "15000",
        )  # fmt: skip
        told = [json.loads(line) for line in once.splitlines() if line != "null"]
        identities = Counter((e["source"]["batch"], (e["after"] or e["before"])["g"]) for e in told)
        assert max(identities.values()) == 2, "micro-batches were sent again"
        assert {e["op"] for e in told} >= {"c", "u"} and said >= len(told)

        done = _python(READ, tmp_path, jars, address)
        assert done.returncode == 0, done.stderr[-3000:]
        read = Counter[tuple[int, ...]]()
        for line in done.stdout.splitlines():
            if line.startswith("row "):
                *row, weight = map(int, line.split()[1:])
                read[tuple(row)] += weight
        assert +read == Counter({(g, *rest): 1 for g, rest in expected.items()}) and min(read.values()) >= 0
