"""`make bench`: every figure in one run, as Markdown tables on standard output; progress on standard error.

make bench ARGS="--only three-hop --prototype FILE --json results.json"
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import reading, startup, three_hop, tpch_streams
from benchmarks.measure import figures_table, markdown
from freshet.version import __version__

PARTS = ("startup", "reading", "three-hop", "q3", "q5")


def main(arguments: Sequence[str] | None = None) -> int:
    given = options(arguments)
    parts = given.only or PARTS
    results: dict[str, Any] = {"freshet": __version__, "python": platform.python_version()}

    if "startup" in parts:
        runs = startup.measure(given.cached)
        results["startup"] = dict(zip(("empty cache", "cached"), runs, strict=True))
        rows = [
            (phase, *(f"{run[phase]:,.2f}" if phase in run else "" for run in runs), f"{startup.WANTED.get(phase, '')}")
            for phase in runs[1]
        ]
        titles = ("startup, seconds of processor time", "empty cache", "cached, or a wheel", "limit")
        print(markdown(titles, rows), end="\n\n", flush=True)

    if "reading" in parts:
        read = list(reading.measure(given.rows))
        results["reading"] = {what: {"freshet": own, "duckdb": peer} for what, own, peer in read}
        print(reading.report(given.rows, read), end="\n\n", flush=True)

    if "three-hop" in parts:
        if given.prototype:
            print(f"{given.prototype}:\n", flush=True)
            subprocess.run([sys.executable, given.prototype], check=True)
            print(flush=True)
        figures = list(three_hop.measure(given.sizes, given.edges))
        results["three-hop"] = [f.as_json() for f in figures]
        print(figures_table(figures), end="\n\n", flush=True)

    figures = [
        f
        for query in ("q3", "q5")
        if query in parts
        for f in tpch_streams.measure(query, given.scale, given.all_columns)
    ]
    if figures:
        results["tpch"] = [f.as_json() for f in figures]
        print(figures_table(figures), end="\n\n")
        print(f"Answers equal DuckDB's at {tpch_streams.CHECKS} points of each stream.")

    if given.json:
        Path(given.json).write_text(json.dumps(results, indent=2) + "\n")
    return 0


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="Speed of Freshet in one process, one thread.")
    parser.add_argument("--only", choices=PARTS, nargs="+", help="run these parts (default: all)")
    parser.add_argument("--cached", action="store_true", help="startup: only with the kernels compiled so far")
    parser.add_argument("--rows", type=int, default=reading.ROWS, help="reading: rows of the view")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=three_hop.SIZES, help="three-hop: changes a transaction"
    )
    parser.add_argument("--edges", type=int, default=100_000, help="three-hop: edges that pass through the window")
    parser.add_argument(
        "--prototype", metavar="FILE", help="three-hop: another script to run, which prints its own figures"
    )
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H scale factor")
    parser.add_argument("--all-columns", action="store_true", help="TPC-H: whole tables, not the columns a query reads")
    parser.add_argument("--json", metavar="FILE", help="write the results there as well")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
