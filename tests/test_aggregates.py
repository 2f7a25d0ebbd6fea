"""Aggregates beyond COUNT, SUM, AVG, MIN and MAX, and several DISTINCT ones in one query, beside DuckDB."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import freshet
from tests.small_tables import COLUMNS, follow, two_tables

column = st.sampled_from(COLUMNS)


@st.composite
def aggregates(draw: st.DrawFn) -> str:
    x, y = draw(column), draw(column)
    call = draw(
        st.sampled_from(
            (
                f"STDDEV({x})", f"STDDEV_SAMP({x})", f"STDDEV_POP({x})", f"VARIANCE({x})", f"VAR_SAMP({x})",
                f"VAR_POP({x})", f"BOOL_AND({x} > 0)", f"BOOL_OR({x} = {y})",
                f"COUNT(DISTINCT {x})", f"SUM(DISTINCT {x})", f"AVG(DISTINCT {y})", f"COUNT({x})", f"SUM({x} * {y})",
                f"MIN({x})", f"STDDEV({x} + {y})", f"SUM(DISTINCT {x} + {y})", f"VAR_POP(DISTINCT {x})",
            )
        )
    )  # fmt: skip
    return call + draw(st.sampled_from(("", "", "", f" FILTER (WHERE {y} > 0)")))


@given(st.data())
def test_aggregates_agree_with_duckdb(data: st.DataObject) -> None:
    calls = data.draw(st.lists(aggregates(), min_size=1, max_size=4))
    shown = ", ".join(f"{c} AS m{i}" for i, c in enumerate(calls))
    source = data.draw(st.sampled_from(("t0", "(SELECT r.a, s.b, s.c FROM t0 r LEFT JOIN t1 s ON r.b = s.b) u")))
    key = data.draw(column)
    if data.draw(st.booleans()):
        sql = f"SELECT {key} AS k, {shown} FROM {source} GROUP BY {key}"
    else:
        sql = f"SELECT {shown} FROM {source}"
    follow(data, two_tables(data), sql)


def test_spread_comes_back_exactly() -> None:
    """Values of very different size come and go: the spread left is that of the rows that stay, to the bit."""
    db, other = freshet.connect(), freshet.connect()
    rng = random.Random(4)
    kept = [rng.uniform(-3, 3) for _ in range(50)]
    passing = [rng.uniform(-1, 1) * 10.0 ** rng.randint(-30, 30) for _ in range(200)]
    sql = "SELECT STDDEV(x) AS s, VAR_POP(x) AS v FROM t"
    for each in (db, other):
        each.execute("CREATE TABLE t (x DOUBLE)")
        each.create_view("v", sql)
    db.apply({"t": [{"x": x} for x in [*passing[:100], *kept]]})
    db.apply({"t": [{"x": x} for x in passing[100:]]})
    db.apply({"t": [{"x": x, "_weight": -1} for x in passing]})
    other.apply({"t": [{"x": x} for x in kept]})
    assert db.view("v").to_arrow().to_pylist() == other.view("v").to_arrow().to_pylist()


def test_spread_of_large_numbers() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (x DOUBLE, n BIGINT, d DECIMAL(20,2))")
    db.create_view("v", "SELECT VAR_POP(x) AS x, VAR_POP(n) AS n, STDDEV_POP(d) AS d FROM t")
    db.execute("INSERT INTO t VALUES (1e9, 1000000001, 100000000000.01), (1e9 + 2, 1000000003, 100000000000.03)")
    row = db.view("v").to_arrow().to_pylist()[0]
    assert row["x"] == 1.0 and row["n"] == 1.0
    assert row["d"] == pytest.approx(0.01, rel=1e-3)


def test_one_row_has_no_spread() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (x DOUBLE)")
    view = db.create_view("v", "SELECT STDDEV(x) AS s, VARIANCE(x) AS v, STDDEV_POP(x) AS p FROM t")
    assert view.to_arrow().to_pylist() == [{"s": None, "v": None, "p": None}]
    db.execute("INSERT INTO t VALUES (5)")
    assert view.to_arrow().to_pylist() == [{"s": None, "v": None, "p": 0.0}]
