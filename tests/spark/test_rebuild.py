"""A checkpoint that is rebuilt goes on as the new query: with other shards, other views, new tables and columns."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from freshet.errors import StateError
from freshet.spark import maintain, snapshot
from tests.oracle import duckdb_answer, same_bag
from tests.spark.streams import Sum, batch, read_files, run, view_part, write_files

DDL = """
CREATE TABLE customer (id BIGINT PRIMARY KEY, name STRING, city STRING);
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, total BIGINT);
CREATE TABLE item (orders BIGINT, part STRING, n INT);
"""
SCHEMAS = {
    "customer": pa.schema([("id", pa.int64()), ("name", pa.string()), ("city", pa.string()), ("_weight", pa.int64())]),
    "orders": pa.schema([("id", pa.int64()), ("customer", pa.int64()), ("total", pa.int64()), ("_weight", pa.int64())]),
    "item": pa.schema([("orders", pa.int64()), ("part", pa.string()), ("n", pa.int32()), ("_weight", pa.int64())]),
}
CITIES = """SELECT c.city, COUNT(*) AS n, SUM(o.total) AS total FROM customer c JOIN orders o ON o.customer = c.id
GROUP BY c.city"""
ROWS = """SELECT c.name, o.id, i.part, i.n FROM customer c JOIN orders o ON o.customer = c.id
JOIN item i ON i.orders = o.id"""
LARGE = CITIES.replace("GROUP", "WHERE o.total > 5 GROUP")
NUMBER = "SELECT COUNT(*) AS n FROM orders"


class Tables:
    """Rows in memory, and random changes of them as transactions."""

    def __init__(self, seed: int) -> None:
        self.random, self.rows = random.Random(seed), {name: Counter[tuple[Any, ...]]() for name in SCHEMAS}

    def transaction(self, tables: Mapping[str, Any] = SCHEMAS) -> dict[str, pa.Table]:
        changed = {}
        for name in tables:
            change = Counter[tuple[Any, ...]]()
            held = list(self.rows[name].elements())
            for row in self.random.sample(held, len(held) // 4):
                change[row] -= 1
            keys = {row[0] for row in (self.rows[name] + change)} | {row[0] for row in held}
            for _ in range(12):
                row = self._row(name)
                if name == "item" or row[0] not in keys:
                    change[row] += 1
                    keys.add(row[0])
            self.rows[name].update(change)
            self.rows[name] = +self.rows[name]
            columns = zip(*((*row, n) for row, n in change.items() if n), strict=True)
            changed[name] = pa.table(
                [pa.array(c, f.type) for c, f in zip(columns, SCHEMAS[name], strict=True)], SCHEMAS[name].names
            )
        return changed

    def _row(self, name: str) -> tuple[Any, ...]:
        draw = self.random.randrange
        if name == "customer":
            return draw(30), f"name {draw(9)}", f"city {draw(4)}" if draw(9) else None
        return (draw(80), draw(30), draw(10)) if name == "orders" else (draw(80), f"part {draw(5)}", draw(3))

    def arrow(self) -> dict[str, pa.Table]:
        found = {}
        for name, schema in SCHEMAS.items():
            rows = list(self.rows[name].elements())
            fields = [f for f in schema if f.name != "_weight"]
            found[name] = pa.table(
                [pa.array([r[i] for r in rows], f.type) for i, f in enumerate(fields)], [f.name for f in fields]
            )
        return found


class Stream:
    """A query over files, one transaction a micro-batch, with the sum of the deltas of each view."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int) -> None:
        self.spark, self.folder, self.tables = spark, folder, Tables(seed)
        self.written, self.sums = 0, dict[str, Sum]()
        self.checkpoint = folder / "checkpoint"

    def write(self, transactions: int, tables: Mapping[str, Any] = SCHEMAS) -> None:
        steps = [self.tables.transaction(tables) for _ in range(transactions)]
        write_files(self.folder / "in", SCHEMAS, steps, self.written)
        self.written += transactions

    def maintained(self, views: Mapping[str, str], shards: int, ddl: str = DDL, **other: Any) -> Any:
        self.spark.conf.set("spark.sql.shuffle.partitions", str(shards))
        names = [n for n in SCHEMAS if any(n in sql for sql in views.values())]
        streams = read_files(self.spark, self.folder / "in", names)
        return maintain(
            self.spark, dict(views), streams, schema=ddl, shards=shards, sizes=other.pop("sizes", {}),
            arena=str(self.folder / "arena"), checkpoint=str(self.checkpoint), **other,
        )  # fmt: skip

    def run(self, views: Mapping[str, str], shards: int, **other: Any) -> None:
        """Runs the query over what is new, and compares the sums of its deltas, and its checkpoint, with DuckDB."""
        out = self.folder / "out"
        before = {p.name for p in out.glob("batch=*")}
        run(self.maintained(views, shards, **other), out, self.checkpoint)
        for new in sorted({p.name for p in out.glob("batch=*")} - before):
            rows = batch(out, int(new.removeprefix("batch=")))
            for view in views:
                self.sums.setdefault(view, Sum()).add(view_part(rows, view))
        for view, sql in views.items():
            expected = duckdb_answer(sql, self.tables.arrow())
            weights = Counter({row: n for row, n in self.sums[view].weights.items() if n})
            assert weights == Counter(zip(*(c.to_pylist() for c in expected.columns), strict=True)), view
            same_bag(snapshot(self.spark, str(self.checkpoint), view).toArrow(), expected)


@pytest.mark.timeout(900)
def test_other_shards_and_views(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, 1)
    first = {"cities": CITIES, "rows": ROWS}
    stream.write(3)
    stream.run(first, 1)
    with pytest.raises(StateError, match="shards: 1 then, 3 now"):
        stream.maintained(first, 3)
    stream.write(2)
    stream.run(first, 3, rebuild=True)
    stream.write(1)
    stream.run(first, 3)
    changed = {"cities": LARGE, "rows": ROWS, "number": NUMBER}
    stream.write(1)
    stream.run(changed, 2, rebuild=True)
    stream.write(2)
    stream.run(changed, 2)
