"""Reading a view of many rows: lookups, a filter, the whole answer; compared with DuckDB over the same rows, in one
run: `python -m benchmarks.reading`.

Figures are the median of processor time, in microseconds.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median

import duckdb

import freshet
from benchmarks.measure import markdown

ROWS = 50_000
SECONDS = 0.3  # at least, for each figure


def measure(rows: int = ROWS, seconds: float = SECONDS) -> Iterator[tuple[str, float, float | None]]:
    """The operation, the median of Freshet, and that of DuckDB if it has an equivalent."""
    draw, db, peer = random.Random(1), freshet.connect(), duckdb.connect()
    peer.execute("SET threads = 1")
    db.execute("CREATE TABLE sale (id BIGINT PRIMARY KEY, city STRING, price BIGINT)")
    by_key = db.create_view("by_key", "SELECT id, city, price FROM sale")
    by_city = db.create_view("by_city", "SELECT city, COUNT(*) AS n, SUM(price) AS total FROM sale GROUP BY city")
    cities = max(rows // 10, 1)
    median_of = partial(_median, seconds=seconds)
    db.apply({"sale": [(i, f"city {i % cities}", i % 1000) for i in range(rows)]})
    db.execute("CREATE INDEX ON by_key (city)")
    for view in (by_key, by_city):
        peer.register("answer", view.to_arrow())
        peer.execute(f"CREATE TABLE {view.name} AS FROM answer")
    peer.execute("CREATE UNIQUE INDEX i1 ON by_key (id); CREATE UNIQUE INDEX i2 ON by_city (city)")

    def key() -> int:
        return draw.randrange(rows)

    def city() -> str:
        return f"city {draw.randrange(cities)}"

    def asked(sql: str, value: Callable[[], object] | None = None) -> tuple[float, float]:
        def given() -> list[object]:
            return [] if value is None else [value()]

        own = median_of(lambda: db.query(sql, given()))
        return own, median_of(lambda: peer.execute(sql, given()).to_arrow_table())

    yield "view.get, primary key", median_of(lambda: by_key.get(key())), None
    yield "view.get, group", median_of(lambda: by_city.get(city())), None
    yield "view.find, index, 10 rows", median_of(lambda: by_key.find(city(), by="city")), None
    yield "SQL look-up, primary key", *asked("SELECT * FROM by_key WHERE id = ?", key)
    yield "SQL look-up, group", *asked("SELECT * FROM by_city WHERE city = ?", city)
    yield "filter, 1 row in 1,000", *asked("SELECT id, city FROM by_key WHERE price = 7 AND id > 100")
    yield "ORDER BY ... LIMIT 10", *asked("SELECT id, price FROM by_key ORDER BY price DESC, id LIMIT 10")
    yield "LIMIT 10", *asked("SELECT id, city FROM by_key LIMIT 10")
    yield "the whole answer", *asked("SELECT * FROM by_key")
    yield "GROUP BY over the view", *asked("SELECT price, COUNT(*) AS n FROM by_key GROUP BY price")


def _median(call: Callable[[], object], seconds: float, least: int = 20) -> float:
    for _ in range(5):
        call()
    spent: list[float] = []
    begun = time.process_time()
    while len(spent) < least or (time.process_time() - begun < seconds and len(spent) < 2_000):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    return 1e6 * median(spent)


def report(rows: int, found: Sequence[tuple[str, float, float | None]]) -> str:
    lines = [(what, f"{own:,.0f}", "" if peer is None else f"{peer:,.0f}") for what, own, peer in found]
    return markdown((f"reading {rows:,} rows, µs", "Freshet", "DuckDB"), lines)


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of the view")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each figure")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    given = options(arguments)
    print(report(given.rows, list(measure(given.rows, given.seconds))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
