"""TPC-H queries over a sliding window of a fifth of the rows, first in, first out.

The window slides over the orders and their lines, in order of date, if a query reads them; otherwise over the offers of
suppliers (partsupp). The other tables are loaded first. Halfway, when the window is full, single changes are timed. At
some points of the stream the answer is compared with DuckDB's over the rows in the window; this is not timed.

`make bench-tpch` runs all 22 by their official texts and prints one table.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

import freshet
from benchmarks import tpch
from benchmarks.agreement import differing_rows
from benchmarks.measure import CLOCKS, Figures, Run, bytes_per_tuple, markdown, progress
from benchmarks.streams import OrderWindow, TableWindow, order_window, table_window
from freshet.database.db import Database
from freshet.database.view import View

WINDOW = 0.2
TRANSACTION = 10_000
SINGLE = 2_000
CHECKS = 10


@dataclass(frozen=True)
class OpenStream:
    """A view of one query, the tables that stay loaded, and the sliding window."""

    db: Database
    view: View
    stream: OrderWindow | TableWindow
    loaded: dict[str, pa.Table]


def open_stream(query: str, sql: str, scale: float, all_columns: bool = False, keys: bool = True) -> OpenStream:
    """`keys`: whether the tables declare their primary keys; without them, joins along keys are ordinary joins."""
    tables = tpch.generate(scale, tpch.tables_of(sql))
    statements = tpch.ddl(tables, None if all_columns else tpch.columns_of(sql))
    db = freshet.connect()
    for name, statement in zip(tables, statements, strict=True):
        lines = [line.strip() for line in statement.splitlines()[1:-1]]
        if not keys:
            lines = [line for line in lines if not line.startswith(("PRIMARY KEY", "FOREIGN KEY"))]
            lines = [line.replace(" PRIMARY KEY", "").rstrip(",") for line in lines]
            statement = f"CREATE TABLE {name} ({', '.join(lines)})"
        db.execute(statement)
        declared = [line.split()[0] for line in lines]
        tables[name] = tables[name].select([c for c in tables[name].column_names if c in declared])
    view = db.create_view(query, sql)
    stream = _stream(tables, scale)
    loaded = {name: table for name, table in tables.items() if name not in stream.moving}
    db.apply(loaded)
    return OpenStream(db, view, stream, loaded)


def measure(
    query: str, scale: float = 0.1, all_columns: bool = False, sql: str | None = None, checks: int = CHECKS,
    clock: str = "wall",
) -> Iterator[Figures]:  # fmt: skip
    """Figures for transactions of 10,000 changes, then for transactions of one."""
    sql = sql or tpch.QUERIES[query]
    opened = open_stream(query, sql, scale, all_columns)
    db, view, stream, loaded = opened.db, opened.view, opened.stream, opened.loaded
    middle = len(stream) // 2
    points = [len(stream) * i // checks for i in range(1, checks + 1)]
    show = progress(f"TPC-H {query}", len(stream))
    whole, single, state = Run(clock=clock), Run(clock=clock), 0.0

    position = 0
    while position < len(stream):
        if not single.spent and position + TRANSACTION >= middle:
            state = bytes_per_tuple(db)
            end = min(position + SINGLE, len(stream))
            for transaction in stream.transactions(1, position, end):
                single.apply(db, transaction)
        else:
            end = min(position + TRANSACTION, len(stream))
            for transaction in stream.transactions(TRANSACTION, position, end):
                whole.apply(db, transaction)
        position = end
        show(position)
        if points and position >= points[0]:
            points.pop(0)
            wrong = differing_rows(view.to_arrow(), sql, {**loaded, **stream.surviving(position)})
            if wrong:
                raise AssertionError(f"{query}: {wrong} rows differ from DuckDB's answer after {position:,} changes")
    name = f"TPC-H {query}, SF {scale:g}"
    yield Figures.of(whole, name, TRANSACTION, True, state)
    yield Figures.of(single, name, 1, True, state)


def _stream(tables: dict[str, pa.Table], scale: float) -> OrderWindow | TableWindow:
    moving = [name for name in ("orders", "lineitem") if name in tables]
    if not moving:
        return table_window("partsupp", tables["partsupp"], WINDOW)
    both = tpch.generate(scale, ("orders", "lineitem"))
    window = order_window(both["orders"], both["lineitem"], WINDOW).only(moving)
    read = {name: getattr(window, name).select(tables[name].column_names) for name in moving}
    return replace(window, **read)


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-tpch", description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=int, nargs="+", default=range(1, 23), help="queries to run (default: all 22)")
    parser.add_argument("--scale", type=float, default=0.1, help="scale factor")
    parser.add_argument("--checks", type=int, default=CHECKS, help="points at which the answer is compared")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: for a machine that does other work")
    parser.add_argument("--json", metavar="FILE", help="write the results there as well")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    given = options(arguments)
    figures: list[tuple[Figures, Figures]] = []
    for number in given.only:
        whole, single = measure(
            f"q{number}", given.scale, sql=tpch.official(number), checks=given.checks, clock=given.clock
        )
        figures.append((whole, single))
        print(f"q{number}: {whole.updates_per_second:,.0f} updates/s", file=sys.stderr, flush=True)
    header = ("query", "updates/s", "delta rows/s", "B/tuple", "one row p50 µs", "p99 µs")
    rows = [
        (
            whole.workload,
            f"{whole.updates_per_second:,.0f}",
            f"{whole.delta_rows_per_second:,.0f}",
            f"{whole.bytes_per_tuple:,.0f}",
            f"{single.p50_us:,.0f}",
            f"{single.p99_us:,.0f}",
        )
        for whole, single in figures
    ]
    rates = [whole.updates_per_second for whole, _ in figures]
    rows.append(("geometric mean", f"{np.exp(np.log(rates).mean()):,.0f}", "", "", "", ""))
    print(markdown(header, rows))
    if given.checks:
        print(f"\nAnswers equal DuckDB's at {given.checks} points of each stream.")
    if given.json:
        lines = [[whole.as_json(), single.as_json()] for whole, single in figures]
        Path(given.json).write_text(json.dumps(lines, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
