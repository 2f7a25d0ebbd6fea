"""UNION, EXCEPT and INTERSECT of joins that are sets: DuckDB's answers, and state that stays linear."""

from __future__ import annotations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import freshet
from freshet.plans.model import LookedUpPlan
from tests.small_tables import COLUMNS, TableModel, follow

ORDER = ("=", "=", "=", "IS NOT DISTINCT FROM", "<", "<>")


@st.composite
def side(draw: st.DrawFn, tables: list[TableModel], width: int) -> str:
    """Columns of two or three roles, so many that the tree often tells the rows, sometimes compared or with an arm."""
    n, column = draw(st.integers(2, 3)), st.sampled_from(COLUMNS)
    roles = [draw(st.sampled_from(tables)).name for _ in range(n)]
    joins, shown = [f"{roles[0]} r0"], ["r0.a", "r0.b"]
    for i in range(1, n):
        parent, here = draw(st.integers(0, i - 1)), draw(column)
        there = draw(st.sampled_from(("a", "b") if parent == 0 else COLUMNS))
        joins.append(f"JOIN {roles[i]} r{i} ON r{parent}.{there} {draw(st.sampled_from(ORDER))} r{i}.{here}")
        shown += [f"r{i}.{c}" for c in dict.fromkeys((here, draw(column)))]
    if draw(st.integers(0, 3)) == 0:
        joins.append(f"WHERE EXISTS (SELECT 1 FROM {draw(st.sampled_from(roles))} q WHERE q.a = r0.b)")
    kept = [draw(st.sampled_from(shown)) if len(shown) <= i else shown[i] for i in range(width)]
    listed = ", ".join(f"{e} AS k{i}" for i, e in enumerate(kept))
    return f"SELECT {listed} FROM {' '.join(joins)}"


@st.composite
def combined(draw: st.DrawFn, tables: list[TableModel]) -> str:
    width = draw(st.integers(2, 5))
    parts = [draw(side(tables, width)) for _ in range(draw(st.integers(2, 3)))]
    if draw(st.integers(0, 3)) == 0:  # the same rows but for some
        parts[1] = f"{parts[0]} {'AND' if 'WHERE' in parts[0] else 'WHERE'} r0.c = 1"
    sql = parts[0]
    for part in parts[1:]:
        operation = draw(st.sampled_from(("UNION", "EXCEPT", "INTERSECT")))
        sql = f"({sql}) {operation} {part}" if draw(st.booleans()) else f"{part} {operation} ({sql})"
    if draw(st.integers(0, 5)) == 0:
        sql = f"SELECT DISTINCT * FROM ({' UNION ALL '.join(parts)}) u"
    around: str = draw(st.sampled_from(("{}",) * 4 + ("SELECT k0, COUNT(*) AS n FROM ({}) u GROUP BY k0",)))
    return around.format(sql)


@given(st.data())
def test_random_set_operations_of_joins(data: st.DataObject) -> None:
    tables = [TableModel(f"t{i}", data.draw(st.integers(0, 2)) == 0) for i in range(data.draw(st.integers(1, 2)))]
    sql = data.draw(combined(tables))

    def check(view: freshet.View) -> None:
        event(type(view.plan.root).__name__)
        assert freshet.Plan.from_json(view.plan.to_json()) == view.plan

    follow(data, tables, sql, check=check)


TABLES = "; ".join(f"CREATE TABLE {name} (a BIGINT, b BIGINT)" for name in "rstu")
LEFT = "SELECT r.a, r.b, s.a AS c FROM r JOIN s ON r.b = s.b"
RIGHT = "SELECT r.a, r.b, t.a AS c FROM r JOIN t ON r.b = t.b"


def _state(kind: str, n: int) -> int:
    db = freshet.connect()
    db.execute(TABLES)
    rows = {t: [{"a": i + (n // 2) * (t == "t"), "b": i % 2} for i in range(n)] for t in "rst"}
    db.apply(rows)
    before = db.metrics()["state_bytes"]
    view = db.create_view("v", f"{LEFT} {kind} {RIGHT}")
    assert view.count() == {"UNION": 3, "EXCEPT": 1, "INTERSECT": 1}[kind] * n * n // 4
    return int(db.metrics()["state_bytes"] - before)


@pytest.mark.parametrize("last", ["UNION", "EXCEPT"])
def test_several_sides_store_nothing(last: str) -> None:
    """UNION within UNION or below EXCEPT counts no rows, so it is written as UNION ALL; it is looked up as UNION."""
    third = "SELECT s.a, s.b, t.a AS c FROM s JOIN t ON s.b = t.b"
    plan = freshet.plan(f"({LEFT} UNION {RIGHT}) {last} {third}", TABLES)
    assert isinstance(plan.root, LookedUpPlan) and isinstance(plan.root.left, LookedUpPlan)
    assert "state" not in " ".join(plan.root.guarantee.lost)


def test_distinct_rows_of_union_all_are_those_of_union() -> None:
    plan = freshet.plan(f"SELECT DISTINCT * FROM ({LEFT} UNION ALL {RIGHT}) u", TABLES)
    assert isinstance(plan.root, LookedUpPlan) and freshet.Plan.from_json(plan.to_json()) == plan
    some = freshet.plan(f"SELECT DISTINCT a, b FROM ({LEFT} UNION ALL {RIGHT}) u", TABLES)
    assert not isinstance(some.root, LookedUpPlan)


@pytest.mark.parametrize("kind", ["UNION", "EXCEPT", "INTERSECT"])
def test_state_is_linear_however_many_rows_there_are(kind: str) -> None:
    small, large = _state(kind, 64), _state(kind, 512)
    assert large < 8 * small + 100_000


def test_rows_that_cannot_be_looked_up_are_counted() -> None:
    hidden = "SELECT r.a, s.a AS c FROM r JOIN s ON r.b = s.b"
    explained = freshet.plan(f"{hidden} UNION {hidden.replace(' s', ' t').replace('s.', 't.')}", TABLES).explain()
    assert "keeps two counts for each row" in explained
    explained = freshet.plan("SELECT a, b FROM r UNION SELECT a, b FROM s", TABLES).explain()
    assert "keeps two counts for each row" in explained
    explained = freshet.plan(f"{LEFT} EXCEPT {RIGHT}", TABLES).explain()
    assert "rows of the left input that the right one has are passed over" in explained and "linear" not in explained


def test_changes_of_both_sides_at_once() -> None:
    """Rows that move from one side to the other within a transaction."""
    db = freshet.connect()
    db.execute(TABLES)
    view = db.create_view("v", f"{LEFT} UNION {RIGHT}")
    db.apply({"r": [{"a": 1, "b": 1}], "s": [{"a": 5, "b": 1}]})
    tx = db.apply({"s": [{"a": 5, "b": 1, "_weight": -1}], "t": [{"a": 5, "b": 1}]})
    assert tx.deltas["v"].num_rows == 0 and view.to_dicts() == [{"a": 1, "b": 1, "c": 5}]
    tx = db.apply({"s": [{"a": 5, "b": 1}]})
    assert tx.deltas["v"].num_rows == 0
    tx = db.apply({"s": [{"a": 5, "b": 1, "_weight": -1}], "t": [{"a": 5, "b": 1, "_weight": -1}]})
    assert tx.deltas["v"].to_pylist() == [{"a": 1, "b": 1, "c": 5, "_weight": -1}] and view.count() == 0
