"""TPC-H queries over a sliding window of a fifth of the orders, in order of date.

Tables that do not move are loaded first. Halfway, when the window is full, single changes are timed. At ten points of
the stream, off the clock, the answer is compared with DuckDB's over the rows then in the window.
"""

from __future__ import annotations

from collections.abc import Iterator

import freshet
from benchmarks import tpch
from benchmarks.agreement import differing_rows
from benchmarks.measure import Figures, Run, bytes_per_tuple, progress
from benchmarks.streams import order_window

WINDOW = 0.2
TRANSACTION = 10_000
SINGLE = 2_000
CHECKS = 10


def measure(query: str, scale: float = 0.1, all_columns: bool = False) -> Iterator[Figures]:
    """Figures for transactions of 10,000 changes, then for transactions of one."""
    sql = tpch.QUERIES[query]
    tables = tpch.generate(scale, tpch.tables_of(sql))
    statements = tpch.ddl(tables, None if all_columns else tpch.columns_of(sql))
    db = freshet.connect()
    for name, statement in zip(tables, statements, strict=True):
        db.execute(statement)
        declared = [line.split()[0] for line in statement.splitlines()]
        tables[name] = tables[name].select([c for c in tables[name].column_names if c in declared])
    view = db.create_view(query, sql)

    loaded = {name: table for name, table in tables.items() if name in tpch.DIMENSIONS}
    db.apply(loaded)
    stream = order_window(tables["orders"], tables["lineitem"], WINDOW)
    middle = len(stream) // 2
    checks = [len(stream) * i // CHECKS for i in range(1, CHECKS + 1)]
    show = progress(f"TPC-H {query}", len(stream))
    whole, single, state = Run(), Run(), 0.0

    position = 0
    while position < len(stream):
        if not single.spent and position + TRANSACTION >= middle:
            state = bytes_per_tuple(db)
            end = min(position + SINGLE, len(stream))
            for transaction in stream.transactions(1, position, end):
                single.apply(db, transaction)
        else:
            end = min(position + TRANSACTION, len(stream))
            for transaction in stream.transactions(TRANSACTION, position, end):
                whole.apply(db, transaction)
        position = end
        show(position)
        if position >= checks[0]:
            checks.pop(0)
            wrong = differing_rows(view.to_arrow(), sql, {**loaded, **stream.surviving(position)})
            if wrong:
                raise AssertionError(f"{query}: {wrong} rows differ from DuckDB's answer after {position:,} changes")
    name = f"TPC-H {query}, SF {scale:g}"
    yield Figures.of(whole, name, TRANSACTION, True, state)
    yield Figures.of(single, name, 1, True, state)
