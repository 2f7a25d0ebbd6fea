"""Several comparisons between the same two relations: DuckDB's answers, and the cost of finding no partner."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import freshet
from freshet.database.db import Database
from freshet.plans.model import QueryPlan
from tests.counted import Delays
from tests.small_tables import COLUMNS, TableModel, follow

ORDER = ("<", "<=", ">", ">=")


@st.composite
def compared(draw: st.DrawFn, tables: list[TableModel]) -> str:
    """Two or three roles; two of them are compared up to four times, as integers, doubles, decimals or sums. Some of
    them may only have to exist."""
    n, column = draw(st.integers(2, 3)), st.sampled_from(COLUMNS)
    sources = [draw(st.sampled_from(tables)) for _ in range(n)]
    roles = [source.name for source in sources]

    def value(role: int) -> str:
        form = draw(st.sampled_from(("{}",) * 6 + ("CAST({} AS DOUBLE) / 2", "CAST({} AS DECIMAL(20, 2))", "{} + 1")))
        return str(form.format(f"r{role}.{draw(column)}"))

    conditions = []
    for i in range(1, n):
        parent = draw(st.integers(0, i - 1))
        if draw(st.booleans()):
            along = sources[i].keyed and draw(st.booleans())
            conditions.append(f"r{parent}.{draw(column)} = r{i}.{COLUMNS[0] if along else draw(column)}")
        operators = draw(st.lists(st.sampled_from((*ORDER, *ORDER, "<>")), min_size=1, max_size=4))
        conditions += [f"{value(parent)} {operator} {value(i)}" for operator in operators]
    shown = draw(st.just(set(range(n))) | st.sets(st.integers(0, n - 1), min_size=1))
    listed = ", ".join(f"r{i}.{c} AS r{i}{c}" for i in sorted(shown) for c in draw(st.permutations(COLUMNS)))
    read, where = ", ".join(f"{r} r{i}" for i, r in enumerate(roles)), " AND ".join(conditions)
    return f"SELECT {draw(st.sampled_from(('', '', 'DISTINCT ')))}{listed} FROM {read} WHERE {where}"


@given(st.data())
def test_random_comparisons(data: st.DataObject) -> None:
    tables = [TableModel(f"t{i}", data.draw(st.booleans())) for i in range(data.draw(st.integers(1, 2)))]
    sql = data.draw(compared(tables))

    def check(view: freshet.View) -> None:
        root = view.plan.root
        assert isinstance(root, QueryPlan)
        edges = [n.edge.comparison for n in root.nodes if n.edge is not None and n.edge.comparison is not None]
        event(f"edges with {sorted(1 + len(c.further) for c in edges)} comparisons")
        assert freshet.Plan.from_json(view.plan.to_json()) == view.plan

    follow(data, tables, sql, check=check)


def test_a_row_that_only_has_to_exist_satisfies_all_comparisons() -> None:
    """It is found by its primary key, and nothing of it is read."""
    db = freshet.connect()
    db.execute("CREATE TABLE r (k BIGINT, a BIGINT, b BIGINT)")
    db.execute("CREATE TABLE s (k BIGINT PRIMARY KEY, c BIGINT, d BIGINT)")
    view = db.create_view("v", "SELECT r.a FROM r JOIN s ON r.k = s.k AND r.a < s.c AND r.b > s.d")
    db.apply({"r": [(1, 0, 0), (1, 0, 9), (1, 9, 9)], "s": [(1, 5, 5)]})
    assert view.to_dicts() == [{"a": 0}]
    db.apply({"s": [{"k": 1, "c": 5, "d": 5, "_weight": -1}, {"k": 1, "c": 10, "d": -1, "_weight": 1}]})
    assert sorted(row["a"] for row in view.to_dicts()) == [0, 0, 9]


DDL = "CREATE TABLE r (k BIGINT, a BIGINT, b BIGINT); CREATE TABLE s (k BIGINT, a BIGINT, b BIGINT)"
BOTH = "SELECT r.a, r.b, s.a AS c, s.b AS d FROM r, s WHERE r.k = s.k AND r.a < s.a AND r.b <= s.b"


def against(n: int) -> Database:
    """Each row of r is below half of s by one value, and above all of it by the other."""
    rows, none = np.random.default_rng(n).permutation(n), np.zeros(n, np.int64)
    db = freshet.connect()
    db.execute(DDL)
    s = pa.table({"k": none, "a": rows + n // 2, "b": -rows - 1})
    db.apply({"r": pa.table({"k": none, "a": rows, "b": rows}), "s": s})
    return db


def test_no_partner_costs_a_logarithm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of an answer without rows: n log n, where checked rows would be n * n / 2."""
    delays, taken = Delays(monkeypatch), {}
    for n in (300, 30_000):
        view = against(n).create_view("v", BOTH)
        delays.reset()
        assert view.to_arrow().num_rows == 0
        taken[n] = delays.most / n
    assert taken[30_000] < 3 * taken[300]


def test_each_partner_costs_a_logarithm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two results of deltas of either side, however many rows satisfy one of the comparisons."""
    delays, most = Delays(monkeypatch), {}
    for n in (300, 30_000):
        db = against(n)
        view = db.create_view("v", BOTH)
        delays.reset()
        tx = db.apply({"r": [{"k": 0, "a": n // 2, "b": -20}]})
        assert 0 < tx.deltas["v"].num_rows <= 21
        tx = db.apply({"s": [{"k": 0, "a": 2 * n, "b": 20}]})
        assert 0 < tx.deltas["v"].num_rows <= 22
        most[n] = delays.most
        assert view.metrics()["residual_checks"] == 0
    assert most[30_000] < 4 * most[300]


THREE = "SELECT r.a, s.a AS c FROM r, s WHERE r.a < s.a AND r.k <= s.k AND r.b < s.b"


@pytest.mark.parametrize("which", range(3))
def test_a_comparison_that_nothing_satisfies(which: int) -> None:
    """Any of three: all rows of r are below those of s by the other two, and a change looks at one row in vain."""
    for n in (300, 3_000):
        db, place = freshet.connect(adapt=False), np.random.default_rng(n).permutation(n)
        db.execute(DDL)
        view = db.create_view("v", THREE)
        below, above = dict.fromkeys("kab", place), dict.fromkeys("kab", place + n)
        above["akb"[which]] = place - n
        for i in range(n):
            db.apply({"r": [{c: int(v[i]) for c, v in below.items()}], "s": [{c: int(v[i]) for c, v in above.items()}]})
        assert view.count() == 0
        paid = view.metrics()
        assert paid["joined_rows"] == paid["residual_checks"] <= paid["changes"]


def test_several_comparisons_at_random() -> None:
    """Nearly all pairs satisfy the first two comparisons, and few the others: most that do not are never looked at."""
    four = "SELECT r.a, s.a AS c FROM r, s WHERE r.a < s.a AND r.b < s.b AND r.k + 950 < s.k AND r.a + 1900 < s.b"
    db, rng, n = freshet.connect(), np.random.default_rng(0), 2_000
    db.execute(DDL)
    view = db.create_view("v", four)
    db.apply(
        {t: pa.table({c: rng.integers(0, 1_000, n) + 1_000 * (t == "s") * (c != "k") for c in "kab"}) for t in "rs"}
    )
    assert view.count() > 0 and view.metrics()["residual_checks"] < n * n / 50


def test_explain_names_both() -> None:
    explained = freshet.plan(BOTH, DDL).explain()
    assert "r.a < s.a, r.b <= s.b" in explained and "residual" not in explained
    assert "found in O(log n) each; there may be none" in explained
    three = freshet.plan(THREE, DDL).explain()
    assert "and the most selective of these, in O(log n) each; there may be none" in three


@pytest.mark.parametrize("kind", ["LEFT JOIN", "EXISTS"])
def test_outer_joins_and_existence_do_not_use_it(kind: str) -> None:
    on = "r.k = s.k AND r.a < s.a AND r.b <= s.b"
    arm = f"WHERE EXISTS (SELECT 1 FROM s WHERE {on})" if kind == "EXISTS" else f"LEFT JOIN s ON {on}"
    try:
        plan = freshet.plan(f"SELECT r.a, r.b FROM r {arm}", DDL)
    except freshet.UnsupportedError:
        return
    assert "found in O(log n) each" not in "\n".join(plan.root.guarantee.lost)
