"""AJU, figure 12a, and CROWN, figures 7 and 12: the join tree compared with change propagation and intermediate views.

The same engine maintains the same view in three ways (`papers/twins.py`) over the same stream, first in, first out. The
answer of each is compared with DuckDB's when the window is full. The twins' join order is that of the query's text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks import tpch
from benchmarks.agreement import differing_rows
from benchmarks.papers.data import DAY, social_network
from benchmarks.papers.figures.crown_queries import opened
from benchmarks.papers.harness import Cost, Plot, Result, Row, Size, Verdict, stream_cost
from benchmarks.papers.queries import GRAPH_DDL, SNB_DDL, graph_queries, snb_queries
from benchmarks.papers.sequences import Moves, time_window
from benchmarks.papers.twins import FRESHET, INTERMEDIATE, PROPAGATION, keep_as
from benchmarks.streams import skewed_edges, sliding_window
from benchmarks.tpch_streams import open_stream

WAYS = (FRESHET, PROPAGATION, INTERMEDIATE)
TRANSACTION = 250
GRAPH = ("three_hop", "four_hop", "three_hop_distinct", "four_hop_distinct", "two_comb", "star")
TPCH = ("q3", "q5", "q10")
GROWS = ("three_hop", "four_hop_distinct", "star", "snb_2", "q5")


def run(size: Size) -> Iterator[Result]:
    size = replace(size, seconds=math.inf)  # steps are judged: every stream runs to its end
    yield from (queries(size), scale(size), selectivity(size))


def queries(size: Size) -> Result:
    result = Result("twins-7-queries", "CROWN 7: three ways to keep a view, over a sliding window",
                    Plot("query", "steps a change", "kept by", bars=True, log="y"))  # fmt: skip
    (factor,) = size.scales((0.01,), (0.003,), (0.001,))
    streams = _streams(size.pick(3_000, 1_500, 800), size.pick(300, 100, 30), factor)
    for name, kept in streams.items():
        for way in WAYS:
            result.rows.append({"query": name, "kept by": way, **kept(way, size)})
        _judge_least(result, query=name)
    return result


def scale(size: Size) -> Result:
    """Only the join tree costs the same for every size of the window."""
    result = Result("twins-12a-scale", "AJU 12a: three ways to keep a view, as data grows",
                    Plot("rows", "steps a change", "series", log="xy"))  # fmt: skip
    for grown in size.scales((1, 2, 4, 8), (1, 2, 4), (1, 2)):
        factor = int(grown)
        streams = _streams(size.pick(1_000, 800, 400) * factor, size.pick(100, 60, 20) * factor, 0.001 * factor)
        for name in GROWS:
            for way in WAYS:
                cost = streams[name](way, size)
                result.rows.append({"series": f"{name}, {way}", "scale": factor, **cost})
    for name in (n for n in GROWS if n != "star"):  # a row of "star" is a pair at a hub, which grows with the data
        result.flat("steps a change less delta rows", series=f"{name}, {FRESHET}")
    return result


def selectivity(size: Size) -> Result:
    """A filter on the last table: a plan that joins before it computes all paths of two and three edges."""
    result = Result("twins-12-selectivity", "CROWN 12: three ways to keep a view, as the filter lets more through",
                    Plot("share kept", "steps a change", "series", log="xy"))  # fmt: skip
    moves = _graph(size.pick(3_000, 1_500, 800))
    for name in ("three_hop", "four_hop_distinct"):
        for keep in size.scales((1_000, 100, 10, 1), (1_000, 10, 1), (100, 1)):
            sql = graph_queries(int(keep))[name]
            for way in WAYS:
                cost = _kept(GRAPH_DDL, name, sql, moves, way, size)
                result.rows.append({"series": f"{name}, {way}", "share kept": 1 / keep, **cost})
        least = [result.series("steps a change", series=f"{name}, {way}")[0] for way in WAYS]
        times = " and ".join(f"{steps / least[0]:.1f}" for steps in least[1:])
        text = f"{name}: under the narrowest filter the twins pay {times} times the steps of the join tree (at least 3)"
        result.verdicts.append(Verdict(text, min(least[1:]) >= 3 * least[0]))
    return result


def _judge_least(result: Result, **where: str) -> None:
    tree, *twins = (result.series("steps a change", **where, **{"kept by": way})[0] for way in WAYS)
    times = " and ".join(f"{steps / tree:.1f}" for steps in twins)
    text = f"{where['query']}: the twins pay {times} times the steps of the join tree (at least 1)"
    result.verdicts.append(Verdict(text, min(twins) >= tree))


Kept = Callable[[str, Size], Row]


def _streams(edges: int, people: int, factor: float) -> dict[str, Kept]:
    graph, network = _graph(edges), time_window(social_network(people), 60 * DAY)
    made = {name: (GRAPH_DDL, graph_queries()[name], graph) for name in GRAPH}
    made |= {name: (SNB_DDL, sql, network) for name, sql in snb_queries().items()}
    streams: dict[str, Kept] = {n: partial(_kept, ddl, n, sql, moves) for n, (ddl, sql, moves) in made.items()}
    return streams | {name: partial(_tpch, name, factor) for name in TPCH}


def _graph(count: int) -> Moves:
    edges = skewed_edges(count // 5, count)
    row, weight = sliding_window(len(edges), len(edges) // 5)
    marked = np.unique(edges)
    tables = {
        "v1": pa.table({"v": marked[::10]}),
        "v2": pa.table({"v": marked[5::10]}),
        "g": pa.table({"src": edges[:, 0], "dst": edges[:, 1]}),
    }
    marks = [tables[n].num_rows for n in ("v1", "v2")]
    table = np.repeat([0, 1, 2], [*marks, len(row)])
    static = np.concatenate([np.arange(n) for n in marks])
    return Moves(tables, table, np.concatenate([static, row]), np.concatenate([np.ones_like(static), weight]))


def _kept(ddl: str, name: str, sql: str, moves: Moves, way: str, size: Size) -> Row:
    db, view = opened(ddl, name, sql)
    keep_as(view, way)
    half = len(moves) // 2
    cost = stream_cost(db, view, moves.transactions(TRANSACTION, 0, half), half, size)
    _agree(differing_rows(view.to_arrow(), sql, moves.held(half)), name, way)
    return _row(cost)


def _tpch(name: str, factor: float, way: str, size: Size) -> Row:
    sql = tpch.QUERIES[name]
    opened = open_stream(name, sql, factor)
    keep_as(opened.view, way)
    half = len(opened.stream) // 2
    cost = stream_cost(opened.db, opened.view, opened.stream.transactions(TRANSACTION, 0, half), half, size)
    held = {**opened.loaded, **opened.stream.surviving(half)}
    _agree(differing_rows(opened.view.to_arrow(), sql, held), name, way)
    return _row(cost)


def _agree(differing: int, name: str, way: str) -> None:
    if differing:
        raise AssertionError(f"{name} kept by {way}: {differing} rows differ from DuckDB's answer")


def _row(cost: Cost) -> Row:
    changes = max(cost.changes, 1)
    bare = max(0, cost.work.steps - cost.work.joined) / changes
    return {**cost.row(), "rows": cost.tuples, "steps a change less delta rows": round(bare, 4)}
