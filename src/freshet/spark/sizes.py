"""Relation sizes, by which grids and the number of shards are chosen: given, or measured on the first micro-batch.

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
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession, functions

from freshet.spark.sink.folder import open_folder

A_SHARD = 1_000_000  # rows

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


def measured_sizes(tables: Mapping[str, DataFrame]) -> dict[str, float]:
    """Rows each stream brings in its first micro-batch, read once more later; empty where there is nothing yet."""
    found: dict[str, float] = {}
    batches = 0

    def count(batch: DataFrame, number: int) -> None:
        nonlocal batches
        if number == 0:
            found.update({str(name): float(rows) for name, rows in batch.groupBy("name").count().collect()})
        batches += 1

    streams = [df.select(functions.lit(name.lower()).alias("name")) for name, df in tables.items()]
    every = functools.reduce(DataFrame.union, streams)
    start = time.perf_counter()
    query = every.writeStream.foreachBatch(count).trigger(availableNow=True).start()
    while query.isActive and not batches:
        time.sleep(_POLL)
    query.stop()
    error = query.exception()
    if error is not None and not batches:
        raise error
    logger.info("freshet: measured %s in %.1f s", found or "no rows", time.perf_counter() - start)
    # A stream that brought nothing yet is small, as far as anybody knows.
    return {name.lower(): found.get(name.lower(), 1.0) for name in tables} if found else {}
