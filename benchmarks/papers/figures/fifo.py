"""AJU, figures 11 and 12, with all tables sliding, first in, first out, as in the papers; and single changes as
transactions next to batches.

Elsewhere TPC-H's streams move orders and their lines only. Here customers, suppliers, parts and offers come and go as
well, each table at its own pace, so that it always holds the same share of its rows; nations and regions stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from benchmarks import tpch
from benchmarks.agreement import differing_rows
from benchmarks.papers.data import DAY, social_network
from benchmarks.papers.figures.crown_queries import opened
from benchmarks.papers.harness import Cost, Plot, Result, Size, Verdict, stream_cost, sweep
from benchmarks.papers.queries import GRAPH_DDL, SNB_DDL, graph_queries, snb_queries
from benchmarks.papers.sequences import Moves, all_sliding, time_window
from benchmarks.streams import skewed_edges

WINDOW = 0.2
TRANSACTION = 250
TPCH = ("q3", "q5", "q10")
BATCHES = (1, 10, 100, 1_000)


def run(size: Size) -> Iterator[Result]:
    yield from (by_scale(size), by_transaction(size))


def by_scale(size: Size) -> Result:
    result = Result("fifo", "AJU 11 and 12: all tables slide, first in, first out",
                    Plot("scale factor", "steps a change", "query", log="x"))  # fmt: skip
    scales = size.scales((0.003, 0.01, 0.03), (0.003, 0.01), (0.001, 0.003), (0.01, 0.1, 1))
    for name in TPCH:
        for scale, cost in zip(scales, sweep(size, partial(_costs, name, scales, size)), strict=True):
            result.rows.append({"query": name, "scale factor": scale, **cost.row()})
        result.flat("steps a change", query=name)
    return result


def _costs(name: str, scales: Sequence[float], size: Size) -> list[Cost]:
    return [_cost(name, *tpch_sliding(name, scale), TRANSACTION, size) for scale in scales]


def _cost(name: str, ddl: str, sql: str, moves: Moves, transaction: int, size: Size) -> Cost:
    """The cost until the window has moved by its own length; then the answer is compared with DuckDB's."""
    db, view = opened(ddl, name, sql)
    half = len(moves) // 2
    cost = stream_cost(db, view, moves.transactions(transaction, 0, half), half, size)
    if cost.part == 1 and (differing := differing_rows(view.to_arrow(), sql, moves.held(half))):
        raise AssertionError(f"{name}: {differing} rows differ from DuckDB's answer")
    return cost


def by_transaction(size: Size) -> Result:
    """A change costs the same by itself as in a batch: steps that a batch saves are those of rows that come and go
    within it."""
    result = Result("fifo-transactions", "Single changes next to batches",
                    Plot("changes in a transaction", "steps a change", "query", log="x"))  # fmt: skip
    (factor,) = size.scales((0.003,), (0.003,), (0.001,))
    wanted = {name: tpch_sliding(name, factor) for name in TPCH}
    pairs = skewed_edges(size.pick(1_000, 600, 300), size.pick(5_000, 3_000, 1_500))
    graph = all_sliding({"g": pa.table({"src": pairs[:, 0], "dst": pairs[:, 1]})}, WINDOW)
    network = time_window(social_network(size.pick(200, 100, 30)), 60 * DAY)
    wanted["three_hop"] = (GRAPH_DDL, graph_queries()["three_hop"], graph)
    wanted |= {name: (SNB_DDL, sql, network) for name, sql in snb_queries().items()}
    for name, (ddl, sql, moves) in wanted.items():
        for transaction in BATCHES:
            cost = _cost(name, ddl, sql, moves, transaction, size)
            result.rows.append({"query": name, "changes in a transaction": transaction, **cost.row()})
        single, *batched = result.series("steps a change", query=name)
        times = single / max(*batched, 0.01)
        text = f"{name}: a single change takes {times:.2f} times the steps of one in a batch (at most 1.5)"
        result.verdicts.append(Verdict(text, times <= 1.5))
    return result


def tpch_sliding(name: str, factor: float) -> tuple[str, str, Moves]:
    """The tables that a TPC-H query reads, the query, and their stream. Orders come by key, their dates in no order, so
    that the answer is never empty for long."""
    sql = tpch.QUERIES[name]
    names = tpch.tables_of(sql)
    statements = tpch.ddl(names, tpch.columns_of(sql))
    read = zip(tpch.generate(factor, names).items(), statements, strict=True)
    kept = {name: rows.select([c for c in rows.column_names if f"{c} " in text]) for (name, rows), text in read}
    return ";\n".join(statements), sql, all_sliding(kept, WINDOW)
