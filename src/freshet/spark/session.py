"""A Spark session that suits Freshet: what it cannot do without, what it is better with, what a small machine needs.

Laws. Settings that a user gives come before ours, but for those without which answers would be wrong. Flags of the Java
process hold from its start, so they have an effect only if this process has started no Spark before. On small machines
Java's optimizing compiler and its parallel collector compete with the stream for the few cores there are, so sessions
there get the quick compiler and the serial collector.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

logger = logging.getLogger("freshet")

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
#: Without these answers would be others, or none.
NEEDED = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
}
_BETTER = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.ui.showConsoleProgress": "false",
}
#: Workers are forked from a process that has the engine already. Elsewhere Freshet may come with the job's files, which
#: a daemon does not see when it starts.
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "freshet.spark.daemon",
}
_SMALL = 4  # cores
_FRUGAL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def session(
    master: str = "local[*]",
    *,
    shards: int | None = None,
    app_name: str = "freshet",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a SparkSession with settings that suit `maintain`: a new one or, where there is one, the current one.

    What was chosen is logged (logger ``freshet``, level INFO).

    Parameters
    ----------
    master
        Spark's master.
    shards
        The number of shards that `maintain` will be given; shuffles get as many partitions. By default the number of
        cores of this machine.
    app_name
        What Spark's own page calls the application.
    settings
        More settings of Spark (``spark.*``). They come before Freshet's, except for ANSI mode, the time zone UTC and
        the RocksDB state store, which `maintain` needs.

    Returns
    -------
    pyspark.sql.SparkSession
        The session.

    Raises
    ------
    pyspark.errors.PySparkRuntimeError
        Spark does not start; ``freshet doctor`` says what is missing.

    Examples
    --------
    >>> from freshet.spark import session
    >>> session("local[2]", shards=2).conf.get("spark.sql.shuffle.partitions")
    '2'
    """
    workers_find_freshet()
    chosen = chosen_settings(master, shards or os.cpu_count() or 1, settings or {})
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    logger.info("freshet: Spark's settings: %s", ", ".join(f"{name}={value}" for name, value in chosen.items()))
    return builder.getOrCreate()


def chosen_settings(master: str, shards: int, given: Mapping[str, str]) -> dict[str, str]:
    """Ours and the given ones, by the law above."""
    local = re.fullmatch(r"local(\[.*\])?", master) is not None
    frugal = {}
    if local and (os.cpu_count() or 1) <= _SMALL:
        own = given.get("spark.driver.extraJavaOptions", "")
        if not re.search(r"-XX:(TieredStopAtLevel|\+Use\w+GC)", own):
            frugal = {"spark.driver.extraJavaOptions": f"{_FRUGAL} {own}".strip()}
    partitions = {"spark.sql.shuffle.partitions": str(shards)}
    return {**_BETTER, **partitions, **(_LOCAL if local else {}), **given, **frugal, **NEEDED}


def workers_find_freshet() -> None:
    """Workers on this machine run this process's Python, and import Freshet from where it does, installed or not."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    here, paths = str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if here not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, *paths]))
