"""A shop's change feed on Spark: upserts and deletes by key become revenue by city, kept as a folder of Parquet files.

python -m examples.shop_feed
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from freshet.spark import maintain, materialize, read_materialized, session

TABLES = """
CREATE TABLE customer (id BIGINT PRIMARY KEY, city STRING);
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, cents BIGINT);
"""
REVENUE = """
SELECT c.city, COUNT(*) AS orders, SUM(o.cents) AS cents
FROM customer AS c JOIN orders AS o ON o.customer = c.id GROUP BY c.city
"""
KINDS = {"customer": "id BIGINT, city STRING", "orders": "id BIGINT, customer BIGINT, cents BIGINT"}
FEED: dict[str, list[tuple[object, ...]]] = {  # the shop orders changes by `lsn`; they may arrive in any order
    "customer": [(1, "Oslo", "upsert", 1), (2, "Rome", "upsert", 2), (2, "Oslo", "upsert", 9)],
    "orders": [
        (10, 1, 500, "upsert", 3), (11, 2, 250, "upsert", 5), (11, None, None, "delete", 7), (12, 2, 90, "upsert", 8),
    ],
}  # fmt: skip


def write_feed(folder: Path) -> None:
    for table, rows in FEED.items():
        names = [*(column.split()[0] for column in KINDS[table].split(", ")), "_change_type", "lsn"]
        (folder / table).mkdir(parents=True)
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in reversed(rows)]
        (folder / table / "0.json").write_text("\n".join(lines))


def main(spark: SparkSession, folder: Path) -> list[tuple[str, int, int]]:
    write_feed(folder / "in")
    streams = {
        table: spark.readStream.schema(f"{columns}, _change_type STRING, lsn BIGINT").json(str(folder / "in" / table))
        for table, columns in KINDS.items()
    }
    place, answer = str(folder / "checkpoint"), str(folder / "revenue")
    changes = maintain(spark, REVENUE, streams, schema=TABLES, shards=2, sequence="lsn", checkpoint=place)
    materialize(changes, answer, checkpoint=place, trigger={"availableNow": True}).awaitTermination()
    return sorted(tuple(row) for row in read_materialized(spark, answer).collect())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for city, orders, cents in main(session(), Path(made)):
            print(f"{city:<8} {orders} orders {cents / 100:>8.2f}")
