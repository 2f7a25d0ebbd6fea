"""`freshet bench`: how fast this machine keeps views fresh, in this process."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import freshet
from freshet.cli.commands import Subparsers, command
from freshet.cli.formats import grid
from freshet.cli.progress import ready_kernels, working
from freshet.cli.results import emit
from freshet.database.db import inside
from freshet.demo.scenario import MODES
from freshet.demo.scenarios import SCENARIOS, make_scenario
from freshet.errors import PlanError

_TEACHING = """\
Each query is one view over a stream of changes. The figures are for applying transactions, deltas included.

  freshet bench
  freshet bench --source graph --query "three hops, counted" --transaction 1
"""
_QUERIES = {"tpch": ("Q3", "Q4", "Q5", "Q10"), "graph": ("two hops", "hubs"), "market": ("bids that meet an ask",)}


def add(commands: Subparsers) -> None:
    parser = command(commands, "bench", _TEACHING)
    parser.add_argument("--source", choices=list(SCENARIOS), default="tpch", help="what changes (default tpch)")
    parser.add_argument("--query", action="append", help="a query of the source, by name (default: a few)")
    parser.add_argument("--scale", type=float, default=0.01, help="how much data (default 0.01)")
    parser.add_argument("--mode", choices=MODES, default="sliding", help="how rows come and go (default sliding)")
    parser.add_argument("--window", type=float, default=0.2, help="share of the rows present at a time (default 0.2)")
    parser.add_argument("--transaction", type=int, default=1_000, help="changed rows a transaction (default 1000)")
    parser.add_argument("--seconds", type=float, default=10, help="at most so long a query (default 10)")
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if options.transaction < 1:
        raise PlanError(f"transactions of {options.transaction} rows; give 1 or more")
    if not 0 < options.window <= 1:
        raise PlanError(f"a window of {options.window:g}; give more than 0, and at most 1")
    if not options.seconds > 0:
        raise PlanError(f"{options.seconds:g} seconds; give more than 0")
    with working("preparing the tables"):
        scenario = make_scenario(options.source, options.scale)
    names = options.query or _QUERIES[options.source]
    for name in names:
        if name not in scenario.queries:
            raise PlanError(f"no query {name}; {options.source} has {', '.join(scenario.queries)}")
    found: list[dict[str, Any]] = []
    ready_kernels()
    with working("measuring") as work:
        for i, name in enumerate(names):
            work.say(f"measuring {name}", i, len(names))
            found.append(_measure(scenario, name, options))
    if options.json:
        emit(found)
        return 0
    columns = ("query", "changes", "changes/s", "p50 ms", "p99 ms", "counters/change", "state MB", "answer rows")
    rows = (
        (
            f["query"], f"{f['changes']:,}", f"{f['changes_per_second']:,.0f}", f"{f['p50_ms']:.2f}",
            f"{f['p99_ms']:.2f}", f"{f['counters_per_change']:.2f}", f"{f['state_bytes'] / 1e6:.1f}",
            f"{f['answer_rows']:,}",
        )
        for f in found
    )  # fmt: skip
    print("\n".join(grid(list(columns), rows)))
    return 0


def _measure(scenario: Any, name: str, options: argparse.Namespace) -> dict[str, Any]:
    db = freshet.connect()
    db.execute(scenario.ddl)
    if scenario.fixed:
        db.apply(scenario.fixed)
    view = db.create_view("measured", scenario.queries[name])
    times, changes = [], 0
    for transaction in scenario.rounds(options.mode, options.window, options.transaction):
        start = time.perf_counter()
        db.apply(transaction)
        times.append(time.perf_counter() - start)
        changes += sum(t.num_rows for t in transaction.values())
        if sum(times) > options.seconds:
            break
    taken = np.array(times)
    counted = inside(view).operator.work().counters
    return {
        "query": name,
        "changes": changes,
        "changes_per_second": changes / float(taken.sum()),
        "p50_ms": 1000 * float(np.quantile(taken, 0.5)),
        "p99_ms": 1000 * float(np.quantile(taken, 0.99)),
        "counters_per_change": counted / max(1, changes),
        "state_bytes": db.nbytes(),
        "answer_rows": view.count(),
    }
