"""Jobs with other systems as sources and sinks: Kafka, PostgreSQL, Delta. Each is the real system, run here."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyspark

from tests.cli.running import running
from tests.spark.databases import postgres, postgres_programs
from tests.spark.jars import jar
from tests.spark.kafka import broker, connector_jars, console

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

VIEW = """CREATE MATERIALIZED VIEW sums AS
SELECT customer, COUNT(*) AS n, SUM(total) AS total FROM orders GROUP BY customer;"""
COLUMNS = "id BIGINT PRIMARY KEY, customer STRING, total DECIMAL(10, 2)"


def test_kafka_to_kafka(tmp_path: Path) -> None:
    connector = connector_jars()
    with broker() as address:
        if connector is None or address is None:
            pytest.skip("Kafka's broker, or Spark's connector to it, cannot be fetched")

        def send(*rows: dict[str, object]) -> None:
            console(address, "ConsoleProducer", "--topic", "orders", given="".join(json.dumps(r) + "\n" for r in rows))

        (tmp_path / "job.sql").write_text(
            f"SET spark.jars = '{','.join(map(str, connector))}';\n"
            f"CREATE TABLE orders ({COLUMNS}) USING kafka OPTIONS (kafka.bootstrap.servers '{address}',"
            f" subscribe 'orders', changes '_change_type');\n{VIEW}\n"
            f"CREATE SINK sent FROM sums USING kafka OPTIONS (kafka.bootstrap.servers '{address}', topic 'sums');"
        )
        ada = {"id": 1, "customer": "ada", "total": "1.50"}
        send({**ada, "_change_type": "insert"}, {"id": 2, "customer": None, "total": "2.00", "_change_type": "insert"})
        with running(tmp_path) as job:
            assert job.batch()["changes"] == 2, "what the topic held before counts"
            send({**ada, "_change_type": "delete"})
            assert job.batch()["views"] == {"sums": {"appeared": 0, "vanished": 1}}
            job.signal(signal.SIGINT)
            job.ends()
        send({"id": 3, "customer": "cid", "total": "4.00", "_change_type": "insert"})
        with running(tmp_path) as job:
            assert job.batch()["changes"] == 1, "it goes on where it was"
            job.signal(signal.SIGTERM)
            job.ends()
        printed = console(
            address, "consumer.ConsoleConsumer", "--topic", "sums", "--from-beginning", "--timeout-ms", "15000",
            "--max-messages", "4",
        )  # fmt: skip
    names = ("customer", "n", "total", "_weight", "version")
    assert {tuple(row[n] for n in names) for row in map(json.loads, printed.splitlines())} == {
        ("ada", 1, 1.5, 1, 0), (None, 1, 2.0, 1, 0), ("ada", 1, 1.5, -1, 1), ("cid", 1, 4.0, 1, 2),
    }  # fmt: skip


def test_a_copy_in_postgresql(tmp_path: Path) -> None:
    """The driver is a package, which Spark fetches; the secret is in the environment."""
    programs = postgres_programs()
    if programs is None or shutil.which("psql") is None:
        pytest.skip("no PostgreSQL is installed; apt-get install postgresql")
    (tmp_path / "in").mkdir()
    with postgres(programs) as port:
        (tmp_path / "job.sql").write_text(
            "SET packages = 'org.postgresql:postgresql:42.7.7';\n"
            f"CREATE TABLE orders ({COLUMNS}) USING csv OPTIONS (path 'in', changes '_change_type');\n{VIEW}\n"
            f"CREATE SINK kept FROM sums USING materialized OPTIONS (url 'jdbc:postgresql://127.0.0.1:{port}/postgres',"
            " table 'sums', driver 'org.postgresql.Driver', user '${DATABASE_USER}', key 'customer');"
        )

        def rows() -> str:
            login = ["psql", "-h", "127.0.0.1", "-p", port, "-U", "freshet", "-d", "postgres", "-A", "-t"]
            command = [*login, "-c", "SELECT customer, n, total FROM sums ORDER BY 1"]
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

        (tmp_path / "in" / "0.csv").write_text("1,ada,1.50,insert\n2,bob,2.00,insert\n3,ada,4.00,insert\n")
        with running(tmp_path, DATABASE_USER="freshet") as job:
            if "unresolved dependency" in job.said():
                pytest.skip("the driver cannot be fetched")
            job.batch()
            assert rows() == "ada|2|5.50\nbob|1|2.00\n"
            (tmp_path / "in" / "1.csv").write_text("2,bob,2.00,delete\n3,ada,4.00,delete\n")
            job.batch()
            job.signal(signal.SIGTERM)
            job.ends()
        assert rows() == "ada|1|1.50\n"


def test_delta_to_delta(tmp_path: Path) -> None:
    """Delta is published for each line of Spark; until there is one for this line, there is nothing to run."""
    line = ".".join(pyspark.__version__.split(".")[:2])
    jars = [jar(f"io.delta:{name}:4.4.0") for name in (f"delta-spark_{line}_2.13", "delta-storage")]
    if any(f is None for f in jars):
        pytest.skip(f"Delta 4.4.0 is not published for Spark {line}")
    files = f"SET spark.jars = '{','.join(map(str, jars))}';\nSET trigger = 'available now';\n"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("1,ada,1.50\n2,bob,2.00\n3,ada,4.00\n")
    (tmp_path / "write.sql").write_text(
        f"{files}CREATE TABLE orders ({COLUMNS}) USING csv OPTIONS (path 'in');\n"
        "CREATE MATERIALIZED VIEW same AS SELECT id, customer, total FROM orders;\n"
        "CREATE SINK kept FROM same USING delta OPTIONS (path 'delta');"
    )
    with running(tmp_path, job="write.sql", checkpoint="first") as job:
        job.batch()
        job.ends()
    (tmp_path / "job.sql").write_text(
        f"{files}CREATE TABLE orders ({COLUMNS}) USING delta OPTIONS (path 'delta', changes '_weight');\n{VIEW}\n"
        "CREATE SINK sent FROM sums USING json OPTIONS (path 'out');"
    )
    with running(tmp_path) as job:
        assert job.batch()["views"] == {"sums": {"appeared": 2, "vanished": 0}}
        job.ends()
