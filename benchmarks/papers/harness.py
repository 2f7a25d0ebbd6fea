"""The shared parts of all experiments: running streams and counting, tables with plots, and verdicts.

Cost is reported twice. Theory bounds the counters changed, which do not depend on the machine; microseconds also
include cache misses, which increase as data grows and which the theory does not count. A verdict says which of the two
it is about.
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

FLAT = 1.5  # how much a cost that is constant in theory may grow as data grows a hundredfold
Cell = str | int | float | None
Row = dict[str, Cell]


@dataclass(frozen=True)
class Size:
    """The amount of work: `full` takes some minutes, `quick` one or two, `tiny` is for tests; `large` is that of the
    papers where they have more than `full`, and takes hours. `seconds`: the limit for one stream; if it is reached, the
    finished part is measured. `clock`: wall time, or processor time."""

    name: str
    seconds: float
    clock: str = "wall"

    def now(self) -> float:
        return CLOCKS[self.clock]()

    def pick(self, full: int, quick: int, tiny: int, large: int | None = None) -> int:
        return {"full": full, "quick": quick, "tiny": tiny, "large": full if large is None else large}[self.name]

    def scales(
        self, full: Sequence[float], quick: Sequence[float], tiny: Sequence[float], large: Sequence[float] | None = None
    ) -> Sequence[float]:
        return {"full": full, "quick": quick, "tiny": tiny, "large": full if large is None else large}[self.name]


#: Tests compare steps with the recorded ones, so a tiny stream is run to its end on any machine.
SIZES = {
    "large": Size("large", 1_800), "full": Size("full", 8), "quick": Size("quick", 4), "tiny": Size("tiny", 120),
}  # fmt: skip


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
    """One figure of a paper: a table, its plot, and what theory says about it. `name` is the name of its files."""

    name: str
    title: str
    plot: Plot
    rows: list[Row] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)

    def series(self, column: str, **where: Cell) -> list[float]:
        """A column's values in the rows in which other columns have these values."""
        chosen = [row for row in self.rows if all(row[c] == v for c, v in where.items())]
        return [float(v) for row in chosen if isinstance(v := row[column], (int, float))]

    def flat(self, column: str, **where: Cell) -> None:
        """Theory says constant: the value at the largest size is at most FLAT times that at the smallest (or 0.1, if
        that is less)."""
        values = self.series(column, **where)
        if len(values) > 1:
            most = FLAT * max(values[0], 0.1)
            measured = f"from {values[0]:.3g} to {values[-1]:.3g} (constant: at most {most:.3g})"
            self._judge(f"{column} flat", measured, values[-1] <= most, where)

    def logarithmic(self, x: str, column: str, **where: Cell) -> None:
        """Theory says logarithmic: beyond the growth of log x, the value is flat."""
        sizes, values = self.series(x, **where), self.series(column, **where)
        if len(values) > 1:
            ratio, log = values[-1] / values[0], math.log(sizes[-1]) / math.log(sizes[0])
            measured = f"from {values[0]:.3g} to {values[-1]:.3g}, {ratio:.2f} times (logarithmic: {FLAT * log:.2f})"
            self._judge(f"{column} logarithmic in {x}", measured, ratio <= FLAT * log, where)

    def linear(self, x: str, column: str, at_most: bool = False, **where: Cell) -> None:
        """Theory says linear: the slope of logarithms, beyond the least value of x. Time also has a fixed part, and is
        only required to be at most linear."""
        pairs = [p for p in zip(self.series(x, **where), self.series(column, **where), strict=True) if min(p) > 0][1:]
        if len(pairs) > 1:
            logs = np.log(np.array(pairs))
            slope = float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
            bounds = "at most 1.25" if at_most else "0.75 to 1.25"
            held = slope <= 1.25 and (at_most or slope >= 0.75)
            words = f"{column} {'at most ' if at_most else ''}linear in {x}"
            self._judge(words, f"grows as {x}^{slope:.2f} (linear: {bounds})", held, where)

    def _judge(self, what: str, measured: str, held: bool, where: dict[str, Cell]) -> None:
        of = ", ".join(str(v) for v in where.values())
        self.verdicts.append(Verdict(f"{of + ': ' if of else ''}{what}: {measured}", held))


@dataclass(frozen=True)
class Cost:
    """The cost of a stream. `part`: how much of it was done before the time limit; `tuples` and `nbytes`: the size of
    the database at the end."""

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
        """The columns of most tables."""
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
    """The cost of maintaining the view so far, in steps, which depend only on the data."""
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
    """Applies transactions, `total` changes in all, until the end or the time limit. `between` is called after each
    with the number of changes so far; its time is included."""
    run, before, state = Run(clock=size.clock), work(view), 0.0
    began, started = size.now(), time.perf_counter()
    for transaction in transactions:
        run.apply(db, transaction, deltas)
        if between is not None:
            between(run.changes)
        if not state and 2 * run.changes >= total:
            state = bytes_per_tuple(db)  # halfway through, a window is full
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
    """The costs of streams of different sizes, each from the run of median speed. All sizes are run before any is run
    again, so that other work of the machine affects all of them alike."""
    runs = [once() for _ in range(size.pick(5, 1, 1))]
    return [sorted(costs, key=Cost.per_change)[len(runs) // 2] for costs in zip(*runs, strict=True)]


def recompute_seconds(sql: str, tables: dict[str, pa.Table], size: Size) -> float:
    """DuckDB's time to recompute the query over these tables, including fetching the rows: the cost of each transaction
    without a view. The median of three, or infinity if it takes longer than the limit of a stream."""
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
