"""`db.query`: views as stored answers, tables by their keys, LIMIT without ORDER BY; nothing is built for that."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import freshet
from freshet.database import one_off
from tests.oracle import same_bag


@pytest.fixture
def db() -> freshet.Database:
    db = freshet.connect()
    db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, g INT, s STRING); CREATE TABLE bag (x INT)")
    db.apply({"t": [(i, i % 7, f"s{i % 11}") for i in range(200)], "bag": [(i % 3,) for i in range(10)]})
    db.create_view("v", "SELECT id, g, s FROM t WHERE g <> 3")
    db.create_view("sums", "SELECT g, COUNT(*) AS n, SUM(id) AS total FROM t GROUP BY g")
    db.create_view("sorted", "SELECT id, s FROM t ORDER BY s DESC, id")
    return db


SCANS = [
    "SELECT * FROM t WHERE id = 17", "SELECT s, id + 1 AS j FROM t WHERE id = 17 AND g > 100", "SELECT * FROM sums",
    "SELECT total FROM sums WHERE g = 2", "SELECT id FROM v WHERE s LIKE 's1%' AND id < 50", "SELECT x FROM bag",
    "SELECT id FROM v WHERE id = 3", "SELECT id FROM v WHERE id = 4", "SELECT x + 1 AS y FROM bag WHERE x > 0",
    "SELECT y FROM (SELECT id * 2 AS y, g FROM v) AS w WHERE g = 1 AND y > 10",
]  # fmt: skip
ORDERED = [
    "SELECT id, s FROM v ORDER BY s DESC, id LIMIT 7", "SELECT id FROM t ORDER BY id DESC LIMIT 5 OFFSET 3",
    "SELECT g, n FROM sums ORDER BY n, g", "SELECT id FROM v WHERE g = 5 ORDER BY g, id OFFSET 20",
    "SELECT x FROM bag ORDER BY x LIMIT 4", "SELECT id FROM v ORDER BY id LIMIT 0",
]  # fmt: skip
LARGER = [
    "SELECT g, MAX(total) AS m FROM sums GROUP BY g", "SELECT COUNT(*) AS n FROM v JOIN sums USING (g)",
    "SELECT DISTINCT s FROM v", "SELECT id FROM v WHERE EXISTS (SELECT 1 FROM sums WHERE sums.g = v.g AND n > 28)",
    "SELECT s FROM v UNION ALL SELECT s FROM t", "SELECT id, RANK() OVER (PARTITION BY g ORDER BY id) AS r FROM v",
]  # fmt: skip


def expected(db: freshet.Database, sql: str) -> pa.Table:
    connection = duckdb.connect()
    for name in ("t", "bag", "v", "sums"):
        whole = db.view(name).to_arrow() if name in db.views else db.query(f"SELECT * FROM {name}")
        connection.register(name, whole)
    return connection.execute(sql).to_arrow_table()


@pytest.mark.parametrize("sql", SCANS + ORDERED)
def test_scans_build_nothing(db: freshet.Database, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: object) -> None:
        raise AssertionError("a view was built")

    monkeypatch.setattr(one_off, "maintain", build)
    for _ in range(2):  # the second time a look-up is remembered
        answer = db.query(sql)
        same_bag(answer, expected(db, sql))
        if sql in ORDERED:
            assert answer.to_pylist() == expected(db, sql).to_pylist()


@pytest.mark.parametrize("sql", LARGER)
def test_larger_queries(db: freshet.Database, sql: str) -> None:
    same_bag(db.query(sql), expected(db, sql))


def test_an_answer_that_is_far_larger_than_its_tables_is_not_stored(db: freshet.Database) -> None:
    db.create_view("pairs", "SELECT a.id AS a, b.id AS b FROM t AS a CROSS JOIN t AS b CROSS JOIN bag")
    assert db.query("SELECT COUNT(*) AS n FROM pairs").to_pylist() == [{"n": 200 * 200 * 10}]


def test_limit_alone(db: freshet.Database) -> None:
    assert db.query("SELECT id FROM v LIMIT 3").num_rows == 3
    assert db.query("SELECT id FROM v WHERE g = 5 LIMIT 1000 OFFSET 20").num_rows == 8
    assert db.execute("SELECT COUNT(*) AS n FROM (SELECT id FROM v LIMIT 3) AS w").to_pylist() == [{"n": 3}]
    db.create_view("w", "SELECT id FROM t LIMIT 3")  # a view has the least rows, whatever the order of changes
    assert db.view("w").to_dicts() == db.query("SELECT id FROM t ORDER BY id LIMIT 3").to_pylist()


def test_a_view_keeps_its_order(db: freshet.Database) -> None:
    rows = db.view("sorted").to_dicts()
    assert db.query("SELECT * FROM sorted").to_pylist() == rows
    assert (
        db.query("SELECT id FROM sorted WHERE id < 50 LIMIT 2").to_pylist()
        == ([{"id": row["id"]} for row in rows if row["id"] < 50][:2])
    )


def test_look_ups_that_are_remembered(db: freshet.Database) -> None:
    for key in (1, 3, 10**12, 5, 199, 200):
        for sql in (
            "SELECT s FROM t WHERE id = {}",
            "SELECT s, id FROM v WHERE {} = id",
            "SELECT id FROM v WHERE id={}",
        ):
            same_bag(db.query(sql.format(key)), expected(db, sql.format(key)))
            same_bag(db.query(sql.format("?"), [key]), expected(db, sql.format(key)))
    assert db.query("SELECT n FROM sums WHERE g = ?", [2]).to_pylist() == [{"n": 29}]
    db.execute("INSERT INTO t VALUES (1000, 2, 'x')")
    assert db.query("SELECT n FROM sums WHERE g = ?", [2]).to_pylist() == [{"n": 30}]
    db.execute("DROP VIEW sums; CREATE MATERIALIZED VIEW sums AS SELECT CAST(g AS BIGINT) AS g, 'other' AS n FROM t")
    assert db.query("SELECT n FROM sums WHERE g = ?", [2]).num_rows == 30


def test_remembered_forms_do_not_mix(db: freshet.Database) -> None:
    assert db.query("SELECT id FROM t WHERE id = 5 AND g = 5").num_rows == 1
    assert db.query("SELECT id FROM t WHERE id = 5 AND g = 4").num_rows == 0
    assert db.query("SELECT 1 = 2 AS b FROM t WHERE id = 1").to_pylist() == [{"b": False}]
    assert db.query("SELECT 1 = 1 AS b FROM t WHERE id = 2").to_pylist() == [{"b": True}]
    assert db.query("SELECT id FROM t WHERE s = 's1' AND id = 1").num_rows == 1
    assert db.query("SELECT id FROM t WHERE s = 's2' AND id = 1").num_rows == 0
    assert db.query("SELECT id FROM t WHERE id = 1 OR id = 2").num_rows == 2


def test_no_query(db: freshet.Database) -> None:
    for sql in ("DELETE FROM t", "SELECT 1; SELECT 2", ""):
        with pytest.raises(freshet.SqlError, match=r"query\(\) takes one SELECT"):
            db.query(sql)


def test_no_value(db: freshet.Database) -> None:
    with pytest.raises(freshet.ChangeError, match=r"the query has no answer: .*zero"):
        db.query("SELECT 1 / g FROM v")
    assert db.query("SELECT 7 DIV g AS q FROM v WHERE g <> 0 LIMIT 1").num_rows == 1


def test_limits(db: freshet.Database) -> None:
    with pytest.raises(freshet.BudgetError, match="more than 5 rows"):
        db.query("SELECT id FROM v", rows=5)
