"""Leaves that are compared and not read are counted: DuckDB's answers, one joined row for each row of an answer."""

from __future__ import annotations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import freshet
from benchmarks.papers.queries import INEQUALITIES, INEQUALITY_DDL
from freshet.engine import join_results
from freshet.plans.model import QueryPlan
from tests.small_tables import COLUMNS, TableModel, follow


def counted(plan: freshet.Plan) -> int:
    assert isinstance(plan.root, QueryPlan)
    edges = (n.edge for n in plan.root.nodes if n.edge is not None)
    return sum(e.comparison is not None and e.comparison.counted for e in edges)


@st.composite
def queries(draw: st.DrawFn, tables: list[TableModel]) -> str:
    """Comparisons between relations, some of which show nothing."""
    column, n = st.sampled_from(COLUMNS), len(tables)
    joins = [f"{tables[0].name} r0"]
    for i in range(1, n):
        parent = draw(st.integers(0, i - 1))
        compared = f"r{parent}.{draw(column)} {draw(st.sampled_from(('<', '<=', '>', '>=')))} r{i}.{draw(column)}"
        equal = f"r{parent}.{draw(column)} = r{i}.{draw(column)}"
        on = draw(st.sampled_from((compared, compared, f"{equal} AND {compared}", equal)))
        kind = draw(st.sampled_from(("JOIN", "JOIN", "JOIN", "LEFT JOIN")))
        joins.append(f"{kind} {tables[i].name} r{i} ON {on}")
    source = " ".join(joins)
    if draw(st.integers(0, 3)) == 0:
        source += f" WHERE EXISTS (SELECT 1 FROM {tables[0].name} q WHERE q.a = r0.b)"
    shown = sorted(draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=n - 1)))
    listed = [f"r{i}.{draw(column)} AS k{i}" for i in shown]
    if draw(st.booleans()):
        return f"SELECT {', '.join(listed)} FROM {source}"
    keys = ", ".join(e.partition(" ")[0] for e in listed)
    value = draw(st.sampled_from(("COUNT(*)", f"SUM(r{shown[0]}.c)", f"MAX(r{shown[-1]}.b)")))
    return f"SELECT {', '.join(listed)}, {value} AS v FROM {source} GROUP BY {keys}"


@given(st.data())
def test_random_queries(data: st.DataObject) -> None:
    tables = [TableModel(f"t{i}", data.draw(st.integers(0, 3)) == 0) for i in range(data.draw(st.integers(2, 3)))]

    def check(view: freshet.View) -> None:
        if isinstance(view.plan.root, QueryPlan):
            event(f"{counted(view.plan)} counted")
        assert freshet.Plan.from_json(view.plan.to_json()) == view.plan

    follow(data, tables, data.draw(queries(tables)), check=check)


def test_one_joined_row_for_each_row_of_the_answer() -> None:
    db = freshet.connect()
    db.execute(INEQUALITY_DDL)
    view = db.create_view("v", INEQUALITIES["q9"])
    assert counted(view.plan) == 1 and " · counted · " in view.explain()
    n = 200
    db.apply({"r": [{"a": i, "b": 0, "c": "", "k": 0} for i in range(n)]})
    db.apply({"t": [{"g": 10 * n, "h": 0, "i": "", "k": 1}]})
    tx = db.apply({"s": [{"d": n // 2, "e": 0, "f": 0, "k": 1}]})
    assert tx.deltas["v"].column("_weight").to_pylist() == [n // 2]
    assert view.metrics()["joined_rows"] == 1 and view.count() == n // 2
    tx = db.apply({"r": [{"a": 0, "b": 0, "c": "", "k": 0}] * 3})  # more copies of a row
    assert tx.deltas["v"].column("_weight").to_pylist() == [3] and view.count() == n // 2 + 3
    tx = db.apply({"s": [{"d": n // 2, "e": 0, "f": 0, "k": 1, "_weight": -1}]})
    assert tx.deltas["v"].column("_weight").to_pylist() == [-(n // 2 + 3)]


def test_nothing_is_counted_that_is_read() -> None:
    for name, many in (("q4", 0), ("q7", 0), ("q8", 0), ("q9", 1)):
        assert counted(freshet.plan(INEQUALITIES[name], INEQUALITY_DDL)) == many
    twice = "SELECT x.d FROM s x, s y WHERE x.d < y.e"  # weights of both change together
    assert counted(freshet.plan(twice, INEQUALITY_DDL)) == 0


def test_products_beyond_64_bits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the product may be too large, rows are enumerated, so that each is checked."""
    db = freshet.connect()
    db.execute("CREATE TABLE x (a BIGINT); CREATE TABLE y (a BIGINT); CREATE TABLE z (a BIGINT)")
    view = db.create_view("v", "SELECT x.a FROM x, y, z WHERE x.a < y.a AND x.a < z.a")
    assert counted(view.plan) == 2
    monkeypatch.setattr(join_results, "MOST_COPIES", 8)
    db.apply({"y": [{"a": i} for i in range(1, 4)], "z": [{"a": i} for i in range(1, 4)]})
    db.apply({"x": [{"a": 0}]})
    assert view.count() == 9 and view.metrics()["joined_rows"] == 9
    with pytest.raises(freshet.FreshetError, match="copies"):
        db.apply({"x": [{"a": -1, "_weight": 2}], "y": [{"a": 9, "_weight": 9}]})
