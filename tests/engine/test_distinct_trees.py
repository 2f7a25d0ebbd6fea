"""DISTINCT by trees: over cycles, comparisons, expressions and arms, compared with DuckDB; and that no row is derived
several times where the tree can help it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import freshet
from tests.small_tables import COLUMNS, TableModel, follow


@st.composite
def distinct(draw: st.DrawFn, tables: list[TableModel]) -> str:
    """Some columns, or expressions over them, of up to four roles: a chain, with further conditions of any kind."""
    n = draw(st.integers(2, 4))
    roles, column = [draw(st.sampled_from(tables)).name for _ in range(n)], st.sampled_from(COLUMNS)
    conditions = []
    for i in range(1, n):
        parent, kind = draw(st.integers(0, i - 1)), draw(st.sampled_from(("=", "=", "=", "<", "<>", ">=", None)))
        if kind is not None:
            conditions.append(f"r{parent}.{draw(column)} {kind} r{i}.{draw(column)}")
    for _ in range(draw(st.integers(0, 2))):
        i, j = draw(st.integers(0, n - 1)), draw(st.integers(0, n - 1))
        kind = draw(st.sampled_from(("=", "=", "<", "<=", ">", "<> 1 +")))
        conditions.append(f"r{i}.{draw(column)} {kind} r{j}.{draw(column)}")
    if draw(st.integers(0, 4)) == 0:
        sign, host = draw(st.sampled_from(("", "NOT "))), draw(st.integers(0, n - 1))
        role = draw(st.sampled_from(roles))
        conditions.append(f"{sign}EXISTS (SELECT 1 FROM {role} q WHERE q.a {draw(st.sampled_from('=<'))} r{host}.b)")
    whole = draw(st.lists(st.integers(0, n - 1), max_size=2, unique=True))
    shown = [f"r{i}.{c}" for i in whole for c in COLUMNS]
    shown += [f"r{draw(st.integers(0, n - 1))}.{draw(column)}" for _ in range(draw(st.integers(not shown, 2)))]
    shown = list(dict.fromkeys(shown))
    if draw(st.integers(0, 4)) == 0:
        shown[-1] = f"COALESCE({shown[-1]}, {draw(st.sampled_from((shown[0], '7')))})"
    listed = ", ".join(f"{e} AS k{i}" for i, e in enumerate(shown))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT DISTINCT {listed} FROM {', '.join(f'{r} r{i}' for i, r in enumerate(roles))}{where}"


@given(st.data())
def test_random_distinct(data: st.DataObject) -> None:
    tables = [TableModel(f"t{i}", data.draw(st.integers(0, 3)) == 0) for i in range(data.draw(st.integers(1, 2)))]
    sql = data.draw(distinct(tables))

    def check(view: freshet.View) -> None:
        root = view.plan.root
        assert freshet.Plan.from_json(view.plan.to_json()) == view.plan
        event("tree" if getattr(root, "distinct_tree", False) else root.guarantee.totals.partition(":")[0] or "counted")

    follow(data, tables, sql, check=check)


TABLES = "; ".join(f"CREATE TABLE {name} (a BIGINT, b BIGINT)" for name in "rstuvw")
#: Queries whose rows have many derivations each: of n copies of a row in each table, none is enumerated but one.
ONCE = {
    "two triangles": "SELECT DISTINCT u.a, u.b FROM r, s, t, u, v, w WHERE r.b = s.a AND s.b = t.a AND t.b = r.a"
    " AND u.a = r.a AND v.a = u.b AND v.b = w.a AND w.b = v.a",
    "below a comparison": "SELECT DISTINCT r.a, r.b FROM r, s, t WHERE r.a <= s.a AND s.b <= t.b",
    "between projections": "SELECT DISTINCT r.a, s.a AS c FROM r, s WHERE r.a <= s.a",
    "projections around a whole": "SELECT DISTINCT s.a, s.b, t.a AS c FROM r, s, t WHERE r.a <= s.a AND s.b <= t.a",
    "expressions": "SELECT DISTINCT r.a + 1 AS a, s.b FROM r, s, t WHERE r.a = s.a",
    "of several": "SELECT DISTINCT r.b + s.b AS a FROM r, s, t, u, v, w WHERE r.a = s.a",
    "a check of what is shown": "SELECT DISTINCT r.a, s.b FROM r, s, t WHERE r.a = s.a AND r.a + s.b <> 3",
}


@pytest.mark.parametrize("name", ONCE)
def test_derivations_are_not_enumerated(name: str) -> None:
    db = freshet.connect()
    db.execute(TABLES)
    view = db.create_view("view", ONCE[name])
    for table in "stuvw":
        db.apply({table: [{"a": 1, "b": 1} for _ in range(2)] + [{"a": 1 + i % 2, "b": 1 + i // 4} for i in range(8)]})
    db.apply({"r": [{"a": 1, "b": 1}, {"a": 1, "b": 2}]})
    paid = view.metrics()["joined_rows"]
    deltas = 0
    for i in range(40):
        for weight in (1, -1):
            tx = db.apply({"r": [{"a": 1, "b": 2 + i % 3, "_weight": weight}]})
            deltas += tx.deltas["view"].num_rows
    assert view.count() > 0
    paid = view.metrics()["joined_rows"] - paid
    assert paid <= 6 * (deltas + 80), f"{paid} joined rows for {deltas} rows of deltas"


def _projected(n: int) -> tuple[int, int]:
    rng = np.random.default_rng(3)
    db = freshet.connect()
    db.execute("CREATE TABLE g (src BIGINT, dst BIGINT)")
    edges = rng.integers(0, n, (n * n // 3, 2))
    db.apply({"g": pa.table({"src": edges[:, 0], "dst": edges[:, 1]})})
    triangles = "g1.dst = g2.src AND g2.dst = g3.src AND g3.dst = g1.src"
    view = db.create_view("v", f"SELECT DISTINCT g1.src, g1.dst FROM g g1, g g2, g g3 WHERE {triangles}")
    once = view.metrics()["joined_rows"]
    for i in range(0, n, 2):
        db.apply({"g": [{"src": i, "dst": i // 2}]})
    return view.metrics()["joined_rows"] - once, n // 2


def test_a_cycle_is_projected_from_its_bag() -> None:
    """A new edge of a triangle shows itself and two more edges at most for each triangle, and each of them once."""
    (small, few), (large, many) = _projected(16), _projected(48)
    assert large / many < 3 * (small / few) + 3


PLANS = {
    "SELECT DISTINCT r.a, r.b FROM r, s WHERE r.a < s.a": ("constant", "distinct   by the tree itself"),
    "SELECT DISTINCT r.a, s.b FROM r, s WHERE r.a < s.b": ("constant", "factorised"),
    "SELECT DISTINCT r.b, s.b AS c FROM r, s WHERE r.a < s.a": ("constant for answers", "DISTINCT counts its rows"),
    "SELECT DISTINCT r.a, r.b, s.a AS c, s.b AS d FROM r, s WHERE r.a + s.a = 3": ("not bounded", "by the tree itself"),
}


@pytest.mark.parametrize("sql", PLANS)
def test_explain_says_how(sql: str) -> None:
    explained = freshet.plan(sql, TABLES).explain()
    delay, words = PLANS[sql]
    assert f"delay      {delay}" in explained
    assert words in explained


def test_a_comparison_below_a_projection_stays_between_relations() -> None:
    """What is put above a compared relation for its projection has no value to compare."""
    db = freshet.connect()
    db.execute("CREATE TABLE p (a INT PRIMARY KEY, b INT); CREATE TABLE q (a INT, b INT)")
    joined = "x.a = y.a AND x.b = z.a AND x.a = p.a AND x.b >= p.b"
    view = db.create_view("v", f"SELECT DISTINCT x.a FROM q AS x, q AS y, q AS z, p WHERE {joined}")
    db.apply({"p": [(0, 1), (1, 1)], "q": [(1, 1)]})
    assert view.to_dicts() == [{"a": 1}]
