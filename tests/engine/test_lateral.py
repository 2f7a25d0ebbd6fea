"""LATERAL subqueries, compared with DuckDB after every transaction."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import freshet
from tests.oracle import RunningSum, duckdb_answer, same_bag

DDL = "CREATE TABLE a (id INT PRIMARY KEY, k INT, n INT); CREATE TABLE b (id INT PRIMARY KEY, k INT, v INT)"
QUERIES = (
    "SELECT a.id, l.id AS b, l.v FROM a, LATERAL (SELECT id, v FROM b WHERE b.k = a.k ORDER BY v, id LIMIT 2) AS l",
    "SELECT a.id, l.v FROM a JOIN LATERAL (SELECT v FROM b WHERE b.k = a.k) AS l ON l.v > a.n",
    "SELECT a.id, l.v FROM a LEFT JOIN LATERAL (SELECT v FROM b WHERE b.k = a.k ORDER BY v DESC, id LIMIT 1) l ON TRUE",
    "SELECT a.id, l.v FROM a LEFT JOIN LATERAL (SELECT v FROM b WHERE b.k = a.k) l ON l.v < a.n",
    "SELECT a.id, l.s, l.n FROM a, LATERAL (SELECT SUM(v) AS s, COUNT(*) AS n FROM b WHERE b.k = a.k) AS l",
    "SELECT a.id, l.s FROM a, LATERAL (SELECT SUM(v) AS s FROM b WHERE b.v < a.n) AS l",
    "SELECT a.id, l.v, l.m FROM a, LATERAL (SELECT v, COUNT(*) AS m FROM b WHERE b.k = a.k GROUP BY v) AS l",
    "SELECT a.id, l.x FROM a, LATERAL (SELECT a.n + 1 AS x) AS l WHERE l.x > 2",
    "SELECT a.id, l.x FROM a, LATERAL (SELECT a.n + b.v AS x FROM b WHERE b.k = a.k) AS l",
    "SELECT a.id, l.id AS b FROM a, LATERAL (SELECT id FROM b WHERE b.v <= a.n ORDER BY v DESC, id LIMIT 2) AS l",
    "SELECT a.id, m.v FROM a, LATERAL (SELECT k FROM b WHERE id = a.n) l, LATERAL (SELECT v FROM b WHERE b.k = l.k) m",
    "SELECT k, COUNT(*) AS n FROM a, LATERAL (SELECT v FROM b WHERE b.k = a.k AND v > 1) AS l GROUP BY k",
    "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b, LATERAL (SELECT b.v + 1 AS x) AS l WHERE b.k = a.k AND l.x > 2)",
    (
        "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b LEFT JOIN LATERAL (SELECT k AS o FROM b c "
        "WHERE b.k = c.v AND b.v < c.id) l ON b.id = l.o WHERE a.k < b.id + 2 AND l.o >= b.v)"
    ),
    (
        "SELECT id FROM a WHERE id <> ALL (SELECT x.id FROM a x LEFT JOIN LATERAL (SELECT v AS o FROM b c "
        "WHERE x.id <> c.k) l ON x.k = l.o)"
    ),
    "SELECT id, (SELECT MAX(l.x) FROM b, LATERAL (SELECT b.v + 1 AS x) AS l WHERE b.k = a.k) AS m FROM a",
    "SELECT a.id, l.v, c.v FROM a JOIN LATERAL (SELECT v FROM b WHERE k = a.k) l ON TRUE FULL JOIN b c ON c.v = l.v",
    "SELECT c.id, l.v FROM b c LEFT JOIN (a JOIN LATERAL (SELECT v FROM b WHERE b.k = a.k) l ON TRUE) ON c.k = a.n",
    (
        "WITH w AS (SELECT a.id, l.v FROM a, LATERAL (SELECT v FROM b WHERE b.k = a.k ORDER BY v, id LIMIT 1) l) "
        "SELECT x.id, y.v FROM w x JOIN w y ON x.v = y.id"
    ),
    "SELECT a.id, l.r FROM a, LATERAL (SELECT RANK() OVER (ORDER BY v) AS r, v FROM b WHERE b.k = a.k) AS l",
    "SELECT a.id, l.v FROM a, LATERAL (SELECT DISTINCT v FROM b WHERE b.k = a.k UNION ALL SELECT a.n) AS l(v)",
    "SELECT a.id, l.w FROM a, LATERAL (SELECT MAX(v) AS w FROM b WHERE b.k = a.k HAVING COUNT(*) > 1) AS l",
)


@pytest.mark.parametrize("sql", QUERIES)
def test_rows_follow(sql: str) -> None:
    chosen, db = random.Random(len(sql)), freshet.connect()
    db.execute(DDL)
    rows: dict[str, dict[int, tuple[int, int | None, int | None]]] = {"a": {}, "b": {}}
    view = db.create_view("v", sql)
    total = RunningSum(view.to_arrow())
    schemas = {t: pa.schema([(f.name, pa.int32()) for f in db.catalog.tables[t].fields]) for t in rows}
    for _ in range(25):
        changes = {}
        for name, held in rows.items():
            made = []
            for i in chosen.sample(range(8), 3):
                if i in held and chosen.random() < 0.4:
                    del held[i]
                    made.append({"id": i, "_change_type": "delete"})
                else:
                    held[i] = (i, chosen.choice((None, 1, 2)), chosen.choice((None, 0, 1, 2, 3)))
                    names = [*schemas[name].names, "_change_type"]
                    made.append(dict(zip(names, (*held[i], "upsert"), strict=True)))
            changes[name] = made
        tx = db.apply(changes)
        total.add(tx.deltas["v"])
        total.equals(view.to_arrow())
        tables = {
            n: pa.Table.from_pylist([dict(zip(schemas[n].names, r, strict=True)) for r in held.values()], schemas[n])
            for n, held in rows.items()
        }
        same_bag(view.to_arrow(), duckdb_answer(_for_duckdb(sql), tables))
    same_bag(db.query(sql), view.to_arrow())


def _for_duckdb(sql: str) -> str:
    for order in ("ORDER BY v, id", "ORDER BY v)"):
        sql = sql.replace(order, order.replace("ORDER BY v", "ORDER BY v NULLS FIRST"))
    return sql.replace("v DESC, id", "v DESC NULLS LAST, id")


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT 1 AS x FROM a RIGHT JOIN LATERAL (SELECT v FROM b WHERE b.k = a.k) l ON TRUE", "RIGHT JOIN LATERAL"),
        ("SELECT 1 AS x FROM a FULL JOIN LATERAL (SELECT v FROM b WHERE b.k = a.k) l ON TRUE", "FULL JOIN LATERAL"),
        ("SELECT 1 AS x FROM LATERAL (SELECT v FROM b WHERE b.k = a.k) l, a", "a.k|no column|no table"),
    ],
)
def test_what_is_refused(sql: str, words: str) -> None:
    db = freshet.connect()
    db.execute(DDL)
    with pytest.raises(freshet.SqlError, match=words):
        db.create_view("v", sql)


def test_values_of_a_left_join_are_not_taken_from_a_block_without_rows() -> None:
    """The LATERAL has no rows yet when the values it is computed for are looked up."""
    db = freshet.connect()
    db.execute("CREATE TABLE q (a INT, b INT)")
    joined = "SELECT x.a FROM q AS x LEFT JOIN q AS y ON x.b = y.b "
    text = joined + "CROSS JOIN LATERAL (SELECT z.b FROM q AS z WHERE y.a {} z.a)"
    with pytest.raises(freshet.UnsupportedError, match="LATERAL next to a subquery that reads a LEFT JOIN's columns"):
        db.create_view("v", text.format("<=") + " AS l")
    view = db.create_view("w", text.format("=") + " AS l")
    db.apply({"q": [(1, 1)]})
    assert view.to_dicts() == [{"a": 1}]
