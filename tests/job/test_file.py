"""Job files parsed without running: their contents, and every kind of mistake with its message and position."""

from __future__ import annotations

from pathlib import Path

import pytest

from freshet.job import read_job

TABLE = "CREATE TABLE t (a BIGINT PRIMARY KEY, b STRING) USING csv OPTIONS (path 'in', header 'true');\n"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b;\n"


def test_a_whole_job() -> None:
    job, mistakes = read_job(
        "SET shards = 4; SET 'spark.executor.memory' = '2g';\n" + TABLE
        + "CREATE TABLE k (a BIGINT) USING kafka OPTIONS (kafka.bootstrap.servers = 'h:9', subscribe = 'topic');\n"
        + VIEW + "CREATE SINK s FROM V USING materialized OPTIONS (path 'out/v');",
        Path("/somewhere"),
    )  # fmt: skip
    assert not mistakes
    assert job.settings == {"shards": "4", "spark.executor.memory": "2g"}
    assert job.sources["t"].place.options == {"path": "in", "header": "true"}
    assert job.path(job.sources["t"].place) == "/somewhere/in"
    assert job.sources["k"].place.get("Kafka.Bootstrap.Servers") == "h:9"
    assert job.views == {"v": "SELECT b, COUNT(*) AS n FROM t GROUP BY b"}
    assert [(s.name, s.view, s.place.format) for s in job.sinks] == [("s", "v", "materialized")]


def test_lateness_and_final_rows() -> None:
    table = "CREATE TABLE t (k INT, ts TIMESTAMP) WITH (lateness = '1 minute') USING json OPTIONS (path 'in');\n"
    job, mistakes = read_job(table + "CREATE MATERIALIZED VIEW v AS SELECT k FROM t EMIT FINAL;")
    assert not mistakes and job.views == {"v": "SELECT k FROM t EMIT FINAL"}
    _, mistakes = read_job(TABLE + "CREATE MATERIALIZED VIEW v AS SELECT b FROM t EMIT FINAL;")
    assert "table t without lateness" in str(mistakes[0])


def test_views_of_views() -> None:
    job, mistakes = read_job(TABLE + VIEW + "CREATE MATERIALIZED VIEW w AS SELECT SUM(n) AS total FROM v;")
    assert not mistakes and list(job.views) == ["v", "w"]


def test_secrets_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "pw")
    sink = "CREATE SINK s FROM v USING materialized OPTIONS (url 'jdbc:x', table 't', driver 'd', password '${%s}');"
    job, mistakes = read_job(TABLE + VIEW + sink % "SHOP_PASSWORD")
    assert not mistakes and job.sinks[0].place.get("password") == "pw"
    _, mistakes = read_job(TABLE + VIEW + sink % "SHOP_NOTHING")
    assert "the environment has no SHOP_NOTHING; export it" in str(mistakes[0])


MISTAKES = [
    ("SELECT 1", "line 1, column 1: SELECT is not a statement of job files; these are SET, CREATE TABLE"),
    ("CREATE TABLE t (a BIGINT);", "the table has no source; write USING format OPTIONS"),
    ("CREATE TABLE t (a BIGINTT) USING csv OPTIONS (path 'x');", "line 1, column"),
    ("CREATE TABLE t (a BIGINT) USING cvs OPTIONS (path 'x');", "no source cvs; there are csv, "),
    ("CREATE TABLE t (a BIGINT) USING csv;", "source csv needs path; write OPTIONS (path '...')"),
    ("CREATE TABLE t (a BIGINT) USING csv OPTIONS (path 'x', path 'y');", "option path is given twice"),
    ("CREATE TABLE t (a BIGINT) USING csv OPTIONS (path 'x', changes 'w');", "has changes 'w'; name the column"),
    ("CREATE TABLE t (a BIGINT) USING csv OPTIONS (path);", "a value is missing; write it in quotes"),
    ("CREATE TABLE t (a BIGINT) USING csv OPTIONS (path 'x'", "the statement ends too early; ) is expected"),
    ("CREATE TABLE t (a BIGINT) USING csv OPTIONS (path 'x') more;", "more does not fit here; end the statement"),
    ("CREATE TABLE t (a BIGINT) USING kafka OPTIONS (subscribe 's');", "needs kafka.bootstrap.servers and subscribe"),
    (TABLE + "CREATE MATERIALIZED VIEW v AS SELECT c FROM t;", "line 2, column 38: no column c; t has a, b"),
    (TABLE + "CREATE MATERIALIZED VIEW v AS SELECT a FROM u;", "line 2"),
    (TABLE + VIEW + "CREATE SINK s FROM w USING console;", "line 3, column 20: no view w; the views are v"),
    (TABLE + VIEW + "CREATE SINK s FROM v USING screen;", "no sink screen; there are "),
    (TABLE + VIEW + "CREATE SINK s FROM v USING parquet;", "sink parquet needs path"),
    (TABLE + VIEW + "CREATE SINK s v USING console;", "v does not fit here; FROM is expected"),
    (TABLE + VIEW + 2 * "CREATE SINK s FROM v USING console;", "sink s already exists"),
    (TABLE + VIEW + "SET shard = 2;", "line 3, column 5: no setting shard; there are shards, "),
    (TABLE + VIEW + "SET shards = none;", "shards is 'none'; give a whole number, 1 or more, or 'auto'"),
    (TABLE + VIEW + "SET trigger = 'often';", "trigger is 'often'; give 'available now', or a time as '2 seconds'"),
    (TABLE + VIEW + "SET on_error = 'skip';", "give 'stop' or 'quarantine'"),
    (TABLE, "the job keeps no view; add CREATE MATERIALIZED VIEW"),
    ("CREATE TABLE t (a 'BIGINT", "close the quote or comment that begins here"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), MISTAKES, ids=[m[:40] for _, m in MISTAKES])
def test_a_mistake_is_reported_with_its_position(text: str, message: str) -> None:
    _, mistakes = read_job(text)
    assert len(mistakes) == 1
    assert message in str(mistakes[0])
    assert mistakes[0].line is not None


def test_consequences_of_a_mistake_are_not_reported() -> None:
    _, mistakes = read_job(TABLE.replace("BIGINT", "BINT") + VIEW + "CREATE SINK s FROM v USING console;")
    assert [m.line for m in mistakes] == [1]


def test_all_mistakes_are_found_at_once() -> None:
    _, mistakes = read_job(TABLE + "SET x = 1;\nCREATE SINK s FROM v USING console;\n" + VIEW)
    assert [m.line for m in mistakes] == [2, 3]
