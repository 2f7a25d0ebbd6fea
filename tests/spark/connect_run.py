"""Views over Spark Connect, in a process of its own: a process has sessions of one kind. Prints what is checked."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from freshet.errors import FreshetError
from freshet.spark import advice, maintain, materialize, read_materialized, snapshot, system_clock
from freshet.spark.connect import is_remote
from freshet.spark.session import chosen_settings

DDL = "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, cents BIGINT, ts TIMESTAMP)"
VIEWS = {
    "sums": "SELECT customer, SUM(cents) AS cents FROM orders GROUP BY customer",
    "known": "SELECT id, customer FROM orders WHERE ts <= NOW()",
}
COLUMNS = "id BIGINT, customer STRING, cents BIGINT, ts STRING, _weight BIGINT"


def main(folder: Path) -> None:
    spark: Any = SparkSession.builder.remote("local[2]")
    for name, value in chosen_settings("local", 1, {}).items():
        if name.startswith("spark.sql."):  # the others are the server's own
            spark = spark.config(name, value)
    spark = spark.getOrCreate()
    assert is_remote(spark)
    place, found = str(folder / "checkpoint"), dict[str, Any]()

    def stream() -> Any:
        read = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", "1").json(str(folder / "in"))
        return read.selectExpr("id", "customer", "cents", "CAST(ts AS TIMESTAMP) AS ts", "_weight")

    def go(views: Any, **other: Any) -> None:
        changes = maintain(spark, views, {"orders": stream()}, schema=DDL, checkpoint=place, **other)
        copies = {name: str(folder / name) for name in views}
        materialize(changes, copies, checkpoint=place, trigger={"availableNow": True}).awaitTermination()

    for number in (0, 1):
        rows = json.loads((folder / f"{number}.json").read_text())
        (folder / "in").mkdir(exist_ok=True)
        (folder / "in" / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))
        go(VIEWS, clock=system_clock(spark, every=0.1))
        for name in VIEWS:
            found[f"{name} {number}"] = sorted(list(r) for r in snapshot(spark, place, name).collect())
            copy = read_materialized(spark, str(folder / name))
            assert sorted(list(r) for r in copy.collect()) == found[f"{name} {number}"]
    found["refused"] = []
    refused: list[Any] = [
        lambda: maintain(spark, VIEWS, {"orders": stream()}, schema=DDL, checkpoint="hdfs://host/checkpoint"),
        lambda: maintain(spark, VIEWS["sums"], {"orders": stream()}, schema=DDL, checkpoint=place),
        lambda: materialize(stream().select("id", "_weight"), "jdbc:x:y", checkpoint=place),
    ]
    for attempt in refused:
        try:
            attempt()
        except FreshetError as e:
            found["refused"].append(str(e))
    larger = {**VIEWS, "sums": VIEWS["sums"].replace("orders GROUP", "orders WHERE cents > 5 GROUP")}
    go(larger, rebuild=True, clock=system_clock(spark, every=0.1))
    found["rebuilt"] = sorted(list(r) for r in snapshot(spark, place, "sums").collect())
    assert all(sentence.startswith("spark.") for sentence in advice(spark))
    print("FOUND " + json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
