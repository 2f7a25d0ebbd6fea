"""IEDyn, figure 10: cost and state as a stream of inserts proceeds, reported after every tenth of it.

Only the state is maintained, as in the paper's pull mode. The theoretical bound is logarithmic, for finding a position
in an order.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.papers.data import inequality_tables
from benchmarks.papers.figures.crown_queries import opened
from benchmarks.papers.harness import Cost, Plot, Result, Size, stream_cost, sweep
from benchmarks.papers.queries import INEQUALITIES, INEQUALITY_DDL
from benchmarks.papers.sequences import Moves, inserts


def run(size: Size) -> Iterator[Result]:
    result = Result("iedyn-10-scale", "IEDyn 10: cost of an insert as the stream goes on",
                    Plot("inserts", "µs a change", "query"))  # fmt: skip
    rows = size.pick(300_000, 60_000, 300)
    for name in ("q4", "q5", "q7", "q8"):
        moves = inserts(inequality_tables(rows // 3, rows // 100, spread=10 * rows))
        inserted = 0
        for cost in sweep(size, partial(tenths, name, moves, size)):
            inserted += cost.changes
            state = round(cost.nbytes / 1e6, 3)
            result.rows.append({"query": name, "inserts": inserted, **cost.row(), "state MB": state})
        result.linear("inserts", "state MB", query=name)
        result.flat("counters a change", query=name)
        result.logarithmic("inserts", "µs a change", query=name)
    yield result


def tenths(name: str, moves: Moves, size: Size) -> list[Cost]:
    db, view = opened(INEQUALITY_DDL, name, INEQUALITIES[name])
    tenth = len(moves) // 10
    return [
        stream_cost(db, view, moves.transactions(1_000, i * tenth, (i + 1) * tenth), tenth, size, deltas=False)
        for i in range(10)
    ]
