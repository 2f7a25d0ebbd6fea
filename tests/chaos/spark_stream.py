"""A stream on Spark in a process of its own, to be killed: `python -m tests.chaos.spark_stream folder master`.

It reads the answers of its checkpoint, if there are any, processes all transactions, and reads the answers again. Each
answer is a file named by the run, the last micro-batch that was finished, and the view.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from freshet.spark import maintain, snapshot
from tests.spark.conftest import settings
from tests.spark.streams import read_files


def finished(folder: Path) -> int:
    """The last micro-batch that is finished, -1 if none is."""
    return max((int(f.name) for f in (folder / "checkpoint" / "commits").glob("[0-9]*")), default=-1)


def keep_answers(spark: SparkSession, folder: Path, views: list[str]) -> None:
    batch, run = finished(folder), len(list((folder / "answers").iterdir()))
    if batch < 0:
        return
    for view in views:
        answer = snapshot(spark, str(folder / "checkpoint"), view).toArrow()
        half = folder / "answers" / f".{run}"
        pq.write_table(answer, half)
        os.replace(half, folder / "answers" / f"{run}-{batch}-{view}")


def main() -> None:
    folder, master = Path(sys.argv[1]), sys.argv[2]
    case = json.loads((folder / "case.json").read_text())
    spark = settings(SparkSession.builder.master(master)).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    keep_answers(spark, folder, list(case["views"]))
    changes = maintain(
        spark, case["views"], read_files(spark, folder / "in", case["tables"]), schema=case["ddl"], shards=2, sizes={},
        arena=str(folder / "arena"), checkpoint=str(folder / "checkpoint"),
    )  # fmt: skip
    query = (
        changes.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    keep_answers(spark, folder, list(case["views"]))
    spark.stop()


if __name__ == "__main__":
    main()
