"""Window functions, QUALIFY, and conditions on ranks, which are a top-k of each partition.

Ties of an order are broken by the columns below the window; so that DuckDB agrees, an order that matters has every
column as a key. No order determines which copy of a row comes first, and two windows may differ in it; so only one of a
query's windows distinguishes copies.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import freshet
from freshet.plans.model import TopPlan, WindowPlan
from tests.fuzz.dialect import for_duckdb
from tests.small_tables import COLUMNS, follow, two_tables

column = st.sampled_from(COLUMNS)
DIRECTIONS = ("ASC NULLS FIRST", "ASC NULLS LAST", "DESC NULLS FIRST", "DESC NULLS LAST")
EVERY = "a ASC NULLS FIRST, b ASC NULLS FIRST, c ASC NULLS FIRST"
FRAMES = (
    "",
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
    "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN CURRENT ROW AND CURRENT ROW",
)
#: With offsets, which take an order by one key.
DISTANCES = (
    "RANGE BETWEEN 1 PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    "RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    "RANGE BETWEEN 2 PRECEDING AND 1 PRECEDING",
)
AGGREGATES = (
    "COUNT(*)", "COUNT({x})", "SUM({x})", "AVG({x})", "MIN({x})", "MAX({x})", "STDDEV({x})", "VAR_POP({x})",
    "BOOL_AND({x} > 0)", "BOOL_OR({x} > 1)", "COUNT_IF({x} > 0)",
)  # fmt: skip
NULLS = ("", "", " IGNORE NULLS", " RESPECT NULLS")


@st.composite
def parts(draw: st.DrawFn) -> tuple[str, str]:
    """PARTITION BY, and an ORDER BY of some columns."""
    keys = draw(st.lists(column, max_size=2, unique=True))
    partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
    order = [
        f"{c} {draw(st.sampled_from(DIRECTIONS))}" for c in draw(st.lists(column, min_size=1, max_size=2, unique=True))
    ]
    return partition, ", ".join(order)


@st.composite
def calls(draw: st.DrawFn, kinds: tuple[str, ...] = ("rank", "neighbour", "number", "value", "rows", "framed")) -> str:
    """A window function that ties do not make ambiguous."""
    partition, order = draw(parts())
    x, total = draw(column), f"{order}, {EVERY}"
    kind = draw(st.sampled_from((*kinds, "rank", "framed", "ranged", "whole")))
    if kind == "rank":
        function = draw(st.sampled_from(("RANK()", "DENSE_RANK()", "PERCENT_RANK()", "CUME_DIST()")))
        return f"{function} OVER ({partition}ORDER BY {order})"
    if kind == "number":
        return f"{draw(st.sampled_from(('ROW_NUMBER()', 'NTILE(2)', 'NTILE(3)')))} OVER ({partition}ORDER BY {total})"
    if kind == "neighbour":
        arguments = draw(st.sampled_from((x, f"{x}, 2", f"{x}, 1, -1", f"{x}, 1, b", f"{x}, 0", f"{x}, -1")))
        nulls = draw(st.sampled_from(NULLS)) if not arguments.endswith(", 0") else ""
        return f"{draw(st.sampled_from(('LAG', 'LEAD')))}({arguments}){nulls} OVER ({partition}ORDER BY {total})"
    frame = draw(st.sampled_from([f for f in FRAMES if kind in ("value", "rows") or "ROWS" not in f]))
    if kind == "value":
        function = draw(st.sampled_from((f"FIRST_VALUE({x})", f"LAST_VALUE({x})", f"NTH_VALUE({x}, 2)")))
        return f"{function}{draw(st.sampled_from(NULLS))} OVER ({partition}ORDER BY {total} {frame})"
    function = draw(st.sampled_from(AGGREGATES)).format(x=x)
    function += draw(st.sampled_from(("", "", f" FILTER (WHERE {draw(column)} > 0)")))
    if kind == "ranged":
        key = f"{draw(column)} {draw(st.sampled_from(DIRECTIONS))}"
        return f"{function} OVER ({partition}ORDER BY {key} {draw(st.sampled_from(DISTANCES))})"
    if kind == "whole":
        return f"{function} OVER ({partition.strip()})"
    return f"{function} OVER ({partition}ORDER BY {total if kind == 'rows' else order} {frame})"


@given(st.data())
def test_window_functions_agree_with_duckdb(data: st.DataObject) -> None:
    windows = [data.draw(calls()), *data.draw(st.lists(calls(()), max_size=2))]
    shown = ", ".join(f"{call} AS w{i}" for i, call in enumerate(windows))
    source = data.draw(st.sampled_from(("t0", "(SELECT r.a, s.b, r.c FROM t0 r JOIN t1 s ON r.b = s.b) u")))
    sql = f"SELECT a, b, c, {shown} FROM {source}"
    follow(data, two_tables(data), sql, for_duckdb(sql))


@given(st.data())
def test_conditions_on_ranks_agree_with_duckdb(data: st.DataObject) -> None:
    partition, order = data.draw(parts())
    test = data.draw(st.sampled_from(("<= 2", "< 3", "= 1", "= 2", "BETWEEN 2 AND 3", "> 1", "<= 0")))
    function, order = data.draw(
        st.sampled_from((("ROW_NUMBER()", f"{order}, {EVERY}"), ("RANK()", order), ("DENSE_RANK()", order)))
    )
    window = f"{function} OVER ({partition}ORDER BY {order})"
    ranked = f"(SELECT a, b, c, {window} AS n FROM t0) u"
    shape = data.draw(
        st.sampled_from(
            (
                f"SELECT a, b, c FROM t0 QUALIFY {window} {test}",
                f"SELECT a, b, c, {window} AS n FROM t0 QUALIFY n {test}",
                f"SELECT a, {window} {test} AS kept FROM t0 QUALIFY {window} {test}",
                f"SELECT a, b, c FROM {ranked} WHERE n {test}",
                f"SELECT * FROM {ranked} WHERE n {test} AND b >= 1",
                f"SELECT u.a, s.b FROM {ranked} JOIN t1 s ON s.b = u.b AND u.n {test}",
                f"SELECT s.a, u.b FROM t1 s LEFT JOIN {ranked} ON s.b = u.b AND u.n {test}",
                f"SELECT a FROM t1 WHERE EXISTS (SELECT 1 FROM {ranked} WHERE u.n {test} AND u.b = t1.b)",
                f"SELECT b, COUNT(*) AS m FROM {ranked} WHERE n {test} GROUP BY b",
            )
        )
    )
    follow(data, two_tables(data), shape)


GROUPED = (
    "SELECT a, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC NULLS LAST) AS r FROM t0 GROUP BY a",
    "SELECT a, SUM(b) AS s, SUM(SUM(b)) OVER () AS total FROM t0 GROUP BY a HAVING COUNT(*) > 1",
    "SELECT a, b, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER (PARTITION BY a) AS share FROM t0 GROUP BY a, b",
    "SELECT DISTINCT a, MAX(b) OVER (PARTITION BY a) AS m FROM t0",
    "SELECT a, b FROM t0 ORDER BY RANK() OVER (PARTITION BY a ORDER BY b NULLS FIRST), a NULLS FIRST, b LIMIT 3",
    "SELECT a, SUM(b) OVER w AS s, COUNT(*) OVER w AS n FROM t0 WINDOW w AS (PARTITION BY a)",
    "SELECT a, SUM(b) OVER (w ORDER BY c NULLS FIRST) AS s FROM t0 WINDOW w AS (PARTITION BY a)",
    "SELECT a FROM t0 WHERE b IN (SELECT MAX(b) OVER (PARTITION BY c) FROM t1)",
    "SELECT a, n FROM (SELECT a, COUNT(*) OVER (PARTITION BY b) AS n FROM t0) u WHERE n > 1",
    "SELECT COUNT(*) OVER () AS n FROM t0",
    "SELECT a, MAX(b) OVER (PARTITION BY a) AS m FROM t0 UNION SELECT a, b FROM t1",
)


@pytest.mark.parametrize("sql", GROUPED)
@given(st.data())
@settings(max_examples=12)
def test_windows_among_other_clauses_agree_with_duckdb(sql: str, data: st.DataObject) -> None:
    follow(data, two_tables(data), sql)


def test_a_rank_nobody_reads_is_a_top_k() -> None:
    ddl = "CREATE TABLE t (a INT, b INT)"
    window = "ROW_NUMBER() OVER (PARTITION BY a ORDER BY b)"
    quiet = freshet.plan(f"SELECT a, b FROM t QUALIFY {window} <= 2", ddl).root
    assert isinstance(quiet, TopPlan) and (quiet.partition, quiet.limit, quiet.ties) == ((0,), 2, False)
    shown = freshet.plan(f"SELECT * FROM (SELECT a, b, {window} AS n FROM t) WHERE n <= 2", ddl).root
    assert isinstance(shown, WindowPlan) and shown.first == 2


def test_every_type_and_a_restart(tmp_path: object) -> None:
    sql = (
        "SELECT k, SUM(w) OVER (ORDER BY k) AS w, AVG(p) OVER (ORDER BY k) AS p, SUM(x) OVER (ORDER BY k) AS x, "
        "MIN(s) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s, MAX(w) OVER () AS most, "
        "LAG(s, 1, 'first') OVER (ORDER BY k) AS before FROM t"
    )
    with freshet.connect(str(tmp_path)) as db:
        db.execute("CREATE TABLE t (k INT PRIMARY KEY, w DECIMAL(30,2), p DECIMAL(6,2), x DOUBLE, s STRING)")
        db.create_view("v", sql)
        db.execute("INSERT INTO t VALUES (1, 9999999999999999999.99, 1.25, 1e300, 'b'), (2, -1, NULL, -1e300, 'a')")
    with freshet.connect(str(tmp_path)) as db:
        db.execute("INSERT INTO t VALUES (3, 0.01, 2.50, 1.5, NULL), (4, NULL, 0.01, 2.5, 'c')")
        rows = db.view("v").to_arrow().to_pylist()
        assert [str(r["w"]) for r in rows] == [
            "9999999999999999999.99", "9999999999999999998.99", "9999999999999999999.00", "9999999999999999999.00",
        ]  # fmt: skip
        assert [str(r["p"]) for r in rows] == ["1.250000", "1.250000", "1.875000", "1.253333"]
        assert [r["x"] for r in rows] == [1e300, 0.0, 1.5, 4.0]
        assert [r["s"] for r in rows] == ["b", "a", "a", "c"]
        assert [r["before"] for r in rows] == ["first", "b", "a", None]
        assert {str(r["most"]) for r in rows} == {"9999999999999999999.99"}


def test_what_leaves_a_frame_leaves_no_trace() -> None:
    rows = 20_000
    db = freshet.connect()
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, x DOUBLE)")
    db.apply({"t": pa.table({"k": np.arange(rows, dtype=np.int32), "x": np.where(np.arange(rows) == 5, 1e300, 0.5)})})
    wide = "ORDER BY k RANGE BETWEEN 9000 PRECEDING AND CURRENT ROW"
    view = db.create_view("v", f"SELECT k, SUM(x) OVER ({wide}) AS s, VAR_POP(x) OVER ({wide}) AS v FROM t")
    answer = view.to_arrow().sort_by("k")
    assert answer["s"].to_pylist()[9_006:] == [9_001 / 2] * (rows - 9_006)
    assert answer["v"].to_pylist()[9_006:] == [0.0] * (rows - 9_006)
    assert answer["s"].to_pylist()[9_005] == 1e300


def test_a_sum_that_does_not_fit_refuses_the_change() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, x BIGINT)")
    view = db.create_view("v", "SELECT k, SUM(x) OVER (ORDER BY k) AS s FROM t")
    db.execute(f"INSERT INTO t VALUES (1, {2**63 - 1})")
    with pytest.raises(freshet.ChangeError, match="SUM does not fit BIGINT"):
        db.execute("INSERT INTO t VALUES (2, 1)")
    db.execute("INSERT INTO t VALUES (2, -1)")
    assert view.to_arrow().column("s").to_pylist() == [2**63 - 1, 2**63 - 2]


@pytest.mark.parametrize(
    ("sql", "place", "words"),
    [
        ("SELECT ROW_NUMBER() OVER (PARTITION BY a) FROM t", 8, "ROW_NUMBER depends on an order; add ORDER BY"),
        ("SELECT a FROM t WHERE ROW_NUMBER() OVER (ORDER BY a) = 1", 23, "in WHERE; compute it in a FROM subquery"),
        ("SELECT SUM(RANK() OVER (ORDER BY a)) FROM t", 12, "in an aggregate's argument"),
        ("SELECT LAG(a, b) OVER (ORDER BY a) FROM t", 15, "LAG takes a constant, a whole number, not b"),
        ("SELECT SUM(a) OVER w FROM t", 8, "no window w; define it by WINDOW w AS"),
        ("SELECT SUM(DISTINCT a) OVER () FROM t", 8, "DISTINCT in a window function"),
        ("SELECT SUM(a) OVER (ORDER BY a GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t", 8, "ROWS or RANGE"),
        ("SELECT SUM(a) OVER (ORDER BY a, b RANGE 1 PRECEDING) FROM t", 8, "measures from one key, not 2"),
        ("SELECT SUM(a) OVER (ORDER BY a > 1 RANGE 1 PRECEDING) FROM t", 8, "order by a number, DATE or TIMESTAMP"),
        ("SELECT SUM(a) OVER (RANGE UNBOUNDED PRECEDING) FROM t", 8, "add ORDER BY, or count ROWS"),
        ("SELECT SUM(a) OVER (ORDER BY a ROWS BETWEEN 2 FOLLOWING AND 1 FOLLOWING) FROM t", 8, "before it begins"),
        ("SELECT RANK() OVER (ORDER BY a RANGE UNBOUNDED PRECEDING) FROM t", 8, "RANK takes no frame"),
        ("SELECT CUME_DIST() OVER (ORDER BY a ROWS UNBOUNDED PRECEDING) FROM t", 8, "CUME_DIST takes no frame"),
        ("SELECT SKEWNESS(a) OVER () FROM t", 8, "as a window function is not supported"),
        ("SELECT SUM(a) IGNORE NULLS OVER (ORDER BY a) FROM t", 8, "SUM does not take IGNORE NULLS"),
        ("SELECT RANK() FILTER (WHERE a > 1) OVER (ORDER BY a) FROM t", 8, "RANK does not take FILTER"),
        ("SELECT a FROM t QUALIFY a", 25, "QUALIFY without a window function"),
        ("SELECT a, ROW_NUMBER() OVER (ORDER BY b) AS n FROM t QUALIFY n", 62, "QUALIFY needs a condition"),
    ],
)
def test_what_is_not_a_window_is_refused(sql: str, place: int, words: str) -> None:
    with pytest.raises(freshet.SqlError) as caught:
        freshet.plan(sql, "CREATE TABLE t (a INT, b INT)")
    assert words in caught.value.reason
    assert (caught.value.line, caught.value.column) == (1, place)


def test_a_rank_may_name_the_frame_it_sees() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (1), (2), (3)")
    sql = "SELECT CUME_DIST() OVER (ORDER BY a RANGE {0}) AS x, RANK() OVER (ORDER BY a ROWS {0}) AS y FROM t"
    for frame in ("UNBOUNDED PRECEDING", "BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"):
        rows = db.execute(sql.format(frame)).to_pylist()
        assert sorted((r["x"], r["y"]) for r in rows) == [(0.5, 1), (0.5, 1), (0.75, 3), (1.0, 4)]


def test_the_default_for_a_missing_row_may_be_wider() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (k INT); INSERT INTO t VALUES (1), (2)")
    view = db.create_view(
        "v", "SELECT k, LAG(0.5, 1, 12.25) OVER (ORDER BY k) AS x, LEAD(NULL, 1, 'none') OVER (ORDER BY k) AS s FROM t"
    )
    rows = sorted((r["k"], str(r["x"]), r["s"]) for r in view.to_arrow().to_pylist())
    assert rows == [(1, "12.25", None), (2, "0.50", "none")]
