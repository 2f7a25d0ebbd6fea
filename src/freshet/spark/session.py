"""A Spark session for Freshet: required settings, recommended settings, and settings for small machines.

Laws. Settings of the user override ours, except for those without which answers would be wrong. Flags of the Java
process are fixed at its start, so they have an effect only if this process has not started Spark before. On small
machines Java's optimizing compiler and its parallel collector compete with the stream for the few cores there are, so
sessions there get the quick compiler and the serial collector. Where `freshet doctor --prepare` has archived the
classes of Spark, Java takes them from there (`class_archive.py`).
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from freshet.spark.class_archive import archive_flags
from freshet.spark.connect import is_remote

logger = logging.getLogger("freshet")

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
#: Without these settings answers would be wrong or missing.
NEEDED = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
}
_RETAINED = "spark.sql.streaming.minBatchesToRetain"
_BETTER = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    _RETAINED: "10",
    "spark.ui.showConsoleProgress": "false",
}
#: Workers are forked from a process that has the engine already. Elsewhere Freshet may come with the job's files, which
#: a daemon does not see when it starts.
_LOCAL_WORKERS = {"spark.python.daemon.module": "freshet.spark.daemon"}
_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", **_LOCAL_WORKERS}
_REASONS = {
    "spark.sql.ansi.enabled": "what has no value is an error, as views have it",
    "spark.sql.session.timeZone": "times mean what they mean in views",
    "spark.sql.streaming.stateStore.providerClass": "stateful steps in Python find the state store they need",
    "spark.sql.adaptive.enabled": "what runs is not planned again meanwhile",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "a commit writes what changed alone",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "rows are packed many at a time",
    _RETAINED: "the checkpoint keeps fewer versions",
    "spark.ui.showConsoleProgress": "bars of progress stay off the terminal",
    "spark.python.daemon.module": "workers start with the engine inside",
}
_SPARK_DEFAULTS = {"spark.sql.ansi.enabled": "true"}  # defaults of Spark for settings that are not given
_SMALL = 4  # cores
_FLAGS = "spark.driver.extraJavaOptions"
_LIGHT_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


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
    spark = builder.getOrCreate()
    start_workers(spark)
    return spark


def start_workers(spark: SparkSession) -> None:
    """Starts the process that workers on this machine are forked from, while the caller goes on: the first micro-batch
    would wait for it, and for Java's classes that talk to it."""
    if is_remote(spark):
        return
    settings = spark.sparkContext.getConf()
    if settings.get("spark.python.daemon.module") == _LOCAL_WORKERS["spark.python.daemon.module"]:
        threading.Thread(target=_pass_a_row, args=(spark,), daemon=True).start()


def _pass_a_row(spark: SparkSession) -> None:
    with suppress(Exception):  # the session was stopped meanwhile; what is wrong otherwise, the stream will say
        spark.range(1, numPartitions=1).mapInArrow(_same, "id BIGINT").collect()


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def chosen_settings(master: str, shards: int, given: Mapping[str, str]) -> dict[str, str]:
    """Our settings and the given ones, combined by the law above."""
    local = re.fullmatch(r"local(\[.*\])?", master) is not None
    own = given.get(_FLAGS, "")
    flags = [archive_flags(own), own] if local else [own]
    if local and (os.cpu_count() or 1) <= _SMALL and not re.search(r"-XX:(TieredStopAtLevel|\+Use\w+GC)", own):
        flags.insert(0, _LIGHT_JVM)
    java = {_FLAGS: " ".join(filter(None, flags))} if any(flags) else {}
    partitions = {"spark.sql.shuffle.partitions": str(shards)}
    return {**_BETTER, **partitions, **(_LOCAL if local else {}), **given, **java, **NEEDED}


def advice(spark: SparkSession) -> list[str]:
    """Say what of a session's settings does not suit `maintain`.

    Parameters
    ----------
    spark
        The session.

    Returns
    -------
    list of str
        A sentence for each, those first without which `maintain` does not work; empty where all is well.

    Examples
    --------
    >>> all(sentence.startswith("spark.") for sentence in advice(spark))
    True
    """
    given = dict(spark.conf.getAll) if is_remote(spark) else dict(spark.sparkContext.getConf().getAll())
    for name in (*NEEDED, *_BETTER):
        given[name] = str(spark.conf.get(name, given.get(name, "")))
    return [sentence for _, sentence in unsuited(given, given.get("spark.master", ""))]


def unsuited(given: Mapping[str, str], master: str) -> Iterator[tuple[bool, str]]:
    """The settings that do not suit Freshet, and for each whether it is required."""
    local = re.fullmatch(r"local(\[.*\])?", master) is not None
    for needed, wanted in ((True, NEEDED), (False, {**_BETTER, **(_LOCAL_WORKERS if local else {})})):
        for name, best in wanted.items():
            value = given.get(name) or _SPARK_DEFAULTS.get(name, "")
            kept = name == _RETAINED and value.isdigit() and int(value) <= int(best)
            if value.lower() != best.lower() and not kept:
                yield needed, f"{name} is {value or 'not set'}; set it to {best}, so that {_REASONS[name]}"
    flags = given.get(_FLAGS, "")
    if local and (os.cpu_count() or 1) <= _SMALL and not re.search(r"-XX:(TieredStopAtLevel|\+Use\w+GC)", flags):
        yield False, f"{_FLAGS} has no {_LIGHT_JVM}; add them, so that few cores are the stream's"


def workers_find_freshet() -> None:
    """Workers on this machine run this process's Python, and import Freshet from where it does, installed or not."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    here, paths = str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if here not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, *paths]))
