"""CROWN, figure 9, for λ from 1 to nine tenths of the database, and figure 11 over time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import freshet
from benchmarks.papers.figures.crown_queries import TRANSACTION, opened, streams
from benchmarks.papers.harness import FLAT, Plot, Result, Size, Verdict, stream_cost
from benchmarks.papers.queries import CYCLES, GRAPH_DDL, graph_queries
from benchmarks.streams import skewed_edges

STEADY = ("three_hop", "four_hop", "three_hop_distinct", "four_hop_distinct", "two_comb")


def run(size: Size) -> Iterator[Result]:
    yield from (whole_range(size), over_time(size))


def whole_range(size: Size) -> Result:
    """One mark, at the greatest hub, is deleted and inserted ever more often while the rest of the database stays."""
    result = Result("crown-9-whole", "CROWN 9: cost of a change to the comb, λ from 1 to 0.9 |db|",
                    Plot("λ", "steps a change", log="xy"))  # fmt: skip
    pairs = skewed_edges(size.pick(300, 200, 100), size.pick(1_500, 1_000, 500))
    hub = np.bincount(pairs[:, 1]).argmax()
    tables = {
        "g": pa.table({"src": pairs[:, 0], "dst": pairs[:, 1]}),
        "v1": pa.table({"v": np.unique(pairs[:, 0])[::3]}),
        "v2": pa.table({"v": [hub]}),
    }
    rows = sum(t.num_rows for t in tables.values())
    most = 9 * rows // 10  # beyond that the stream needs as many changes as the square of the database
    for wanted in [*(4**i for i in range(12) if 4**i < most), most]:
        db, view = opened(GRAPH_DDL, "comb", graph_queries()["two_comb"])
        stream = list(freshet.enclosure_stream(tables, wanted, fleeting={"v2": 1}, size=1))
        total = sum(t.num_rows for tx in stream for t in tx.values())
        cost = stream_cost(db, view, stream, total, size, deltas=False)
        result.rows.append({"rows": rows, "λ": wanted, **cost.row()})
    result.linear("λ", "steps a change", at_most=True, rows=rows)
    return result


def over_time(size: Size) -> Result:
    """Each tenth of a stream by itself. The last ones are left out, in which windows are drained."""
    result = Result("crown-11-over-time", "CROWN 11: cost of a change over time, in tenths of the stream",
                    Plot("tenth", "steps a change", "query", log="y"))  # fmt: skip
    for name, (ddl, sql, moves) in streams(size).items():
        if name in CYCLES:
            continue
        db, view = opened(ddl, name, sql)
        for tenth in range(8):
            first, last = (len(moves) * t // 10 for t in (tenth, tenth + 1))
            cost = stream_cost(db, view, moves.transactions(TRANSACTION, first, last), last - first, size, deltas=False)
            result.rows.append({"query": name, "tenth": tenth + 1, **cost.row()})
            if cost.part < 1:
                break
        steps = result.series("steps a change", query=name)
        if name in STEADY and len(steps) == 8:
            early, late = steps[3], steps[7]
            most = FLAT * max(early, 0.1)
            text = f"{name}: steps a change, 4th tenth {early:.3g}, 8th {late:.3g} (constant: at most {most:.3g})"
            result.verdicts.append(Verdict(text, late <= most))
    return result
