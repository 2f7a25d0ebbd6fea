"""Whether the rows of a checkpoint, or of a running query, have outgrown its shards.

Law: a state moves to more shards when it needs twice as many, so a stream that grows to n rows is moved O(log n) times,
and each of its rows O(1) times on average. It never moves to fewer.
"""

from __future__ import annotations

import logging
from typing import Any

from pyspark.sql import SparkSession

from freshet.errors import StateError
from freshet.spark.observed import metrics
from freshet.spark.old_checkpoint import OldCheckpoint
from freshet.spark.record import has_started, kept_shards
from freshet.spark.sink.folder import LocalFolder, open_folder
from freshet.spark.sizes import A_SHARD, shards_for

logger = logging.getLogger("freshet.spark")


def _fitting(shards: int) -> int:
    """Rows for which a number of shards is enough: more need twice as many."""
    return (2 * shards - 1) * A_SHARD


class Growing:
    """The rows that the shards of a running query store, by what they say in its progress: those of the tables, equal
    rows once, with copies of some and what levels send each other. The rows of the tables are counted in the
    checkpoint, which cannot be read meanwhile; where they turn out to fit, it is not looked at again before these have
    doubled."""

    def __init__(self) -> None:
        self._stored: dict[tuple[int, int], int] = {}
        self._known_to_fit = 0

    def note(self, progress: Any) -> None:
        for shard in metrics(progress):
            self._stored[shard["level"], shard["shard"]] = shard["stored"]

    def may_have_outgrown(self, shards: int) -> bool:
        return sum(self._stored.values()) > max(_fitting(shards), self._known_to_fit)

    def fits(self) -> None:
        self._known_to_fit = 2 * sum(self._stored.values())

    def moved(self) -> None:
        self._stored.clear()
        self._known_to_fit = 0


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
    if old.logged() <= _fitting(shards):  # cheap, where counting reads all rows
        return None
    sizes = old.sizes()
    if sum(sizes.values()) <= _fitting(shards):
        return None
    needed = shards_for(sizes, most)
    logger.warning(
        "freshet: %s rows on %s are more than they are for (%s each); the state moves to %s shards",
        f"{sum(sizes.values()):,.0f}", "1 shard" if shards == 1 else f"{shards} shards", f"{A_SHARD:,}", needed,
    )  # fmt: skip
    return needed, sizes
