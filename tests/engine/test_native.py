"""Native steps compared with the methods that they replace: same deltas, same answers, same counts of steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

import freshet
from freshet.database.db import inside
from freshet.engine import query
from tests.oracle import same_bag

TABLES = (
    "CREATE TABLE a (k BIGINT PRIMARY KEY, x BIGINT, p DECIMAL(12,2), d DATE, s STRING)",
    "CREATE TABLE b (x BIGINT, y BIGINT)",
    "CREATE TABLE c (y BIGINT, z DECIMAL(30,4))",
)

VIEWS = (
    "SELECT COUNT(*) AS n FROM b AS b1, b AS b2, b AS b3 WHERE b1.y = b2.x AND b2.y = b3.x",
    "SELECT COUNT(*) AS n FROM b AS b1, b AS b2, b AS b3 WHERE b1.x = b2.x AND b1.x = b3.x",
    "SELECT b1.x, COUNT(*) AS n, SUM(c.z) AS z FROM b AS b1, b AS b2, c WHERE b1.y = b2.x AND b2.y = c.y GROUP BY b1.x",
    "SELECT x, SUM(p * (1 - p)) AS s, AVG(p) AS m, COUNT(d) AS n FROM a WHERE k > 1 AND p < 3 GROUP BY x",
    "SELECT s, y, SUM(p) FILTER (WHERE d IS NOT NULL) AS p FROM a, b WHERE a.x = b.x AND a.k <> b.y GROUP BY s, y",
    "SELECT a.k, b.y FROM a LEFT JOIN b ON a.x = b.x",
    "SELECT a.k, COUNT(b.y) AS n, SUM(b.y) AS t FROM a LEFT JOIN b ON a.x = b.x GROUP BY a.k",
    "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.x = a.x) AND NOT EXISTS (SELECT 1 FROM c WHERE c.y = a.x)",
    "SELECT DISTINCT b.x, c.z FROM b JOIN c ON b.y = c.y",
    "SELECT b.x, MAX(c.z) AS m FROM b JOIN c ON b.y = c.y GROUP BY b.x",
    "SELECT t.x, b.y FROM (SELECT x, COUNT(*) AS n FROM b GROUP BY x) AS t JOIN b ON t.n = b.y",
    "SELECT s FROM a WHERE s LIKE 'o%' GROUP BY s HAVING COUNT(*) > 1",
)  # fmt: skip


def _small(most: int = 3) -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(0, most)


PRICES = st.none() | st.sampled_from(("0.50", "1.00", "2.25", "-1.75"))
DATES = st.none() | st.sampled_from(("2024-01-01", "2024-01-02"))
ROWS = {
    "a": st.tuples(st.integers(0, 4), _small(), PRICES, DATES, st.none() | st.sampled_from(("one", "two", "off"))),
    "b": st.tuples(_small(), _small()),
    "c": st.tuples(_small(), PRICES),
}
NAMES = {"a": "kxpds", "b": "xy", "c": "yz"}
CHANGES = st.lists(
    st.fixed_dictionaries({t: st.lists(st.tuples(rows, st.booleans()), max_size=8) for t, rows in ROWS.items()}),
    max_size=6,
)
Row = tuple[object, ...]


@contextmanager
def without_native() -> Iterator[None]:
    with patch.object(query, "is_covered", lambda join: False):
        yield


def connected(views: tuple[str, ...]) -> freshet.Database:
    db = freshet.connect()
    for ddl in TABLES:
        db.execute(ddl)
    for i, sql in enumerate(views):
        db.create_view(f"v{i}", sql)
    return db


def applied(held: dict[str, list[Row]], drawn: dict[str, list[tuple[Row, bool]]]) -> dict[str, object]:
    """Rows come, or go where they are there; `held` follows."""
    changes: dict[str, object] = {}
    for table, rows in drawn.items():
        out = []
        for row, goes in rows:
            same = [r for r in held[table] if (r[0] == row[0] if table == "a" else r == row)]
            if same and (goes or table == "a"):
                held[table].remove(same[0])
                out.append({**dict(zip(NAMES[table], same[0], strict=True)), "_weight": -1})
            else:
                held[table].append(row)
                out.append({**dict(zip(NAMES[table], row, strict=True)), "_weight": 1})
        if out:
            changes[table] = out
    return changes


def paid(db: freshet.Database, views: int) -> list[object]:
    return [inside(db.view(f"v{i}")).operator.work() for i in range(views)]


@settings(deadline=None)
@given(CHANGES)
def test_as_the_methods_do(changes: list[dict[str, list[tuple[Row, bool]]]]) -> None:
    native = connected(VIEWS)
    with without_native():
        plain = connected(VIEWS)
    held: dict[str, list[Row]] = {"a": [], "b": [], "c": []}
    for drawn in changes:
        rows = applied(held, drawn)
        ours = native.apply(rows)
        with without_native():
            theirs = plain.apply(rows)
        for i in range(len(VIEWS)):
            same_bag(ours.deltas[f"v{i}"], theirs.deltas[f"v{i}"])
            same_bag(native.view(f"v{i}").to_arrow(), plain.view(f"v{i}").to_arrow())
    assert paid(native, len(VIEWS)) == paid(plain, len(VIEWS))
