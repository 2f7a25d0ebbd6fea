"""TPC-H Q3, Q4, Q5 and Q10 kept fresh on Spark over a stream of orders, checked against Spark SQL at the end.

    make demo

A FIFO stream of files: orders arrive in order of their date; once the window is full, the oldest leaves when the next
one comes. The four views read one set of streams and move together, a micro-batch a transaction.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import tpch
from benchmarks.streams import OrderWindow, order_window
from freshet.job.session import start_spark
from freshet.spark.sizes import shards_for
from freshet.state.kernel_cache import compile_kernels

VIEWS = ("q3", "q4", "q5", "q10")
STREAM = ("orders", "lineitem")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    folder = Path(tempfile.mkdtemp(prefix="freshet-demo-"))
    try:
        return _run(options, folder)
    except Exception:
        if (folder / "spark.log").exists():
            print((folder / "spark.log").read_text()[-4000:], file=sys.stderr)
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(options: argparse.Namespace, folder: Path) -> int:
    print(f"Generating TPC-H at scale factor {options.scale:g}", flush=True)
    tables = tpch.generate(options.scale, (*tpch.DIMENSIONS, *STREAM))
    stream = order_window(tables["orders"], tables["lineitem"], options.window)
    last = round(len(stream) * options.stop)
    batches = write_stream(folder / "in", tables, stream, last, options.batches)
    print(f"Wrote a FIFO stream of {last:,} changes of {' and '.join(STREAM)} as {batches} files each", flush=True)

    compile_kernels()  # once here, rather than in each of Spark's workers
    settings = {"spark.driver.memory": "2g", "spark.sql.streaming.minBatchesToRetain": "2"}
    sizes = {name: float(table.num_rows) for name, table in tables.items()}
    shards = options.shards or shards_for(sizes, 2)
    spark = start_spark("local[2]", shards, folder / "spark.log", settings)
    try:
        from freshet.spark import explain, maintain

        queries = {name: tpch.QUERIES[name] for name in VIEWS}
        ddl = ";\n".join(tpch.ddl(tables))
        print(f"Started Spark {spark.version} on {spark.sparkContext.master}; how the views run:\n")
        print(explain(queries, ddl, shards, sizes) + "\n", flush=True)
        sources = read_stream(spark, folder / "in", list(tables))
        changes = maintain(
            spark, queries, sources, schema=ddl, shards=shards, sizes=sizes, arena=str(folder / "arena"),
            checkpoint=str(folder / "checkpoint"),
        )  # fmt: skip
        progress = Progress(folder)
        query = (
            changes.writeStream.foreachBatch(progress.keep)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        progress.show(query)
        return _check(spark, folder, {**{n: tables[n] for n in tpch.DIMENSIONS}, **stream.surviving(last)}, progress)
    finally:
        spark.stop()


def write_stream(folder: Path, tables: dict[str, pa.Table], stream: OrderWindow, last: int, batches: int) -> int:
    """One file per table and micro-batch; the tables that do not change come with the first."""
    for name in tables:
        (folder / name).mkdir(parents=True)
    size = -(-last // batches)
    number = 0
    for number, changes in enumerate(stream.transactions(size, 0, last)):
        for name in STREAM:
            part = changes.get(name)
            if part is None:
                part = tables[name].slice(0, 0).append_column("_weight", pa.array([], pa.int64()))
            _write(folder / name / f"{number:05}.parquet", part, number)
    for name in tpch.DIMENSIONS:
        _write(folder / name / "00000.parquet", tables[name], 0)
    return number + 1


def _write(path: Path, table: pa.Table, number: int) -> None:
    pq.write_table(table, path)
    os.utime(path, (1e9 + number, 1e9 + number))  # Spark reads files in order of their time


def read_stream(spark: Any, folder: Path, tables: Sequence[str]) -> dict[str, Any]:
    """Streams of files, one file of each table per micro-batch."""
    frames = {}
    for name in tables:
        schema = spark.read.parquet(str(folder / name / "00000.parquet")).schema
        frames[name] = spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").parquet(str(folder / name))
    return frames


class Progress:
    """Writes each micro-batch's changes to a folder, and reports the progress of the stream."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "out").mkdir()
        self.delta_rows = dict.fromkeys(VIEWS, 0)
        self.answer_rows = dict.fromkeys(VIEWS, 0)
        self.changes = 0
        self.seconds = 0.0

    def keep(self, batch: Any, number: int) -> None:
        """Deltas are small, so one job of Spark brings them here; each job more would cost as much as the batch."""
        rows = batch.toArrow()
        pq.write_table(rows, self.folder / "out" / f"{number:05}.parquet")
        weights = rows.group_by("_view").aggregate([("_weight", "count"), ("_weight", "sum")])
        for view, number_of_rows, weight in zip(*(column.to_pylist() for column in weights.columns), strict=True):
            self.delta_rows[view] += number_of_rows
            self.answer_rows[view] += weight

    def show(self, query: Any) -> None:
        print("            changes    batch     answer rows")
        print("   changes    per s       ms     " + "".join(f"{name:>8}" for name in VIEWS), flush=True)
        shown = -1
        while True:
            active = query.isActive
            for p in query.recentProgress:
                if p.batchId > shown and p.numInputRows:
                    shown = p.batchId
                    self.changes += p.numInputRows
                    seconds = p.durationMs["triggerExecution"] / 1000
                    self.seconds += seconds
                    cells = "".join(f"{self.answer_rows[v]:>8,}" for v in VIEWS)
                    print(
                        f"{self.changes:>10,} {p.numInputRows / seconds:>8,.0f} {1000 * seconds:>8,.0f}     {cells}",
                        flush=True,
                    )
            if not active:
                break
            time.sleep(0.2)
        query.awaitTermination()


def _check(spark: Any, folder: Path, present: dict[str, pa.Table], progress: Progress) -> int:
    """The sum of all deltas, and the snapshot read from the checkpoint, against Spark SQL over the surviving rows."""
    from pyspark.sql import functions

    from freshet.spark import snapshot, split

    for name, table in present.items():
        pq.write_table(table, folder / f"{name}.parquet")
        spark.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    out = spark.read.parquet(str(folder / "out"))
    wrong = 0
    print("\nview  answer rows  delta rows  rows that differ from Spark SQL: deltas, snapshot")
    for name in VIEWS:
        expected = spark.sql(tpch.QUERIES[name]).persist()
        delta = split(out, name)
        columns = [c for c in delta.columns if c != "_weight"]
        summed = delta.groupBy(*columns).agg(functions.sum("_weight").alias("_weight")).where("_weight <> 0")
        summed = summed.withColumn(
            "_copy", functions.explode(functions.sequence(functions.lit(1), functions.abs("_weight")))
        ).select(*columns)
        answer = snapshot(spark, str(folder / "checkpoint"), name).persist()
        differing = [
            actual.exceptAll(expected).count() + expected.exceptAll(actual).count() for actual in (summed, answer)
        ]
        wrong += sum(differing)
        print(
            f"{name:<5} {expected.count():>11,} {progress.delta_rows[name]:>11,} {differing[0]:>40,} {differing[1]:>9}",
            flush=True,
        )
    if wrong:
        print("\nAnswers differ from Spark SQL's: this is a bug in Freshet.", file=sys.stderr)
        return 1
    print(f"\nAll answers are correct: {progress.changes:,} changes in {progress.seconds:.1f} s.")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make demo", description="TPC-H views kept fresh on Spark over a stream of orders."
    )
    parser.add_argument("--scale", type=float, default=0.05, help="TPC-H scale factor (default 0.05)")
    parser.add_argument("--window", type=float, default=0.35, help="share of the orders in the window (default 0.35)")
    parser.add_argument(
        "--stop",
        type=float,
        default=0.36,
        help="share of the stream to run (default 0.36, early 1995: no answer is empty)",
    )
    parser.add_argument("--batches", type=int, default=12, help="micro-batches (default 12)")
    parser.add_argument("--shards", type=int, help="shards (default: one for each million rows)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
