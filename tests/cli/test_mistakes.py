"""Mistakes on the command line, each with the message it gives: one line that says what is wrong and what would be
right, exit code 2, never a traceback. Mistakes in SQL, job files and plans are tested where
those are read."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from freshet.cli import main

TABLE = "CREATE TABLE t (a BIGINT PRIMARY KEY) USING csv OPTIONS (path 'in');"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT a FROM t;"
KAFKA = "kafka.bootstrap.servers 'h:1'"


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and "Traceback" not in shown.err
    return shown.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["serv"], "invalid choice: 'serv'"),
        (["run"], "the following arguments are required: job"),
        (["demo", "--scale", "large"], "argument --scale: invalid float value: 'large'"),
        (["demo", "--source", "files"], "argument --source: invalid choice: 'files'"),
        (["bench", "--mode", "often"], "argument --mode: invalid choice: 'often'"),
        (["doctor", "--begin"], "unrecognized arguments: --begin"),
    ],
)
def test_arguments(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.parametrize("command", ["explain", "plan", "check", "run", "serve", "sql", "enclosure"])
def test_a_file_that_is_not_there(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = "none.parquet" if command == "enclosure" else "none.sql"
    if command == "serve":
        pytest.importorskip("starlette")
    assert refused([command, name], capsys).endswith(f"freshet: {name}: No such file or directory\n")


@pytest.mark.parametrize("command", ["explain", "plan", "check", "serve", "sql"])
def test_a_file_that_is_no_text(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.sql").write_bytes(b"\xff\xfe\x00")
    if command == "serve":
        pytest.importorskip("starlette")
    assert "a file is not UTF-8 text: " in refused([command, str(tmp_path / "x.sql")], capsys)


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (
            f"{TABLE} {VIEW} CREATE SINK s FROM v USING kafka OPTIONS ({KAFKA}, topic 's');",
            "kafka needs Spark's package org.apache.spark:spark-sql-kafka-0-10_2.13:4",
        ),
        (
            f"CREATE TABLE t (a BIGINT) USING kafka OPTIONS ({KAFKA}, subscribe 's'); {VIEW}",
            "; add SET packages = 'org.apache.spark:spark-sql-kafka-0-10_2.13:4",
        ),
        (
            f"CREATE TABLE t (a BIGINT) USING delta OPTIONS (path 'in'); {VIEW}",
            "delta needs Spark's package io.delta:delta-spark_4.",
        ),
        (f"SET shards = 0; {TABLE} {VIEW}", "shards is '0'; give a whole number, 1 or more"),
        (f"{TABLE} {VIEW} CREATE SINK s FROM v USING materialized OPTIONS (url 'jdbc:x');", "needs path, or url and"),
    ],
)
def test_jobs(job: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspark")
    (tmp_path / "in").mkdir()
    (tmp_path / "job.sql").write_text(job)
    for command in ("check", "run"):
        assert message in refused([command, str(tmp_path / "job.sql")], capsys)


def test_packages_that_are_named_are_believed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspark")
    source = f"CREATE TABLE t (a BIGINT) USING kafka OPTIONS ({KAFKA}, subscribe 's'); {VIEW}"
    for setting in ("packages = 'org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0'", "spark.jars = '/jars/any.jar'"):
        (tmp_path / "job.sql").write_text(f"SET {setting}; {source}")
        assert main(["check", str(tmp_path / "job.sql")]) == 0
    capsys.readouterr()


def test_a_plan_of_another_query(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspark")
    (tmp_path / "in").mkdir()
    (tmp_path / "job.sql").write_text(TABLE + VIEW + "CREATE SINK s FROM v USING console;")
    (tmp_path / "q.sql").write_text("SELECT a + 1 AS b FROM t")
    (tmp_path / "t.sql").write_text("CREATE TABLE t (a BIGINT PRIMARY KEY)")
    assert main(["plan", str(tmp_path / "q.sql"), "--schema", str(tmp_path / "t.sql")]) == 0
    (tmp_path / "p.json").write_text(capsys.readouterr().out)
    shown = refused(["run", str(tmp_path / "job.sql"), "--plan", f"v={tmp_path / 'p.json'}"], capsys)
    assert "p.json is a plan of another query than view v's; make it from that query" in shown


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_a_port_that_is_taken(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("starlette")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        shown = refused([command, "--source", "graph", "--port", port], capsys)
    assert f"the page cannot be at 127.0.0.1:{port}: " in shown and shown.endswith("; give another --port\n")


def test_a_folder_that_is_no_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "q.sql").write_text("SELECT 1 AS one")
    shown = refused(["sql", str(tmp_path / "q.sql"), "--db", str(tmp_path / "notes.txt")], capsys)
    assert "notes.txt" in shown


def test_enclosure_of_a_tree_whose_tables_are_not_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.csv").write_text("x,_weight\n1,1\n")
    (tmp_path / "q.sql").write_text("SELECT x FROM a")
    shown = refused(["enclosure", str(tmp_path / "c.csv"), "--plan", str(tmp_path / "q.sql")], capsys)
    assert "q.sql is a query, and its tables are not known; give --schema tables.sql" in shown
