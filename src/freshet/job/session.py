"""The Spark session of a job: settings Freshet needs, and Spark's own words kept off the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

#: What the job cannot do without, then what it is better with; a job's own settings (spark.*) come last.
_NEEDED = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
}
_BETTER = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def start_spark(master: str, shards: int, log: Path, settings: Mapping[str, str], packages: str = "") -> SparkSession:
    """`log` takes what Spark's own process prints."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Workers import freshet from where this process does, installed or not.
    here = str(Path(__file__).resolve().parents[2])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    builder = SparkSession.builder.master(master).appName("freshet")
    chosen = {**_BETTER, "spark.sql.shuffle.partitions": str(shards), **settings, **_NEEDED}
    if master.startswith("local"):
        chosen |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if packages:
        chosen["spark.jars.packages"] = packages
    for name, value in chosen.items():
        builder = builder.config(name, value)
    # Spark's process inherits the standard error there is when it starts.
    terminal = os.dup(2)
    with open(log, "ab") as target:
        os.dup2(target.fileno(), 2)
        try:
            return builder.getOrCreate()
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
