"""SUM and AVG of products of doubles from totals: the answer of enumeration, also of infinities and NaN, and work that
does not grow with the joined rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import freshet

DDL = "CREATE TABLE a (k INT, x DOUBLE, v INT); CREATE TABLE b (k INT, y DOUBLE); CREATE TABLE c (k INT, z DOUBLE)"
JOINED = "FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k GROUP BY a.v"
OUTER = "FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.v"
Row = dict[str, Any]


def joined(rows: dict[str, list[Row]], v: int) -> list[tuple[Row, Row, Row]]:
    here = [a for a in rows["a"] if a["v"] == v]
    return [(a, b, c) for a in here for b in rows["b"] for c in rows["c"] if a["k"] == b["k"] == c["k"]]


def outer(rows: dict[str, list[Row]], v: int) -> list[tuple[Row, Row, Row]]:
    found: list[tuple[Row, Row, Row]] = []
    for a in (a for a in rows["a"] if a["v"] == v):
        found += [(a, b, {}) for b in rows["b"] if b["k"] == a["k"]] or [(a, {"y": None}, {})]
    return found


#: Queries, the rows they read, and the value of each row.
QUERIES: dict[str, tuple[str, Callable[..., list[tuple[Row, Row, Row]]], Callable[[Row, Row, Row], Any]]] = {
    "two": (f"SELECT a.v, SUM(a.x * b.y) AS s {JOINED}", joined, lambda a, b, c: (a["x"], b["y"])),
    "three": (f"SELECT a.v, SUM(a.x * b.y * c.z) AS s {JOINED}", joined, lambda a, b, c: (a["x"], b["y"], c["z"])),
    "whole": (f"SELECT a.v, SUM(c.z * (b.y * a.v)) AS s {JOINED}", joined, lambda a, b, c: (b["y"], a["v"], c["z"])),
    "filtered": (
        f"SELECT a.v, SUM(a.x * b.y) FILTER (WHERE c.z > 0) AS s {JOINED}",
        joined,
        lambda a, b, c: (a["x"], b["y"]) if c["z"] is not None and (c["z"] > 0 or math.isnan(c["z"])) else (None,),
    ),
    "outer": (f"SELECT a.v, SUM(a.x * b.y) AS s {OUTER}", outer, lambda a, b, c: (a["x"], b["y"])),
    "or two": (
        f"SELECT a.v, SUM(a.x * COALESCE(b.y, 2)) AS s {OUTER}",
        outer,
        lambda a, b, c: (a["x"], 2.0 if b["y"] is None else b["y"]),
    ),
}


def total(products: list[float]) -> float | None:
    if not products:
        return None
    if any(map(math.isnan, products)) or (math.inf in products and -math.inf in products):
        return math.nan
    infinite = [p for p in products if math.isinf(p)]
    return infinite[0] if infinite else float(sum(map(Fraction, products)))


def same(given: float | None, wanted: float | None, products: list[float]) -> bool:
    if given is None or wanted is None:
        return given is wanted
    if not (math.isfinite(given) and math.isfinite(wanted)):
        return given == wanted or (math.isnan(given) and math.isnan(wanted))
    about = sum(abs(Fraction(p)) for p in products)
    return abs(Fraction(given) - Fraction(wanted)) <= about / 10**14


def value(rng: np.random.Generator, special: bool) -> float | None:
    strange = [math.inf, -math.inf, math.nan, 1e200, -1e200, 1e-200, 0.0, -0.0, None]
    if special and rng.random() < 0.3:
        return strange[rng.integers(len(strange))]
    return float(rng.integers(-8, 9) / 8 if rng.random() < 0.5 else rng.normal() * 10.0 ** rng.integers(-8, 9))


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_answers(seed: int, special: bool) -> None:
    rng, db = np.random.default_rng(seed), freshet.connect()
    db.execute(DDL)
    views = {name: db.create_view(f"v{i}", sql) for i, (name, (sql, _, _)) in enumerate(QUERIES.items())}
    for view in views.values():
        assert "annotation" in view.explain()
    rows: dict[str, list[Row]] = {"a": [], "b": [], "c": []}
    for _ in range(60):
        table = "abc"[rng.integers(3)]
        held = rows[table]
        if held and rng.random() < 0.4:
            db.apply({table: [{**held.pop(rng.integers(len(held))), "_weight": -1}]})
        else:
            row = {"k": int(rng.integers(2)), "xyz"["abc".index(table)]: value(rng, special)}
            held.append(row | ({"v": int(rng.integers(2))} if table == "a" else {}))
            db.apply({table: [held[-1]]})
        for name, (_, read, factors) in QUERIES.items():
            answer = {r["v"]: r["s"] for r in views[name].to_dicts()}
            for v in (0, 1):
                found = read(rows, v)
                assert (v in answer) == bool(found)
                known = [f for f in (factors(*r) for r in found) if None not in f]
                with np.errstate(all="ignore"):
                    products = [float(np.prod(np.array(f, np.float64))) for f in known]
                assert same(answer.get(v), total(products), products), name


def test_work_does_not_grow_with_joined_rows() -> None:
    costs = []
    for width in (8, 64):
        db = freshet.connect(adapt=False)
        db.execute(DDL)
        view = db.create_view(
            "v", f"SELECT SUM(a.x * b.y * c.z) AS s, AVG(a.x * b.y) AS m {JOINED[: -len('GROUP BY a.v')]}"
        )
        db.apply({t: [(1, 0.5, 0) if t == "a" else (1, 0.5) for _ in range(width)] for t in "abc"})
        before = view.metrics()["steps"]
        for table in "abc":
            db.apply({table: [(1, 0.25, 0) if table == "a" else (1, 0.25)]})
        costs.append(view.metrics()["steps"] - before)
    assert costs[1] <= costs[0] + 64  # rows of `a` with other values of x are enumerated


def test_a_condition_that_no_row_satisfies_makes_a_sum_null() -> None:
    db = freshet.connect()
    db.execute(DDL)
    view = db.create_view("v", f"SELECT a.v, SUM(b.y) FILTER (WHERE c.z > 0) AS s {JOINED}")
    db.apply({"a": [(1, -1.0, 0)], "b": [(1, 2.0), (1, 3.0)], "c": [(1, -1.0), (1, -2.0)]})
    assert view.to_dicts() == [{"v": 0, "s": None}]
    db.apply({"c": [(1, 1.0)]})
    assert view.to_dicts() == [{"v": 0, "s": 5.0}]
    db.apply({"c": [{"k": 1, "z": 1.0, "_weight": -1}]})
    assert view.to_dicts() == [{"v": 0, "s": None}]


def test_a_sum_of_factors_beyond_double_is_refused() -> None:
    db = freshet.connect()
    db.execute(DDL)
    view = db.create_view("v", f"SELECT a.v, SUM(a.v * b.y) AS s {JOINED}")
    db.apply({"a": [(1, 1.0, 0)], "c": [(1, 1.0)], "b": [(1, 1e308)]})
    with pytest.raises(freshet.FreshetError, match="a sum of factors inside SUM does not fit DOUBLE"):
        db.apply({"b": [(1, 1e308)]})
    assert view.to_dicts() == [{"v": 0, "s": 0.0}]
