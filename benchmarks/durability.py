"""The cost of durability, and the speed of opening a database: `python -m benchmarks.durability`.

Figures are processor time, so that they mean the same on a busy machine; the time of the disk for an fsync is not
included.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import freshet
from freshet.database.db import inside

DDL = "CREATE TABLE t (id BIGINT PRIMARY KEY, g STRING, x BIGINT)"
VIEW = "SELECT g, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY g"


def rows(start: int, n: int) -> pa.RecordBatch:
    ids = np.arange(start, start + n)
    return pa.record_batch({"id": ids, "g": [f"group {i % 1000}" for i in ids.tolist()], "x": ids})


def database(folder: Path | None, **options: Any) -> freshet.Database:
    db = freshet.connect(folder, **options)
    db.execute(DDL)
    db.create_view("v", VIEW)
    return db


def spent(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def one_row_transactions(folder: Path, n: int) -> None:
    ways: list[tuple[str, Path | None, dict[str, str]]] = [("in memory", None, {})]
    ways += [(level, folder / level, {"durability": level}) for level in ("none", "os", "fsync")]
    batches = [rows(i, 1) for i in range(2 * n)]
    base = 0.0
    for name, place, options in ways:
        with database(place, **options) as db:
            for batch in batches[:n]:
                db.apply({"t": batch})
            took = spent(lambda db=db: [db.apply({"t": batch}) for batch in batches[n:]])  # type: ignore[misc]
        base = base or took
        print(f"one row a transaction, {name:<9} {1e6 * took / n:8.1f} µs  {took / base:5.2f} × in memory")


def recovery(folder: Path, n: int, each: int) -> None:
    db = database(folder, durability="os")
    for start in range(0, n, each):
        db.apply({"t": rows(start, min(each, n - start))}, deltas=False)
    store = inside(db).store
    assert store is not None
    store.release()  # like a killed process
    took = spent(lambda: freshet.connect(folder).close())
    opened = spent(lambda: freshet.connect(folder).close())
    size = (folder / "checkpoint").stat().st_size
    print(
        f"{n:,} rows in transactions of {each:,}: recovered and closed at {n / took:,.0f} rows/s, "
        f"then opened in {1e3 * opened:.1f} ms (checkpoint {size / 1e6:.0f} MB)"
    )


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.durability", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--transactions", type=int, default=5_000)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    given = options(arguments)
    freshet.connect()
    folder = Path(tempfile.mkdtemp(prefix="freshet-durability-"))
    try:
        one_row_transactions(folder, given.transactions)
        recovery(folder / "bulk", given.rows, 20_000)
        recovery(folder / "single", given.rows // 20, 1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
