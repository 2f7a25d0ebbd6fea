"""Recursive views and queries through everything else a database does: plans as documents, statements, the clock,
changed tables, functions of Python, swept texts, disk."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import freshet
from freshet.database.db import inside
from freshet.testing import assert_fresh

CLOSURE = """
    WITH RECURSIVE t(a, b) AS (SELECT a, b FROM e UNION SELECT t.a, e.b FROM t JOIN e ON t.b = e.a)
    SELECT t.a, COUNT(*) AS n FROM t GROUP BY t.a
"""
COUNTED = [{"a": 1, "n": 2}, {"a": 2, "n": 1}]


@pytest.fixture
def db() -> freshet.Database:
    db = freshet.connect()
    db.execute("CREATE TABLE e (a INT, b INT)")
    return db


def test_a_plan_is_written_and_read(db: freshet.Database) -> None:
    plan = freshet.plan(CLOSURE, db.catalog)
    assert freshet.Plan.from_json(plan.to_json()) == plan
    view = db.create_view("v", freshet.Plan.from_json(plan.to_json()))
    db.apply({"e": [(1, 2), (2, 3)]})
    assert view.to_dicts() == COUNTED
    assert view[1] == {"a": 1, "n": 2}


def test_statements_may_have_one(db: freshet.Database) -> None:
    db.execute("INSERT INTO e WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9)"
               " SELECT i, i + 1 FROM n")  # fmt: skip
    db.execute("DELETE FROM e WHERE a IN (WITH RECURSIVE r(a) AS (SELECT 3 UNION SELECT e.b FROM r JOIN e USING (a))"
               " SELECT a FROM r)")  # fmt: skip
    assert [tuple(row.values()) for row in db.query("SELECT a, b FROM e").to_pylist()] == [(1, 2), (2, 3)]
    sql = "WITH RECURSIVE n(i) AS (SELECT ? UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT SUM(i) AS s FROM n"
    assert [db.query(sql, [3, most]).to_pylist() for most in (5, 6)] == [[{"s": 12}], [{"s": 18}]]


def test_a_query_over_many_rows(db: freshet.Database) -> None:
    db.apply({"e": [(i, i + 1 if i % 50 else 0) for i in range(9_000)]})
    sql = "WITH RECURSIVE t(a) AS (SELECT 51 UNION SELECT e.b FROM t JOIN e ON t.a = e.a) SELECT COUNT(*) AS n FROM t"
    assert db.query(sql).to_pylist() == [{"n": 51}]


def test_a_transaction_of_several_statements(db: freshet.Database) -> None:
    view = db.create_view("v", CLOSURE)
    db.apply({"e": [(1, 2)]})
    with db.transaction() as tx:
        tx.execute("INSERT INTO e VALUES (2, 3)")
        assert tx.query("SELECT * FROM v ORDER BY a").to_pylist() == COUNTED
    assert view.to_dicts() == COUNTED
    db.execute("BEGIN; INSERT INTO e VALUES (3, 1); ROLLBACK")
    assert view.to_dicts() == COUNTED


def test_edges_that_time_takes_away() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE e (a INT, b INT, ts TIMESTAMP)")
    recent = "(SELECT a, b FROM e WHERE ts > NOW() - INTERVAL 1 HOUR)"
    view = db.create_view(
        "v",
        f"WITH RECURSIVE t(a, b) AS (SELECT a, b FROM {recent} AS x UNION SELECT t.a, y.b FROM t"
        f" JOIN {recent} AS y ON t.b = y.a) SELECT a, b FROM t",
    )
    start = dt.datetime(2024, 1, 1)
    db.advance(start)
    db.apply({"e": [(1, 2, start), (2, 3, start - dt.timedelta(minutes=30)), (3, 1, start)]})
    assert view.count() == 9
    tx = db.advance(start + dt.timedelta(minutes=31))
    assert tx.deltas["v"].num_rows == 6
    assert {tuple(row.values()) for row in view.to_dicts()} == {(1, 2), (3, 1), (3, 2)}


def test_tables_change_their_columns() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE e (c INT, a INT, b INT)")
    view = db.create_view("v", CLOSURE)
    db.apply({"e": [(0, 1, 2)]})
    db.execute("ALTER TABLE e ADD COLUMN d INT")
    db.execute("ALTER TABLE e DROP COLUMN c")
    db.apply({"e": [(2, 3, 0)]})
    assert view.to_dicts() == COUNTED
    for statement, why in (("ALTER TABLE e DROP COLUMN b", "reads column b"), ("DROP TABLE e", "view v reads table e")):
        with pytest.raises(freshet.PlanError, match=why):
            db.execute(statement)


def test_functions_of_python(db: freshet.Database) -> None:
    db.create_function("twice", lambda x: [None if v is None else 2 * v for v in x.to_pylist()], returns="BIGINT")
    view = db.create_view(
        "v",
        "WITH RECURSIVE t(a, n) AS (SELECT a, 1L FROM e UNION ALL SELECT a, twice(n) FROM t WHERE n < 9)"
        " SELECT * FROM t",
    )
    db.apply({"e": [(1, 2)]})
    assert [row["n"] for row in view] == [1, 2, 4, 8, 16]


def test_arrays_hold_paths(db: freshet.Database) -> None:
    view = db.create_view(
        "v",
        "WITH RECURSIVE t(a, path) AS (SELECT 1, ARRAY(1) UNION ALL SELECT e.b, array_append(t.path, e.b) FROM t JOIN e"
        " ON e.a = t.a WHERE NOT array_contains(t.path, e.b)) SELECT path FROM t",
    )
    db.apply({"e": [(1, 2), (2, 3), (3, 1), (1, 3)]})
    assert sorted(row["path"] for row in view) == [[1], [1, 2], [1, 2, 3], [1, 3]]
    db.execute("DELETE FROM e WHERE a = 2")
    assert sorted(row["path"] for row in view) == [[1], [1, 2], [1, 3]]


def test_texts_that_only_the_recursion_has_survive_a_sweep() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE e (a STRING, b STRING)")
    view = db.create_view(
        "v",
        "WITH RECURSIVE t(p, b) AS (SELECT a, b FROM e UNION SELECT CONCAT(p, '-', e.b), e.b FROM t JOIN e"
        " ON e.a = t.b) SELECT p FROM t",
    )
    for i in range(20):
        db.apply({"e": [(f"n{i}", f"n{i + 1}")]})
        db.apply({"e": pa.table({"a": [f"n{i - 5}"], "b": [f"n{i - 4}"], "_weight": [-1]})} if i >= 5 else {})
        inside(db).state.core.sweep()
        assert_fresh(db)
    assert "n15-n17-n18-n19-n20" in [row["p"] for row in view]


def test_another_process_reads_it(tmp_path: Path) -> None:
    db = freshet.connect(tmp_path / "db")
    db.execute("CREATE TABLE e (a INT, b INT)")
    db.create_view("v", CLOSURE)
    db.apply({"e": [(1, 2), (2, 3)]})
    reader = freshet.connect(tmp_path / "db", read_only=True)
    assert reader.view("v").to_dicts() == COUNTED
    reader.close()
    db.close()


def test_more_than_sixty_three_columns_with_nulls() -> None:
    """The column of iterations needs a lane of its own for NULLs, which the rows without it lack."""
    db, columns = freshet.connect(), [f"c{i}" for i in range(63)]
    db.execute(f"CREATE TABLE w ({', '.join(f'{c} INT' for c in columns)}, next INT)")
    stepped = ", ".join(["w.next", *(f"t.{c}" for c in columns[1:])])
    names = ", ".join(columns)
    view = db.create_view(
        "v",
        f"WITH RECURSIVE t({names}) AS (SELECT {names} FROM w UNION SELECT {stepped} FROM t JOIN w ON w.c0 = t.c0)"
        " SELECT c0, c62 FROM t",
    )
    db.apply({"w": [{"c0": 1, "next": 2}, {"c0": 2, "next": 1, "c62": 5}]})
    assert {tuple(row.values()) for row in view.to_dicts()} == {(1, None), (2, None), (1, 5), (2, 5)}
