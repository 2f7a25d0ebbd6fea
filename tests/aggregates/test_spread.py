"""VARIANCE and STDDEV compared with exact fractions: of values of any size, after deletes, in windows and
carried up a join.

Spark computes in doubles, so overflow is infinite; infinities and NaN have no spread.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import freshet

SIZES = (0.0, 1.0, -1.0, 3.5, 1e-160, 1e15, 1e15 + 0.125, 2.0**400, -(2.0**400), 1e130, 1e155, 1.000000000000001e155,
         -1e155, 1e301, -1e301, 1e308, -1e308, 1.7e308)  # fmt: skip
SPECIAL = (math.inf, -math.inf, math.nan)
CALLS = "VAR_POP(x) AS vp, VAR_SAMP(x) AS vs, STDDEV_POP(x) AS sp, STDDEV(x) AS ss"


def expected(values: list[float]) -> dict[str, float | None]:
    spreads: dict[str, float | None] = {}
    for name, sample, root in (("vp", 0, False), ("vs", 1, False), ("sp", 0, True), ("ss", 1, True)):
        if len(values) <= sample:
            spreads[name] = None
            continue
        if not all(map(math.isfinite, values)):
            spreads[name] = math.nan
            continue
        exact = [Fraction(v) for v in values]
        mean = sum(exact, Fraction(0)) / len(exact)
        spread = sum(((v - mean) ** 2 for v in exact), Fraction(0)) / (len(exact) - sample)
        try:
            value = float(spread)
        except OverflowError:
            value = math.inf
        spreads[name] = math.sqrt(value) if root else value
    return spreads


def same(got: float | None, want: float | None) -> bool:
    if got is None or want is None:
        return got is want
    return got == want or (math.isnan(got) and math.isnan(want)) or math.isclose(got, want, rel_tol=1e-12)


@given(st.lists(st.sampled_from(SIZES), max_size=5), st.lists(st.sampled_from((*SIZES, *SPECIAL)), max_size=4))
def test_variances_of_the_remaining_values_after_deletes(stays: list[float], goes: list[float]) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (k INT, x DOUBLE); CREATE TABLE j (k INT, y INT)")
    db.create_view("grouped", f"SELECT k, {CALLS} FROM t GROUP BY k")
    db.create_view("carried", f"SELECT j.y, {CALLS} FROM t JOIN j ON t.k = j.k GROUP BY j.y")
    over = CALLS.replace("(x)", "(x) OVER (PARTITION BY k)")
    db.create_view("window", f"SELECT DISTINCT k, {over} FROM t")
    db.apply({"j": [{"k": 1, "y": 7}]})
    for values, change in (((*stays, *goes), 1), (tuple(stays), -1)):
        db.apply({"t": [{"k": 1, "x": x, "_weight": change} for x in (goes if change < 0 else values)]})
        for view in ("grouped", "carried", "window"):
            rows = db.view(view).to_arrow().to_pylist()
            assert len(rows) == (1 if values else 0)
            for row in rows:
                want = expected(list(values))
                assert all(same(row[name], want[name]) for name in want), (view, values, row, want)


@pytest.mark.parametrize(
    ("values", "variance"),
    [((1e301, -1e301), math.inf), ((1e308, 1e308), 0.0), ((1e308,), 0.0), ((1.0, math.inf), math.nan),
     ((math.inf,), math.nan), ((math.nan, 1.0), math.nan)],
)  # fmt: skip
def test_what_spark_answers(values: tuple[float, ...], variance: float) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (x DOUBLE)")
    view = db.create_view("v", "SELECT VAR_POP(x) AS v, STDDEV_POP(x) AS s FROM t")
    db.apply({"t": [{"x": x} for x in values]})
    (row,) = view.to_arrow().to_pylist()
    assert same(row["v"], variance) and same(row["s"], math.sqrt(variance) if variance == variance else variance)
