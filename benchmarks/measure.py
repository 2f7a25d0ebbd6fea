"""The cost of a run through the public API: time of each transaction, delta rows, state. Progress goes to stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from benchmarks.streams import Transaction
from freshet.database.db import Database

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass
class Run:
    """Transactions applied one after the other. Only `db.apply` is timed, not the creation of its input. The clock is
    wall time, or the processor time of this process if others compete for the machine."""

    changes: int = 0
    delta_rows: int = 0
    spent: list[float] = field(default_factory=list)
    clock: str = "wall"

    @property
    def seconds(self) -> float:
        return sum(self.spent)

    @property
    def updates_per_second(self) -> float:
        return self.changes / self.seconds

    @property
    def delta_rows_per_second(self) -> float:
        return self.delta_rows / self.seconds

    def percentile_us(self, percent: float) -> float:
        return float(np.percentile(self.spent, percent)) * 1e6

    def apply(self, db: Database, transaction: Transaction, deltas: bool = True) -> None:
        now = CLOCKS[self.clock]
        start = now()
        tx = db.apply(transaction, deltas=deltas)
        self.spent.append(now() - start)
        self.changes += sum(rows.num_rows for rows in transaction.values())
        if deltas:
            self.delta_rows += sum(delta.num_rows for delta in tx.deltas.values())


@dataclass(frozen=True)
class Figures:
    """One line of a result table."""

    workload: str
    transaction: int
    deltas: bool
    updates_per_second: float
    delta_rows: int
    delta_rows_per_second: float
    p50_us: float
    p99_us: float
    bytes_per_tuple: float

    @staticmethod
    def of(run: Run, workload: str, transaction: int, deltas: bool, bytes_per_tuple: float) -> Figures:
        return Figures(
            workload,
            transaction,
            deltas,
            run.updates_per_second,
            run.delta_rows,
            run.delta_rows_per_second,
            run.percentile_us(50),
            run.percentile_us(99),
            bytes_per_tuple,
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def bytes_per_tuple(db: Database) -> float:
    """All state of the database divided by the number of tuples in its tables."""
    return db.nbytes() / max(db.tuples(), 1)


def figures_table(lines: Iterable[Figures]) -> str:
    return markdown(
        (
            "workload",
            "changes a tx",
            "deltas",
            "updates/s",
            "delta rows",
            "delta rows/s",
            "p50 µs",
            "p99 µs",
            "B/tuple",
        ),
        [
            (
                f.workload,
                f"{f.transaction:,}",
                "yes" if f.deltas else "no",
                f"{f.updates_per_second:,.0f}",
                f"{f.delta_rows:,}",
                f"{f.delta_rows_per_second:,.0f}",
                f"{f.p50_us:,.0f}",
                f"{f.p99_us:,.0f}",
                f"{f.bytes_per_tuple:,.0f}",
            )
            for f in lines
        ],
    )


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: the first column is left-aligned, the others, numbers, are right-aligned."""
    widths = [max(2, *(len(row[i]) for row in [header, *rows])) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))]
        return f"| {' | '.join(padded)} |"

    rule = [("-" * w if i == 0 else "-" * (w - 1) + ":") for i, w in enumerate(widths)]
    return "\n".join([line(header), line(rule), *(line(row) for row in rows)])


def progress(label: str, total: int) -> Callable[[int], None]:
    """Shows the progress of a run, at most every half second."""
    shown = time.perf_counter()

    def show(done: int) -> None:
        nonlocal shown
        now = time.perf_counter()
        if now - shown > 0.5 or done >= total:
            shown = now
            print(f"\r{label}: {100 * done // max(total, 1):3d} %", end="", file=sys.stderr, flush=True)
            if done >= total:
                print(file=sys.stderr)

    return show


def watched(transactions: Iterator[Transaction], label: str, total: int) -> Iterator[Transaction]:
    """The transactions, showing progress between them."""
    show, done = progress(label, total), 0
    for transaction in transactions:
        yield transaction
        done += sum(rows.num_rows for rows in transaction.values())
        show(done)
