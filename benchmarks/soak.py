"""Memory and files over a long stream, and the slowest of many small transactions: `make soak`.

The stream is first in, first out: a window of rows over two joined tables, in which every inserted row has a new key
and a new text, and the oldest rows are deleted. Resident memory and the size of the folder are sampled; the plateau is
the maximum of each in the second quarter of the stream, and no later sample may exceed 1.3 times that. Then everything
is deleted, after which less than half of the growth since the creation of the views must remain. Finally, one-row
transactions are applied to a growing table: the slowest, including the first, must stay within 50 times the median.
Figures of transactions are processor time of the thread, the lesser of two equal runs for each transaction: growth
costs the same transactions in both, interrupts of the machine others.
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

import numpy as np
import pyarrow as pa

import freshet
from freshet.budget import resident

RESULTS = Path(__file__).parent / "results"
MOST, LEFT, WORST = 1.3, 0.5, 50
DDL = """CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, total BIGINT);
    CREATE TABLE lines (order_id BIGINT, part STRING, price BIGINT)"""
VIEWS = {
    "joined": "SELECT o.customer, l.part, l.price FROM orders AS o JOIN lines AS l ON l.order_id = o.id",
    "sums": "SELECT customer, COUNT(*) AS n, SUM(total) AS total FROM orders GROUP BY customer",
    "parts": "SELECT part, MAX(price) AS most FROM lines GROUP BY part",
}


def orders(first: int, n: int, weight: int = 1) -> pa.RecordBatch:
    ids = np.arange(first, first + n)
    names = pa.array((ids // 3).astype(str).astype(object))
    return pa.record_batch({"id": ids, "customer": names, "total": ids % 997, "_weight": np.full(n, weight)})


def lines(first: int, n: int, weight: int = 1) -> pa.RecordBatch:
    ids = np.arange(first, first + n)
    names = pa.array(np.char.add("part ", (ids // 2).astype(str)).astype(object))
    return pa.record_batch({"order_id": ids, "part": names, "price": ids % 1009, "_weight": np.full(n, weight)})


def both(a: pa.RecordBatch, b: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([a, b])


def size_of(folder: Path) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(folder))


class Samples:
    """Changes so far, resident bytes, bytes of files."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, int, int]] = []

    def take(self, changes: int, folder: Path) -> None:
        self.taken.append((changes, resident(), size_of(folder)))

    def judge(self) -> dict[str, tuple[int, int]]:
        """The plateau and the maximum after it, of memory and files."""
        n, peaks = len(self.taken), {}
        for place, name in ((1, "resident memory"), (2, "files")):
            values = [sample[place] for sample in self.taken]
            peaks[name] = max(values[n // 4 : n // 2]), max(values[n // 2 :])
        return peaks


class Progress:
    """Prints a line on standard error after every twentieth of the work."""

    def __init__(self, what: str, whole: int) -> None:
        self._what, self._whole, self._twentieths = what, whole, 0

    def at(self, done: int) -> None:
        twentieths = 20 * done // self._whole
        if twentieths > self._twentieths:
            print(f"{done:>13,} of {self._whole:,} {self._what}", file=sys.stderr, flush=True)
            self._twentieths = twentieths


Sizes = tuple[int, int]  # resident memory, files


def stream(folder: Path, changes: int, window: int, each: int) -> tuple[Samples, Sizes, Sizes]:
    """The samples, and the sizes after the views were created and after everything was deleted."""
    samples, done, at = Samples(), 0, 0
    per_step = 4 * each  # two tables, an inserted and a deleted row each
    every, progress = max(changes // (400 * per_step), 1), Progress("changes", changes)
    with freshet.connect(folder, durability="os") as db:
        db.execute(DDL)
        for name, sql in VIEWS.items():
            db.create_view(name, sql)
        empty = resident(), size_of(folder)
        while done < changes:
            if at < window:
                db.apply({"orders": orders(at, each), "lines": lines(at, each)}, deltas=False)
                done += 2 * each
            else:
                old = at - window
                db.apply(
                    {
                        "orders": both(orders(at, each), orders(old, each, -1)),
                        "lines": both(lines(at, each), lines(old, each, -1)),
                    }
                )
                done += per_step
            at += each
            progress.at(done)
            if (at // each) % every == 0:
                samples.take(done, folder)
        first = max(at - window, 0)
        for start in range(first, at, each):
            db.apply({"orders": orders(start, each, -1), "lines": lines(start, each, -1)})
        assert db.tuples() == 0
        left = resident(), size_of(folder)
    return samples, empty, left


def one_row(n: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Microseconds of each one-row transaction into a growing table."""
    db, took = freshet.connect(), np.empty(n)
    db.execute(DDL)
    for name, sql in VIEWS.items():
        db.create_view(name, sql)
    progress = Progress("one-row transactions", n)
    for start in range(0, n, 10_000):
        progress.at(start)
        rows, more = orders(start, 10_000), lines(start, 10_000)
        for i in range(min(10_000, n - start)):
            change = {"orders": rows[i : i + 1], "lines": more[i : i + 1]}
            begun = time.thread_time_ns()
            db.apply(change)
            took[start + i] = (time.thread_time_ns() - begun) / 1e3
    return took


def plot(samples: Samples, took: np.ndarray[tuple[int], np.dtype[np.float64]], file: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "freshet"
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    changes = [sample[0] / 1e6 for sample in samples.taken]
    for place, name in ((1, "resident memory"), (2, "files")):
        left.plot(changes, [sample[place] / 1e6 for sample in samples.taken], label=name)
    left.set(xlabel="million changes", ylabel="MB", ylim=0, title="A sliding window")
    left.legend()
    groups = np.array_split(took, min(200, len(took)))
    places = np.linspace(0, len(took) / 1e3, len(groups))
    right.semilogy(places, [g.max() for g in groups], label="worst")
    right.semilogy(places, [np.median(g) for g in groups], label="median")
    right.set(
        xlabel="thousand transactions", ylabel="µs of processor time", title="One-row transactions, growing tables"
    )
    right.legend()
    file.parent.mkdir(exist_ok=True)
    figure.savefig(file, metadata={"Date": None})


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--changes", type=int, default=100_000_000)
    parser.add_argument("--window", type=int, default=200_000, help="rows of each table")
    parser.add_argument("--each", type=int, default=10_000, help="rows of a table inserted per transaction")
    parser.add_argument("--transactions", type=int, default=1_000_000, help="number of one-row transactions")
    parser.add_argument("--plot", type=Path, default=RESULTS / "soak.svg")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    given = options(arguments)
    freshet.connect()
    folder = Path(tempfile.mkdtemp(prefix="freshet-soak-"))
    try:
        samples, empty, ended = stream(folder / "db", given.changes, given.window, given.each)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    failed = False
    for (name, (plateau, most)), before, left in zip(samples.judge().items(), empty, ended, strict=True):
        failed |= most > MOST * plateau or left - before > LEFT * (plateau - before)
        print(
            f"{name}: {before / 1e6:,.0f} MB without rows, plateau {plateau / 1e6:,.0f} MB, at most "
            f"{most / 1e6:,.0f} MB after it ({most / plateau:.2f} x), {left / 1e6:,.0f} MB after everything is deleted"
        )
    took = np.minimum(one_row(given.transactions), one_row(given.transactions))
    worst, median = took.max(), float(np.median(took))
    failed |= worst > WORST * median
    print(f"one-row transactions: median {median:,.0f} us, worst {worst:,.0f} us ({worst / median:.1f} x)")
    plot(samples, took, given.plot)
    print(f"plot: {given.plot}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
