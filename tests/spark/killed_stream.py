"""A stream in a process of its own, to be killed: `python killed_stream.py folder [master [arena [ship]]]`. With an
arena, it goes on until the folder has a file `end`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from freshet.spark import maintain, ship
from tests.spark.conftest import settings
from tests.spark.streams import read_files
from tests.spark.test_snapshot import DDL, SCHEMAS, VIEWS

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    master = sys.argv[2] if len(sys.argv) > 2 else "local[2]"
    arena = sys.argv[3] if len(sys.argv) > 3 else str(folder / "arena")
    spark = settings(SparkSession.builder.master(master)).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if len(sys.argv) > 4:
        ship(spark)
    changes = maintain(
        spark, VIEWS, read_files(spark, folder / "in", list(SCHEMAS)), schema=DDL, shards=2, sizes={},
        arena=arena, checkpoint=str(folder / "checkpoint"),
    )  # fmt: skip
    writer = changes.writeStream.format("parquet").option("path", str(folder / "out"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    if len(sys.argv) > 3:
        query = writer.start()
        while not (folder / "end").exists() and query.isActive:
            time.sleep(0.1)
        query.processAllAvailable()
        query.stop()
    else:
        writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()
