"""`make bench-papers`: the experiments of the papers at a size for this machine.

make bench-papers ARGS="--quick --only crown-scale aju-enclosure --out somewhere"

Tables, plots and verdicts go to benchmarks/results; progress to standard error.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.measure import CLOCKS
from benchmarks.papers.data import real_folder
from benchmarks.papers.expected import judge, record
from benchmarks.papers.figures import EXPERIMENTS
from benchmarks.papers.harness import SIZES, Size
from benchmarks.papers.written import index, table, verdicts, write
from freshet.version import __version__

HEADING = """# The papers' experiments, run here

AJU, CROWN and IEDyn are the papers behind Freshet; the numbers are those of their figures. Theory bounds the counters
changed; steps are the whole cost of a view (counters, joined rows, rows of groups and of nested queries), and each
figure is compared with the steps of its last recording. Microseconds also include costs that theory does not count:
cache misses, which increase as data grows, and the fixed cost of a transaction. `done` below 1: the time limit for a
stream was reached.

[peers](peers.md) compares Freshet with other engines on the same streams (`make bench-peers`)."""
CLOCK = {"wall": "wall time", "cpu": "processor time, on a machine that also did other work"}
RESULTS = Path(__file__).resolve().parent.parent / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make bench-papers", description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, help="these experiments (default: all)")
    parser.add_argument("--quick", action="store_true", help="smaller data: some minutes in total")
    parser.add_argument("--large", action="store_true", help="the papers' sizes: TPC-H SF 1, 500,000 edges; hours")
    parser.add_argument("--tiny", action="store_true", help="the smallest data: to check that everything runs")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: for a machine that does other work")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    parser.add_argument("--record", action="store_true", help="record the steps, for comparison with later runs")
    options = parser.parse_args(arguments)
    named = next((name for name in ("tiny", "quick", "large") if getattr(options, name)), "full")
    size = replace(SIZES[named], clock=options.clock)
    chosen = options.only or list(EXPERIMENTS)
    for number, name in enumerate(chosen, 1):
        started = time.perf_counter()
        print(f"{number} of {len(chosen)}: {name}", file=sys.stderr, flush=True)
        results = list(EXPERIMENTS[name](size))
        if options.record:
            record(results, size)
        judge(results, size)
        for result in results:
            print(f"{result.title}\n\n{table(result)}\n", flush=True)
            print("\n".join(verdicts(result)), end="\n\n", flush=True)
        write(name, results, options.out, conditions(size))
        index(EXPERIMENTS, options.out, HEADING)
        print(f"{name}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    return 0


def conditions(size: Size) -> str:
    data = "wiki-Vote and generated data" if real_folder() else "generated data"
    return (
        f"`make bench-papers`, {size.name} size, Freshet {__version__}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores of {platform.machine()}, {data}. One process, one thread, {CLOCK[size.clock]}."
    )


if __name__ == "__main__":
    raise SystemExit(main())
