"""The queries of the IEDyn paper, table 1, and the fraud of its introduction, compared with DuckDB.

Streams in time order, in which compared values increase and the oldest rows are deleted first, and unordered ones, in
which values repeat and are NULL.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import freshet
from benchmarks.papers.data import in_time, inequality_tables
from benchmarks.papers.queries import FRAUD, FRAUD_DDL, INEQUALITIES, INEQUALITY_DDL
from tests.twin import Twin, TwinTable, drain, waves

#: Projections also as sets: errors that duplicates of a bag would hide.
DISTINCT = {
    f"{name} distinct": INEQUALITIES[name].replace("SELECT", "SELECT DISTINCT")
    for name in ("q7", "q8", "q9", "q10", "q11", "q12")
}
HOUR = 3_600_000_000


def some_nulls(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    for place, name in enumerate(table.column_names):
        hidden = pa.array(rng.random(table.num_rows) < 0.08)
        table = table.set_column(
            place, name, pa.compute.if_else(hidden, pa.scalar(None, table.schema.field(name).type), table.column(name))
        )
    return table


@pytest.mark.parametrize("order", ["in time", "any order"])
@pytest.mark.parametrize("seed", range(2))
def test_table_1(seed: int, order: str) -> None:
    rng, timed = np.random.default_rng(seed), order == "in time"
    tables = inequality_tables(40, 3, seed, spread=7)
    if timed:
        tables = in_time(tables, np.arange(120).reshape(-1, 3).T.ravel())
    else:
        tables = {name: some_nulls(table, rng) for name, table in tables.items()}
    db = freshet.connect()
    db.execute(INEQUALITY_DDL)
    twin = Twin(db, [TwinTable(name, rows) for name, rows in tables.items()], INEQUALITIES | DISTINCT)
    waves(twin, rng, 24, pace=dict.fromkeys(tables, 4), in_order=timed)
    for name, sizes in twin.sizes.items():
        assert np.mean(np.array(sizes) > 0) > 0.4, f"{name} was mostly empty"
    drain(twin)
    assert all(view.count() == 0 for view in twin.views.values())


def payments(rng: np.random.Generator, count: int, spread: int) -> pa.Table:
    """Small payments and large ones of two accounts, within a time of `spread`; some times are NULL."""
    times = np.sort(rng.integers(0, spread, count))
    return pa.table(
        {
            "id": np.arange(count),
            "acc": rng.integers(0, 2, count),
            "ts": pa.array(times, pa.timestamp("us"), mask=rng.random(count) < 0.05),
            "amnt": rng.choice([10, 50, 99, 100, 401, 900], count),
        }
    )


@pytest.mark.parametrize("in_order", [True, False], ids=["in time", "any order"])
@pytest.mark.parametrize("seed", range(2))
def test_fraud(seed: int, in_order: bool) -> None:
    rng = np.random.default_rng(seed)
    db = freshet.connect()
    db.execute(FRAUD_DDL)
    known = payments(rng, 120 if in_order else 50, 2 * HOUR)
    twin = Twin(db, [TwinTable("trans", known, ("id",))], {"fraud": FRAUD})
    waves(twin, rng, 50, first=14, in_order=in_order)
    assert np.mean(np.array(twin.sizes["fraud"]) > 0) > 0.3
    drain(twin)
    assert twin.views["fraud"].count() == 0


def test_what_no_tree_can_place_is_checked_on_rows() -> None:
    """The hour between the first and the last of three payments closes a cycle of comparisons."""
    explained = freshet.plan(FRAUD, FRAUD_DDL).explain()
    assert "delay      not bounded" in explained and "PLUS_INTERVAL" in explained
    for name in ("q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8"):
        assert "delay      constant" in freshet.plan(INEQUALITIES[name], INEQUALITY_DDL).explain(), name
    assert "delay      O(log n) for each tuple whose partners are counted" in (
        freshet.plan(INEQUALITIES["q9"], INEQUALITY_DDL).explain()
    )


RANGES = {
    "numbers": "SELECT a.id, b.id AS j FROM t a, t b WHERE a.g = b.g AND a.n < b.n AND b.n < a.n + 3",
    "between": "SELECT a.id, b.id AS j FROM t a JOIN t b ON b.n BETWEEN a.n AND a.n + 1",
    "below": "SELECT a.id, b.id AS j FROM t a JOIN t b ON a.g = b.g AND b.n >= a.n - 2 AND b.n - 1 < a.n",
    "empty": "SELECT a.id, b.id AS j FROM t a JOIN t b ON a.n < b.n AND b.n < a.n - 1",
    "days": "SELECT a.id, b.id AS j FROM t a JOIN t b ON a.d < b.d AND b.d <= a.d + INTERVAL 2 DAYS",
    "times": "SELECT a.id, b.id AS j FROM t a, t b WHERE a.s < b.s AND b.s < a.s + INTERVAL 90 MINUTES",
    "three": "SELECT a.id, b.id AS j, c.id AS k FROM t a, t b, t c"
    " WHERE a.n < b.n AND b.n < a.n + 2 AND c.n <= b.n AND b.n < c.n + 2 AND c.g = 1",
    "one too many": "SELECT a.id, b.id AS j FROM t a, t b WHERE a.n < b.n AND b.n < a.n + 4 AND b.n <= a.n + a.g",
    "implied": "SELECT a.id, b.id AS j, c.id AS k FROM t a, t b, t c"
    " WHERE a.g = b.g AND b.g = c.g AND a.n < b.n AND b.n <= c.n AND c.n < a.n + 4",
    "limited": "SELECT a.id, b.id AS j FROM t a, t b WHERE a.g = b.g AND a.n < b.n - 1 AND b.n < 3 AND a.n >= -2",
    "limited by equals": "SELECT a.id, b.id AS j, c.id AS k FROM t a, t b, t c"
    " WHERE a.n = b.n AND b.d < c.d AND a.n < c.n AND c.n <= 1",
    "contradicting": "SELECT a.id, b.id AS j, c.id AS k FROM t a, t b, t c"
    " WHERE a.n < b.n AND b.n < c.n AND c.n < a.n AND c.n < 3",
    "limited where kept": "SELECT a.id, b.id AS j FROM t a LEFT JOIN t b ON a.g = b.g AND a.n < b.n AND a.n > 1",
    "kept": "SELECT a.id, b.id AS j FROM t a LEFT JOIN t b ON a.g = b.g AND a.n < b.n AND b.n < a.n + 2",
}


@pytest.mark.parametrize("seed", range(2))
def test_ranges(seed: int) -> None:
    """Two comparisons of the same values in opposite directions: partners are within a distance."""
    rng, count = np.random.default_rng(seed), 60
    days = rng.integers(0, 8, count)
    known = pa.table(
        {
            "id": np.arange(count),
            "g": pa.array(rng.integers(0, 3, count)),
            "n": pa.array(rng.integers(-4, 5, count), mask=rng.random(count) < 0.1),
            "d": pa.array(days.astype(np.int32), pa.int32()).cast(pa.date32()),
            "s": pa.array(rng.integers(0, 8, count) * HOUR // 2, pa.timestamp("us")),
        }
    )
    db = freshet.connect()
    db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, n BIGINT, d DATE, s TIMESTAMP)")
    twin = Twin(db, [TwinTable("t", known, ("id",))], RANGES)
    for name in ("numbers", "between", "below", "days", "times", "three", "implied"):
        assert "no further than" in twin.views[name].explain(), name
    waves(twin, rng, 30, first=8)
    drain(twin)


def test_a_late_payment_passes_over_what_is_out_of_reach() -> None:
    """No predicate compares the second payment with the hour; all together do."""
    db = freshet.connect()
    db.execute(FRAUD_DDL)
    view = db.create_view("fraud", FRAUD)
    times = pa.array(np.arange(600) * 1_000_000, pa.timestamp("us"))
    db.apply({"trans": pa.table({"id": np.arange(600), "acc": np.full(600, 7), "ts": times, "amnt": np.full(600, 50)})})
    db.apply({"trans": [(1_000, 7, "1970-01-01 01:00:00", 500)]})
    assert view.count() == 599 * 598 // 2
    checked = view.metrics()["residual_checks"]
    db.apply({"trans": [(1_001, 7, "1970-01-01 02:00:00", 500)]})
    assert view.metrics()["residual_checks"] == checked > 0, "payments an hour before it are looked at"


def test_limits_reach_the_relations_compared() -> None:
    plan = freshet.plan(
        "SELECT a.n, b.n AS m FROM t a, u b WHERE a.n < b.n AND b.n < 10 AND a.n >= 3",
        "CREATE TABLE t (n BIGINT); CREATE TABLE u (n BIGINT)",
    )
    assert "(a.n <= 8)" in plan.explain() and "(b.n >= 4)" in plan.explain()


def test_ranges_at_the_end_of_numbers() -> None:
    least, most = -(1 << 63), (1 << 63) - 1
    db = freshet.connect()
    db.execute("CREATE TABLE a (v BIGINT); CREATE TABLE b (w BIGINT)")
    view = db.create_view("v", "SELECT v, w FROM a JOIN b ON v <= w AND w - 5 <= v")
    db.apply({"a": [{"v": v} for v in (least, least + 5, 0, most - 5, most)], "b": [{"w": w} for w in (0, 5, most)]})
    pairs = {(r["v"], r["w"]) for r in view.to_arrow().to_pylist()}
    assert pairs == {(0, 0), (0, 5), (most - 5, most), (most, most)}


EQUAL = {
    "another has the value": "SELECT r.a, s.e, t.h FROM r, s, t WHERE r.a < s.d AND s.d = t.g AND r.k = t.k",
    "two on one edge": "SELECT r.a, s.e, t.h FROM r, s, t WHERE r.a < s.d AND r.b <> s.d AND s.d = t.g",
    "with an offset": "SELECT r.a, s.e, t.h FROM r, s, t WHERE r.a < s.d + 1 AND s.d = t.g AND r.k = t.k",
    "its own, by an equality": "SELECT r.b, s.e FROM r, s WHERE r.a = s.d AND r.a < s.e AND s.d <= r.b",
    "of two relations": "SELECT r.b, s.e FROM r, s WHERE r.a = s.d AND r.k = s.k AND (s.d < r.b OR s.k <> r.a)",
}


@pytest.mark.parametrize("seed", range(2))
def test_values_that_equalities_make_equal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tables = {name: some_nulls(table, rng) for name, table in inequality_tables(40, 3, seed, spread=5).items()}
    db = freshet.connect()
    db.execute(INEQUALITY_DDL)
    twin = Twin(db, [TwinTable(name, rows) for name, rows in tables.items()], EQUAL)
    checked = {name for name in EQUAL if "residual" in twin.views[name].explain()}
    assert checked == {"two on one edge", "with an offset"}  # s.d + 1 is another value, which might overflow
    waves(twin, rng, 20, pace=dict.fromkeys(tables, 4))
    drain(twin)
