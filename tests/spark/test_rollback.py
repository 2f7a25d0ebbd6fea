"""A stream that is rolled back in place: the last commits and offsets are removed, and it continues from the batch
before them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from freshet.spark import maintain, snapshot
from tests.oracle import duckdb_answer, same_bag
from tests.spark.streams import Sum, batch, read_files, run, view_part, write_files
from tests.spark.test_snapshot import DDL, SCHEMAS, VIEWS, both, orders

LIVE, STEP, BATCHES, BACK = 9_000, 8_000, 5, 3  # most rows go with each batch, so that logs are rewritten


@pytest.mark.timeout(900)
def test_going_back_in_place(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    steps = [orders(0, LIVE, 1)]
    for number in range(BATCHES - 1):
        gone = number * STEP
        steps.append(both(orders(LIVE + gone, LIVE + gone + STEP, 1), orders(gone, gone + STEP, -1)))
    write_files(tmp_path / "in", SCHEMAS, steps)
    checkpoint = tmp_path / "checkpoint"

    def go(out: str) -> None:
        changes = maintain(
            spark, VIEWS, read_files(spark, tmp_path / "in", list(SCHEMAS)), schema=DDL, shards=2,
            arena=str(tmp_path / "arena"), checkpoint=str(checkpoint), sizes={},
        )  # fmt: skip
        run(changes, tmp_path / out, checkpoint)

    go("first")
    logs = {f.name.partition("-")[0] for f in (checkpoint / "freshet" / "log").rglob("0.*/*")}
    assert len(logs) >= BATCHES - 1  # every version's files are there
    for number in range(BATCHES - BACK, BATCHES):
        for kind in ("commits", "offsets"):
            for file in (checkpoint / kind).glob(f"*{number}*"):  # with Hadoop's checksum of it
                file.unlink()
    go("second")
    present = orders((BATCHES - 1) * STEP, (BATCHES - 1) * STEP + LIVE, 1)
    for view, sql in VIEWS.items():
        total = Sum()
        for number in range(BATCHES - BACK):
            total.add(view_part(batch(tmp_path / "first", number), view))
        for folder in sorted((tmp_path / "second").iterdir()):
            total.add(view_part(batch(tmp_path / "second", int(folder.name.partition("=")[2])), view))
        answer = snapshot(spark, str(checkpoint), view).toArrow()
        expected = duckdb_answer(sql, present)
        same_bag(answer, expected)
        same_bag(total.answer(answer.schema), expected)
