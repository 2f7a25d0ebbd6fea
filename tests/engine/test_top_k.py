"""ORDER BY ... LIMIT ... OFFSET as a view, at the top and inside other queries.

Ties are broken by the shown columns from left to right, NULLs first; DuckDB gets further keys for that.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import freshet
from tests.small_tables import COLUMNS, TableModel, follow, two_tables

column = st.sampled_from(COLUMNS)


@st.composite
def sources(draw: st.DrawFn, tables: list[TableModel]) -> tuple[str, list[str]]:
    """A query of the columns p and q without ORDER BY, and possible keys of its order."""
    t, x, y = draw(st.sampled_from(tables)).name, draw(column), draw(column)
    return draw(
        st.sampled_from(
            (
                (f"SELECT {x} AS p, {y} AS q FROM {t}", ["p", "q", "a", "b", "c", "p + q"]),
                (f"SELECT DISTINCT {x} AS p, {y} AS q FROM {t}", ["p", "q"]),
                (f"SELECT {x} AS p, COUNT(*) AS q FROM {t} GROUP BY {x}", ["p", "q", "MAX(b)", "SUM(c)"]),
                (f"SELECT r.{x} AS p, s.{y} AS q FROM t0 r JOIN t1 s ON r.b = s.b", ["p", "q", "r.c", "s.a"]),
                (f"SELECT r.{x} AS p, s.{y} AS q FROM t0 r LEFT JOIN t1 s ON r.b = s.b", ["p", "q", "s.c"]),
                (f"SELECT {x} AS p, {y} AS q FROM t0 UNION SELECT {y}, {x} FROM t1", ["p", "q"]),
            )
        )
    )


@st.composite
def limited(draw: st.DrawFn, tables: list[TableModel]) -> tuple[str, str]:
    """A limited query, also without an order, and the same for DuckDB with every tie broken."""
    source, choices = draw(sources(tables))
    chosen = draw(st.lists(st.sampled_from(choices), max_size=3, unique=True))
    keys = [
        f"{k} {draw(st.sampled_from(('ASC', 'DESC')))} NULLS {draw(st.sampled_from(('FIRST', 'LAST')))}" for k in chosen
    ]
    cut = draw(
        st.sampled_from(
            ("LIMIT 0", "LIMIT 1", "LIMIT 2", "LIMIT 3 OFFSET 1", "LIMIT 2 OFFSET 2", "OFFSET 1", "LIMIT 9")
        )
    )
    ours = f"{source} ORDER BY {', '.join(keys)} {cut}" if keys else f"{source} {cut}"
    return ours, f"{source} ORDER BY {', '.join([*keys, 'p ASC NULLS FIRST', 'q ASC NULLS FIRST'])} {cut}"


@st.composite
def around(draw: st.DrawFn, tables: list[TableModel]) -> str:
    """The query around the limited query, which replaces {0}."""
    t, x = draw(st.sampled_from(tables)).name, draw(column)
    return draw(
        st.sampled_from(
            (
                "{0}",
                "{0}",
                "SELECT q, COUNT(*) AS n, SUM(p) AS s FROM ({0}) u GROUP BY q",
                f"SELECT {t}.{x} AS x, u.q FROM {t} JOIN ({{0}}) u ON u.p = {t}.{x}",
                f"SELECT {x} AS x FROM {t} WHERE ({x}, b) IN ({{0}})",
                f"SELECT {x} AS x FROM {t} WHERE EXISTS ({{0}})",
                f"SELECT {x} AS x, b FROM {t} EXCEPT ALL ({{0}})",
            )
        )
    )


@given(st.data())
def test_the_first_rows_agree_with_duckdb(data: st.DataObject) -> None:
    tables = two_tables(data)
    ours, theirs = data.draw(limited(tables))
    frame = data.draw(around(tables))
    follow(data, tables, frame.format(ours), frame.format(theirs))


def test_nulls_come_first_upwards_and_last_downwards() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (x INT, s STRING)")
    up = db.create_view("up", "SELECT s FROM t ORDER BY x LIMIT 2")
    down = db.create_view("down", "SELECT s FROM t ORDER BY 1 DESC LIMIT 2")
    db.execute("INSERT INTO t VALUES (1, 'b'), (NULL, 'a'), (2, NULL), (2, 'a')")
    assert up.to_arrow().column("s").to_pylist() == ["a", "b"]
    assert down.to_arrow().column("s").to_pylist() == ["b", "a"]


def test_a_limit_is_kept_over_a_restart(tmp_path: object) -> None:
    with freshet.connect(str(tmp_path)) as db:
        db.execute("CREATE TABLE t (x DOUBLE, s STRING, d DECIMAL(30, 2))")
        db.create_view("v", "SELECT s, d FROM t ORDER BY d DESC, x LIMIT 2")
        db.execute("INSERT INTO t VALUES (1.5, 'one', 99999999999999999999.5), (-0.5, 'two', -1), (0.0, 'three', 5)")
    with freshet.connect(str(tmp_path)) as db:
        assert db.view("v").to_arrow().column("s").to_pylist() == ["one", "three"]
        tx = db.execute("DELETE FROM t WHERE s = 'one'")
        assert sorted(tx.deltas["v"].column("s").to_pylist()) == ["one", "two"]


def test_the_order_of_text_survives_a_sweep_of_the_pool() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, s STRING)")
    view = db.create_view("v", "SELECT s FROM t ORDER BY s DESC LIMIT 3")
    for k in range(3000):
        rows = [{"k": k, "s": f"text {k:05} {'x' * 50}"}]
        if k >= 10:
            rows.append({"k": k - 10, "s": f"text {k - 10:05} {'x' * 50}", "_weight": -1})
            rows[0]["_weight"] = 1
        db.apply({"t": rows})
    assert [s[:10] for s in view.to_arrow().column("s").to_pylist()] == ["text 02999", "text 02998", "text 02997"]


@pytest.mark.parametrize(
    ("sql", "place", "words"),
    [
        ("SELECT a FROM t ORDER BY a LIMIT b", 34, "no column b"),
        ("SELECT a FROM t ORDER BY a LIMIT 1.5", 34, "LIMIT 1.5 is not a valid number of rows"),
        ("SELECT a FROM t ORDER BY a LIMIT -1", 35, "LIMIT -1 is not a valid number of rows"),
        ("SELECT a FROM t ORDER BY a FETCH FIRST 2 ROWS ONLY", 28, "FETCH is not supported; write LIMIT"),
        ("SELECT DISTINCT a FROM t ORDER BY b LIMIT 1", 35, "ORDER BY b under SELECT DISTINCT"),
        ("SELECT a FROM t UNION SELECT a FROM t ORDER BY b LIMIT 1", 48, "no column b"),
    ],
)
def test_what_is_not_a_top_k_is_refused(sql: str, place: int, words: str) -> None:
    with pytest.raises(freshet.SqlError) as caught:
        freshet.plan(sql, "CREATE TABLE t (a INT, b INT)")
    assert words in caught.value.reason
    assert (caught.value.line, caught.value.column) == (1, place)


@pytest.mark.parametrize("limit", ["LIMIT 1 OFFSET 9223372036854775807", "LIMIT 9223372036854775807 OFFSET 3"])
def test_an_offset_past_every_row_leaves_none(limit: str) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT, b INT)")
    view = db.create_view("v", f"SELECT a FROM t ORDER BY a {limit}")
    inner = db.create_view("w", f"SELECT a, (SELECT b FROM t AS u WHERE u.a = t.a ORDER BY b {limit}) AS b FROM t")
    db.execute("INSERT INTO t VALUES (1, 2), (1, 3), (3, 4)")
    assert view.to_arrow().num_rows == 0
    assert inner.to_arrow().column("b").to_pylist() == [None] * 3
