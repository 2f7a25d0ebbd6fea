"""Runs the documentation's examples for Spark."""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from freshet.spark.materialize import Materializer
from freshet.spark.sink.versions import VersionedCopy

DOCS = Path(__file__).resolve().parents[2] / "docs"
JOBS, CLUSTER = DOCS / "jobs.md", DOCS / "howto" / "spark-cluster.md"
SCHEMA = "`k 1` BIGINT, s STRING, d DECIMAL(10,2), _weight BIGINT"
BATCHES: list[list[tuple[Any, ...]]] = [
    [(1, "a", Decimal("1.50"), 2), (None, None, None, 1), (2, "b", None, 3)],
    [(1, "a", Decimal("1.50"), -1), (3, "c", Decimal(0), 1)],
    [(2, "b", None, -3), (3, "c", Decimal(0), 4)],
    [(1, "a", Decimal("1.50"), -1), (None, None, None, -1), (3, "c", Decimal(0), -5)],
]


def test_blocks_of_the_cluster_page(spark: SparkSession, tmp_path: Path) -> None:
    """In one folder, which relative paths begin at; Spark's own begin at its driver's."""
    blocks = re.findall(r"```python spark\n(.*?)```", CLUSTER.read_text(), re.DOTALL)
    assert blocks
    names: dict[str, Any] = {"spark": spark, "folder": str(tmp_path)}
    for block in blocks:
        exec(block.replace('json("in")', f'json("{tmp_path}/in")'), names)


def test_reading_a_materialized_folder(spark: SparkSession, tmp_path: Path) -> None:
    section = JOBS.read_text().partition("### A `materialized` folder")[2].partition("\n## ")[0]
    blocks = re.findall(r"```python spark\n(.*?)```", section, re.DOTALL)
    assert len(blocks) == 2
    copy = VersionedCopy(spark, str(tmp_path), 30)
    copy.prepare(spark.createDataFrame([], SCHEMA).drop("_weight").schema)
    write, held = Materializer({None: copy}), Counter[tuple[Any, ...]]()
    for number, rows in enumerate(BATCHES):
        write.apply(spark.createDataFrame(rows, SCHEMA), number, "query")
        for *row, weight in rows:
            held[tuple(row)] += weight
        for block in blocks:
            names: dict[str, Any] = {"spark": spark}
            exec(block.replace("answers/sums", str(tmp_path)), names)
            assert names["answer"].columns == ["k 1", "s", "d"]
            assert Counter(tuple(r) for r in names["answer"].collect()) == +held, block
    assert not +held
