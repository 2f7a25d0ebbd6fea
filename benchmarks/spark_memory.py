"""Memory of Spark's processes over a stream of some hundred micro-batches: Java's heap, and the resident memory of the
driver, of Java and of the Python workers.

    python -m benchmarks.spark_memory --batches 400

The stream is first in, first out, over the tables and views of `benchmarks.soak`: a window of rows, each with a new key
and a new text, and every micro-batch replaces a part of it. Samples are taken while the query runs. The plateau of a
figure is its maximum in the second quarter of the samples, and no later sample may exceed 1.3 times that. Java's heap
is what is in use after a full collection, at every tenth sample. The memory of workers is their proportional share
(PSS) on Linux: they are forked from one process, and what they share counts once.
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

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.soak import DDL, MOST, VIEWS, both, lines, orders
from freshet.job.session import start_spark
from freshet.spark import maintain
from freshet.state.kernel_cache import compile_kernels

AHEAD = 4  # files beyond the batch that runs
FULL = 10  # samples from one full collection to the next; fewer in a short run
LEAST = 4  # samples that can be judged


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=400, help="micro-batches (default 400)")
    parser.add_argument("--window", type=int, default=20_000, help="rows of each table (default 20,000)")
    parser.add_argument("--each", type=int, default=1_000, help="rows replaced by a micro-batch (default 1,000)")
    parser.add_argument("--seconds", type=float, help="end after so many seconds")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    given = options(arguments)
    folder = Path(tempfile.mkdtemp(prefix="freshet-memory-"))
    try:
        return _judged(_run(given, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(options: argparse.Namespace, folder: Path) -> list[dict[str, float]]:
    compile_kernels()
    spark = start_spark("local[2]", 1, folder / "spark.log", {"spark.driver.memory": "1g"})
    try:
        _feed(folder, 0, options)
        streams = {}
        for name in ("orders", "lines"):
            schema = spark.read.parquet(str(folder / "in" / name)).schema
            reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", "1")
            streams[name] = reader.option("cleanSource", "delete").parquet(str(folder / "in" / name))
        changes = maintain(spark, VIEWS, streams, schema=DDL, shards=1, checkpoint=str(folder / "at"))
        writer = changes.writeStream.format("noop").option("checkpointLocation", str(folder / "at"))
        query = writer.trigger(processingTime="0 seconds").start()
        samples = _watched(spark, query, folder, options)
        query.stop()
        return samples
    finally:
        spark.stop()


def _watched(spark: Any, query: Any, folder: Path, options: argparse.Namespace) -> list[dict[str, float]]:
    """Feeds the query, and takes a sample after each micro-batch."""
    fed, done, samples = 1, -1, list[dict[str, float]]()
    full = min(FULL, max(1, options.batches // 20))
    end = time.monotonic() + (options.seconds or 1e9)
    while done + 1 < options.batches and time.monotonic() < end:
        while fed < min(done + 1 + AHEAD, options.batches):
            _feed(folder, fed, options)
            fed += 1
        error = query.exception()
        if error is not None:
            raise error
        last = query.lastProgress
        if last is None or last.batchId == done:
            time.sleep(0.02)
            continue
        done = int(last.batchId)
        samples.append(_sample(spark, len(samples) % full == 0))
        if len(samples) % 20 == 0:
            shown = "  ".join(f"{name} {samples[-1][name] / 1e6:,.0f} MB" for name in ("java", "driver", "workers"))
            print(f"batch {done:>5}  {shown}", file=sys.stderr, flush=True)
    print(f"{done + 1} micro-batches")
    return samples


def _feed(folder: Path, number: int, options: argparse.Namespace) -> None:
    """The rows of a micro-batch: the window at first, and then new ones for the oldest."""
    first, each = options.window + (number - 1) * options.each, options.each
    for name, rows in (("orders", orders), ("lines", lines)):
        table = (
            pa.Table.from_batches([rows(0, options.window)])
            if number == 0
            else both(rows(first, each), rows(first - options.window, each, -1))
        )
        (folder / "in" / name).mkdir(parents=True, exist_ok=True)
        draft = folder / f"{name}.draft"
        pq.write_table(table, draft)
        os.utime(draft, (1e9 + number, 1e9 + number))
        draft.rename(folder / "in" / name / f"{number:06}.parquet")


def _sample(spark: Any, full: bool) -> dict[str, float]:
    sizes = {"driver": float(psutil.Process().memory_info().rss), "java": 0.0, "workers": 0.0, "processes": 0.0}
    for process in psutil.Process().children(recursive=True):
        try:
            if process.name() == "java":
                sizes["java"] += process.memory_info().rss
            elif "python" in process.name():  # not what Java starts for a moment
                sizes["workers"] += process.memory_full_info().pss if psutil.LINUX else process.memory_info().rss
                sizes["processes"] += 1
        except psutil.NoSuchProcess:  # a worker that has ended
            continue
    if full:
        runtime = spark.sparkContext._jvm.java.lang.Runtime.getRuntime()
        spark.sparkContext._jvm.java.lang.System.gc()
        sizes["heap"] = float(runtime.totalMemory() - runtime.freeMemory())
    return sizes


def _judged(samples: list[dict[str, float]]) -> int:
    grew = 0
    if not samples:
        print("no samples; give it more --batches", file=sys.stderr)
        return 1
    most = max(int(sample["processes"]) for sample in samples)
    print(f"Python processes at most: {most}; at the end: {int(samples[-1]['processes'])}")
    print(f"\n{'':10}{'plateau':>12}{'later':>12}{'ratio':>8}")
    for name in ("heap", "java", "driver", "workers"):
        values = [sample[name] for sample in samples if name in sample]
        if len(values) < LEAST:
            print(f"{name:10}too few samples; give it more --batches")
            continue
        plateau, later = max(values[len(values) // 4 : len(values) // 2]), max(values[len(values) // 2 :])
        grew += later > MOST * plateau
        print(f"{name:10}{plateau / 1e6:>9,.0f} MB{later / 1e6:>9,.0f} MB{later / plateau:>8.2f}")
    if grew:
        print(f"\nMemory grows: more than {MOST} times the plateau.", file=sys.stderr)
    return 1 if grew else 0


if __name__ == "__main__":
    sys.exit(main())
