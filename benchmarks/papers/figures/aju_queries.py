"""AJU, figures 11, 13 and 17: time, memory and latency of all 22 TPC-H queries, first in, first out."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import tpch
from benchmarks.papers.harness import Plot, Result, Size, recompute_seconds, stream_cost
from benchmarks.tpch_streams import open_stream

TRANSACTION, SINGLE = 10_000, 1_000


def run(size: Size) -> Iterator[Result]:
    (scale,) = size.scales((0.05,), (0.01,), (0.001,), (1,))
    numbers = (3, 5, 13) if size.name == "tiny" else range(1, 23)
    time = Result("aju-11-time", f"AJU 11: TPC-H, scale factor {scale:g}, a window of a fifth",
                  Plot("query", "µs a change", bars=True))  # fmt: skip
    memory = Result("aju-13-memory", "AJU 13: state of the TPC-H queries", Plot("query", "B a tuple", bars=True))
    latency = Result("aju-17-latency", "AJU 17: from a single change to its delta",
                     Plot("query", "µs", "percentile", bars=True, log="y"))  # fmt: skip
    for number in numbers:
        query, sql = f"q{number}", tpch.official(number)
        opened = open_stream(query, sql, scale)
        stream, db, view = opened.stream, opened.db, opened.view
        half = len(stream) // 2
        cost = stream_cost(db, view, stream.transactions(TRANSACTION, 0, half), half, size)
        held = {**opened.loaded, **stream.surviving(cost.changes)}
        single = stream_cost(db, view, stream.transactions(1, cost.changes, cost.changes + SINGLE), SINGLE, size)
        recomputed = recompute_seconds(sql, held, size)
        time.rows.append({"query": query, **cost.row(), "ms DuckDB recomputed": round(1e3 * recomputed, 2)})
        memory.rows.append({"query": query, "tuples": db.tuples(), "B a tuple": round(cost.bytes_per_tuple)})
        for percentile, value in (("50 %", single.p50_us), ("99 %", single.p99_us)):
            steps = single.row()["steps a change"]
            latency.rows.append({
                "query": query, "percentile": percentile, "µs": round(value, 1), "steps a change": steps
            })  # fmt: skip
    yield from (time, memory, latency)
