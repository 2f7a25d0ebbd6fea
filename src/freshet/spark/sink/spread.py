"""Rows of a batch and of runs as DataFrames: for what is too much for one process, and for types that Arrow lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from freshet.database.change_type import WEIGHT
from freshet.spark.sink.batch import HASH, NOTHING, Batch, quoted, stored_schema
from freshet.spark.sink.folder import Folder

RUNS = "runs"
FILE_ROWS = 1_000_000

#: Few rows in a group, so that the hashes of one are read at little cost.
GROUP_ROWS = 20_000


def columns_of(names: Iterable[str]) -> list[Column]:
    return [sf.col(quoted(n)) for n in names]


def hash_sql(columns: Iterable[str]) -> str:
    """The hash of a row. xxhash64 passes over NULL, so that (NULL, 1) and (1, NULL) would be one without their
    shape."""
    names = list(columns)
    return f"xxhash64({', '.join([*names, *(f'{name} IS NULL' for name in names)])})"


def consolidated(rows: DataFrame, columns: Iterable[str]) -> DataFrame:
    """Each row once, with the sum of its weights where that is not 0."""
    summed = rows.groupBy(HASH, *columns_of(columns)).agg(sf.sum(WEIGHT).alias(WEIGHT))
    return summed.where(sf.col(WEIGHT) != 0)


def spread_batch(rows: DataFrame, schema: StructType, number: int, query: str) -> Batch:
    """The batch of consolidated rows, which are computed several times."""
    weight = sf.col(WEIGHT)
    # As decimals, because in ANSI mode 64-bit integers do not wrap around.
    content = sf.sum(sf.col(HASH).cast("decimal(19,0)") * weight.cast("decimal(19,0)"))
    one = rows.agg(
        sf.count(sf.lit(1)).alias("count"),
        sf.count(sf.when(weight < 0, 1)).alias("removed"),
        sf.coalesce(sf.sum(weight), sf.lit(0)).alias("weight"),
        sf.coalesce(content.cast("string"), sf.lit(NOTHING)).alias("content"),
    ).collect()[0]
    counts = (one["count"], one["removed"], one["weight"], one["content"])
    return Batch(number, query, rows, schema, rows.sparkSession, *counts)


def stored(spark: SparkSession, folder: Folder, schema: StructType, runs: Iterable[str]) -> DataFrame:
    """The rows of the runs, one after the other."""
    paths = [f"{folder.uri}/{RUNS}/{name}" for name in runs]
    if not paths:
        return spark.createDataFrame([], stored_schema(schema))
    return spark.read.schema(stored_schema(schema)).parquet(*paths)


def missing(folder: Folder, batch: Batch, runs: Iterable[str]) -> tuple[Mapping[str, Any], int, int] | None:
    """A row that the batch takes away more often than the runs hold it, how often, and how often they do."""
    weight = sf.col(WEIGHT)
    going = batch.frame().where(weight < 0)
    rows = stored(batch.spark, folder, batch.schema, runs).select(HASH, WEIGHT)
    held = rows.join(going.select(HASH), HASH, "left_semi").groupBy(HASH).agg(sf.sum(WEIGHT).alias("_held"))
    left = sf.coalesce("_held", sf.lit(0)) + weight
    found = going.join(held, HASH, "left").where(left < 0).limit(1).collect()
    if not found:
        return None
    return {c: found[0][c] for c in batch.columns}, -found[0][WEIGHT], found[0]["_held"] or 0


def write_run(folder: Folder, batch: Batch, older: Mapping[str, int], name: str) -> int:
    """Writes the sum of the batch and of older runs; the number of its rows."""
    rows = batch.frame()
    if older:
        rows = consolidated(rows.unionByName(stored(batch.spark, folder, batch.schema, older)), batch.columns)
    counted = Observation()
    (
        rows.repartition(1 + (batch.count + sum(older.values())) // FILE_ROWS, HASH)
        .sortWithinPartitions(HASH)
        .observe(counted, sf.count(sf.lit(1)).alias("rows"))
        .write.option("parquet.block.row.count.limit", GROUP_ROWS)
        .parquet(f"{folder.uri}/{RUNS}/{name}")
    )
    return int(counted.get["rows"])
