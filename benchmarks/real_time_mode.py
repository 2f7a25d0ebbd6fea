"""What Spark's real-time mode makes of Python: when a row of a stream that never ends reaches the sink.

    python -m benchmarks.real_time_mode [--seconds 10] [--rows 6]

Real-time mode leaves tasks running for the length of a batch and passes rows on one by one. Each pipeline is given one
row a second while a batch of ten seconds runs. Spark refuses Python operators in this mode; they are tried with its
check turned off as well.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from freshet.spark.session import chosen_settings

CHECK = "spark.sql.streaming.realTimeMode.allowlistCheck"


class Noted:
    """Writes down when values are seen."""

    def __init__(self, file: str) -> None:
        self.file = file

    def note(self, value: str) -> None:
        with open(self.file, "a") as opened:
            opened.write(f"{value} {time.time()}\n")


class Passed(Noted):
    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for value in batch.column(0).to_pylist():
                self.note(value)
            yield batch


class Written(Noted):
    """A writer of foreach, which the rows of JVM operators end in."""

    def process(self, row: Row) -> None:
        self.note(row.value)


class Kept(StatefulProcessor):
    def __init__(self, file: str) -> None:
        self.noted = Noted(file)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.last = handle.getValueState("last", "last STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        for row in rows:
            self.noted.note(row.value)
            self.last.update((row.value,))
            yield Row(value=row.value)

    def close(self) -> None:
        pass


def _in_jvm(df: DataFrame, file: str) -> Any:
    return df.dropDuplicates(["value"]).writeStream.foreach(Written(file))


def _in_arrow(df: DataFrame, file: str) -> Any:
    return df.mapInArrow(Passed(file), "value STRING").writeStream.foreach(Written(os.devnull))


def _with_state(df: DataFrame, file: str) -> Any:
    keyed = df.selectExpr("CAST(value AS INT) % 2 AS key", "value").groupBy("key")
    return keyed.transformWithState(Kept(file), "value STRING", "update", "none").writeStream.foreach(
        Written(os.devnull)
    )


PIPELINES: dict[str, Callable[[DataFrame, str], Any]] = {
    "deduplicate, foreach": _in_jvm,
    "mapInArrow": _in_arrow,
    "transformWithState": _with_state,
}


def measured(spark: Any, folder: Path, name: str, checked: bool, given: argparse.Namespace) -> str:
    """When rows were seen, or why there was no query."""
    spark.conf.set(CHECK, str(checked).lower())
    memory = spark._jvm.org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
    stream = memory.singlePartition(spark._jsparkSession, spark._jvm.org.apache.spark.sql.Encoders.STRING())
    place = folder / f"{name}{checked}"
    place.mkdir()
    writer = PIPELINES[name](DataFrame(stream.toDF(), spark), str(place / "seen"))
    writer = writer.outputMode("update").option("checkpointLocation", str(place / "at"))
    try:
        query = writer.trigger(realTime=f"{given.seconds} seconds").start()
        sent = _sent(spark, stream, query, given)
        why = query.exception()
        query.stop()
    except Exception as e:
        why = e
    if why is not None:
        return f"refused: {' '.join(str(why).split())[:300]}"
    seen = [line.split() for line in (place / "seen").read_text().splitlines()] if (place / "seen").exists() else []
    late = sorted(float(at) - sent[int(value)] for value, at in seen)
    return (
        f"{len(late)} of {given.rows} rows seen, after {', '.join(f'{s:.1f}' for s in late)} s"
        if late
        else "no row seen"
    )


def _sent(spark: Any, stream: Any, query: Any, given: argparse.Namespace) -> dict[int, float]:
    """Gives the stream its rows, and time for two batches; when each was given."""
    time.sleep(given.seconds)
    sent = {}
    for value in range(given.rows):
        sent[value] = time.time()
        stream.addData(spark._jvm.PythonUtils.toSeq([str(value)]))
        time.sleep(1)
    until = time.time() + 2 * given.seconds
    while time.time() < until and query.isActive:
        time.sleep(0.1)
    return sent


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_time_mode", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=10, help="length of a batch (default 10)")
    parser.add_argument("--rows", type=int, default=6, help="rows sent, one a second (default 6)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    given = options(arguments)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder.master("local[6]")
    for name, value in chosen_settings("local", 2, {}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    folder = Path(tempfile.mkdtemp(prefix="freshet-real-time-"))
    try:
        for name in PIPELINES:
            for checked in (True, False):
                found = measured(spark, folder, name, checked, given)
                print(f"{name}, {'checked' if checked else 'not checked'}: {found}", flush=True)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
