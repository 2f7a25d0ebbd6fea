"""What every experiment shares: how a stream is run and what is counted, tables with plots, and verdicts.

Cost is reported twice. Counters changed are what the theory bounds, and do not depend on the machine; microseconds also
contain caches that no longer suffice as data grows, which no theory of operations counts. A verdict says which of the
two it is about.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.measure import CLOCKS, Run, bytes_per_tuple
from benchmarks.streams import Transaction
from freshet.database.db import Database, inside
from freshet.database.view import View
from freshet.engine.work import Work

FLAT = 1.5  # how much a cost may grow that theory calls constant, as data grows a hundredfold
Cell = str | int | float | None
Row = dict[str, Cell]


@dataclass(frozen=True)
class Size:
    """How much to do: `full` in some minutes, `quick` in one or two, `tiny` for tests. `seconds`: at most for one
    stream; what is measured then is the part that was done. `clock`: the wall's, or this process's own."""

    name: str
    seconds: float
    clock: str = "wall"

    def now(self) -> float:
        return CLOCKS[self.clock]()

    def pick(self, full: int, quick: int, tiny: int) -> int:
        return {"full": full, "quick": quick, "tiny": tiny}[self.name]

    def scales(self, full: Sequence[float], quick: Sequence[float], tiny: Sequence[float]) -> Sequence[float]:
        return {"full": full, "quick": quick, "tiny": tiny}[self.name]


#: Tests compare steps with those recorded, so that a tiny stream is run to its end on any machine.
SIZES = {"full": Size("full", 8), "quick": Size("quick", 4), "tiny": Size("tiny", 120)}


@dataclass(frozen=True)
class Plot:
    """Lines or bars of `y` over `x`, one series for each value of the column `series`."""

    x: str
    y: str
    series: str = ""
    bars: bool = False
    log: str = ""  # "x", "y" or "xy"


@dataclass(frozen=True)
class Verdict:
    text: str
    held: bool


@dataclass
class Result:
    """One figure of a paper: a table, its plot, and what theory says of it. `name` is the file it is written to."""

    name: str
    title: str
    plot: Plot
    rows: list[Row] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)

    def series(self, column: str, **where: Cell) -> list[float]:
        """A column's values in the rows where other columns have these values."""
        chosen = [row for row in self.rows if all(row[c] == v for c, v in where.items())]
        return [float(v) for row in chosen if isinstance(v := row[column], (int, float))]

    def flat(self, column: str, **where: Cell) -> None:
        """Theory says constant: the value at the largest size is at most FLAT times that at the smallest (or 0.1, where
        it is less)."""
        values = self.series(column, **where)
        if len(values) > 1:
            most = FLAT * max(values[0], 0.1)
            found = f"from {values[0]:.3g} to {values[-1]:.3g} (constant: at most {most:.3g})"
            self._judge(f"{column} flat", found, values[-1] <= most, where)

    def logarithmic(self, x: str, column: str, **where: Cell) -> None:
        """Theory says logarithmic: beyond the growth of log x, the value is flat."""
        sizes, values = self.series(x, **where), self.series(column, **where)
        if len(values) > 1:
            ratio, log = values[-1] / values[0], math.log(sizes[-1]) / math.log(sizes[0])
            found = f"from {values[0]:.3g} to {values[-1]:.3g}, {ratio:.2f} times (logarithmic: {FLAT * log:.2f})"
            self._judge(f"{column} logarithmic in {x}", found, ratio <= FLAT * log, where)

    def linear(self, x: str, column: str, at_most: bool = False, **where: Cell) -> None:
        """Theory says linear: the slope of logarithms, where x has grown beyond its least value. Time has a fixed part
        beside what grows, and is only held to be at most linear."""
        pairs = [p for p in zip(self.series(x, **where), self.series(column, **where), strict=True) if min(p) > 0][1:]
        if len(pairs) > 1:
            logs = np.log(np.array(pairs))
            slope = float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
            bounds = "at most 1.25" if at_most else "0.75 to 1.25"
            held = slope <= 1.25 and (at_most or slope >= 0.75)
            words = f"{column} {'at most ' if at_most else ''}linear in {x}"
            self._judge(words, f"grows as {x}^{slope:.2f} (linear: {bounds})", held, where)

    def _judge(self, what: str, found: str, held: bool, where: dict[str, Cell]) -> None:
        of = ", ".join(str(v) for v in where.values())
        self.verdicts.append(Verdict(f"{of + ': ' if of else ''}{what}: {found}", held))


@dataclass(frozen=True)
class Cost:
    """What a stream cost. `part`: how much of it was done before the time was up; `tuples` and `nbytes`: what the
    database holds at the end."""

    changes: int
    seconds: float
    work: Work
    delta_rows: int
    bytes_per_tuple: float
    part: float
    p50_us: float
    p99_us: float
    tuples: int
    nbytes: int

    def per_change(self) -> float:
        return self.seconds / max(self.changes, 1)

    def row(self) -> Row:
        """The columns most tables have."""
        return {
            "changes": self.changes,
            "µs a change": round(1e6 * self.per_change(), 3),
            "counters a change": round(self.work.counters / max(self.changes, 1), 4),
            "steps a change": round(self.work.steps / max(self.changes, 1), 4),
            "delta rows": self.delta_rows,
            "B a tuple": round(self.bytes_per_tuple),
            "done": round(self.part, 3),
        }


def work(view: View) -> Work:
    """What keeping the view has taken so far, in steps that depend on the data alone."""
    return inside(view).operator.work()


def stream_cost(
    db: Database,
    view: View,
    transactions: Iterable[Transaction],
    total: int,
    size: Size,
    deltas: bool = True,
    between: Callable[[int], None] | None = None,
) -> Cost:
    """Applies transactions, `total` changes in all, until they or the time are up. `between` is called after each with
    the changes so far; it is on the clock too."""
    run, before, state = Run(clock=size.clock), work(view), 0.0
    began, started = size.now(), time.perf_counter()
    for transaction in transactions:
        run.apply(db, transaction, deltas)
        if between is not None:
            between(run.changes)
        if not state and 2 * run.changes >= total:
            state = bytes_per_tuple(db)  # halfway a window is full
        if time.perf_counter() - started > size.seconds:
            break
    seconds = size.now() - began if between is not None else run.seconds
    spent = run.spent or [0.0]
    return Cost(
        run.changes, seconds, work(view) - before, run.delta_rows, state or bytes_per_tuple(db),
        run.changes / max(total, 1), 1e6 * float(np.percentile(spent, 50)), 1e6 * float(np.percentile(spent, 99)),
        db.tuples(), db.nbytes(),
    )  # fmt: skip


def sweep(size: Size, once: Callable[[], list[Cost]]) -> list[Cost]:
    """The costs of streams that differ in size, each that of the run of middle speed among several. All sizes take
    their turn before any is run again: what else the machine does for a while then meets all of them alike."""
    runs = [once() for _ in range(size.pick(5, 1, 1))]
    return [sorted(costs, key=Cost.per_change)[len(runs) // 2] for costs in zip(*runs, strict=True)]


def recompute_seconds(sql: str, tables: dict[str, pa.Table], size: Size) -> float:
    """DuckDB's time to answer the query anew over these tables, the rows fetched: what each transaction would cost
    without a view. The middle of three, or infinity where it takes longer than a stream may."""
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        for name, table in tables.items():
            connection.register("_given", table)
            connection.execute(f"CREATE TABLE {name} AS FROM _given")
        spent = []
        for _ in range(3):
            began, started = size.now(), time.perf_counter()
            reader = connection.execute(sql).to_arrow_reader(65_536)
            for _ in reader:
                if time.perf_counter() - started > size.seconds:
                    return math.inf
            spent.append(size.now() - began)
    return median(spent)
