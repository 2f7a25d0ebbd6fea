"""Queries that DuckDB answers: which are handed to it, which are not, and that the answers are the same."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

import freshet
from freshet.database import grouped, one_off
from freshet.database.via_duckdb import DuckDB, duckdb_query
from freshet.logical.query import AnyQuery, is_query
from freshet.sql.parse import bind_all
from freshet.sql.source import SqlText

DDL = """CREATE TABLE t (id BIGINT PRIMARY KEY, a INT, b BIGINT, d DECIMAL(10,2), s STRING, f DOUBLE, day DATE,
        at TIMESTAMP);
    CREATE TABLE u (id BIGINT, a INT, c CHAR(3))"""

HANDED = [
    "SELECT a, COUNT(*), COUNT(b), SUM(b), MIN(s), MAX(day), AVG(a) FROM t GROUP BY a",
    "SELECT SUM(d * (1 - d)) FROM t",
    "SELECT a + 1L AS x FROM t JOIN u USING (a) WHERE t.s LIKE 'x%'",
    "SELECT t.id, u.id FROM t LEFT JOIN u ON t.a = u.a AND u.id > 3 WHERE t.b IS NOT NULL",
    "SELECT t.id, u.id, v.id FROM t LEFT JOIN (u JOIN u AS v ON u.id = v.a) ON t.a = u.a",
    "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a) AND b IN (1, 2) UNION ALL SELECT id FROM u",
    "SELECT s, COUNT(*) AS n FROM t WHERE day >= DATE '2024-01-05' GROUP BY s HAVING COUNT(*) > 1 ORDER BY n LIMIT 3",
    "SELECT COUNT(*) FILTER (WHERE at > TIMESTAMP '2024-01-01 12:00:00'), COUNT(DISTINCT s) FROM t",
    "SELECT a FROM t INTERSECT SELECT a FROM u",
    "SELECT CASE WHEN a > 1 THEN s ELSE 'none' END AS x, COUNT(*) FROM t GROUP BY 1",
]
NOT_HANDED = [
    "SELECT SUM(f) FROM t",  # rounded once here, after every addition there
    "SELECT f, COUNT(*) FROM t GROUP BY f",  # 0.0 and -0.0
    "SELECT a + 1 AS x, COUNT(*) FROM t GROUP BY 1",  # may fail on some row
    "SELECT s, SUM(b / a) FROM t GROUP BY s",
    "SELECT UPPER(s), COUNT(*) FROM t GROUP BY 1",
    "SELECT COUNT(*) FROM t WHERE s LIKE 'a_b' OR s LIKE 'a\\\\%'",
    "SELECT c, COUNT(*) FROM u GROUP BY c",  # CHAR is padded
    "SELECT AVG(d) FROM t",
    "SELECT id, ROW_NUMBER() OVER (ORDER BY a) AS n FROM t",
]


@pytest.fixture
def db(monkeypatch: pytest.MonkeyPatch) -> Iterator[freshet.Database]:
    monkeypatch.setattr(one_off, "LARGE", 0)
    monkeypatch.setattr(grouped, "MOST_GROUPED", -1)
    with freshet.connect() as db:
        db.execute(DDL)
        yield db


def bound(sql: str, db: freshet.Database) -> AnyQuery:
    (query,) = bind_all(SqlText(sql).statements(), db.catalog)
    assert is_query(query)
    return query


def answers(db: freshet.Database, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Records for each query whether DuckDB had an answer."""
    asked: list[bool] = []
    ask = DuckDB.answer

    def answer(self: DuckDB, sql: str, tables: dict[str, pa.Table], schema: pa.Schema) -> pa.Table | None:
        table = ask(self, sql, tables, schema)
        asked.append(table is not None)
        return table

    monkeypatch.setattr(DuckDB, "answer", answer)
    return asked


@pytest.mark.parametrize("sql", HANDED)
def test_queries_handed_to_duckdb(sql: str, db: freshet.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"id": i, "a": i % 5 if i % 7 else None, "b": i % 3 + 1, "d": i % 90, "s": f"x{i % 4}", "f": i / 3}
        | {"day": f"2024-01-0{i % 9 + 1}", "at": f"2024-01-01 {i % 24:02}:00:00"}
        for i in range(60)
    ]
    db.apply({"t": rows, "u": [{"id": i, "a": i % 6, "c": "ab"} for i in range(9)] * 2})
    asked = answers(db, monkeypatch)
    answer = db.query(sql)
    assert asked == [True]
    monkeypatch.setattr(one_off, "LARGE", 1 << 60)
    own = db.query(sql)
    assert asked == [True]
    assert answer.schema == own.schema
    assert sorted(map(str, answer.to_pylist())) == sorted(map(str, own.to_pylist()))
    if "ORDER BY" in sql:
        assert answer == own


@pytest.mark.parametrize("sql", NOT_HANDED)
def test_queries_not_handed_to_duckdb(sql: str, db: freshet.Database) -> None:
    assert duckdb_query(bound(sql, db)) is None


def test_small_queries_stay(db: freshet.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_off, "LARGE", 2)
    asked = answers(db, monkeypatch)
    db.apply({"t": [{"id": 1, "a": 1}]})
    assert db.query("SELECT a, COUNT(*) AS n FROM t GROUP BY a").to_pylist() == [{"a": 1, "n": 1}]
    db.apply({"t": [{"id": 2, "a": 1}]})
    assert not asked
    assert db.query("SELECT a, COUNT(*) AS n FROM t GROUP BY a").to_pylist() == [{"a": 1, "n": 2}]
    assert asked == [True]


def test_what_duckdb_refuses_has_our_message(db: freshet.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.apply({"t": [{"id": i, "b": (1 << 63) - 1} for i in range(3)]})
    asked = answers(db, monkeypatch)
    with pytest.raises(freshet.ChangeError, match=r"the query has no answer: .*BIGINT"):
        db.query("SELECT SUM(b) FROM t")
    assert asked == [False]


def test_averages_of_large_sums_are_rounded_once(db: freshet.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.apply({"t": [{"id": i, "b": (1 << 60) + i} for i in range(3)]})
    asked = answers(db, monkeypatch)
    assert db.query("SELECT AVG(b) AS x FROM t").to_pylist() == [{"x": float(1 << 60)}]
    assert asked == [False]


def test_its_own_transaction_is_read(db: freshet.Database) -> None:
    with db.transaction() as tx:
        tx.apply({"t": [{"id": 1, "a": 4}, {"id": 2, "a": 4}]})
        assert tx.query("SELECT a, COUNT(*) AS n FROM t GROUP BY a").to_pylist() == [{"a": 4, "n": 2}]


def test_answers_of_views_are_handed_to_duckdb(db: freshet.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT s, f, COUNT(*) AS n FROM t GROUP BY s, f")
    db.apply({"t": [{"id": i, "s": f"x{i % 2}", "f": float(i % 6)} for i in range(60)]})
    asked = answers(db, monkeypatch)
    assert sorted(db.query("SELECT s, SUM(n) AS n FROM v GROUP BY s").to_pylist(), key=str) == [
        {"s": "x0", "n": 30},
        {"s": "x1", "n": 30},
    ]
    assert asked == [True]


def test_limits_hold(db: freshet.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time and memory are watched between steps, which DuckDB does not offer: such queries stay."""
    db.apply({"t": [{"id": i, "a": i} for i in range(5)]})
    asked = answers(db, monkeypatch)
    db.execute("SELECT a, COUNT(*) AS n FROM t GROUP BY a", seconds=60)
    assert not asked
    with pytest.raises(freshet.BudgetError, match="more than 2 rows"):
        db.execute("SELECT a, COUNT(*) AS n FROM t GROUP BY a", rows=2)


def test_interrupt_reaches_duckdb(db: freshet.Database) -> None:
    db.apply({"u": [{"id": i, "a": i % 2} for i in range(20_000)]})
    timer = threading.Timer(0.3, db.interrupt)
    timer.start()
    with pytest.raises(freshet.BudgetError):
        db.query("SELECT COUNT(*) FROM u JOIN u v ON u.a < v.a JOIN u w ON w.a < v.a")
    timer.join()
