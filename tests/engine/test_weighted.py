"""Bags that are projections: each different row once, with the number of its copies. DuckDB's answers, and steps."""

from __future__ import annotations

import json

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import freshet
from freshet.plans import codec
from tests.small_tables import COLUMNS, TableModel, follow


@st.composite
def projection(draw: st.DrawFn, tables: list[TableModel]) -> str:
    """A few columns, or expressions over them, of a tree of up to five roles."""
    n, column = draw(st.integers(2, 5)), st.sampled_from(COLUMNS)
    roles = [draw(st.sampled_from(tables)).name for _ in range(n)]
    joins, joined = [f"{roles[0]} r0"], []
    for i in range(1, n):
        parent, here, there = draw(st.integers(max(0, i - 2), i - 1)), draw(column), draw(column)
        kind = draw(st.sampled_from(("=",) * 9 + ("IS NOT DISTINCT FROM", "<")))
        joins.append(f"JOIN {roles[i]} r{i} ON r{parent}.{here} {kind} r{i}.{there}")
        joined += [f"r{parent}.{here}", f"r{i}.{there}"]
    conditions = []
    if draw(st.integers(0, 3)) == 0:
        conditions.append(f"r{draw(st.integers(0, n - 1))}.{draw(column)} >= 1")
    if draw(st.integers(0, 4)) == 0:
        sign, host = draw(st.sampled_from(("", "NOT "))), draw(st.integers(0, n - 1))
        conditions.append(f"{sign}EXISTS (SELECT 1 FROM {draw(st.sampled_from(roles))} q WHERE q.a = r{host}.b)")
    whole = draw(st.integers(0, n - 1))
    shown = [*(f"r{whole}.{c}" for c in draw(st.permutations(COLUMNS))), *draw(st.permutations(joined))]
    shown = shown[draw(st.integers(0, 3)) :][: draw(st.integers(1, 4))]
    if draw(st.integers(0, 3)) == 0:
        shown[0] = f"{shown[0]} + 1"
    listed = ", ".join(f"{e} AS k{i}" for i, e in enumerate(shown))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    sql = f"SELECT {listed} FROM {' '.join(joins)}{where}"
    around = ("{} ORDER BY 1 LIMIT 3", "{0} UNION ALL {0}", "SELECT k0, COUNT(*) AS n FROM ({}) u GROUP BY k0")
    return str(draw(st.sampled_from(("{}",) * 5 + around)).format(sql))


@given(st.data())
def test_random_projections(data: st.DataObject) -> None:
    tables = [TableModel(f"t{i}", data.draw(st.integers(0, 3)) == 0) for i in range(data.draw(st.integers(1, 2)))]
    sql = data.draw(projection(tables))

    def check(view: freshet.View) -> None:
        event(view.plan.root.guarantee.totals.partition(":")[0])
        assert freshet.Plan.from_json(view.plan.to_json()) == view.plan
        assert codec.from_json(codec.to_json(view.plan)) == view.plan

    follow(data, tables, sql, check=check)


TABLES = "CREATE TABLE g (src BIGINT, dst BIGINT); CREATE TABLE p (id BIGINT PRIMARY KEY, name STRING)"
PATH = "FROM g g1, g g2, g g3 WHERE g1.dst = g2.src AND g2.dst = g3.src"
WEIGHTED = (
    f"SELECT g2.src, g3.src AS next {PATH}",
    f"SELECT g1.dst, g2.dst AS next {PATH}",
    "SELECT g1.src, g1.dst FROM g g1 JOIN g g2 ON g1.dst = g2.src",
    f"SELECT g2.src * 2 AS twice, name {PATH} AND g2.dst = id".replace("FROM g g1", "FROM p, g g1"),
)
ENUMERATED = (
    f"SELECT g1.src, g2.src AS b, g3.src AS c, g3.dst {PATH}",
    f"SELECT g1.src, g3.dst {PATH}",
    "SELECT g1.src, g1.dst FROM g g1 JOIN p ON g1.dst = id",
)


@pytest.mark.parametrize("sql", WEIGHTED)
def test_what_is_not_shown_is_counted(sql: str) -> None:
    assert "weighted: a row counts as often as totals of" in freshet.plan(sql, TABLES).explain()


@pytest.mark.parametrize("sql", ENUMERATED)
def test_what_is_shown_or_found_by_key_is_not(sql: str) -> None:
    assert "weighted" not in freshet.plan(sql, TABLES).explain()


def test_copies_cost_once() -> None:
    """One different row, of a million copies: the rows joined are as many as rows of tables."""
    db = freshet.connect()
    db.execute(TABLES)
    view = db.create_view("v", WEIGHTED[0])
    db.apply({"g": [{"src": 1, "dst": 2}, *({"src": i, "dst": 1} for i in range(1_000, 2_000))]})
    db.apply({"g": [{"src": 2, "dst": i} for i in range(5_000, 6_000)]})
    assert view.count() == 1_000_000 == sum(b.num_rows for b in view.batches(65_536))
    assert view.metrics()["joined_rows"] < 5_000
    tx = db.apply({"g": [{"src": 1, "dst": 2, "_weight": -1}]})
    assert tx.deltas["v"].to_pylist() == [{"src": 1, "next": 2, "_weight": -1_000_000}]


def test_copies_beyond_what_is_counted_are_refused() -> None:
    db = freshet.connect()
    db.execute(TABLES)
    view = db.create_view("v", WEIGHTED[0])
    many = (1 << 31) - 1
    edges = [{"src": 0, "dst": 1, "_weight": many}, {"src": 2, "dst": 3, "_weight": many}]
    db.apply({"g": edges})
    with pytest.raises(freshet.FreshetError, match="would have more than"):
        db.apply({"g": [{"src": 1, "dst": 2, "_weight": 4}]})
    assert view.count() == 0
    db.apply({"g": [{"src": 1, "dst": 2}]})
    assert view.count() == many * many


def test_plans_of_the_last_version_are_read() -> None:
    """They say nothing of copies, and no new plan says it without having any."""
    plan = freshet.plan(ENUMERATED[0], TABLES)
    assert "copies" not in json.dumps(codec.encode(plan)) and codec.from_json(codec.to_json(plan)) == plan
