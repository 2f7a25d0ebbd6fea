"""CROWN, figure 12: three hops, and four with a projection, as the filter on the last edge lets more through.

A plan that joins step by step computes all two-hop paths whatever the filter is. Here the cost is proportional to the
changes and the delta rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.papers.figures.crown_queries import TRANSACTION, graph_moves, opened
from benchmarks.papers.harness import Plot, Result, Size, recompute_seconds, stream_cost
from benchmarks.papers.queries import GRAPH_DDL, graph_queries


def run(size: Size) -> Iterator[Result]:
    result = Result("crown-12-selectivity", "CROWN 12: time as the filter lets more through",
                    Plot("share kept", "seconds", "query", log="xy"))  # fmt: skip
    moves = graph_moves(size)
    for name in ("three_hop", "four_hop_distinct"):
        for keep in size.scales((1_000, 200, 50, 20, 10, 5, 2, 1), (1_000, 100, 10, 2, 1), (100, 1)):
            sql = graph_queries(int(keep))[name]
            db, view = opened(GRAPH_DDL, name, sql)
            cost = stream_cost(db, view, moves.transactions(TRANSACTION), len(moves), size)
            recomputed = recompute_seconds(sql, moves.held(len(moves) // 2), size)
            result.rows.append({
                "query": name, "share kept": 1 / keep, "seconds": round(cost.seconds, 4), **cost.row(),
                "ms DuckDB recomputed": round(1e3 * recomputed, 2),
            })  # fmt: skip
    yield result
