"""Many views over the same tables: 100 variants of TPC-H queries in one database, and each of them alone in its own.

python -m benchmarks.many_views [--scale 0.01] [--transactions 40] [--variants 10]

Variants of a query differ in their dates. A transaction takes an order and its lines away or inserts them again. Memory
is the state after loading, with the tables' own share; time is processor time for each transaction.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
import time
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import freshet
from benchmarks import tpch
from freshet.database.db import Database

NUMBERS = (1, 3, 4, 5, 6, 10, 12, 14, 15, 20)
_DATE = re.compile(r"'(\d{4}-\d\d-\d\d)'")


def variant(number: int, days: int) -> str:
    """An official query with its dates moved."""

    def moved(date: re.Match[str]) -> str:
        return f"'{datetime.date.fromisoformat(date[1]) + datetime.timedelta(days)}'"

    return _DATE.sub(moved, tpch.official(number))


def transactions(tables: dict[str, pa.Table], count: int) -> Iterator[dict[str, pa.Table]]:
    """An order with its lines goes, and comes back with the next transaction."""
    keys = np.random.default_rng(1).choice(tables["orders"].column("o_orderkey").to_numpy(), count)
    for key in keys[: count // 2]:
        rows = {
            name: tables[name].filter(pc.equal(tables[name].column(column), int(key)))
            for name, column in (("orders", "o_orderkey"), ("lineitem", "l_orderkey"))
        }
        for weight in (-1, 1):
            yield {n: t.append_column("_weight", pa.array([weight] * len(t), pa.int64())) for n, t in rows.items()}


def measured(tables: dict[str, pa.Table], queries: Sequence[str], count: int) -> tuple[int, int, float]:
    """Bytes of tables, bytes of views, and seconds for a transaction, of a database with these views."""
    db: Database = freshet.connect()
    texts = "\n".join(queries)
    names, columns = tpch.tables_of(texts), tpch.columns_of(texts)
    for statement in tpch.ddl(names, columns):
        db.execute(statement)
    kept = {n: db.query(f"SELECT * FROM {n} LIMIT 0").column_names for n in names}
    db.apply({n: tables[n].select(kept[n]) for n in names})
    before = int(db.metrics()["state_bytes"])
    for i, query in enumerate(queries):
        db.create_view(f"v{i}", query)
    after = int(db.metrics()["state_bytes"])
    spent = 0.0
    for changes in transactions(tables, count):
        own = {n: t.select([*kept[n], "_weight"]) for n, t in changes.items() if n in names}
        start = time.process_time()
        db.apply(own)
        spent += time.process_time() - start
    db.close()
    return before, after - before, spent / (count // 2 * 2)


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_views", description=__doc__)
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--transactions", type=int, default=40)
    parser.add_argument("--variants", type=int, default=10, help="of each of the ten queries")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    given = options(arguments)
    tables = tpch.generate(given.scale)
    queries = [variant(number, 20 * i) for number in NUMBERS for i in range(given.variants)]
    measured(tables, queries[:: given.variants], 4)  # kernels are compiled
    together = measured(tables, queries, given.transactions)
    tenth = measured(tables, queries[:: given.variants], given.transactions)
    alone = np.array([measured(tables, [query], given.transactions) for query in queries]).sum(axis=0)
    print(f"{len(queries)} views over TPC-H at {given.scale}, {given.transactions} transactions")
    shown = {"one database": together, "one database, a tenth": tenth, "each alone, summed": alone}
    for what, (base, views, seconds) in shown.items():
        sizes = f"tables {base / 1e6:8.1f} MB  views {views / 1e6:8.1f} MB"
        print(f"{what:<24} {sizes}  {seconds * 1e6:8.0f} us a transaction")
    return 0


if __name__ == "__main__":
    sys.exit(main())
