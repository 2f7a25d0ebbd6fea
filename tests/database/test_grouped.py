"""GROUP BY over one table or view without a view for it: the answers are those of a view, and of DuckDB."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import freshet
from freshet.database import grouped
from freshet.database.bound_queries import BoundQueries
from freshet.sql.source import SqlText

DDL = """CREATE TABLE t (id BIGINT PRIMARY KEY, a INT, b BIGINT, d DECIMAL(10,2), w DECIMAL(30,2), s STRING, f DOUBLE,
        day DATE, at TIMESTAMP, c CHAR(3), y BINARY, o BOOLEAN);
    CREATE MATERIALIZED VIEW v AS SELECT s AS k, a, COUNT(*) AS n, SUM(b) AS total FROM t GROUP BY s, a;
    CREATE MATERIALIZED VIEW twice AS SELECT s, b FROM t WHERE a > 0 UNION ALL SELECT s, b FROM t"""
GROUPED = [
    "SELECT a, COUNT(*) AS n FROM t GROUP BY a",
    "SELECT s, COUNT(*) AS n, COUNT(b) AS c, SUM(b) AS t, MIN(day) AS first, MAX(at) AS last FROM t GROUP BY s",
    "SELECT UPPER(s) AS u, o, MAX(d) AS m, MIN(o) AS p FROM t GROUP BY UPPER(s), o",
    "SELECT y, SUM(a) AS x, COUNT(s) AS n FROM t GROUP BY y",
    "SELECT a % 2 AS odd, SUM(b) + COUNT(*) AS x FROM t WHERE s IS NOT NULL GROUP BY a % 2 HAVING COUNT(*) > 1",
    "SELECT d, day, COUNT(*) AS n FROM t GROUP BY d, day ORDER BY n DESC, d, day LIMIT 5",
    "SELECT s, COUNT(*) AS n FROM t GROUP BY s ORDER BY MAX(a) DESC NULLS LAST, s LIMIT 3 OFFSET 1",
    "SELECT CASE WHEN a > 1 THEN s ELSE 'none' END AS x, COUNT(*) AS n FROM t GROUP BY 1",
    "SELECT k, COUNT(*) AS n, SUM(n) AS rows, SUM(total) AS total FROM v WHERE a > 0 GROUP BY k",
    "SELECT s, COUNT(*) AS n, SUM(b) AS b FROM twice GROUP BY s",
    "SELECT s FROM t GROUP BY s",
]
OTHERS = [
    "SELECT COUNT(*) AS n FROM t",
    "SELECT f, COUNT(*) AS n FROM t GROUP BY f",
    "SELECT w, COUNT(*) AS n FROM t GROUP BY w",
    "SELECT c, COUNT(*) AS n FROM t GROUP BY c",
    "SELECT s, SUM(d) AS d FROM t GROUP BY s",
    "SELECT s, SUM(f) AS f FROM t GROUP BY s",
    "SELECT s, MAX(f) AS f FROM t GROUP BY s",
    "SELECT a, MIN(s) AS s FROM t GROUP BY a",
    "SELECT a, AVG(b) AS x FROM t GROUP BY a",
    "SELECT a, COUNT(DISTINCT s) AS n FROM t GROUP BY a",
    "SELECT a, COUNT(*) FILTER (WHERE b > 0) AS n FROM t GROUP BY a",
    "SELECT t.a, COUNT(*) AS n FROM t JOIN t AS u ON t.a = u.a GROUP BY t.a",
    "SELECT DISTINCT COUNT(*) AS n FROM t GROUP BY a",
]


@pytest.fixture
def db() -> Iterator[freshet.Database]:
    with freshet.connect() as db:
        db.execute(DDL)
        yield db


def row(i: int, draw: random.Random) -> dict[str, Any]:
    number = draw.choice([None, 0, 1, 2, -3])
    values: dict[str, Any] = {
        "a": number, "b": draw.choice([None, 5, -7, 1 << 40]), "d": draw.choice([None, Decimal("1.50"), Decimal("-2")]),
        "w": Decimal(3), "s": draw.choice([None, "", "none", "x", "X", "é"]), "f": 0.5,
        "day": draw.choice([None, "2024-01-01", "1960-02-03"]), "at": draw.choice([None, "2024-01-01 10:00:00"]),
        "c": "ab", "y": draw.choice([None, b"", b"\0"]), "o": draw.choice([None, True, False]),
    }  # fmt: skip
    return {"id": i, **values}


def is_grouped(db: freshet.Database, sql: str) -> bool:
    (statement,) = SqlText(sql).statements()
    return BoundQueries(db._inner.state).bound(statement, set()).grouped is not None


def bag(answer: pa.Table) -> list[str]:
    return sorted(map(str, answer.to_pylist()))


@pytest.mark.parametrize("sql", GROUPED)
def test_answers_are_those_of_a_view(sql: str, db: freshet.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(sql)
    assert is_grouped(db, sql) and not db.query(sql).num_rows
    for size in (1, 3, 200):
        start = db.query("SELECT id FROM t").num_rows
        db.apply({"t": [row(start + i, draw) for i in range(size)]})
        answer = db.query(sql)
        with monkeypatch.context() as patch:
            patch.setattr(grouped, "MOST_GROUPED", -1)
            own = db.query(sql)
        assert answer.schema == own.schema and bag(answer) == bag(own)
        assert "ORDER BY" not in sql or answer == own


@pytest.mark.parametrize("sql", OTHERS)
def test_queries_that_are_not_grouped_here(sql: str, db: freshet.Database) -> None:
    assert not is_grouped(db, sql)


def test_sums_that_may_not_fit(db: freshet.Database) -> None:
    most = (1 << 63) - 1
    db.execute("DROP MATERIALIZED VIEW v")
    sql = "SELECT a, SUM(b) AS b FROM t GROUP BY a"
    db.apply({"t": [{"id": 1, "a": 1, "b": most}, {"id": 2, "a": 1, "b": -1}, {"id": 3, "a": 2, "b": -most - 1}]})
    assert is_grouped(db, sql)
    assert bag(db.query(sql)) == bag(pa.table({"a": [1, 2], "b": [most - 1, -most - 1]}))
    db.apply({"t": [{"id": 4, "a": 1, "b": 2}]})
    with pytest.raises(freshet.ChangeError, match=r"the query has no answer: .*BIGINT"):
        db.query(sql)


def test_many_rows_are_grouped_elsewhere(db: freshet.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouped, "MOST_GROUPED", 3)
    sql = "SELECT a, COUNT(*) AS n FROM t GROUP BY a"
    for n in (3, 4):
        db.apply({"t": [{"id": 10 * n + i, "a": 1} for i in range(n)]})
        assert db.query(sql).to_pylist() == [{"a": 1, "n": 3 if n == 3 else 7}]


def test_an_answer_larger_than_its_tables(db: freshet.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.execute("CREATE MATERIALIZED VIEW pairs AS SELECT x.a, y.id FROM t AS x JOIN t AS y ON x.a = y.a")
    db.apply({"t": [{"id": i, "a": 1} for i in range(9)]})
    monkeypatch.setattr(grouped, "MOST_GROUPED", 20)
    assert db.query("SELECT a, COUNT(*) AS n FROM pairs GROUP BY a").to_pylist() == [{"a": 1, "n": 81}]


def test_a_row_without_a_value(db: freshet.Database) -> None:
    db.apply({"t": [{"id": 1, "a": 0}, {"id": 2, "a": 1}]})
    with pytest.raises(freshet.ChangeError, match="the query has no answer: division by zero"):
        db.query("SELECT 1 DIV a AS x, COUNT(*) AS n FROM t GROUP BY 1")
    assert db.query("SELECT 1 DIV a AS x, COUNT(*) AS n FROM t WHERE a > 0 GROUP BY 1").to_pylist() == [
        {"x": 1, "n": 1}
    ]
