"""AJU, figures 12 and 14: time, plan choice and memory as data grows a hundredfold, first in, first out.

The paper compares a good and a bad order of joins for Q5. Here the bad plan is the one without foreign keys: the join
is cyclic then, and bags of it are stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks import tpch
from benchmarks.papers.harness import Cost, Plot, Result, Size, stream_cost, sweep
from benchmarks.tpch_streams import open_stream

TRANSACTION = 1_000  # inserts and deletes alternate: fewer of either than the rows of the smallest window
PLANS = (("Q5", 5, True), ("Q5 without keys", 5, False), ("Q13", 13, True), ("Q15", 15, True))


def run(size: Size) -> Iterator[Result]:
    scales = size.scales((0.003, 0.01, 0.03, 0.1, 0.3), (0.003, 0.01, 0.03), (0.001, 0.003), (0.01, 0.1, 1))
    time = Result("aju-12-scale", "AJU 12: cost of a change as the scale factor grows",
                  Plot("scale factor", "µs a change", "query", log="x"))  # fmt: skip
    memory = Result("aju-14-memory", "AJU 14: state of Q5 as the scale factor grows",
                    Plot("scale factor", "MB", "query", log="xy"))  # fmt: skip
    for name, number, keys in PLANS:
        for scale, cost in zip(scales, sweep(size, partial(costs, name, number, keys, scales, size)), strict=True):
            time.rows.append({"query": name, "scale factor": scale, **cost.row()})
            if number == 5:
                memory.rows.append({
                    "query": name, "scale factor": scale, "tuples": cost.tuples, "MB": round(cost.nbytes / 1e6, 2),
                    "B a tuple": round(cost.bytes_per_tuple),
                })  # fmt: skip
        if keys:
            time.flat("counters a change", query=name)
            time.flat("µs a change", query=name)
    memory.flat("B a tuple", query="Q5")
    yield from (time, memory)


def costs(name: str, number: int, keys: bool, scales: Sequence[float], size: Size) -> list[Cost]:
    """The costs of one query's stream at each scale."""
    streams = []
    for scale in scales:
        opened = open_stream(name, tpch.official(number), scale, keys=keys)
        moves = opened.stream.transactions(TRANSACTION)
        streams.append(stream_cost(opened.db, opened.view, moves, len(opened.stream), size))
    return streams
