"""Statements: the result of each, and that changes in SQL are transactions like any other."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import freshet
from freshet.database.db import Database


@pytest.fixture
def db() -> Database:
    made = freshet.connect()
    made.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, name STRING, x DECIMAL(8, 2), day DATE); CREATE TABLE bag (a INT, b INT)"
    )
    made.execute("CREATE MATERIALIZED VIEW v AS SELECT id, name, x FROM t")
    made.execute("CREATE MATERIALIZED VIEW sums AS SELECT a, SUM(b) AS total FROM bag GROUP BY a")
    return made


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_what_each_statement_gives_back(db: Database) -> None:
    assert db.execute("CREATE TABLE other (a INT)") is None
    assert isinstance(db.execute("INSERT INTO other VALUES (1)"), freshet.Transaction)
    assert isinstance(db.execute("UPDATE other SET a = 2"), freshet.Transaction)
    view = db.execute("CREATE MATERIALIZED VIEW w AS SELECT a FROM other")
    assert isinstance(view, freshet.View) and view is db.view("W")
    assert rows(db.execute("SELECT a FROM other")) == [(2,)]
    assert isinstance(db.execute("DELETE FROM other"), freshet.Transaction)
    assert db.execute("DROP MATERIALIZED VIEW w") is None
    assert db.execute("DROP TABLE other") is None


def test_several_statements_give_what_the_last_one_gives(db: Database) -> None:
    answer = db.execute("INSERT INTO bag VALUES (1, 2); INSERT INTO bag VALUES (1, 3);; SELECT SUM(b) AS s FROM bag;")
    assert rows(answer) == [(5,)]
    assert db.version == 2
    assert db.execute("") is None


def test_insert(db: Database) -> None:
    tx = db.execute("INSERT INTO t VALUES (1, 'ada', 1.5, DATE '2024-02-29'), (2, NULL, 1 + 1, NULL)")
    assert (tx.version, tx.deltas["v"].num_rows) == (1, 2)
    db.execute("INSERT INTO T (NAME, id) VALUES ('bob', 3)")
    assert rows(db.execute("SELECT id, COALESCE(name, '-'), COALESCE(x, 0) FROM t")) == [
        (1, "ada", Decimal("1.50")),
        (2, "-", Decimal("2.00")),
        (3, "bob", Decimal(0)),
    ]
    assert db.execute("SELECT day FROM t WHERE id = 1")["day"].to_pylist() == [datetime.date(2024, 2, 29)]


def test_insert_from_a_query(db: Database) -> None:
    db.execute("INSERT INTO bag VALUES (1, 10), (1, 20), (2, 30)")
    tx = db.execute("INSERT INTO bag SELECT a + 10, b FROM bag")
    assert tx.deltas["sums"].num_rows == 2
    db.execute("INSERT INTO bag (b) SELECT total FROM sums")
    assert rows(db.execute("SELECT COUNT(*) AS n, COUNT(a) AS a, SUM(b) AS b FROM bag")) == [(10, 6, 240)]


def test_update(db: Database) -> None:
    db.execute("INSERT INTO t (id, name, x) VALUES (1, 'ada', 1), (2, 'bob', 2), (3, 'cy', NULL)")
    tx = db.execute("UPDATE t SET x = x * 2 + id, name = UPPER(name) WHERE id < 3")
    assert sorted(tx.deltas["v"].column("_weight").to_pylist()) == [-1, -1, 1, 1]
    assert rows(db.execute("SELECT id, name, x FROM t WHERE x IS NOT NULL")) == [
        (1, "ADA", Decimal(3)),
        (2, "BOB", Decimal(6)),
    ]
    assert db.execute("UPDATE t SET x = x").deltas["v"].num_rows == 0
    assert db.execute("UPDATE t SET x = 0 WHERE id > 99").deltas["v"].num_rows == 0
    db.execute("UPDATE t SET id = id + 1")  # every key moves onto one that is moving away
    assert [r[0] for r in rows(db.execute("SELECT id FROM t"))] == [2, 3, 4]
    db.execute("UPDATE t SET name = NULL, day = DATE '2020-01-01' WHERE name = 'ADA'")
    assert rows(db.execute("SELECT id, day FROM t WHERE name IS NULL")) == [(2, datetime.date(2020, 1, 1))]


def test_update_of_a_bag_moves_every_copy(db: Database) -> None:
    db.execute("INSERT INTO bag VALUES (1, 1), (1, 1), (1, 2), (2, 2)")
    tx = db.execute("UPDATE bag SET b = 2 WHERE b = 1")
    assert rows(db.execute("SELECT a, b FROM bag")) == [(1, 2), (1, 2), (1, 2), (2, 2)]
    assert rows(tx.deltas["sums"]) == [(1, 4, -1), (1, 6, 1)]


def test_delete(db: Database) -> None:
    db.execute("INSERT INTO bag VALUES (1, 1), (1, 1), (2, NULL)")
    assert db.execute("DELETE FROM bag WHERE b > 5").deltas["sums"].num_rows == 0
    tx = db.execute("DELETE FROM bag WHERE b = 1")
    assert rows(tx.deltas["sums"]) == [(1, 2, -1)]
    assert rows(db.execute("SELECT a FROM bag")) == [(2,)]
    db.execute("DELETE FROM bag")
    assert db.execute("SELECT a FROM bag").num_rows == 0 and db.view("sums").count() == 0


def test_one_off_selects(db: Database) -> None:
    db.execute("INSERT INTO bag VALUES (1, 1), (1, 2), (2, 5)")
    before = db.nbytes()
    answer = db.execute("SELECT b.a, COUNT(*) AS n FROM bag b JOIN bag c ON b.a = c.a GROUP BY b.a HAVING COUNT(*) > 1")
    assert rows(answer) == [(1, 4)]
    assert rows(db.execute("SELECT total FROM sums WHERE a = 2")) == [(5,)]
    assert rows(db.execute("SELECT 1 + 1 AS two, 'x' AS x")) == [(2, "x")]
    assert rows(db.execute("WITH big AS (SELECT a FROM bag WHERE b > 1) SELECT COUNT(*) AS n FROM big")) == [(2,)]
    assert db.nbytes() == before and list(db.views) == ["v", "sums"]


def test_if_exists_and_if_not_exists(db: Database) -> None:
    db.execute("CREATE TABLE IF NOT EXISTS t (other INT)")
    assert db.execute("SELECT * FROM t").num_columns == 4
    view = db.execute("CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT a FROM bag")
    assert view is db.view("v") and view.schema.names == ["id", "name", "x"]
    db.execute("DROP TABLE IF EXISTS nothing; DROP MATERIALIZED VIEW IF EXISTS nothing")


def test_names_ignore_case(db: Database) -> None:
    db.execute("CREATE TABLE Mixed (Id INT PRIMARY KEY, Value INT)")
    view = db.create_view("Upper", "SELECT ID, VALUE AS Doubled FROM MIXED WHERE value > 0")
    tx = db.apply({"mixed": [{"ID": 1, "value": 2}]})
    assert tx.deltas["UPPER"].column_names == ["ID", "Doubled", "_weight"]
    assert db.view("upper") is view
    assert rows(db.execute("select id from UPPER")) == [(1,)]
    db.execute("DROP VIEW uPPer; DROP TABLE MIXED")


def test_a_closed_database_says_so(db: Database) -> None:
    view = db.view("v")
    db.close()
    db.close()
    for use in (
        lambda: db.execute("SELECT 1"),
        lambda: db.apply({}),
        lambda: db.view("v"),
        lambda: db.create_view("w", "SELECT 1 AS a"),
    ):
        with pytest.raises(freshet.StateError, match="closed"):
            use()
    del view


def test_connect_as_a_context(db: Database) -> None:
    with freshet.connect() as other:
        other.execute("CREATE TABLE t (a INT)")
    with pytest.raises(freshet.StateError):
        other.execute("SELECT a FROM t")


def test_subqueries_decide_what_changes(db: Database) -> None:
    db.execute("INSERT INTO t VALUES (1, 'ada', 1.5, NULL), (2, 'bob', 2.5, NULL), (3, 'cyd', NULL, NULL)")
    db.execute("INSERT INTO bag VALUES (1, 10), (1, 10), (2, 20), (4, 40), (NULL, 50)")
    tx = db.execute("DELETE FROM bag WHERE a NOT IN (SELECT id FROM t)")
    assert rows(tx.deltas["sums"]) == [(4, 40, -1)]
    db.execute(
        "UPDATE bag SET b = (SELECT MAX(id) FROM t WHERE id > bag.a) + b WHERE EXISTS (SELECT 1 FROM t WHERE id = a)"
    )
    assert rows(db.execute("SELECT a, b FROM bag WHERE a IS NOT NULL")) == [(1, 13), (1, 13), (2, 23)]
    db.execute("UPDATE t SET id = id + (SELECT COUNT(*) FROM t), x = (SELECT SUM(b) FROM bag WHERE a = id)")
    assert rows(db.execute("SELECT id, COALESCE(x, 0) FROM t")) == [(4, 26), (5, 23), (6, 0)]
    before = db.version
    with pytest.raises(freshet.FreshetError, match="a scalar subquery has 3 rows"):
        db.execute("UPDATE bag SET b = (SELECT id FROM t)")
    with pytest.raises(freshet.ChangeError, match="a second row with primary key"):
        db.execute("UPDATE t SET id = (SELECT MIN(id) FROM t)")
    assert db.version == before
    db.execute("DELETE FROM t z WHERE z.id = (SELECT MIN(id) FROM t)")
    assert rows(db.view("v").to_arrow().select(["id"])) == [(5,), (6,)]
