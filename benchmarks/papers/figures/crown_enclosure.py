"""CROWN, figure 9: the comb under sequences of growing enclosureness λ, over graphs of several sizes.

The marks at the end of the comb are deleted and inserted while edges stay, so each round switches the support of all
edges into a mark, and of the edges that depend on those. Output is disabled, as in the paper.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import freshet
from benchmarks.papers.figures.crown_queries import opened
from benchmarks.papers.harness import Plot, Result, Size, stream_cost
from benchmarks.papers.queries import GRAPH_DDL, graph_queries
from benchmarks.streams import skewed_edges

MARKS = 100


def run(size: Size) -> Iterator[Result]:
    result = Result("crown-9-enclosure", "CROWN 9: cost of a change to the comb under growing λ",
                    Plot("λ", "µs a change", "edges", log="xy"))  # fmt: skip
    for count in size.scales((10_000, 30_000, 100_000), (5_000, 20_000), (1_000,)):
        pairs = skewed_edges(int(count) // 5, int(count))
        tables = {
            "g": pa.table({"src": pairs[:, 0], "dst": pairs[:, 1]}),
            "v1": pa.table({"v": np.unique(pairs[:, 0])[::3]}),
            "v2": pa.table({"v": np.arange(MARKS)}),  # hubs
        }
        for wanted in size.scales((1, 2, 4, 8, 16, 32, 64), (1, 2, 4, 8, 16, 32), (1, 2, 4)):
            db, view = opened(GRAPH_DDL, "comb", graph_queries()["two_comb"])
            stream = list(freshet.enclosure_stream(tables, wanted, fleeting={"v2": MARKS}, size=MARKS))
            total = sum(t.num_rows for tx in stream for t in tx.values())
            cost = stream_cost(db, view, stream, total, size, deltas=False)
            result.rows.append({"edges": int(count), "λ": wanted, **cost.row()})
        result.linear("λ", "counters a change", edges=int(count))
        result.linear("λ", "µs a change", at_most=True, edges=int(count))
    yield result
