"""Aggregates beyond COUNT, SUM, AVG, MIN and MAX, and several DISTINCT ones in one query, compared with DuckDB."""

from __future__ import annotations

import random
import re

import pyarrow as pa
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


def _first_by(value: str, by: str, order: str, only: str) -> str:
    """MIN_BY and MAX_BY by the rule for ties: the least value, NULL first."""
    kept = f"{by} IS NOT NULL" + (f" AND {only}" if only else "")
    return f"(LIST({value} ORDER BY {by} {order}, {value} ASC NULLS FIRST) FILTER (WHERE {kept}))[1]"


@st.composite
def ordered_and_paired(draw: st.DrawFn) -> tuple[str, str]:
    """An aggregate that needs its values in order, bit by bit or in pairs, and the same in DuckDB's words."""
    x, y = draw(column), draw(column)
    only = draw(st.sampled_from(("", "", f"{y} > 0")))
    share = draw(st.sampled_from(("0", "0.1", "0.25", "0.5", "0.75", "1")))
    filtered = f" FILTER (WHERE {only})" if only else ""
    alike = [
        f"MEDIAN({x})", f"MEDIAN(DISTINCT {x})", f"PERCENTILE_CONT({share}) WITHIN GROUP (ORDER BY {x})",
        f"PERCENTILE_DISC({share}) WITHIN GROUP (ORDER BY {x})", f"BIT_AND({x})", f"BIT_OR({x} - {y})",
        f"BIT_XOR({x})", f"BIT_XOR(DISTINCT {x})", f"COVAR_POP({x}, {y})", f"COVAR_SAMP({x}, {y})",
        f"REGR_COUNT({x}, {y})", f"REGR_SXX({x}, {y})", f"REGR_SXY({x}, {y})", f"REGR_SYY({x}, {y})",
        f"REGR_AVGX({x}, {y})", f"REGR_AVGY({x}, {y})",
    ]  # fmt: skip
    slopes = ("REGR_SLOPE", "REGR_INTERCEPT", "REGR_R2")  # where x does not differ, DuckDB has a NaN or a NULL
    differs = f"VAR_POP({y}) FILTER (WHERE {x} IS NOT NULL{f' AND {only}' if only else ''}) > 1e-12"
    different = [
        (f"PERCENTILE({x}, {share})", f"QUANTILE_CONT({x}, {share})"),
        (f"APPROX_PERCENTILE({x}, {share})", f"QUANTILE_DISC({x}, {share})"),
        (f"APPROX_COUNT_DISTINCT({x})", f"COUNT(DISTINCT {x})"),
        (f"MODE({x})", f"MODE({x} ORDER BY {x})"),
        (f"MODE() WITHIN GROUP (ORDER BY {x} DESC)", f"MODE({x} ORDER BY {x} DESC)"),
        (f"FIRST({x})", f"MIN({x})"), (f"LAST({x}, TRUE)", f"MAX({x})"), (f"ANY_VALUE({x})", f"MIN({x})"),
        *((f"{name}({x}, {y})", f"CASE WHEN {differs} THEN {name}({x}, {y}){filtered} END") for name in slopes),
    ]  # fmt: skip
    by = [
        (f"MIN_BY({x}, {y})", _first_by(x, y, "ASC", only)),
        (f"MAX_BY({x}, {y})", _first_by(x, y, "DESC", only)),
    ]
    pairs = [(a + filtered, a + filtered) for a in alike]
    pairs += [(a + filtered, b if b.startswith("CASE") else b + filtered) for a, b in different]
    return draw(st.sampled_from([*pairs, *((a + filtered, b) for a, b in by)]))


@given(st.data())
def test_ordered_and_paired_aggregates_agree_with_duckdb(data: st.DataObject) -> None:
    calls = data.draw(st.lists(ordered_and_paired(), min_size=1, max_size=4))
    source = data.draw(
        st.sampled_from(
            ("t0", "(SELECT r.a, s.b, s.c FROM t0 r LEFT JOIN t1 s ON r.b = s.b) u",
             "(SELECT r.a, s.b, s.c FROM t0 r JOIN t1 s ON r.b = s.b JOIN t1 z ON z.b = r.b) u")
        )
    )  # fmt: skip
    key = data.draw(st.sampled_from((None, *COLUMNS)))
    texts = []
    for words in range(2):
        shown = ", ".join(f"{c[words]} AS m{i}" for i, c in enumerate(calls))
        texts.append(f"SELECT {f'{key} AS k, ' if key else ''}{shown} FROM {source}{f' GROUP BY {key}' if key else ''}")
    follow(data, two_tables(data), *texts)


def test_correlation_of_values_far_from_zero() -> None:
    """A mean that is large compared with the spread costs no digits, and deleted rows leave no trace."""
    db = freshet.connect()
    db.execute("CREATE TABLE t (x DOUBLE, y DOUBLE)")
    view = db.create_view("v", "SELECT CORR(x, y) AS c, REGR_SLOPE(y, x) AS s, COVAR_POP(x, y) AS v FROM t")
    rows = [{"x": 1e9 + i, "y": 1e9 + 2 * i} for i in range(10)]
    strange = [{"x": 1e300, "y": -1e300}, {"x": float("inf"), "y": 1.0}, {"x": float("nan"), "y": 2.0}]
    db.apply({"t": [*rows, *strange]})
    assert view.to_arrow().to_pylist()[0]["c"] != view.to_arrow().to_pylist()[0]["c"]  # NaN
    db.apply({"t": [{**r, "_weight": -1} for r in strange]})
    assert view.to_arrow().to_pylist() == [{"c": 1.0, "s": 2.0, "v": 16.5}]


def test_constant_pairs_have_no_correlation() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (x INT, y INT)")
    names = ("CORR(y, x)", "REGR_SLOPE(y, x)", "REGR_R2(y, x)", "REGR_R2(x, y)", "COVAR_SAMP(y, x)", "REGR_SXX(y, x)")
    view = db.create_view("v", "SELECT " + ", ".join(f"{n} AS c{i}" for i, n in enumerate(names)) + " FROM t")
    assert list(view.to_arrow().to_pylist()[0].values()) == [None] * 6
    db.execute("INSERT INTO t VALUES (1, 5), (1, NULL), (NULL, 1)")
    assert list(view.to_arrow().to_pylist()[0].values()) == [None, None, None, None, None, 0.0]
    db.execute("INSERT INTO t VALUES (1, 7)")
    assert list(view.to_arrow().to_pylist()[0].values()) == [None, None, None, 1.0, 0.0, 0.0]


def test_values_of_every_type_in_order() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (k INT, s STRING, d DATE, m DECIMAL(38, 2), f DOUBLE, b BOOLEAN)")
    view = db.create_view(
        "v",
        "SELECT MODE(s) AS ms, MODE(m) AS mm, MODE(f) AS mf, MODE(b) AS mb, MAX_BY(s, m) AS bs, MIN_BY(m, s) AS bm, "
        "MAX_BY(b, f) AS bb, APPROX_PERCENTILE(m, 0.5) AS pm, APPROX_PERCENTILE(d, 1) AS pd, MEDIAN(m) AS me FROM t",
    )
    big = "123456789012345678901234567890.25"
    db.execute(
        f"INSERT INTO t VALUES (1, 'b', DATE '2020-01-02', {big}, 0.5, TRUE), (2, 'a', NULL, 1.50, 'NaN', FALSE)"
    )
    db.execute("INSERT INTO t VALUES (3, 'b', DATE '2020-01-01', 1.50, 0.5, NULL)")
    row = view.to_arrow().to_pylist()[0]
    assert (row["ms"], str(row["mm"]), row["mf"], row["mb"]) == ("b", "1.50", 0.5, False)
    assert (row["bs"], str(row["bm"]), row["bb"]) == ("b", "1.50", False)
    assert (str(row["pm"]), str(row["pd"]), row["me"]) == ("1.50", "2020-01-02", 1.5)
    db.execute("DELETE FROM t WHERE k <> 1")
    row = view.to_arrow().to_pylist()[0]
    assert (row["ms"], str(row["mm"]), str(row["pm"]), row["me"]) == ("b", big, big, float(big))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("PERCENTILE(x, 0.5, 2)", "PERCENTILE(x, 0.5, 2) with all of these arguments"),
        ("PERCENTILE(x, 1.5)", "the percentage 1.5 is not between 0 and 1"),
        ("PERCENTILE(x, x)", "the percentage must be a constant"),
        ("PERCENTILE(x, ARRAY(0.1, 0.9))", "several percentiles at once"),
        ("PERCENTILE()", "PERCENTILE takes one value, not 0"),
        ("MEDIAN(d)", "MEDIAN takes a number, not DATE"),
        ("MAX_BY(x)", "MAX_BY takes two arguments, not 1"),
        ("BIT_AND(f)", "BIT_AND takes an integer"),
        ("CORR(d, x)", "CORR takes numbers, not DATE"),
        ("SUM(x) WITHIN GROUP (ORDER BY x)", "WITHIN GROUP for SUM"),
        ("SUM(x) IGNORE NULLS", "IGNORE or RESPECT NULLS for SUM"),
        ("COUNT()", "COUNT takes at least one argument"),
        ("MODE()", "MODE takes one value"),
    ],
)
def test_what_aggregates_do_not_take(call: str, says: str) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (x INT, f DOUBLE, d DATE)")
    with pytest.raises(freshet.SqlError, match=re.escape(says)):
        db.create_view("v", f"SELECT {call} AS a FROM t")


def test_spread_comes_back_exactly() -> None:
    """Values of very different sizes are inserted and deleted: the spread equals that of the remaining rows bit by
    bit."""
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


def test_bits_of_null_alone_are_int() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT)")
    answer = db.execute("SELECT BIT_AND(NULL) AS a, BIT_XOR(NULLIF(NULL, a)) AS b FROM t")
    assert answer.schema.types == [pa.int32(), pa.int32()] and answer.to_pylist() == [{"a": None, "b": None}]
