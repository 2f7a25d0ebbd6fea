"""Several views over one stream, maintained by one thread and by several: the same transactions, one after the other.

python -m benchmarks.threads [--scale 0.05] [--threads 2] [--size 10000] [--views 8]

Wall time, so the machine must be quiet; processor time shows what the threads cost in addition. The views are variants
of TPC-H Q3, Q5, Q10 and Q12 that differ in their dates, over a sliding window of orders and their lines.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from statistics import median

import freshet
from benchmarks import tpch
from benchmarks.many_views import variant
from benchmarks.measure import watched
from benchmarks.streams import order_window
from freshet.database.db import Database

NUMBERS = (3, 5, 10, 12)


def opened(queries: Sequence[str], scale: float, threads: int) -> Database:
    text = "\n".join(queries)
    tables, columns = tpch.generate(scale, tpch.tables_of(text)), tpch.columns_of(text)
    db: Database = freshet.connect(threads=threads)
    for statement in tpch.ddl(tables, columns):
        db.execute(statement)
    for i, query in enumerate(queries):
        db.create_view(f"v{i}", query)
    still = {name: table for name, table in tables.items() if name not in ("orders", "lineitem")}
    db.apply(
        {name: table.select(db.query(f"SELECT * FROM {name} LIMIT 0").column_names) for name, table in still.items()}
    )
    return db


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.threads", description=__doc__)
    parser.add_argument("--scale", type=float, default=0.05)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--size", type=int, default=10_000, help="changes in a transaction")
    parser.add_argument("--views", type=int, default=8)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    given = options(arguments)
    queries = [variant(NUMBERS[i % len(NUMBERS)], 20 * i) for i in range(given.views)]
    databases = [opened(queries, given.scale, threads) for threads in (1, given.threads)]
    moving = tpch.generate(given.scale, ("orders", "lineitem"))
    window = order_window(moving["orders"], moving["lineitem"], 0.2)
    kept = {name: [*databases[0].query(f"SELECT * FROM {name} LIMIT 0").column_names, "_weight"] for name in moving}
    wall: list[list[float]] = [[], []]
    processor: list[list[float]] = [[], []]
    for changes in watched(window.transactions(given.size), "threads", len(window)):
        own = {name: table.select(kept[name]) for name, table in changes.items()}
        for i, db in enumerate(databases):
            begun, used = time.perf_counter(), time.process_time()
            db.apply(own)
            wall[i].append(time.perf_counter() - begun)
            processor[i].append(time.process_time() - used)
    for i in range(len(queries)):
        assert databases[0].view(f"v{i}").count() == databases[1].view(f"v{i}").count()
    ratios = [one / several for one, several in zip(*wall, strict=True)]
    print(f"{len(queries)} views, {len(ratios)} transactions of {given.size:,} changes, TPC-H at {given.scale}")
    for i, threads in enumerate((1, given.threads)):
        rate = len(window) / sum(wall[i])
        print(f"{threads} thread(s): {rate:12,.0f} changes/s of wall time, {sum(processor[i]):.2f} s of processor time")
    print(f"faster: {sum(wall[0]) / sum(wall[1]):.2f} x in all, {median(ratios):.2f} x in the median transaction")
    return 0


if __name__ == "__main__":
    sys.exit(main())
