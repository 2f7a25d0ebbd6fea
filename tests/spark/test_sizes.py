"""The grid: chosen by sizes that are given or measured on the first micro-batch, and never changed afterwards."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from freshet.spark import explain, maintain, sizes, snapshot
from tests.oracle import duckdb_answer, same_bag
from tests.spark.cases import DDL, SCHEMAS, arrow
from tests.spark.streams import read_files, run, write_files

SQL = "SELECT r.id, t.id AS tid, u.e FROM r JOIN t ON r.b = t.b JOIN u ON t.c = u.c"


def changes(first: int, r: int, t: int, u: int) -> dict[str, pa.Table]:
    ids = range(first, first + 100)
    return {
        "r": arrow("r", [(i, i % 3, i % 4, "1.00", 0.5, "x", 1) for i in ids[:r]]),
        "t": arrow("t", [(i, i % 4, i % 5, i, 1) for i in ids[:t]]),
        "u": arrow("u", [(i % 5, f"e{i}", 1) for i in ids[:u]]),
    }


def test_the_larger_table_is_split() -> None:
    by_r = explain(SQL, DDL, 2, {"r": 1e6, "t": 10, "u": 10})
    assert "sizes      r 1,000,000, t 10, u 10" in by_r
    assert re.search(r"u \(c, e\) · 2 cells · .*b: copied", by_r)
    assert re.search(r"r \(id, b\) · 2 cells · .*c: copied", explain(SQL, DDL, 2, {"r": 10, "t": 10, "u": 1e6}))


def test_measured_once(spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    steps = [changes(0, 60, 20, 3), changes(100, 2, 5, 90)]
    checkpoint = str(tmp_path / "checkpoint")
    write_files(tmp_path / "in", SCHEMAS, steps[:1])
    for given in (None, None, {"r": 1.0, "t": 1.0, "u": 1e6}):
        streams = read_files(spark, tmp_path / "in", list(SCHEMAS))
        maintained = maintain(
            spark, SQL, streams, schema=DDL, shards=2, sizes=given, checkpoint=checkpoint, arena=str(tmp_path / "arena")
        )
        assert sizes(spark, checkpoint) == {"r": 60, "t": 20, "u": 3}
        run(maintained, tmp_path / "out", tmp_path / "checkpoint")
        write_files(tmp_path / "in", SCHEMAS, steps[1:], 1)
    assert "was chosen by other sizes and stays" in caplog.text
    present = {n: pa.concat_tables([s[n] for s in steps]) for n in SCHEMAS}
    same_bag(snapshot(spark, checkpoint).toArrow(), duckdb_answer(SQL, present))


def test_a_query_that_runs_already(spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was laid out without sizes stays as it is; and where nothing came yet, nothing is measured."""
    caplog.set_level(logging.INFO, "freshet.spark")
    (tmp_path / "old" / "offsets").mkdir(parents=True)
    (tmp_path / "old" / "offsets" / "0").touch()
    write_files(tmp_path / "in", SCHEMAS, [{}])
    streams = read_files(spark, tmp_path / "in", list(SCHEMAS))
    for folder in ("old", "new"):
        maintain(spark, SQL, streams, schema=DDL, shards=2, checkpoint=str(tmp_path / folder))
        assert sizes(spark, str(tmp_path / folder)) == {}
    assert caplog.text.count("measured no rows") == 1
    assert "unknown: a table is taken to be larger" in caplog.text


def test_a_shard_for_each_million_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Unless it is given, the data decides on the number of shards, once; on one, nesting needs no second step."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    nested = "SELECT b, n, (SELECT COUNT(*) FROM u) AS all FROM (SELECT b, COUNT(*) AS n FROM t GROUP BY b) AS g"
    write_files(tmp_path / "in", SCHEMAS, [changes(0, 60, 20, 3)])
    answers = []
    for name, given in (("small", None), ("large", {"t": 1e6, "u": 2e5}), ("small", {"t": 1e6, "u": 2e5})):
        streams = read_files(spark, tmp_path / "in", list(SCHEMAS))
        checkpoint, out = tmp_path / name, tmp_path / f"out-{name}"
        run(maintain(spark, nested, streams, schema=DDL, sizes=given, checkpoint=str(checkpoint)), out, checkpoint)
        kept = json.loads((checkpoint / "freshet" / "query.json").read_text())
        answers.append((kept["shards"], len(list((checkpoint / "state").iterdir()))))
        same_bag(snapshot(spark, str(checkpoint)).toArrow(), duckdb_answer(nested, changes(0, 60, 20, 3)))
        write_files(tmp_path / "in", SCHEMAS, [{}], 1)
    assert answers == [(1, 1), (2, 3), (1, 1)]
