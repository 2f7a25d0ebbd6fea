"""IEDyn, figure 10: cost and state as a stream of inserts goes on, told at every tenth of it.

State alone is kept, as in the paper's pull mode. Theory gives a logarithm for finding a place in order.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.papers.data import inequality_tables
from benchmarks.papers.figures.crown_queries import opened
from benchmarks.papers.harness import Plot, Result, Size, stream_cost
from benchmarks.papers.queries import INEQUALITIES, INEQUALITY_DDL
from benchmarks.papers.sequences import inserts


def run(size: Size) -> Iterator[Result]:
    result = Result("iedyn-10-scale", "IEDyn 10: cost of an insert as the stream goes on",
                    Plot("inserts", "µs a change", "query"))  # fmt: skip
    rows = size.pick(300_000, 60_000, 300)
    for name in ("q4", "q5", "q7", "q8"):
        moves = inserts(inequality_tables(rows // 3, rows // 100, spread=10 * rows))
        db, view = opened(INEQUALITY_DDL, name, INEQUALITIES[name])
        tenth = len(moves) // 10
        for part in range(10):
            changes = moves.transactions(1_000, part * tenth, (part + 1) * tenth)
            cost = stream_cost(db, view, changes, tenth, size, deltas=False)
            result.rows.append({
                "query": name, "inserts": (part + 1) * tenth, **cost.row(), "state MB": round(db.nbytes() / 1e6, 3)
            })  # fmt: skip
        result.linear("inserts", "state MB", query=name)
        result.flat("counters a change", query=name)
        result.logarithmic("inserts", "µs a change", query=name)
    yield result
