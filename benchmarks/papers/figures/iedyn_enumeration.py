"""IEDyn, figure 8: enumerating the whole answer from the tree, compared with reading it from where it is stored (a
DuckDB table)."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa

from benchmarks.papers.figures.crown_queries import opened
from benchmarks.papers.figures.iedyn_streams import LONG, stream
from benchmarks.papers.harness import Plot, Result, Size
from benchmarks.papers.queries import INEQUALITIES, INEQUALITY_DDL
from freshet.database.view import View


def run(size: Size) -> Iterator[Result]:
    result = Result("iedyn-8-enumeration", "IEDyn 8: enumerating an answer, compared with reading it materialized",
                    Plot("query", "ns a row", "from", bars=True))  # fmt: skip
    for name, sql in INEQUALITIES.items():
        moves = stream(name, size.pick(6_000, 3_000, 300) if name in LONG else size.pick(450, 300, 90), False)
        db, view = opened(INEQUALITY_DDL, name, sql)
        for transaction in moves.transactions(1_000):
            db.apply(transaction, deltas=False)
        rows = view.count()
        for source, spent in (("the tree", enumerated(view, size)), ("a stored answer", stored(view.to_arrow(), size))):
            ns = round(1e9 * spent / max(rows, 1), 1)
            result.rows.append({"query": name, "from": source, "rows": rows, "ns a row": ns})
    yield result


def enumerated(view: View, size: Size) -> float:
    started = size.now()
    for _ in view.batches(65_536):
        pass
    return size.now() - started


def stored(answer: pa.Table, size: Size) -> float:
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("_answer", answer)
        connection.execute("CREATE TABLE answer AS FROM _answer")
        started = size.now()
        for _ in connection.execute("FROM answer").to_arrow_reader(65_536):
            pass
        return size.now() - started
