"""Plans on their own: made from DDL, written, read back, and run."""

from __future__ import annotations

import json

import pytest

import freshet
from tests.oracle import same_bag

DDL = "CREATE TABLE a (id INT PRIMARY KEY, k STRING); CREATE TABLE b (k STRING, x DECIMAL(10, 2), d DATE)"
QUERIES = [
    "SELECT a.id, b.x FROM a JOIN b ON a.k = b.k WHERE b.d > DATE '2020-01-01' AND b.x < 5.5",
    "SELECT DISTINCT a.k FROM a JOIN b ON a.k = b.k",
    "SELECT a.k, SUM(b.x) FILTER (WHERE b.x > 0) AS s FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.k HAVING COUNT(*) > 1",
    "SELECT n.k, n.c FROM (SELECT k, COUNT(*) AS c FROM b GROUP BY k) n WHERE n.k IN (SELECT k FROM a)",
    "SELECT 'it''s' AS quoted, NULL AS nothing, 1.5E0 AS double, TRUE AS yes",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_a_plan_survives_json_and_runs(sql: str) -> None:
    plan = freshet.plan(sql, DDL)
    text = plan.to_json()
    back = freshet.Plan.from_json(text)
    assert back == plan and back.to_json() == text
    json.loads(text)
    db = freshet.connect()
    db.execute(DDL)
    db.execute("INSERT INTO a VALUES (1, 'x'), (2, 'y'), (3, NULL), (4, 'x')")
    db.execute("INSERT INTO b VALUES ('x', 1.25, DATE '2021-01-01'), ('x', 9, NULL), ('z', -1, DATE '2024-01-01')")
    given, made = db.create_view("given", back), db.create_view("made", sql)
    same_bag(given.to_arrow(), made.to_arrow())
    tx = db.execute("DELETE FROM b WHERE x > 5")
    same_bag(tx.deltas["given"], tx.deltas["made"])
    db.create_view("again", db.view("made").plan)
    same_bag(db.view("again").to_arrow(), made.to_arrow())


def test_tables_as_a_catalog() -> None:
    catalog = freshet.Catalog.from_ddl(DDL)
    assert freshet.plan(QUERIES[0], catalog) == freshet.plan(QUERIES[0], DDL)


def test_a_plan_explains_itself() -> None:
    assert "class" in freshet.plan(QUERIES[0], DDL).explain()


def test_a_plan_for_other_tables_is_refused() -> None:
    plan = freshet.plan("SELECT id FROM a", DDL)
    db = freshet.connect()
    db.execute("CREATE TABLE a (id INT, k STRING)")
    with pytest.raises(freshet.PlanError, match="made for another table a"):
        db.create_view("v", plan)
    with pytest.raises(freshet.SqlError):
        freshet.connect().create_view("v", plan)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[1]", '{"format": 99}', '{"format": 1, "is": "Nothing"}', '{"format": 1, "is": "Type", "name": "INT"}'],
)
def test_a_document_that_is_not_a_plan_is_refused(text: str) -> None:
    with pytest.raises(freshet.PlanError):
        freshet.Plan.from_json(text)


def test_bad_queries_are_refused_without_a_database() -> None:
    with pytest.raises(freshet.SqlError, match="nothing"):
        freshet.plan("SELECT nothing FROM a", DDL)
    with pytest.raises(freshet.UnsupportedError, match="window function is not supported"):
        freshet.plan("SELECT k, MEDIAN(k) OVER () AS m FROM b", DDL)


def test_queries_that_differ_in_the_sign_of_zero_are_distinguished() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT)")
    view = db.create_view(
        "v", "SELECT CAST(a * -0.0e0 AS STRING) AS s FROM t UNION ALL SELECT CAST(a * 0.0e0 AS STRING) AS s FROM t"
    )
    db.execute("INSERT INTO t VALUES (1)")
    assert sorted(view.to_arrow()["s"].to_pylist()) == ["-0.0", "0.0"]
