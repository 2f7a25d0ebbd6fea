"""Changes that are packed where they would be decoded: all of them arrive, however many fit into one process."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from freshet.spark import maintain, materialize, metrics, read_materialized
from freshet.spark.quarantine import QUARANTINE
from freshet.spark.sink import gathered
from freshet.spark.sink.gathered import packed
from tests.spark.streams import read_files, write_files

pytestmark = pytest.mark.long

DDL = "CREATE TABLE t (id BIGINT PRIMARY KEY, g INT NOT NULL, s STRING)"
TYPES = pa.schema([("id", pa.int64()), ("g", pa.int32()), ("s", pa.string()), ("_weight", pa.int64())])
VIEWS = {"rows": "SELECT id, s FROM t", "sums": "SELECT g, COUNT(*) AS n, MAX(id) AS last FROM t GROUP BY g"}
ROWS = [(i, i % 7, None if i % 5 == 0 else f"text {i}") for i in range(2000)]
GONE = ROWS[::3]
LEFT = [row for i, row in enumerate(ROWS) if i % 3]


def signed(rows: list[tuple[Any, ...]], weight: int) -> dict[str, pa.Table]:
    columns = [*zip(*rows, strict=True), [weight] * len(rows)]
    return {"t": pa.table([pa.array(c, f.type) for c, f in zip(columns, TYPES, strict=True)], schema=TYPES)}


TRANSACTIONS = [signed(ROWS, 1), signed(GONE, -1)]


def expected() -> dict[str, Counter[tuple[Any, ...]]]:
    groups = {g: [i for i, other, _ in LEFT if other == g] for g in range(7)}
    sums = Counter((g, len(own), max(own)) for g, own in groups.items())
    return {"rows": Counter((i, s) for i, _, s in LEFT), "sums": sums}


@pytest.mark.parametrize("most", [0, 20_000, 16 << 20])
def test_all_changes_arrive(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """With room for none of a view's changes, for some and for all."""
    monkeypatch.setattr(gathered, "GATHERED", most)
    write_files(tmp_path / "in", {"t": TYPES}, TRANSACTIONS)
    changes = maintain(spark, VIEWS, read_files(spark, tmp_path / "in", ["t"]), schema=DDL, shards=2, arena=None)
    targets = {name: str(tmp_path / name) for name in VIEWS}
    query = materialize(changes, targets, checkpoint=str(tmp_path / "at"), trigger={"availableNow": True})
    query.awaitTermination()
    for name, rows in expected().items():
        assert Counter(map(tuple, read_materialized(spark, targets[name]).collect())) == rows
    shards = metrics(query.recentProgress[1])
    assert sum(shard["rows"] for shard in shards if shard["level"] == 0) == len(GONE)
    jobs = len(spark.sparkContext.statusTracker().getJobIdsForGroup(query.runId))
    assert (jobs == len(TRANSACTIONS)) == (most == 16 << 20)


def test_a_single_view_and_what_is_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(1, 1, "a"), (2, None, "b"), (3, None, "c")]
    write_files(tmp_path / "in", {"t": TYPES}, [signed(rows, 1)])
    tables = read_files(spark, tmp_path / "in", ["t"])
    one = maintain(spark, "SELECT id, g, s FROM t", tables, schema=DDL, shards=1, arena=None, on_error="quarantine")
    targets = {"view": str(tmp_path / "copy"), QUARANTINE: str(tmp_path / "aside")}
    materialize(one, targets, checkpoint=str(tmp_path / "at"), trigger={"availableNow": True}).awaitTermination()
    assert [tuple(row) for row in read_materialized(spark, targets["view"]).collect()] == [(1, 1, "a")]
    aside = read_materialized(spark, targets[QUARANTINE]).collect()
    assert sorted((row.table, json.loads(row.row)["id"]) for row in aside) == [("t", 2), ("t", 3)]


def test_what_cannot_be_packed_where_it_is_decoded(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "in", {"t": TYPES}, TRANSACTIONS)
    tables = read_files(spark, tmp_path / "in", ["t"])
    changes = maintain(spark, VIEWS["rows"], tables, schema=DDL, shards=1, arena=None)
    fields = changes.drop("_weight").schema
    assert packed(changes, {"view": fields}) is not None
    assert packed(changes.where("id > 10"), {"view": fields}) is None, "these are other changes"
    months = spark.sql("SELECT INTERVAL '3' MONTH AS m").schema
    assert packed(changes, {"view": months}) is None, "Arrow lacks the type"
