"""Relation sizes, by which grids and the number of shards are chosen, and heavy values: given, or measured on the first
micro-batch.

Law: the grid of a checkpoint never changes. The sizes it was chosen by are written into the checkpoint's folder once,
before the query first starts, and every later start reads them there. On one shard views need one stateful step, and
every further shard or step costs each micro-batch what many rows do: a shard is for `A_SHARD` rows.
"""

from __future__ import annotations

import functools
import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions

from freshet.scalar.types import Type
from freshet.spark.sink.folder import open_folder

A_SHARD = 1_000_000  # rows
SEEN = 100_000  # rows of a table among which its heavy values are looked for
FEWEST = 10_000  # rows of a table with heavy values: fewer keep no shard busy

_PLACE, _NAME = "freshet", "sizes.json"
_POLL = 0.02  # seconds

logger = logging.getLogger("freshet.spark")


def sizes(spark: SparkSession, checkpoint: str) -> dict[str, float]:
    """Return the rows by table that the grid of a checkpoint was chosen by.

    Parameters
    ----------
    spark
        The session.
    checkpoint
        The folder a query was started with.

    Returns
    -------
    dict of str to float
        Empty where none were given or measured.

    Examples
    --------
    >>> sizes(spark, f"{folder}/no-query-yet")
    {}
    """
    try:
        found = json.loads(open_folder(spark, checkpoint).read(f"{_PLACE}/{_NAME}"))
    except FileNotFoundError:
        return {}
    return {str(name): float(rows) for name, rows in found.items()}


def chosen_sizes(
    spark: SparkSession, checkpoint: str, given: Mapping[str, float] | None, tables: Mapping[str, DataFrame]
) -> dict[str, float]:
    """What the grid is to be chosen by: what it was chosen by before; else what is given; else what is measured."""
    folder = open_folder(spark, checkpoint)
    # A query that started without sizes was laid out without: whatever is said now comes too late.
    if _NAME not in folder.names(_PLACE) and not folder.names("offsets"):
        found = measured_sizes(tables) if given is None else dict(given)
        folder.create(f"{_PLACE}/{_NAME}", json.dumps(found))
    known = sizes(spark, checkpoint)
    if given is not None and known != dict(given):
        logger.warning("freshet: the grid of %s was chosen by other sizes and stays; they are %s", checkpoint, known)
    return known


def shards_for(sizes: Mapping[str, float], most: int) -> int:
    """As many shards as the tables' rows need; where nothing is known of them, as many as there may be."""
    rows = sum(sizes.values())
    return min(most, max(1, math.ceil(rows / A_SHARD))) if rows else most


def measured_heavy(
    tables: Mapping[str, DataFrame], sizes: Mapping[str, float], columns: Mapping[str, Mapping[str, Type]], shards: int
) -> dict[str, dict[str, dict[Any, float]]]:
    """Values of integer and text columns that more than twice an even share of the rows of the first micro-batch have:
    by table and column, the part of the rows with each value."""
    streams = []
    for name, df in tables.items():
        rows = sizes.get(name.lower(), 0.0)
        given = {c.lower(): c for c in df.columns}
        for column, type_ in columns.get(name.lower(), {}).items():
            if rows >= FEWEST and column.lower() in given and (type_.is_integer or type_.name == "STRING"):
                constant = {"name": name.lower(), "column": column, "part": min(1.0, SEEN / rows)}
                shown = df[given[column.lower()]].cast("string").alias("value")
                streams.append(df.select(*(functions.lit(v).alias(k) for k, v in constant.items()), shown))
    if not streams:
        return {}
    seen: dict[tuple[str, str], float] = {}
    counts: list[tuple[str, str, str, float]] = []

    def count(batch: DataFrame) -> None:
        some = batch.where(functions.rand(1) < functions.col("part"))
        grouped = some.groupBy("name", "column", "value").count().cache()
        for name, column, rows in grouped.groupBy("name", "column").sum("count").collect():
            seen[name, column] = float(rows)
        least = min(seen.values(), default=0.0) * 2 / shards
        often = grouped.where(functions.col("value").isNotNull() & (functions.col("count") > least))
        counts.extend((n, c, v, float(k)) for n, c, v, k in often.collect())
        grouped.unpersist()

    start = time.perf_counter()
    _first_batch(functools.reduce(DataFrame.union, streams), count)
    found: dict[str, dict[str, dict[Any, float]]] = {}
    for name, column, value, rows in counts:
        part = rows / seen[name, column]
        if part > 2 / shards:
            typed = int(value) if columns[name][column].is_integer else value
            found.setdefault(name, {}).setdefault(column, {})[typed] = round(part, 3)
    logger.info("freshet: heavy values %s, in %.1f s", found or "none", time.perf_counter() - start)
    return found


def measured_sizes(tables: Mapping[str, DataFrame]) -> dict[str, float]:
    """Rows each stream brings in its first micro-batch, read once more later; empty where there is nothing yet."""
    found: dict[str, float] = {}

    def count(batch: DataFrame) -> None:
        found.update({str(name): float(rows) for name, rows in batch.groupBy("name").count().collect()})

    streams = [df.select(functions.lit(name.lower()).alias("name")) for name, df in tables.items()]
    every = functools.reduce(DataFrame.union, streams)
    start = time.perf_counter()
    _first_batch(every, count)
    logger.info("freshet: measured %s in %.1f s", found or "no rows", time.perf_counter() - start)
    # A stream that brought nothing yet is small, as far as anybody knows.
    return {name.lower(): found.get(name.lower(), 1.0) for name in tables} if found else {}


def _first_batch(stream: DataFrame, use: Callable[[DataFrame], None]) -> None:
    """Runs a stream until its first micro-batch has been used."""
    batches = 0

    def each(batch: DataFrame, number: int) -> None:
        nonlocal batches
        if number == 0:
            use(batch)
        batches += 1

    query = stream.writeStream.foreachBatch(each).trigger(availableNow=True).start()
    while query.isActive and not batches:
        time.sleep(_POLL)
    query.stop()
    error = query.exception()
    if error is not None and not batches:
        raise error
