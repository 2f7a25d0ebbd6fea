"""A join cut into levels and a heavy value, on Spark: DuckDB's answer after every micro-batch, also after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from freshet.spark import maintain
from freshet.spark.heavy import Heavy
from freshet.spark.maintain import compile_job
from tests.oracle import duckdb_answer, same_bag
from tests.spark.streams import Sum, batch, read_files, run, write_files
from tests.spark.test_cuts import COLUMNS, DDL, Tables

pytestmark = pytest.mark.long
SQL = "SELECT fact.id, fact.x, a.g, c.name FROM fact, a, c WHERE fact.a = a.id AND a.c = c.id"
SIZES = {"fact": 4e6, "a": 1e6, "c": 1e6}
HEAVY = {"fact": {"a": {2: 0.6}}}


def test_answers(spark: SparkSession, tmp_path: Path) -> None:
    job = compile_job(SQL, DDL, 4, SIZES, heavy=HEAVY)
    assert any(o.trunk for o in job.operators) and any(d.heavy for s in job.streams for d in s.grid)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    tables, steps, answers = Tables(1), [], []
    for _ in range(4):
        steps.append(tables.transaction())
        answers.append(duckdb_answer(SQL, tables.arrow()))
    read = {name: steps[0][name].schema for name in ("fact", "a", "c")}
    write_files(tmp_path / "in", read, steps[:2])
    advance(spark, tmp_path, HEAVY)
    write_files(tmp_path / "in", read, steps[2:], first=2)
    advance(spark, tmp_path, None)  # the checkpoint goes on with its job
    total = Sum()
    for number, expected in enumerate(answers):
        delta = batch(tmp_path / "out", number)
        total.add(delta)
        same_bag(total.answer(delta.schema.remove(len(delta.schema) - 1)), expected)


def advance(spark: SparkSession, folder: Path, heavy: Heavy | None) -> None:
    sources = read_files(spark, folder / "in", [name for name in COLUMNS if name != "b"])
    changes = maintain(
        spark, SQL, sources, schema=DDL, shards=4, sizes=SIZES, heavy=heavy, checkpoint=str(folder / "checkpoint")
    )
    run(changes, folder / "out", folder / "checkpoint")
