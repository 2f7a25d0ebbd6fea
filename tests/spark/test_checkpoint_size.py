"""A long stream in which every row is deleted after a while, on Spark: all files of the checkpoint together stay within
three times the size of the current rows as plain Arrow columns, if Spark retains two versions; with more versions there
are also the changes between them. And a snapshot of the running stream is of one version, also if that is no longer the
last."""

from __future__ import annotations

import decimal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from freshet.spark import maintain, snapshot
from tests.oracle import duckdb_answer, same_bag
from tests.spark.streams import read_files, write_files

pytestmark = pytest.mark.long

DDL = "CREATE TABLE o (id BIGINT PRIMARY KEY, c BIGINT); CREATE TABLE l (o BIGINT, price DECIMAL(12,2), note STRING)"
SQL = "SELECT o.id, o.c, l.price, l.note FROM o JOIN l ON l.o = o.id"
LIVE, STEP, BATCHES, MORE = 40_000, 8_000, 30, 8


def orders(first: int, last: int) -> dict[str, pa.Table]:
    """Three lines an order, with notes that do not compress well."""
    ids = np.arange(first, last)
    lines = np.repeat(ids, 3)
    scattered = np.arange(3 * first, 3 * last, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    cents = pa.array((scattered % 100_000).astype(np.int64)).cast(pa.decimal128(19, 0))
    prices = pa.compute.multiply(cents, pa.scalar(decimal.Decimal("0.01"))).cast(pa.decimal128(12, 2))
    return {
        "o": pa.table([ids, ids % 1000], ["id", "c"]),
        "l": pa.table([lines, prices, pa.array(scattered).cast(pa.string())], ["o", "price", "note"]),
    }


def weighed(tables: dict[str, pa.Table], weight: int) -> dict[str, pa.Table]:
    return {n: t.append_column("_weight", pa.array(np.full(len(t), weight))) for n, t in tables.items()}


def transaction(number: int) -> dict[str, pa.Table]:
    """The next rows are inserted and the oldest deleted."""
    if number == 0:
        return weighed(orders(0, LIVE), 1)
    came = LIVE + (number - 1) * STEP
    come, go = weighed(orders(came, came + STEP), 1), weighed(orders((number - 1) * STEP, number * STEP), -1)
    return {n: pa.concat_tables([come[n], go[n]]) for n in come}


def start(changes: DataFrame, checkpoint: Path) -> Any:
    writer = changes.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start()


def size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def finished(checkpoint: Path) -> int:
    return max((int(p.name) for p in (checkpoint / "commits").glob("[0-9]*")), default=-1)


def orders_at(number: int) -> dict[str, pa.Table]:
    """The rows there are after a transaction."""
    return orders(number * STEP, number * STEP + LIVE)


@pytest.fixture
def retaining(spark: SparkSession) -> Iterator[int]:
    """How many batches Spark can go back."""
    before = str(spark.conf.get("spark.sql.streaming.minBatchesToRetain"))
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
    yield 2
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", before)


@pytest.mark.timeout(1800)
def test_a_long_stream(spark: SparkSession, tmp_path: Path, retaining: int) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    files, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    schemas = {n: t.schema for n, t in transaction(0).items()}
    plain = sum(t.nbytes for t in orders(0, LIVE).values())

    def stream() -> Any:
        changes = maintain(
            spark, SQL, read_files(spark, files, ["o", "l"]), schema=DDL, shards=1, arena=str(tmp_path / "arena"),
            checkpoint=str(checkpoint),
        )  # fmt: skip
        return start(changes, checkpoint)

    write_files(files, schemas, [transaction(i) for i in range(BATCHES)])
    query, most = stream(), 0
    while query.isActive:
        most = max(most, size(checkpoint))
        time.sleep(0.05)
    query.awaitTermination()
    assert finished(checkpoint) == BATCHES - 1
    most = max(most, size(checkpoint))
    print(f"live rows {plain:,} bytes; the checkpoint had {most / plain:.2f} times that at most")
    assert most <= 3 * plain, most / plain
    same_bag(snapshot(spark, str(checkpoint)).toArrow(), duckdb_answer(SQL, orders_at(BATCHES - 1)))

    write_files(files, schemas, [transaction(i) for i in range(BATCHES, BATCHES + MORE)], BATCHES)
    query = stream()
    while query.isActive and finished(checkpoint) < BATCHES:
        time.sleep(0.02)
    early, then = snapshot(spark, str(checkpoint)), finished(checkpoint)
    while query.isActive and finished(checkpoint) < then + retaining - 1:
        time.sleep(0.02)
    answer = early.toArrow()
    query.awaitTermination()
    assert finished(checkpoint) == BATCHES + MORE - 1
    number = pa.compute.min(answer["id"]).as_py() // STEP
    assert BATCHES - 1 <= number < BATCHES + MORE
    same_bag(answer, duckdb_answer(SQL, orders_at(number)))
