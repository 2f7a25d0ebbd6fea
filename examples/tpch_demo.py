"""Four TPC-H views kept fresh over a stream of orders, checked against DuckDB along the way.

    make demo

Orders arrive in order of their date; once the window is full, the oldest leaves when the next one comes. Every
transaction changes orders and lineitem together, and updates all views.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import freshet
from benchmarks import tpch
from benchmarks.agreement import differing_rows
from benchmarks.streams import order_window

VIEWS = ("q3", "q4", "q5", "q10")
CHECKPOINTS = 10


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    print(f"Generating TPC-H at scale factor {options.scale:g}")
    tables = tpch.generate(options.scale, (*tpch.DIMENSIONS, "orders", "lineitem"))

    db = freshet.connect()
    for statement in tpch.ddl(tables):
        db.execute(statement)
    start = time.perf_counter()
    views = {name: db.create_view(name, tpch.QUERIES[name]) for name in VIEWS}
    print(f"Registered {', '.join(VIEWS)} in {1000 * (time.perf_counter() - start):,.0f} ms")

    dimensions = {name: tables[name] for name in tpch.DIMENSIONS}
    db.apply(dimensions)
    print(f"Loaded {sum(table.num_rows for table in dimensions.values()):,} rows of {', '.join(dimensions)}")

    stream = order_window(tables["orders"], tables["lineitem"], options.window)
    print(f"Streaming {len(stream):,} changes of orders and lineitem, {options.transaction:,} a transaction\n")
    print("            changes       average      answer rows, each checked against DuckDB")
    print("   changes    per s  ms per tx    " + "".join(f"{name:>8}" for name in VIEWS))

    delta_rows = dict.fromkeys(VIEWS, 0)
    checks = dict.fromkeys(VIEWS, 0)
    most_rows = dict.fromkeys(VIEWS, 0)
    wrong = dict.fromkeys(VIEWS, 0)
    spent, applied, position = 0.0, 0, 0
    for checkpoint in range(1, CHECKPOINTS + 1):
        end = len(stream) * checkpoint // CHECKPOINTS
        for changes in stream.transactions(options.transaction, position, end):
            start = time.perf_counter()
            tx = db.apply(changes)
            spent += time.perf_counter() - start
            applied += 1
            for name in VIEWS:
                delta_rows[name] += tx.deltas[name].num_rows
        position = end

        present = {**dimensions, **stream.surviving(position)}
        cells = []
        for name, view in views.items():
            answer = view.to_arrow()
            differing = differing_rows(answer, tpch.QUERIES[name], present)
            checks[name] += 1
            wrong[name] += differing
            most_rows[name] = max(most_rows[name], answer.num_rows)
            cells.append(f"{answer.num_rows:>7,}{' ' if differing == 0 else '!'}")
        print(
            f"{position:>10,} {position / spent:>8,.0f} {1000 * spent / applied:>10.2f}    {''.join(cells)}", flush=True
        )

    print("\nview   most rows  delta rows  checks  rows that differ from DuckDB")
    for name in VIEWS:
        print(f"{name:<5} {most_rows[name]:>10,} {delta_rows[name]:>11,} {checks[name]:>7} {wrong[name]:>8,}")
    if any(wrong.values()):
        print("\nAnswers differ from DuckDB's: this is a bug in Freshet.", file=sys.stderr)
        return 1
    print(f"\nAll answers are correct: version {tx.version}, {position:,} changes in {spent:.2f} s.")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo", description="TPC-H views kept fresh over a stream of orders.")
    parser.add_argument("--scale", type=float, default=0.01, help="TPC-H scale factor (default 0.01)")
    parser.add_argument("--window", type=float, default=0.2, help="share of the orders in the window (default 0.2)")
    parser.add_argument("--transaction", type=int, default=500, help="changes a transaction (default 500)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
