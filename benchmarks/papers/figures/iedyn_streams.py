"""IEDyn, figures 5 to 7: time and memory of the twelve inequality queries over streams of single inserts.

Pushed: the delta of each insert is enumerated. Pulled: only the state is maintained. Streams are in time order, in
which each new value is the greatest so far, or unordered.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.papers.data import in_time, inequality_tables
from benchmarks.papers.figures.crown_queries import opened
from benchmarks.papers.harness import Plot, Result, Size, recompute_seconds, stream_cost
from benchmarks.papers.queries import INEQUALITIES, INEQUALITY_DDL
from benchmarks.papers.sequences import Moves, inserts

KEYS = 200
#: Queries that have many results for few rows get shorter streams, as in the paper.
LONG = ("q1", "q2", "q5", "q6", "q8", "q9", "q11", "q12")


def tables_of(sql: str) -> list[str]:
    return ["r", "s", "t"] if "FROM r, s, t" in sql else ["r", "s"]


def stream(name: str, rows: int, in_order: bool) -> Moves:
    """`rows` inserts in total, equally many into each table."""
    read = tables_of(INEQUALITIES[name])
    tables = {n: t for n, t in inequality_tables(rows // len(read), KEYS).items() if n in read}
    if in_order:
        order = np.random.default_rng(1).permutation(sum(t.num_rows for t in tables.values()))
        tables = in_time(tables, order)
    return inserts(tables)


def run(size: Size) -> Iterator[Result]:
    time = Result("iedyn-5-time", "IEDyn 5 and 6: inequality joins over streams of single inserts",
                  Plot("query", "µs a change", "stream", bars=True))  # fmt: skip
    memory = Result("iedyn-7-memory", "IEDyn 6 and 7: state of inequality joins compared with their answers",
                    Plot("query", "share of the answer's bytes", bars=True, log="y"))  # fmt: skip
    for name, sql in list(INEQUALITIES.items())[:: 5 if size.name == "tiny" else 1]:
        rows = size.pick(6_000, 2_000, 150) if name in LONG else size.pick(900, 450, 90)
        for pushed in (True, False):
            for in_order in (True, False):
                moves = stream(name, rows, in_order)
                db, view = opened(INEQUALITY_DDL, name, sql)
                cost = stream_cost(db, view, moves.transactions(1), len(moves), size, deltas=pushed)
                kind = f"{'pushed' if pushed else 'pulled'}, {'in time order' if in_order else 'in no order'}"
                time.rows.append({"query": name, "stream": kind, **cost.row()})
        rows_found = view.count()
        answer = rows_found * 8 * len(view.schema)
        recomputed = recompute_seconds(sql, moves.held(cost.changes), size)
        memory.rows.append({
            "query": name, "inserts": cost.changes, "answer rows": rows_found, "state MB": round(db.nbytes() / 1e6, 3),
            "answer MB": round(answer / 1e6, 3), "share of the answer's bytes": round(db.nbytes() / max(answer, 1), 5),
            "ms DuckDB recomputed": round(1e3 * recomputed, 2),
        })  # fmt: skip
    yield from (time, memory)
