"""Speed on Spark: TPC-H Q3 as a FIFO stream of Parquet files, and where the time of each micro-batch goes.

    make bench-spark

Then the latency of a batch of one change on the warm query, and the speed of recovery after all arenas were lost.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks import tpch
from benchmarks.streams import order_window
from examples.spark_demo import read_stream, write_stream
from freshet.job.session import start_spark
from freshet.state.kernel_cache import compile_kernels


def main(arguments: Sequence[str] | None = None) -> int:
    given = options(arguments)
    folder = Path(tempfile.mkdtemp(prefix="freshet-bench-"))
    try:
        _run(given, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _run(options: argparse.Namespace, folder: Path) -> None:
    from freshet.spark import profile

    names = ("customer", "orders", "lineitem")
    tables = tpch.generate(options.scale, (*tpch.DIMENSIONS, "orders", "lineitem"))
    stream = order_window(tables["orders"], tables["lineitem"], 0.2)
    batches = max(1, round(len(stream) / options.batch))
    write_stream(folder / "in", tables, stream, len(stream), batches)
    print(
        f"Q3 at scale factor {options.scale:g}: {len(stream):,} changes in {batches} batches, {options.shards} shards"
    )
    compile_kernels()
    settings = {"spark.driver.memory": "4g", "spark.sql.streaming.minBatchesToRetain": "2"}
    spark = start_spark("local[2]", options.shards, folder / "spark.log", settings)
    try:
        notes = str(folder / "notes")
        _stream(spark, folder, names, options, notes)
        print(
            "\n batch      rows changes/s  trigger  encode  shuffle  read+open  engine  tell   log  commit"
            "   (s, cores added up)     shuffled"
        )
        _stream_report(profile.notes(notes), _shuffles(spark))
        rows, seconds = _one_change(spark, folder, tables, names, options, batches)
        print(f"\nA batch of one change with {rows:,} rows stored: {seconds:.2f} s")
        shutil.rmtree(folder / "arena", ignore_errors=True)
        _one_change(spark, folder, tables, names, options, batches + 1, -1)
        rebuilt = [n for n in profile.notes(notes) if n["step"] == "rebuild"]
        for n in rebuilt:
            print(f"Recovery: {n['rows']:,} rows, {n['seconds']:.2f} s, {n['rows'] / n['seconds']:,.0f} a second")
    finally:
        spark.stop()


_progress: list[Any] = []


def _stream(spark: Any, folder: Path, names: Sequence[str], options: argparse.Namespace, notes: str) -> None:
    from freshet.spark import maintain

    changes = maintain(
        spark, tpch.QUERIES["q3"], read_stream(spark, folder / "in", names), schema=";\n".join(tpch.ddl(names)),
        shards=options.shards, sizes={"customer": 1.0, "orders": 10.0, "lineitem": 40.0}, arena=str(folder / "arena"),
        checkpoint=str(folder / "checkpoint"), profile=notes,
    )  # fmt: skip
    query = (
        changes.writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    _progress[:] = [p for p in query.recentProgress if p.numInputRows]


def _shuffles(spark: Any) -> dict[int, tuple[float, int]]:
    """Seconds spent writing shuffled blocks and waiting for them, and their bytes, by batch, as reported by Spark's
    stages."""
    context = spark.sparkContext
    doubles = context._gateway.new_array(context._jvm.double, 0)
    stages = context._jsc.sc().statusStore().stageList(None, False, False, doubles, context._jvm.java.util.ArrayList())
    shuffles: dict[int, tuple[float, int]] = {}
    for i in range(stages.size()):
        stage = stages.apply(i)
        batch = re.search(r"batch = (\d+)", stage.description().toString())
        if batch:
            seconds, size = shuffles.get(int(batch[1]), (0.0, 0))
            seconds += stage.shuffleWriteTime() / 1e9 + stage.shuffleFetchWaitTime() / 1e3
            shuffles[int(batch[1])] = seconds, size + stage.shuffleWriteBytes()
    return shuffles


def _stream_report(notes: list[dict[str, Any]], shuffles: dict[int, tuple[float, int]]) -> None:
    encodes = [n for n in notes if n["step"] == "encode"]
    levels = [n for n in notes if n["step"] == "level"]
    for number, p in enumerate(_progress):
        own = [n for n in levels if n["version"] == number + 1]
        first = min(n["at"] for n in own) if own else 0.0
        before = [n["seconds"] for n in encodes if n["at"] <= first and not n.get("taken")]
        for n in encodes:
            if n["at"] <= first:
                n["taken"] = True
        seconds = p.durationMs["triggerExecution"] / 1000
        commit = sum(s.commitTimeMs for s in p.stateOperators) / 1000
        opening = sum(n["reading"] + n["opening"] for n in own)
        shuffle, size = shuffles.get(p.batchId, (0.0, 0))
        print(
            f"{number:>6} {p.numInputRows:>9,} {p.numInputRows / seconds:>9,.0f} {seconds:>8.2f} {sum(before):>7.2f} "
            f"{shuffle:>8.2f} {opening:>10.2f} {sum(n['engine'] for n in own):>7.2f} "
            f"{sum(n['telling'] for n in own):>5.2f} {sum(n['logging'] for n in own):>5.2f} {commit:>7.2f} "
            f"{size / 1e6:>26.1f} MB"
        )
    after = _progress[1:] or _progress
    rows = sum(p.numInputRows for p in after)
    seconds = sum(p.durationMs["triggerExecution"] for p in after) / 1000
    print(f"\nAfter the first batch: {rows / seconds:,.0f} changes/s end to end")


def _one_change(
    spark: Any, folder: Path, tables: dict[str, Any], names: Sequence[str], options: argparse.Namespace, number: int,
    weight: int = 1,
) -> tuple[int, float]:  # fmt: skip
    """One more order, or its removal, through a query restarted from the checkpoint, which is warm after an empty
    start."""
    import pyarrow as pa

    order = tables["orders"].slice(0, 1)
    order = order.set_column(0, "o_orderkey", pa.array([-1], order.schema[0].type))
    for step in range(3):
        sign = weight if step % 2 == 0 else -weight
        path = folder / "in" / "orders" / f"{number + step:05}.{weight}.parquet"
        pq.write_table(order.append_column("_weight", pa.array([sign])), path)
        os.utime(path, (2e9 + number + step, 2e9 + number + step))
        if weight < 0:
            break
    _stream(spark, folder, names, options, str(folder / "notes"))
    stored = tables["orders"].num_rows // 5 + tables["lineitem"].num_rows // 5
    return stored, min(p.durationMs["triggerExecution"] for p in _progress) / 1000


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-spark", description="TPC-H Q3 as a FIFO stream on Spark.")
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor (default 1)")
    parser.add_argument("--batch", type=int, default=1_000_000, help="changes a micro-batch (default 1,000,000)")
    parser.add_argument("--shards", type=int, default=2, help="shards (default 2)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    start = time.perf_counter()
    code = main()
    print(f"{time.perf_counter() - start:.0f} s in all")
    sys.exit(code)
