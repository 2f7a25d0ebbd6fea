"""Aggregates next to outer joins, computed from totals: DuckDB's answers, and work that does not grow with the joined
rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import freshet
from tests.twin import Twin, TwinTable, drain, waves

DDL = (
    "CREATE TABLE a (k BIGINT, v BIGINT, x DOUBLE); CREATE TABLE b (k BIGINT, c BIGINT, w BIGINT);"
    " CREATE TABLE c (k BIGINT, c BIGINT, y DOUBLE)"
)
QUERIES = {
    "counts": "SELECT a.k, COUNT(*) AS n, COUNT(b.k) AS m, COUNT(b.w) AS w"
    " FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.k",
    "sums": "SELECT a.k, SUM(b.w) AS s, AVG(b.w) AS m, MIN(b.w) AS l, MAX(b.w) AS h, VAR_POP(b.w) AS v, COUNT(*) AS n"
    " FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.k",
    "nothing": "SELECT a.k, SUM(COALESCE(b.w, 7)) AS s, COUNT(*) FILTER (WHERE b.w IS NULL) AS n,"
    " MAX(COALESCE(b.w, 9)) AS h, SUM(b.w) FILTER (WHERE b.c = 1) AS f FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.k",
    "products": "SELECT a.v, SUM(a.v * b.w) AS s, SUM(a.v * COALESCE(b.w, 2)) AS t, COUNT(*) AS n"
    " FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.v",
    "two sides": "SELECT a.k, COUNT(*) AS n, SUM(c.y) AS s, COUNT(b.k) AS m FROM a LEFT JOIN b ON a.k = b.k"
    " LEFT JOIN c ON a.k = c.k GROUP BY a.k",
    "doubles": "SELECT COUNT(*) AS n, SUM(a.x) AS x, AVG(c.y) AS y, STDDEV_POP(c.y) AS z"
    " FROM a LEFT JOIN c ON a.k = c.k AND c.y > 0",
    "next to a join": "SELECT a.k, COUNT(*) AS n, SUM(b.w) AS s, SUM(c.c) AS t FROM a JOIN c ON a.k = c.k"
    " LEFT JOIN b ON a.k = b.k AND b.w > 1 GROUP BY a.k",
    "within a part": "SELECT a.k, COUNT(b.k) AS n, SUM(b.w) AS s, COUNT(*) AS m FROM a JOIN c ON a.k = c.k"
    " LEFT JOIN b ON c.c = b.c GROUP BY a.k",
    "of a join": "SELECT a.k, COUNT(*) AS n, SUM(b.w) AS s, MAX(c.y) AS h, COUNT(c.y) AS m"
    " FROM a LEFT JOIN (b JOIN c ON b.c = c.c) ON a.k = b.k GROUP BY a.k",
    "enumerated as well": "SELECT a.k, b.c, COUNT(*) AS n, SUM(c.y) AS s FROM a JOIN c ON a.k = c.k"
    " LEFT JOIN b ON a.k = b.k WHERE b.w IS NULL OR b.w > a.v GROUP BY a.k, b.c",
    "where something exists": "SELECT a.k, COUNT(*) AS n, SUM(b.w) AS s FROM a LEFT JOIN b ON a.k = b.k"
    " AND EXISTS (SELECT 1 FROM c WHERE c.c = b.c) GROUP BY a.k",
}


def rows(rng: np.random.Generator, table: str, n: int) -> pa.Table:
    def some(high: int) -> pa.Array:
        return pa.array(rng.integers(0, high, n), mask=rng.random(n) < 0.15)

    eighths = pa.array(rng.integers(-20, 20, n) / 8, mask=rng.random(n) < 0.15)
    columns = {
        "a": {"k": some(4), "v": some(3), "x": eighths},
        "b": {"k": some(4), "c": some(3), "w": some(5)},
        "c": {"k": some(4), "c": some(3), "y": eighths},
    }
    return pa.table(columns[table])


@pytest.mark.parametrize("seed", range(2))
def test_answers(seed: int) -> None:
    db, rng = freshet.connect(), np.random.default_rng(seed)
    db.execute(DDL)
    twin = Twin(db, [TwinTable(name, rows(rng, name, 14)) for name in "abc"], QUERIES)
    waves(twin, rng, 25)
    drain(twin)


@pytest.mark.parametrize("name", [n for n in QUERIES if n != "enumerated as well"])
def test_work_does_not_grow_with_joined_rows(name: str) -> None:
    """With w rows of each table under one key, a change costs the same for each w."""
    costs = []
    for width in (8, 64):
        db = freshet.connect(adapt=False)
        db.execute(DDL)
        view = db.create_view("v", QUERIES[name])
        assert "annotation" in view.explain()
        many = range(width)
        db.apply({"a": [(1, 1, 0.5) for _ in many], "b": [(1, 1, 2) for _ in many], "c": [(1, 1, 0.5) for _ in many]})
        before = view.metrics()["steps"]
        for table, row in (("a", (1, 1, 0.25)), ("b", (1, 1, 3)), ("c", (1, 1, 0.75)), ("a", (2, 1, 0.25))):
            db.apply({table: [row]})
        costs.append(view.metrics()["steps"] - before)
    assert costs[1] <= costs[0]


def test_a_match_by_primary_key_is_enumerated() -> None:
    """Each row has one match at most, and each match one row: there is nothing to save."""
    ddl = "CREATE TABLE p (id INT PRIMARY KEY, g INT); CREATE TABLE q (id INT PRIMARY KEY, w INT)"
    sql = "SELECT p.g, COUNT(*) AS n, SUM(q.w) AS s FROM p LEFT JOIN q ON p.id = q.id GROUP BY p.g"
    assert "annotation:" not in freshet.plan(sql, ddl).explain()
