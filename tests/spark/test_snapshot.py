"""The whole answer read from a checkpoint, and a stream that continues after a restart."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from freshet.errors import StateError
from freshet.spark import maintain, snapshot
from tests.oracle import duckdb_answer, same_bag
from tests.spark.streams import Sum, batch, read_files, run, view_part, write_files

DDL = """
CREATE TABLE o (id BIGINT PRIMARY KEY, c BIGINT, day DATE);
CREATE TABLE l (o BIGINT, price DECIMAL(12,2), note STRING)
"""
SCHEMAS = {
    "o": pa.schema([("id", pa.int64()), ("c", pa.int64()), ("day", pa.date32()), ("_weight", pa.int64())]),
    "l": pa.schema(
        [("o", pa.int64()), ("price", pa.decimal128(12, 2)), ("note", pa.string()), ("_weight", pa.int64())]
    ),
}
VIEWS = {
    "rows": "SELECT o.id, l.price, l.note FROM o JOIN l ON l.o = o.id",
    "by_customer": "SELECT o.c, SUM(l.price) AS total, COUNT(*) AS n, MAX(o.day) AS last "
    "FROM o JOIN l ON l.o = o.id GROUP BY o.c",
    "total": "SELECT COUNT(*) AS n FROM l",
}


def orders(first: int, last: int, weight: int) -> dict[str, pa.Table]:
    import datetime
    import decimal

    ids = list(range(first, last))
    lines = [(i, decimal.Decimal(i * 7 % 50) / 4, f"note {i % 3}") for i in ids for _ in range(i % 4)]
    return {
        "o": pa.table(
            [pa.array(ids), pa.array([i % 5 for i in ids]),
             pa.array([datetime.date(2020, 1, 1 + i % 28) for i in ids]), pa.array([weight] * len(ids))],
            schema=SCHEMAS["o"],
        ),
        "l": pa.table(
            [pa.array([x[0] for x in lines]), pa.array([x[1] for x in lines], pa.decimal128(12, 2)),
             pa.array([x[2] for x in lines]), pa.array([weight] * len(lines))],
            schema=SCHEMAS["l"],
        ),
    }  # fmt: skip


def both(a: dict[str, pa.Table], b: dict[str, pa.Table]) -> dict[str, pa.Table]:
    return {n: pa.concat_tables([a[n], b[n]]) for n in a}


def test_snapshot_and_restart(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    steps = [orders(0, 40, 1), both(orders(40, 70, 1), orders(0, 10, -1)), both(orders(70, 90, 1), orders(10, 45, -1))]
    present = [orders(0, 40, 1), orders(10, 70, 1), orders(45, 90, 1)]
    write_files(tmp_path / "in", SCHEMAS, steps[:2])
    sums = {v: Sum() for v in VIEWS}
    for last in (2, 3):
        if last == 3:
            write_files(tmp_path / "in", SCHEMAS, steps[2:], 2)
        changes = maintain(
            spark, VIEWS, read_files(spark, tmp_path / "in", list(SCHEMAS)), schema=DDL, shards=2,
            arena=str(tmp_path / "arena"), checkpoint=str(tmp_path / "checkpoint"), sizes={},
        )  # fmt: skip
        run(changes, tmp_path / "out", tmp_path / "checkpoint")
        for view, sql in VIEWS.items():
            expected = duckdb_answer(sql, present[last - 1])
            answer = snapshot(spark, str(tmp_path / "checkpoint"), view).toArrow()
            same_bag(answer, expected)
            for number in range(2) if last == 2 else range(2, 3):
                sums[view].add(view_part(batch(tmp_path / "out", number), view))
            same_bag(sums[view].answer(answer.schema), expected)
    with pytest.raises(StateError, match="no view nothing"):
        snapshot(spark, str(tmp_path / "checkpoint"), "nothing")
    with pytest.raises(StateError, match="say which one"):
        snapshot(spark, str(tmp_path / "checkpoint"))
