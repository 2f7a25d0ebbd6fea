"""GROUPING SETS, ROLLUP and CUBE compared with DuckDB, whose empty set has a row even if there are no input rows; here,
as in Spark, it has none. HAVING COUNT(*) > 0 makes DuckDB agree."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import freshet
from tests.small_tables import follow, two_tables

SETS = (
    "ROLLUP (a, b)",
    "CUBE (a, b)",
    "CUBE (a, b, c)",
    "GROUPING SETS ((a), (b), ())",
    "GROUPING SETS ((a, b), (a), (a))",
    "GROUPING SETS (ROLLUP (a, b), CUBE (c))",
    "a, ROLLUP (b, c)",
    "ROLLUP (a), ROLLUP (b)",
    "ROLLUP ((a, b), c)",
    "GROUPING SETS (())",
)
SHOWN = (
    "a, b, c, COUNT(*) AS n, SUM(b) AS s",
    "a, COUNT(DISTINCT c) AS n, MIN(b) AS m",
    "COALESCE(a, 7) AS a, b IS NULL AS z, AVG(c) AS m",
    "GROUPING(a) AS ga, a, MAX(c) AS m, COUNT(b) AS n",
)
SOURCES = ("t0", "(SELECT r.a, s.b, s.c FROM t0 r LEFT JOIN t1 s ON r.b = s.b) u")


def fitting(keys: str, shown: str) -> bool:
    """Whether the selected columns are keys."""
    return all(c in keys for c in "abc" if f"{c}," in shown.split("AS")[0] or f" {c}," in shown)


PAIRS = [(k, s) for k in SETS for s in SHOWN if fitting(k, s) and not (k == "GROUPING SETS (())" and "a" in s)]


@given(st.data())
def test_grouping_sets_agree_with_duckdb(data: st.DataObject) -> None:
    keys, shown = data.draw(st.sampled_from(PAIRS))
    source = data.draw(st.sampled_from(SOURCES))
    having = data.draw(st.sampled_from(("", " AND SUM(b) > 1")))
    sql = f"SELECT {shown} FROM {source} GROUP BY {keys} HAVING COUNT(*) > 0{having}"
    wrap = data.draw(st.sampled_from(("{}", "SELECT x.*, t1.b AS other FROM ({}) x JOIN t1 ON x.a = t1.a")))
    follow(data, two_tables(data), wrap.format(sql) if " a" in shown or shown[0] == "a" else sql)


WRITTEN = (
    ("SELECT a, GROUPING_ID() AS g FROM t0 GROUP BY CUBE (a, b)", "GROUPING_ID(a, b)"),
    ("SELECT a, GROUPING_ID(b, a) AS g, SUM(c) AS s FROM t0 GROUP BY ROLLUP (a, b)", "GROUPING_ID(b, a)"),
    (
        "SELECT a, COUNT(*) n, RANK() OVER (PARTITION BY GROUPING(a) ORDER BY a DESC) r FROM t0 GROUP BY ROLLUP (a)",
        "",
    ),
    ("SELECT DISTINCT COUNT(*) AS n FROM t0 GROUP BY CUBE (a, b)", ""),
    ("SELECT a, SUM(b) AS s FROM t0 GROUP BY ROLLUP (a) ORDER BY s NULLS FIRST, a NULLS FIRST LIMIT 2", ""),
)  # fmt: skip


@pytest.mark.parametrize(("sql", "words"), WRITTEN)
@given(st.data())
@settings(max_examples=12)
def test_written_grouping_sets_agree_with_duckdb(sql: str, words: str, data: st.DataObject) -> None:
    oracle = sql.replace("GROUPING_ID()", words) if words else sql
    if " ORDER BY s" in oracle:
        oracle = oracle.replace(" ORDER BY s", " HAVING COUNT(*) > 0 ORDER BY s")
    elif "OVER" in oracle:
        oracle = f"SELECT * FROM ({oracle}) WHERE n > 0"
    else:
        oracle += " HAVING COUNT(*) > 0"
    follow(data, two_tables(data), sql, oracle)


def test_no_rows_have_no_sets() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT)")
    view = db.create_view("v", "SELECT a, COUNT(*) AS n FROM t GROUP BY ROLLUP (a)")
    assert view.count() == 0
    assert db.execute("SELECT COUNT(*) AS n FROM t GROUP BY GROUPING SETS ((), ())").num_rows == 0
    alone = db.create_view("alone", "SELECT COUNT(*) AS n, GROUPING_ID() AS g FROM t GROUP BY GROUPING SETS (())")
    assert alone.to_arrow().to_pylist() == [{"n": 0, "g": 0}]
    tx = db.execute("INSERT INTO t VALUES (NULL)")
    assert sorted(view.to_arrow().to_pylist(), key=repr) == [{"a": None, "n": 1}, {"a": None, "n": 1}]
    assert tx is not None


def test_with_rollup_and_with_cube() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT, b INT)")
    db.execute("INSERT INTO t VALUES (1, 1), (1, 2)")
    for words, rows in (("WITH ROLLUP", 4), ("WITH CUBE", 6)):
        view = db.create_view("v", f"SELECT a, b, COUNT(*) AS n FROM t GROUP BY a, b {words}")
        assert view.count() == rows
        db.execute("DROP VIEW v")


def test_grouping_needs_sets() -> None:
    with pytest.raises(freshet.SqlError, match="use GROUPING SETS, ROLLUP or CUBE"):
        freshet.plan("SELECT a, GROUPING(a) FROM t GROUP BY a", "CREATE TABLE t (a INT)")
    with pytest.raises(freshet.SqlError, match="b is not a key of GROUP BY"):
        freshet.plan("SELECT a, GROUPING(b) FROM t GROUP BY ROLLUP (a)", "CREATE TABLE t (a INT, b INT)")


def test_one_set_and_keys_in_none() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 10), (3, 10), (3, 30)")

    def rows(sql: str) -> list[tuple[object, ...]]:
        return sorted(tuple(row.values()) for row in db.execute(sql).to_pylist())

    assert rows("SELECT a, GROUPING(a) AS g, COUNT(*) AS n FROM t GROUP BY GROUPING SETS ((a))") == [
        (1, 0, 1),
        (3, 0, 2),
    ]
    assert rows("SELECT a, b, COUNT(*) AS n FROM t GROUP BY a, b GROUPING SETS ((a))") == [(1, None, 1), (3, None, 2)]


def test_a_key_that_every_set_has_is_never_grouped_away() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2), (3, 4)")
    rows = db.execute("SELECT b, GROUPING(b) AS g, COUNT(*) AS n FROM t GROUP BY b, ROLLUP (b)").to_pylist()
    assert sorted((r["b"], r["g"], r["n"]) for r in rows) == [(2, 0, 1), (2, 0, 1), (4, 0, 1), (4, 0, 1)]
