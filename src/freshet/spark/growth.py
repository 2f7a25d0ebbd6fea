"""Whether the rows of a checkpoint have outgrown its shards.

Law: a state moves to more shards when it needs twice as many, so a stream that grows to n rows is moved O(log n) times,
and each of its rows O(1) times on average. It never moves to fewer.
"""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from freshet.errors import StateError
from freshet.spark.old_checkpoint import OldCheckpoint
from freshet.spark.record import has_started, kept_shards
from freshet.spark.sink.folder import LocalFolder, open_folder
from freshet.spark.sizes import A_SHARD, shards_for

logger = logging.getLogger("freshet.spark")


def outgrown(spark: SparkSession, checkpoint: str, most: int) -> tuple[int, dict[str, float]] | None:
    """To how many shards the state should move, and the rows by table for their grid; None if it stays."""
    folder, shards = open_folder(spark, checkpoint), kept_shards(spark, checkpoint)
    if shards is None or shards >= most or not has_started(spark, checkpoint) or not isinstance(folder, LocalFolder):
        return None
    try:
        old = OldCheckpoint(spark, folder)
    except StateError as e:
        logger.info("freshet: the number of shards stays: %s", e)
        return None
    fitting = (2 * shards - 1) * A_SHARD  # more need twice as many shards
    if old.logged() <= fitting:  # cheap, where counting reads all rows
        return None
    sizes = old.sizes()
    if sum(sizes.values()) <= fitting:
        return None
    needed = shards_for(sizes, most)
    logger.warning(
        "freshet: %s rows on %s are more than they are for (%s each); the state moves to %s shards",
        f"{sum(sizes.values()):,.0f}", "1 shard" if shards == 1 else f"{shards} shards", f"{A_SHARD:,}", needed,
    )  # fmt: skip
    return needed, sizes
