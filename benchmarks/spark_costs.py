"""What views cost on Spark next to an empty pipeline of the same shape, in processor time of all processes.

    python -m benchmarks.spark_costs --scale 0.05

Over the same files, in one session: a pipeline that keeps nothing, four TPC-H views with a sink that writes nothing,
and the same views materialized into folders, twice, because Java compiles what is new to it. Then batches of one
change. Wall-clock times depend on what else the machine does; processor times, and their ratios, much less.

    python -m benchmarks.spark_costs --start      the start alone: a session, and its first batch of four views
    python -m benchmarks.spark_costs --pause 65   batches of one change of a query that runs, and one after a pause

`--start` says whether Java took its classes from the archive that `freshet doctor --prepare` makes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks import tpch
from benchmarks.streams import order_window
from examples.spark_demo import STREAM, VIEWS, read_stream, write_stream
from freshet.job.session import start_spark
from freshet.spark import maintain, materialize
from freshet.spark.encode import BLOCKS, blocks_batch
from freshet.state.kernel_cache import compile_kernels

ONE = 5  # batches of one change


class Counting(StatefulProcessor):
    """Keeps how often it was called, and nothing else."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.calls = handle.getValueState("calls", "calls BIGINT")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        payload = sum(len(row.payload) for row in rows)
        found = self.calls.get()
        self.calls.update((1 if found is None else found[0] + 1,))
        yield Row(key=key[0], level=0, stream="", payload=payload.to_bytes(8, "little"))

    def close(self) -> None:
        pass


def _sized(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield blocks_batch([(0, 0, "", batch.nbytes.to_bytes(8, "little"))])


def _passed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def empty(streams: dict[str, DataFrame]) -> DataFrame:
    """A pipeline of the shape of four views on one shard."""
    first, *others = (df.mapInArrow(_sized, BLOCKS) for df in streams.values())
    for other in others:
        first = first.union(other)
    counted = first.groupBy("key").transformWithState(Counting(), BLOCKS, "append", "none")
    return counted.mapInArrow(_passed, BLOCKS)


def spent() -> float:
    """Processor seconds of this process and all below it so far."""
    root, total = psutil.Process(), 0.0
    for process in (root, *root.children(recursive=True)):
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:  # counted by the process that has waited for it
            continue
    return total


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.05, help="TPC-H scale factor (default 0.05)")
    parser.add_argument("--batches", type=int, default=12, help="micro-batches (default 12)")
    parser.add_argument("--start", action="store_true", help="only the start of a session and its first batch")
    parser.add_argument("--pause", type=float, help="only batches of one change, and one after so many seconds")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    given = options(arguments)
    folder = Path(tempfile.mkdtemp(prefix="freshet-costs-"))
    try:
        _measure(given, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _measure(options: argparse.Namespace, folder: Path) -> None:
    tables = tpch.generate(options.scale, (*tpch.DIMENSIONS, *STREAM))
    stream = order_window(tables["orders"], tables["lineitem"], 0.35)
    last = round(len(stream) * 0.6)
    batches = write_stream(folder / "all", tables, stream, last, options.batches)
    rows = sum(table.num_rows for table in tables.values())
    print(f"scale factor {options.scale:g}: {rows:,} rows, {last:,} changes in {batches} batches")
    compile_kernels()
    settings = {"spark.driver.memory": "2g", "spark.sql.streaming.minBatchesToRetain": "2"}
    before = time.perf_counter(), spent()
    spark = start_spark("local[2]", 1, folder / "spark.log", settings)
    try:
        views = Views(spark, tables)
        if options.start:
            _start(views, folder, before)
        elif options.pause is not None:
            _pause(views, folder, batches, options.pause)
        else:
            _report(_all(views, folder, batches), last / batches)
    finally:
        spark.stop()


class Views:
    """Four TPC-H views over the files of a folder."""

    def __init__(self, spark: Any, tables: dict[str, pa.Table]) -> None:
        self.spark, self.tables = spark, list(tables)
        self.ddl = ";\n".join(tpch.ddl(tables))
        self.sizes = {name: float(table.num_rows) for name, table in tables.items()}

    def over(self, place: Path) -> DataFrame:
        queries = {name: tpch.QUERIES[name] for name in VIEWS}
        return maintain(
            self.spark, queries, self.sources(place), schema=self.ddl, shards=1, sizes=self.sizes,
            arena=str(place / "arena"), checkpoint=str(place / "at"),
        )  # fmt: skip

    def sources(self, place: Path) -> dict[str, DataFrame]:
        return read_stream(self.spark, place / "in", self.tables)


def _bring(folder: Path, place: Path, number: int, batches: int) -> None:
    """The files of a micro-batch; those after the last have one change."""
    for path in sorted((folder / "all").rglob(f"{number:05}.parquet")):
        _placed(path, place / "in" / path.parent.name / path.name)
    if number >= batches:
        _one_change(folder, place, number, batches)


def _start(views: Views, folder: Path, before: tuple[float, float]) -> None:
    ready = time.perf_counter(), spent()
    place = folder / "start"
    _bring(folder, place, 0, 1 << 30)
    writer = views.over(place).writeStream.format("noop").option("checkpointLocation", str(place / "at"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    done = time.perf_counter(), spent()
    flags = views.spark.sparkContext.getConf().get("spark.driver.extraJavaOptions", "")
    print(f"\nclasses from {'an archive' if 'SharedArchiveFile' in flags else 'jars'}")
    print(f"{'':28}{'processor seconds':>20}{'seconds':>12}")
    for name, begin, end in (("session", before, ready), ("views and their first batch", ready, done)):
        print(f"{name:28}{end[1] - begin[1]:>20.2f}{end[0] - begin[0]:>12.2f}")
    first = query.recentProgress[0].durationMs["triggerExecution"] / 1000
    print(f"{'  of which the batch':28}{'':>20}{first:>12.2f}")


def _pause(views: Views, folder: Path, batches: int, pause: float) -> None:
    """A query that runs: its batches of one change, and the one after a pause, in which Spark ends idle workers."""
    place = folder / "pause"
    _bring(folder, place, 0, batches)
    writer = views.over(place).writeStream.format("noop").option("checkpointLocation", str(place / "at"))
    query = writer.trigger(processingTime="200 milliseconds").start()
    taken, warm = _took(query, 0), []
    for number in range(batches, batches + 3 * ONE):
        _bring(folder, place, number, batches)
        warm.append(_took(query, taken.batchId + 1))
        taken = warm[-1]
    time.sleep(pause)
    _bring(folder, place, batches + 3 * ONE, batches)
    after = _took(query, taken.batchId + 1).durationMs["triggerExecution"] / 1000
    query.stop()
    usual = statistics.median(p.durationMs["triggerExecution"] for p in warm[ONE:]) / 1000
    print(
        f"\nA warm batch of one change: {usual:.2f} s; after {pause:g} s of rest: {after:.2f} s, {after / usual:.1f} x"
    )


def _took(query: Any, number: int) -> Any:
    """The progress of a micro-batch, once it is over."""
    while True:
        error = query.exception()
        if error is not None:
            raise error
        for progress in query.recentProgress:
            if progress.batchId >= number and progress.numInputRows:
                return progress
        time.sleep(0.05)


def _all(views: Views, folder: Path, batches: int) -> dict[str, list[float]]:
    def unwritten(changes: DataFrame, place: Path) -> Any:
        writer = changes.writeStream.format("noop").option("checkpointLocation", str(place / "at"))
        return writer.trigger(availableNow=True).start()

    def nothing(place: Path) -> Any:
        return unwritten(empty(views.sources(place)), place)

    def copied(place: Path) -> Any:
        targets = {v: str(place / v) for v in VIEWS}
        return materialize(views.over(place), targets, checkpoint=str(place / "at"), trigger={"availableNow": True})

    ways: dict[str, Callable[[Path], Any]] = {
        "empty, in a new session": nothing,
        "empty": nothing,
        "four views, no sink": lambda place: unwritten(views.over(place), place),
        "materialized, first query": copied,
        "four views, materialized": copied,
    }
    return {name: _costs(folder, folder / f"way{i}", way, batches) for i, (name, way) in enumerate(ways.items())}


def _costs(folder: Path, place: Path, start: Callable[[Path], Any], batches: int) -> list[float]:
    """Processor seconds of the first batch, of each later one, and of each of one change. Those of a run without a
    new batch are taken off."""
    found = []
    for chosen in (range(1), range(1, batches), range(batches, batches + ONE)):
        for number in chosen:
            _bring(folder, place, number, batches)
        before = spent()
        start(place).awaitTermination()
        between = spent()
        start(place).awaitTermination()
        found.append((2 * between - before - spent()) / len(chosen))
    return found


def _placed(path: Path, at: Path) -> None:
    at.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, at)


def _one_change(folder: Path, place: Path, number: int, batches: int) -> None:
    """Orders come, one a batch, with keys that no order has; nothing else changes."""
    order = pq.read_table(folder / "all" / "orders" / f"{batches - 1:05}.parquet").slice(0, 1)
    keys = pa.array([1_000_000_000 + number], order.schema.field("o_orderkey").type)
    order = order.set_column(order.schema.get_field_index("o_orderkey"), "o_orderkey", keys)
    order = order.set_column(order.schema.get_field_index("_weight"), "_weight", pa.array([1], pa.int64()))
    nothing = pq.read_table(folder / "all" / "lineitem" / f"{batches - 1:05}.parquet").slice(0, 0)
    for name, rows in (("orders", order), ("lineitem", nothing)):
        path = place / "in" / name / f"{number:05}.parquet"
        pq.write_table(rows, path)
        os.utime(path, (1e9 + number, 1e9 + number))


def _report(found: dict[str, list[float]], changes: float) -> None:
    base = found["empty"]
    print(f"\n{'processor seconds':28}{'first batch':>18}{f'of {changes:,.0f} changes':>24}{'of one change':>20}")
    for name, costs in found.items():
        shown = [f"{c:.2f} ({c / b:.2f} x)" for c, b in zip(costs, base, strict=True)]
        print(f"{name:28}{shown[0]:>18}{shown[1]:>24}{shown[2]:>20}")


if __name__ == "__main__":
    sys.exit(main())
