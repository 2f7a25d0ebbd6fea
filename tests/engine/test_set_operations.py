"""UNION, EXCEPT and INTERSECT, with and without ALL, nested and mixed, at the top and inside other queries; VALUES."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import freshet
from tests.small_tables import COLUMNS, TableModel, follow, two_tables

OPERATIONS = ("UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")

column = st.sampled_from(COLUMNS)


@st.composite
def combined(draw: st.DrawFn, tables: list[TableModel], depth: int = 2) -> str:
    """A query of two columns, p and q: a select of some kind, rows of constants, or a set operation of such."""
    kind = draw(st.sampled_from(("set", "set", "set", "plain"))) if depth else "plain"
    if kind == "set":
        left, right = (draw(combined(tables, depth - 1)) for _ in range(2))
        if draw(st.booleans()):
            right = f"({right})"
        return f"{left} {draw(st.sampled_from(OPERATIONS))} {right}"
    t, x, y = draw(st.sampled_from(tables)).name, draw(column), draw(column)
    return draw(
        st.sampled_from(
            (
                f"SELECT {x} AS p, {y} AS q FROM {t}",
                f"SELECT {x} AS p, {y} AS q FROM {t} WHERE {y} >= 1",
                f"SELECT DISTINCT {x} AS p, {y} AS q FROM {t}",
                f"SELECT {x} AS p, COUNT(*) AS q FROM {t} GROUP BY {x}",
                f"SELECT r.{x} AS p, s.{y} AS q FROM {t} r JOIN {tables[0].name} s ON r.b = s.b",
                "SELECT 1 AS p, CAST(NULL AS INT) AS q",
                "SELECT p, q FROM (VALUES (1, 2), (1, 2), (NULL, 0)) v(p, q)",
            )
        )
    )


@st.composite
def around(draw: st.DrawFn, tables: list[TableModel], inner: str) -> str:
    """The query itself, or one that reads it."""
    t, x = draw(st.sampled_from(tables)).name, draw(column)
    return draw(
        st.sampled_from(
            (
                inner,
                f"SELECT q, COUNT(*) AS n, SUM(p) AS s FROM ({inner}) u GROUP BY q",
                f"SELECT p + 1 AS r FROM ({inner}) u WHERE q = 1",
                f"SELECT DISTINCT p, q FROM ({inner}) u",
                f"SELECT q FROM ({inner}) u WHERE p >= 1 AND EXISTS (SELECT 1 FROM {t} WHERE {t}.b = u.q)",
                f"SELECT {t}.{x} AS x, u.q FROM {t} JOIN ({inner}) u ON u.p = {t}.{x}",
                f"SELECT {x} AS x FROM {t} WHERE {x} IN (SELECT p FROM ({inner}) u)",
                f"SELECT {x} AS x FROM {t} WHERE NOT EXISTS (SELECT 1 FROM ({inner}) u WHERE u.p = {t}.{x})",
                f"WITH u AS ({inner}) SELECT p, q FROM u UNION ALL SELECT q, p FROM u",
            )
        )
    )


@given(st.data())
def test_set_operations_agree_with_duckdb(data: st.DataObject) -> None:
    tables = two_tables(data)
    follow(data, tables, data.draw(around(tables, data.draw(combined(tables)))))


CONSTANT = (
    "SELECT DISTINCT 1 AS x",
    "SELECT COUNT(*) AS n WHERE 1 = 0",
    "SELECT 1 AS x WHERE 1 = 0",
    "SELECT 1 AS x WHERE EXISTS (SELECT 1 FROM t0)",
    "SELECT 1 AS x WHERE NOT EXISTS (SELECT 1 FROM t0 WHERE a = 1)",
    "SELECT a FROM t0 WHERE EXISTS (SELECT 1)",
    "SELECT a FROM t0 WHERE EXISTS (SELECT 1 WHERE t0.b = 1)",
    "SELECT a FROM t0 WHERE NOT EXISTS (VALUES (1), (2))",
    "SELECT a, k FROM t0 LEFT JOIN (SELECT 1 AS k) u ON u.k = t0.b",
    "SELECT COUNT(*) AS n, k FROM t0 JOIN (VALUES (0, 'x'), (1, 'y')) u(j, k) ON u.j = t0.b GROUP BY k",
)


@pytest.mark.parametrize("sql", CONSTANT)
@given(st.data())
@settings(max_examples=5)
def test_constants_agree_with_duckdb(sql: str, data: st.DataObject) -> None:
    follow(data, two_tables(data), sql)


def test_columns_take_the_wider_type() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (i INT, s SMALLINT, d DECIMAL(6,2), f DOUBLE, day DATE, at TIMESTAMP)")
    sql = "SELECT i AS x, d AS y, day AS z FROM t UNION ALL SELECT s, i, at FROM t UNION ALL VALUES (1, NULL, NULL)"
    view = db.create_view("v", sql)
    assert [str(f.type) for f in view.schema] == ["int32", "decimal128(12, 2)", "timestamp[us]"]
    db.execute("INSERT INTO t VALUES (3, 2, 1.50, 0.5, DATE '2024-02-29', TIMESTAMP '2024-03-01 00:00:00')")
    assert view.count() == 3
    assert sorted(str(y) for y in view.to_arrow().column("y").to_pylist()) == ["1.50", "3.00", "None"]


def test_equal_after_widening_is_equal() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (i INT); CREATE TABLE u (f DOUBLE)")
    view = db.create_view("v", "SELECT i FROM t EXCEPT SELECT f FROM u")
    db.execute("INSERT INTO t VALUES (1), (2)")
    tx = db.execute("INSERT INTO u VALUES (2.0), (1.5)")
    assert view.to_arrow().to_pydict() == {"i": [1.0]}
    assert tx.deltas["v"].to_pydict() == {"i": [2.0], "_weight": [-1]}


def test_answers_survive_a_restart(tmp_path: object) -> None:
    folder = str(tmp_path)
    with freshet.connect(folder) as db:
        db.execute("CREATE TABLE t (a INT, s STRING)")
        db.create_view("v", "SELECT a, s FROM t EXCEPT ALL SELECT a, s FROM t WHERE a > 1 UNION ALL VALUES (9, 'nine')")
        db.execute("INSERT INTO t VALUES (1, 'one'), (1, 'one'), (2, 'two')")
        before = db.view("v").to_arrow()
    with freshet.connect(folder) as db:
        assert db.view("v").to_arrow().equals(before) and before.num_rows == 3
        tx = db.execute("DELETE FROM t WHERE a = 1")
        assert tx.deltas["v"].to_pydict() == {"a": [1], "s": ["one"], "_weight": [-2]}


def test_a_plan_survives_json() -> None:
    ddl = "CREATE TABLE t (a INT)"
    plan = freshet.plan("SELECT a FROM t INTERSECT (SELECT a FROM t UNION VALUES (1))", ddl)
    assert freshet.plan(plan.sql, ddl) == type(plan).from_json(plan.to_json())
    assert "keeps two counts" in plan.explain()


@pytest.mark.parametrize(
    ("sql", "place", "words"),
    [
        ("SELECT a, b FROM t UNION SELECT a FROM t", 1, "UNION has 2 columns on its left and 1 on its right"),
        ("SELECT a FROM t EXCEPT SELECT d FROM t", 1, "column 1 of EXCEPT is INT on its left and DATE on its right"),
        ("VALUES (1, 2), (3)", 17, "VALUES has rows of 2 and of 1 values"),
        ("VALUES (1), (DATE '2024-01-01')", 9, "column 1 of VALUES has no common type"),
        ("SELECT a FROM t UNION BY NAME SELECT a FROM t", 1, "UNION BY NAME is not supported"),
    ],
)
def test_what_does_not_fit_is_refused(sql: str, place: int, words: str) -> None:
    with pytest.raises(freshet.SqlError) as caught:
        freshet.plan(sql, "CREATE TABLE t (a INT, b INT, d DATE)")
    assert (caught.value.line, caught.value.column) == (1, place)
    assert words in caught.value.reason
