"""CROWN, figure 8: cost of a change as the data grows a hundredfold, first in, first out: the social network, whose
rows live for some days, and paths in a graph.

Hubs grow with the data, and with them the rows that a change adds to the answer. Only the cost of changes is measured;
deltas are not enumerated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks.papers.data import DAY, social_network
from benchmarks.papers.figures.crown_queries import opened
from benchmarks.papers.harness import Cost, Plot, Result, Size, stream_cost, sweep
from benchmarks.papers.queries import GRAPH_DDL, SNB_DDL, graph_queries, snb_queries
from benchmarks.papers.sequences import Moves, time_window
from benchmarks.streams import skewed_edges, sliding_window

TRANSACTION = 250  # less than the smallest window, so that no row is inserted and deleted in one transaction
GRAPH = ("three_hop", "four_hop_distinct")


def run(size: Size) -> Iterator[Result]:
    result = Result("crown-8-scale", "CROWN 8: cost of a change as data grows, first in, first out",
                    Plot("rows", "µs a change", "query", log="x"))  # fmt: skip
    people = size.scales((100, 300, 1_000, 3_000, 10_000), (100, 1_000, 10_000), (20, 60))
    edges = size.scales(
        (2_000, 6_000, 20_000, 60_000, 200_000), (2_000, 20_000, 200_000), (600, 1_200), (50_000, 500_000)
    )
    wanted = {name: (SNB_DDL, sql, network, people) for name, sql in snb_queries().items()}
    wanted |= {name: (GRAPH_DDL, graph_queries()[name], graph, edges) for name in GRAPH}
    for name, (ddl, sql, make, scales) in wanted.items():
        streams = [make(int(scale)) for scale in scales]
        for moves, cost in zip(streams, sweep(size, partial(costs, ddl, name, sql, streams, size)), strict=True):
            rows = sum(t.num_rows for t in moves.tables.values())
            result.rows.append({"query": name, "rows": rows, **cost.row()})
        _, view = opened(ddl, name, sql)
        if json.loads(view.explain("json"))["height"] <= 2:
            result.flat("counters a change", query=name)
            result.flat("µs a change", query=name)
    yield result


def costs(ddl: str, name: str, sql: str, streams: Sequence[Moves], size: Size) -> list[Cost]:
    measured = []
    for moves in streams:
        db, view = opened(ddl, name, sql)
        measured.append(stream_cost(db, view, moves.transactions(TRANSACTION), len(moves), size, deltas=False))
    return measured


def network(scale: int) -> Moves:
    return time_window(social_network(scale), 60 * DAY)


def graph(scale: int) -> Moves:
    edges = skewed_edges(scale // 5, scale)
    row, weight = sliding_window(len(edges), len(edges) // 5)
    tables = {"g": pa.table({"src": edges[:, 0], "dst": edges[:, 1]})}
    return Moves(tables, np.zeros(len(row), np.int64), row, weight)
