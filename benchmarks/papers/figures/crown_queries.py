"""CROWN, figures 7 and 11: time of the graph and SNB queries, with deltas pushed or whole answers read, and latency."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
import pyarrow as pa

import freshet
from benchmarks.papers.data import DAY, edges, real_folder, real_social_network, social_network
from benchmarks.papers.harness import Plot, Result, Size, recompute_seconds, stream_cost
from benchmarks.papers.queries import CYCLES, GRAPH_DDL, SNB_DDL, graph_queries, snb_queries
from benchmarks.papers.sequences import Moves, time_window
from benchmarks.streams import sliding_window
from freshet.database.db import Database
from freshet.database.view import View

TRANSACTION, SINGLE, ANSWERS = 250, 500, 10


def run(size: Size) -> Iterator[Result]:
    time = Result("crown-7-time", "CROWN 7: graph and SNB queries over a sliding window",
                  Plot("query", "µs a change", "output", bars=True))  # fmt: skip
    latency = Result("crown-11-latency", "CROWN 11: from a single change to its delta",
                     Plot("query", "µs", "percentile", bars=True, log="y"))  # fmt: skip
    wanted = streams(size)
    for name, (ddl, sql, moves) in wanted.items():
        for output in ("deltas", "answers", "neither"):
            db, view = opened(ddl, name, sql)
            ask = _answers(view, len(moves)) if output == "answers" else None
            cost = stream_cost(db, view, moves.transactions(TRANSACTION), len(moves), size, output == "deltas", ask)
            recomputed = recompute_seconds(sql, moves.held(len(moves) // 2), size) if output == "neither" else None
            time.rows.append(
                {
                    "query": name,
                    "output": output,
                    **cost.row(),
                    "ms DuckDB recomputed": recomputed and round(1e3 * recomputed, 2),
                }
            )
        db, view = opened(ddl, name, sql)
        half = len(moves) // 2
        cost = stream_cost(db, view, moves.transactions(TRANSACTION, 0, half), half, size, deltas=False)
        single = stream_cost(db, view, islice(moves.transactions(1, cost.changes), SINGLE), SINGLE, size)
        for percentile, value in (("50 %", single.p50_us), ("99 %", single.p99_us)):
            steps = single.row()["steps a change"]
            latency.rows.append({
                "query": name, "percentile": percentile, "µs": round(value, 1), "steps a change": steps
            })  # fmt: skip
    yield from (time, latency)


def streams(size: Size) -> dict[str, tuple[str, str, Moves]]:
    """The tables, text and stream of each query."""
    graph, network = graph_moves(size), network_moves(size)
    wanted = {name: (GRAPH_DDL, sql, graph) for name, sql in (graph_queries() | CYCLES).items()}
    wanted |= {name: (SNB_DDL, sql, network) for name, sql in snb_queries().items()}
    if size.name == "tiny":
        wanted = {name: wanted[name] for name in ("three_hop", "star", "triangle", "snb_4")}
    return wanted


def opened(ddl: str, name: str, sql: str) -> tuple[Database, View]:
    db = freshet.connect()
    db.execute(ddl)
    return db, db.create_view(name, sql)


def _answers(view: View, total: int) -> Callable[[int], None]:
    """Reads the whole answer after each tenth of the stream."""
    done = 0

    def ask(changes: int) -> None:
        nonlocal done
        if changes * ANSWERS >= (done + 1) * total:
            done = changes * ANSWERS // total
            for _ in view.batches(65_536):
                pass

    return ask


def graph_moves(size: Size) -> Moves:
    """A window over a graph's edges; some of its vertices are marked from the start, for the comb."""
    pairs = edges(size.pick(20_000, 6_000, 1_500, 500_000))
    row, weight = sliding_window(len(pairs), len(pairs) // 5)
    marked = np.unique(pairs)
    tables = {
        "g": pa.table({"src": pairs[:, 0], "dst": pairs[:, 1]}),
        "v1": pa.table({"v": marked[::10]}),
        "v2": pa.table({"v": marked[5::10]}),
    }
    first = [np.full(tables[n].num_rows, i) for i, n in ((1, "v1"), (2, "v2"))]
    static = np.concatenate([np.arange(len(f)) for f in first])
    return Moves(
        tables,
        np.concatenate([*first, np.zeros(len(row), np.int64)]),
        np.concatenate([static, row]),
        np.concatenate([np.ones(len(static), np.int64), weight]),
    )


def network_moves(size: Size) -> Moves:
    folder = real_folder()
    timed = real_social_network(folder) if folder and size.name == "full" else social_network(size.pick(800, 300, 40))
    return time_window(timed, 60 * DAY)
