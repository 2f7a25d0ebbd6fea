"""Subqueries that read the query around them, from every place of theirs: views compared with an oracle after each of
a series of random transactions."""

# ruff: noqa: E501
from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest

import freshet
from tests.oracle import RunningSum, reference_answer, same_bag, sqlite_answer

TABLES = {"t": ("a", "b"), "s": ("a", "c"), "u": ("c", "d")}

QUERIES = [
    # Aggregates without GROUP BY in FROM: they have a row even if nothing matches.
    "SELECT t.a, (SELECT x.n FROM (SELECT COUNT(*) AS n FROM s WHERE s.a = t.a) x) AS m FROM t",
    "SELECT t.a, (SELECT x.n + 1 FROM (SELECT COUNT(*) AS n, MAX(s.c) AS q FROM s WHERE s.a < t.a) x) AS m FROM t",
    "SELECT t.a FROM t WHERE (SELECT x.n FROM (SELECT COUNT(*) AS n FROM s WHERE s.a = t.a) x WHERE x.n >= 0) = 0",
    "SELECT t.a, EXISTS (SELECT 1 FROM (SELECT COUNT(*) AS n FROM s WHERE s.a = t.a HAVING COUNT(*) > 1) x) AS e FROM t",
    "SELECT t.a, (SELECT COUNT(*) FROM u, (SELECT COUNT(*) AS n FROM s WHERE s.a = t.a) x WHERE u.c > x.n) AS e FROM t",
    "SELECT t.a, (SELECT COUNT(*) FROM u LEFT JOIN (SELECT COUNT(*) AS n FROM s WHERE s.a = t.a) x ON u.c = x.n) AS e FROM t",
    "SELECT t.a, (SELECT x.z FROM (SELECT MAX(c) + t.b AS z FROM s WHERE s.a = t.a) x) AS m FROM t",
    "SELECT t.a, (SELECT x.n FROM (SELECT COUNT(*) AS n FROM s WHERE s.a = t.a ORDER BY n LIMIT 1) x) AS m FROM t",
    # Set operations.
    "SELECT t.a, (SELECT SUM(x.n) FROM (SELECT COUNT(*) AS n FROM s WHERE s.a = t.a UNION ALL SELECT COUNT(*) FROM u WHERE u.c = t.b) x) AS m FROM t",
    "SELECT t.a, (SELECT COUNT(*) FROM (SELECT c FROM s WHERE s.a = t.a UNION SELECT d FROM u WHERE u.c = t.a) x) AS m FROM t",
    "SELECT t.a, (SELECT COUNT(*) FROM (SELECT c FROM s WHERE s.a = t.a EXCEPT SELECT d FROM u WHERE u.c = t.b) x) AS m FROM t",
    "SELECT t.a, (SELECT COUNT(*) FROM (SELECT c FROM s WHERE s.a = t.a INTERSECT ALL SELECT d FROM u) x) AS m FROM t",
    "SELECT t.a FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.a = t.a UNION ALL SELECT 1 FROM u WHERE u.c > t.b)",
    "SELECT t.a FROM t WHERE t.b NOT IN (SELECT c FROM s WHERE s.a = t.a UNION ALL SELECT d FROM u WHERE u.c = t.a)",
    "SELECT t.a, t.b > ALL (SELECT c FROM s WHERE s.a = t.a UNION SELECT d FROM u) AS m FROM t",
    "SELECT t.a, (SELECT COUNT(*) FROM (SELECT 1 AS one UNION ALL SELECT t.a) x) AS m FROM t",
    # WITH.
    "SELECT t.a, (WITH w AS (SELECT c FROM s WHERE s.a = t.a) SELECT COUNT(*) FROM w JOIN w AS w2 ON w.c = w2.c) AS m FROM t",
    "SELECT t.a FROM t WHERE EXISTS (WITH w AS (SELECT c FROM s WHERE s.a = t.a) SELECT 1 FROM w WHERE w.c > t.b)",
    "SELECT t.a, (WITH w AS (SELECT COUNT(*) AS n FROM s WHERE s.a = t.a) SELECT n * 2 FROM w) AS m FROM t",
    "SELECT t.a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE EXISTS (SELECT 1 FROM (SELECT s.c FROM s WHERE s.a = t.a) w WHERE w.c = u.c))",
    # Windows, groups and joins.
    "SELECT t.a, (SELECT MAX(x.n) FROM (SELECT SUM(s.c) OVER (ORDER BY s.c, s.a) AS n FROM s WHERE s.a >= t.a) x) AS e FROM t",
    "SELECT t.a, (SELECT SUM(COUNT(*)) OVER () FROM s WHERE s.a = t.a) AS e FROM t",
    "SELECT t.a, ROW_NUMBER() OVER (ORDER BY a NULLS FIRST, b NULLS FIRST) IN (SELECT c FROM s WHERE s.a = t.a) AS m FROM t",
    "SELECT a, COUNT(*) AS n, (SELECT COUNT(*) FROM s WHERE s.c < t.a) AS m FROM t GROUP BY a",
    "SELECT a, COUNT(*) AS n FROM t GROUP BY a HAVING COUNT(*) > (SELECT COUNT(*) FROM s WHERE s.a > t.a)",
    "SELECT a, COUNT(*) AS n FROM t GROUP BY a HAVING COUNT(*) NOT IN (SELECT s.c FROM s WHERE s.a = t.a)",
    "SELECT t.a, (SELECT COUNT(*) FROM s WHERE s.a = t.a HAVING COUNT(*) > (SELECT COUNT(*) FROM u WHERE u.c = t.b)) AS m FROM t",
    "SELECT t.a, (SELECT COUNT(*) FROM s WHERE s.a = t.a AND s.c > (SELECT COUNT(*) FROM u WHERE u.c = s.c AND u.d = t.b)) AS m FROM t",
    "SELECT t.a, (SELECT (SELECT COUNT(*) FROM u WHERE u.c = t.a AND u.d <> s.c) FROM s WHERE s.a = t.a ORDER BY 1 LIMIT 1) AS m FROM t",
    "SELECT t.a FROM t LEFT JOIN s ON s.a = t.a WHERE EXISTS (SELECT 1 FROM u WHERE u.c > s.c AND u.d < t.b)",
    "SELECT t.a, (SELECT COUNT(*) FROM u WHERE u.c > s.c) AS m FROM t LEFT JOIN s ON s.a = t.a",
    "SELECT t.a, t.b IN (SELECT c + t.a FROM s) AS m FROM t",
    "SELECT t.a FROM t WHERE EXISTS (SELECT 1 FROM s FULL JOIN u ON s.c = u.c AND u.d = t.a WHERE s.a = t.b)",
    "SELECT t.a, (SELECT COUNT(*) FROM s FULL JOIN (SELECT c FROM u WHERE u.d = t.a) x ON s.c = x.c) AS m FROM t",
    "SELECT t.a, (SELECT COUNT(*) FROM (SELECT DISTINCT c FROM (SELECT c, a FROM s WHERE s.a <> t.a) y WHERE y.a = t.b) x) AS m FROM t",
]

# Several values IN a subquery inside an expression. DuckDB takes (2, 2) IN (SELECT NULL, 3) for NULL, SQLite and the
# standard for FALSE.
ROWS = [
    "SELECT a, b, (a, b) IN (SELECT a, c FROM s) AS m FROM t",
    "SELECT a, b, (a, b) NOT IN (SELECT a, c FROM s) AS m FROM t",
    "SELECT a FROM t WHERE (a, b) IN (SELECT a, c FROM s) OR a = 3",
    "SELECT a FROM t WHERE (a, b) NOT IN (SELECT a, c FROM s) OR a = 3",
    "SELECT a FROM t WHERE NOT ((a, b) IN (SELECT a, c FROM s) AND a = 3)",
    "SELECT a FROM t WHERE CASE WHEN (a, b) IN (SELECT a, c FROM s WHERE s.a <> t.b) THEN FALSE ELSE TRUE END",
    "SELECT a FROM t WHERE ((a, b) IN (SELECT a, c FROM s WHERE s.a <> t.b)) IS NULL",
    "SELECT a, COUNT(*) AS n FROM t GROUP BY a HAVING (a, COUNT(*)) IN (SELECT a, c FROM s) OR a = 2",
    "SELECT a, (a, b) IN (SELECT a, MAX(c) FROM s GROUP BY a) AS m FROM t",
    "SELECT a, (a, b) IN (SELECT MIN(a), MAX(c) FROM s) AS m FROM t",
    "SELECT t.a FROM t LEFT JOIN s ON t.a = s.a AND ((t.b, s.c) IN (SELECT c, d FROM u) OR s.c = 1)",
]


@pytest.mark.parametrize("sql", ROWS)
def test_several_values_in_a_subquery(sql: str) -> None:
    keep_and_compare(sql, sqlite_answer)


@pytest.mark.parametrize("sql", QUERIES)
def test_answers_after_every_transaction(sql: str) -> None:
    keep_and_compare(sql, reference_answer)


def keep_and_compare(sql: str, oracle: Callable[[str, dict[str, pa.Table], pa.Schema], pa.Table]) -> None:
    draw = random.Random(sql)
    db = freshet.connect()
    for name, columns in TABLES.items():
        db.execute(f"CREATE TABLE {name} ({', '.join(f'{c} INT' for c in columns)})")
    view = db.create_view("v", sql)
    total = RunningSum(view.to_arrow())
    rows: dict[str, list[tuple[int | None, int | None]]] = {name: [] for name in TABLES}
    for _ in range(8):
        changes = {}
        for name, columns in TABLES.items():
            made = []
            for _ in range(1 + draw.randrange(2)):
                if rows[name] and draw.random() < 0.4:
                    row, weight = rows[name].pop(draw.randrange(len(rows[name]))), -1
                else:
                    row, weight = (draw.choice((None, 1, 2, 3)), draw.choice((None, 1, 2, 3))), 1
                    rows[name].append(row)
                made.append(dict(zip(columns, row, strict=True)) | {"_weight": weight})
            changes[name] = made
        total.add(db.apply(changes).deltas["v"])
        total.equals(view.to_arrow())
        tables = {
            name: pa.table({c: pa.array([r[i] for r in rows[name]], pa.int32()) for i, c in enumerate(columns)})
            for name, columns in TABLES.items()
        }
        same_bag(view.to_arrow(), oracle(sql, tables, view.to_arrow().schema))


def test_a_common_table_is_read_two_subqueries_further_in() -> None:
    """Outer columns that WITH reads are arguments of both. (DuckDB fails with an internal error.)"""
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT, b INT); CREATE TABLE s (a INT, c INT); CREATE TABLE u (c INT, d INT)")
    inner = "SELECT 1 FROM u WHERE EXISTS (SELECT 1 FROM w WHERE w.c = u.c)"
    view = db.create_view("v", f"SELECT t.a FROM t WHERE EXISTS (WITH w AS (SELECT c FROM s WHERE s.a = t.a) {inner})")
    db.apply({"t": [{"a": 1}, {"a": 2}], "s": [{"a": 1, "c": 5}, {"a": 2, "c": 6}], "u": [{"c": 6}]})
    assert view.to_arrow().to_pylist() == [{"a": 2}]
    db.apply({"u": [{"c": 5, "_weight": 1}, {"c": 6, "_weight": -1}]})
    assert view.to_arrow().to_pylist() == [{"a": 1}]
