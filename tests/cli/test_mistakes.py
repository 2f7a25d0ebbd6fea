"""Mistakes on the command line, each with its message: one line with the error and the remedy, exit code 2, never a
traceback. Mistakes in SQL, job files and plans are tested where those are parsed."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
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
def test_a_missing_file(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = "none.parquet" if command == "enclosure" else "none.sql"
    if command == "serve":
        pytest.importorskip("starlette")
    assert refused([command, name], capsys) == f"freshet: {name}: no such file; correct the path\n"


@pytest.mark.parametrize("command", ["explain", "plan", "check", "run", "serve", "sql"])
def test_a_file_that_is_not_text(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if command == "serve":
        pytest.importorskip("starlette")
    path = tmp_path / "x.sql"
    for content, message in (
        (b"SELECT 'caf\xe9' AS a", "is not UTF-8 text (invalid continuation byte at byte 11); save it as UTF-8"),
        ("SELECT 1 AS a".encode("utf-16-le"), "is not UTF-8 text (it has NUL bytes); save it as UTF-8"),
        (b"-" * (17 << 20), "has 17 MB, and at most 16 are read; is it the file you mean?"),
    ):
        path.write_bytes(content)
        assert refused([command, str(path)], capsys) == f"freshet: {path} {message}\n"
    assert refused([command, str(tmp_path)], capsys) == f"freshet: {tmp_path} is a folder; name a file in it\n"


def test_a_byte_order_mark_is_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "q.sql").write_text("\ufeffSELECT 1 AS one")
    assert main(["explain", str(tmp_path / "q.sql"), "--schema", str(tmp_path / "q.sql")]) == 0
    assert "output     one" in capsys.readouterr().out


def test_a_long_line_is_cut_around_its_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "q.sql"
    path.write_text(f"SELECT {'1 + ' * 300}nothing AS a FROM t")
    (tmp_path / "t.sql").write_text("CREATE TABLE t (a BIGINT)")
    first, line, mark = refused(["plan", str(path), "--schema", str(tmp_path / "t.sql")], capsys).splitlines()
    assert first == "freshet: line 1, column 1208: no column nothing; t has a"
    assert len(line) < 170 and line.startswith("  …") and line[mark.index("^") :].startswith("nothing AS a")


def test_a_reader_that_goes_away_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "many.sql").write_text("SELECT 1 AS a;" * 5_000)
    command = f"{shlex.quote(sys.executable)} -m freshet.cli sql {tmp_path}/many.sql --json | head -n 1"
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")},
    )  # fmt: skip
    assert done.stdout == '{"a": 1}\n' and done.stderr == ""


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
        (f"SET shards = 10001; {TABLE} {VIEW}", "shards is '10001'; give at most 10,000"),
        (f"SET master = 'here'; {TABLE} {VIEW}", "master is 'here'; give local[4], local[*], spark://host:port"),
        (
            f"{TABLE} {VIEW} CREATE SINK s FROM v USING console OPTIONS (rows 'all');",
            "has rows 'all'; give a whole number",
        ),
        (
            f"{TABLE} {VIEW} CREATE SINK s FROM v USING csv OPTIONS (path 'in');",
            "in, which table t reads; give it a folder",
        ),
        (
            f"{TABLE} {VIEW} CREATE SINK s FROM v USING csv OPTIONS (path 'job.sql');",
            "job.sql is a file; give a folder",
        ),
        (
            f"CREATE TABLE t (a BIGINT PRIMARY KEY) USING csv OPTIONS (path 'in', sequence 'lsn MOMENT'); {VIEW}",
            "sequence has the type MOMENT, an unknown type; write 'lsn BIGINT'",
        ),
        (
            f"CREATE TABLE t (a BIGINT) USING csv OPTIONS (path 'in', header 'yes'); {VIEW}",
            "has header 'yes'; give 'true' or",
        ),
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "99999"], "the page cannot be at port 99999; give 1 to 65535, or 0 for a free one"),
        (["--host", "bad host", "--token", "long enough"], "at bad host; that is not an address; give another --host"),
        (["--host", "203.0.113.9", "--token", "long enough"], "Cannot assign requested address; give another --host"),
        (["--adapt", "0.5"], "a ratio of 0.5: a view switches only to a cheaper tree; give 1 or more"),
        (["--adapt", "nan"], "adapt is nan; give 0 to 1,000"),
    ],
)
def test_addresses_and_settings_of_the_page(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("starlette")
    assert message in refused(["serve", "--source", "graph", *arguments], capsys)


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_a_port_that_is_taken(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("starlette")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        shown = refused([command, "--source", "graph", "--port", port], capsys)
    assert f"the page cannot be at 127.0.0.1:{port}: " in shown and shown.endswith("; give another --port\n")


def test_a_folder_that_is_not_a_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "q.sql").write_text("SELECT 1 AS one")
    shown = refused(["sql", str(tmp_path / "q.sql"), "--db", str(tmp_path / "notes.txt")], capsys)
    assert "notes.txt is not a folder; name one, and it is made if it is not there" in shown
    assert "--db '' is not a folder" in refused(["sql", str(tmp_path / "q.sql"), "--db", ""], capsys)


def test_enclosure_of_a_tree_whose_tables_are_not_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.csv").write_text("x,_weight\n1,1\n")
    (tmp_path / "q.sql").write_text("SELECT x FROM a")
    shown = refused(["enclosure", str(tmp_path / "c.csv"), "--plan", str(tmp_path / "q.sql")], capsys)
    assert "q.sql is a query, and its tables are not known; give --schema tables.sql" in shown
