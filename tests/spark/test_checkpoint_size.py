"""The checkpoint of a long stream in which every row leaves after a while: its size on disk stays in proportion to the
rows that are there."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from freshet.spark import maintain, snapshot
from tests.spark.streams import read_files, write_files

pytestmark = pytest.mark.long

LIVE, STEP, BATCHES = 80_000, 20_000, 24
SCHEMAS = {"t": pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.float64()), ("_weight", pa.int64())])}


def rows(first: int, last: int, weight: int) -> pa.Table:
    """Rows whose values cannot be compressed."""
    ids = np.arange(max(first, 0), max(last, 0))
    a = np.random.default_rng(7).integers(0, 1 << 62, BATCHES * STEP)[ids]
    return pa.table([ids, a, a / 3.0, np.full(len(ids), weight)], schema=SCHEMAS["t"])


def size(folder: Path) -> int:
    """Of all files; Spark takes old ones away meanwhile."""
    found = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                found += os.stat(os.path.join(where, name)).st_size
    return found


@pytest.mark.timeout(1200)
def test_a_long_stream(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
    steps = [
        {"t": pa.concat_tables([rows(i * STEP, (i + 1) * STEP, 1), rows(i * STEP - LIVE, (i + 1) * STEP - LIVE, -1)])}
        for i in range(BATCHES)
    ]
    write_files(tmp_path / "in", SCHEMAS, steps)
    sql = "SELECT a % 10 AS k, COUNT(*) AS n, MAX(b) AS most FROM t GROUP BY a % 10"
    ddl = "CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT, b DOUBLE)"
    changes = maintain(
        spark, sql, read_files(spark, tmp_path / "in", ["t"]), schema=ddl, shards=1, arena=str(tmp_path / "arena")
    )
    sizes: list[int] = []

    def measure(batch: DataFrame, number: int) -> None:
        batch.write.format("noop").mode("overwrite").save()
        sizes.append(size(tmp_path / "checkpoint" / "state"))

    query = (
        changes.writeStream.foreachBatch(measure)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.conf.unset("spark.sql.streaming.minBatchesToRetain")
    live = LIVE * 3 * 8
    if os.environ.get("FRESHET_SHOW"):
        print([f"{s / live:.2f}" for s in sizes])
    assert max(sizes[LIVE // STEP :]) <= 3 * live, [f"{s / live:.2f}" for s in sizes]
    assert snapshot(spark, str(tmp_path / "checkpoint")).agg({"n": "sum"}).collect()[0][0] == LIVE
