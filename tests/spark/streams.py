"""Transactions as files, run through `maintain`, and the deltas of each micro-batch read back."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

Changes = Mapping[str, pa.Table]  # a table's changed rows, with `_weight`


def write_files(
    folder: Path, schemas: Mapping[str, pa.Schema], transactions: Sequence[Changes], first: int = 0
) -> None:
    """One file per table and transaction, empty if a table does not change: the n-th micro-batch is the n-th
    transaction."""
    for name, schema in schemas.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i, changes in enumerate(transactions, first):
            table = changes.get(name)
            draft = folder / name / f".{i:05}"
            pq.write_table(schema.empty_table() if table is None else table.cast(schema), draft)
            os.utime(draft, (1e9 + i, 1e9 + i))  # Spark takes files in order of their time
            draft.rename(folder / name / f"{i:05}.parquet")  # a running stream sees it whole, with that time


def read_files(spark: SparkSession, folder: Path, tables: Sequence[str]) -> dict[str, DataFrame]:
    frames = {}
    for name in tables:
        schema = spark.read.parquet(str(folder / name / "00000.parquet")).schema
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").option("latestFirst", "false")
        frames[name] = reader.parquet(str(folder / name))
    return frames


def run(changes: DataFrame, out: Path, checkpoint: Path) -> Any:
    """Runs a stream over all there is, each batch's rows written to a folder of its own; returns the finished query."""

    def keep(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(out / f"batch={number:05}"))

    query = (
        changes.writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def batch(out: Path, number: int) -> pa.Table:
    return pq.read_table(out / f"batch={number:05}", partitioning=None)


def view_part(rows: pa.Table, view: str) -> pa.Table:
    """One view's rows out of several views'."""
    own = rows.filter(pa.compute.equal(rows["_view"], view))
    struct = own[view].combine_chunks()
    return pa.table(
        [*(struct.field(i) for i in range(struct.type.num_fields)), own["_weight"]],
        names=[*(f.name for f in struct.type), "_weight"],
    )


class Sum:
    """The running sum of deltas that are not consolidated across shards."""

    def __init__(self) -> None:
        self.weights: Counter[tuple[Any, ...]] = Counter()

    def add(self, delta: pa.Table) -> None:
        columns = [c.to_pylist() for c in delta.columns]
        for *row, weight in zip(*columns, strict=True):
            key = tuple(tuple(value) if isinstance(value, list) else value for value in row)
            self.weights[key] += weight
            if self.weights[key] == 0:
                del self.weights[key]

    def answer(self, schema: pa.Schema) -> pa.Table:
        assert all(w > 0 for w in self.weights.values()), "a row that was never there was taken away"
        rows = [row for row, w in self.weights.items() for _ in range(w)]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
