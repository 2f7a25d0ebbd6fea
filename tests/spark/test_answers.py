"""Every kind of plan on Spark: the running sum of the deltas is DuckDB's answer after every transaction."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from freshet.spark import maintain
from tests.oracle import duckdb_answer, same_bag
from tests.spark.cases import DDL, SCHEMAS, VIEWS, Present, arrow, transactions
from tests.spark.streams import Sum, batch, read_files, run, view_part, write_files


@pytest.mark.parametrize("shards", [pytest.param(1, marks=pytest.mark.long), 3])
def test_answers_on_spark(spark: SparkSession, tmp_path: Path, shards: int) -> None:
    steps = transactions(7 + shards, 4)
    write_files(tmp_path / "in", SCHEMAS, [{n: arrow(n, rows) for n, rows in tx.items()} for tx in steps])
    spark.conf.set("spark.sql.shuffle.partitions", str(min(shards, 2)))
    changes = maintain(
        spark, VIEWS, read_files(spark, tmp_path / "in", list(SCHEMAS)), schema=DDL, shards=shards,
        arena=str(tmp_path / "arena"),
    )  # fmt: skip
    run(changes, tmp_path / "out", tmp_path / "checkpoint")
    present, sums = Present(), {view: Sum() for view in VIEWS}
    for number, tx in enumerate(steps):
        tables, delta = present.apply(tx), batch(tmp_path / "out", number)
        for view, sql in VIEWS.items():
            part = view_part(delta, view)
            sums[view].add(part)
            try:
                same_bag(sums[view].answer(part.schema.remove(len(part.schema) - 1)), duckdb_answer(sql, tables))
            except AssertionError as e:
                raise AssertionError(f"{view} after transaction {number} on {shards} shards: {e}") from e
