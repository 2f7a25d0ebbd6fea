"""UNION, EXCEPT and INTERSECT of joins and groups, with and without ALL: DuckDB's answers, and state that stays
linear."""

from __future__ import annotations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import freshet
from freshet.plans.explain import as_dict
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
def groups(draw: st.DrawFn, tables: list[TableModel], by_joined: bool) -> str:
    """Groups of one or two roles, whose keys are all outputs; with the column by which roles are joined they are
    enumerated."""
    roles = [draw(st.sampled_from(tables)).name for _ in range(draw(st.integers(1, 2)))]
    source = f"{roles[0]} r0" + "".join(f" JOIN {role} r{i} ON r0.a = r{i}.b" for i, role in enumerate(roles) if i)
    last = f"r{len(roles) - 1}"
    value = draw(st.sampled_from(("COUNT(*)", f"SUM({last}.c)", f"MAX({last}.c)", "AVG(r0.c)", f"COUNT({last}.c) + 1")))
    cast = draw(st.sampled_from(("BIGINT", "DOUBLE")))
    having = draw(st.sampled_from(("", "", " HAVING COUNT(*) > 1")))
    keys, more = (f"r0.b, {last}.a, r0.a", ", r0.a AS k3") if by_joined else (f"r0.b, {last}.a", "")
    shown = f"r0.b AS k0, CAST({value} AS {cast}) AS k1, {last}.a AS k2{more}"
    return f"SELECT {shown} FROM {source} GROUP BY {keys}{having}"


@st.composite
def combined(draw: st.DrawFn, tables: list[TableModel]) -> str:
    width = draw(st.integers(2, 5))
    grouped, by_joined = draw(st.integers(0, 2)) == 0, draw(st.booleans())
    strategy = groups(tables, by_joined) if grouped else side(tables, width)
    parts = [draw(strategy) for _ in range(draw(st.integers(2, 3)))]
    if draw(st.integers(0, 3)) == 0:  # the same rows but for some
        checked, by, keys = parts[0].partition(" GROUP BY ")
        parts[1] = f"{checked} {'AND' if 'WHERE' in checked else 'WHERE'} r0.c = 1{by}{keys}"
    sql = parts[0]
    for part in parts[1:]:
        operation = draw(st.sampled_from(("UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL")))
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


GROUPED = "SELECT {0}.b, {0}.a, COUNT(*) AS n FROM {0} GROUP BY {0}.b, {0}.a"
WIDE = "SELECT r.a, {0}.a AS c, SUM(r.b) AS n FROM r JOIN {0} ON r.b = {0}.b GROUP BY r.a, {0}.a"


def _state(kind: str, n: int) -> int:
    db = freshet.connect()
    db.execute(TABLES)
    rows = {t: [{"a": i + (n // 2) * (t == "t"), "b": i % 2} for i in range(n)] for t in "rst"}
    db.apply(rows)
    before = db.metrics()["state_bytes"]
    view = db.create_view("v", f"{LEFT} {kind} {RIGHT}")
    assert view.count() == {"UNION": 3}.get(kind, 1) * n * n // 4
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


@pytest.mark.parametrize("kind", ["UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"])
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


def test_copies_of_rows() -> None:
    """A row has as many copies as the product of those of its tuples, on either side."""
    db = freshet.connect()
    db.execute(TABLES)
    less, both = (db.create_view(k[0], f"{LEFT} {k} ALL {RIGHT}") for k in ("EXCEPT", "INTERSECT"))
    assert isinstance(less.plan.root, LookedUpPlan) and freshet.Plan.from_json(less.plan.to_json()) == less.plan
    assert "rows of the left input that the right one has as often are passed over" in less.explain()
    row, three = {"a": 1, "b": 1}, {"a": 1, "b": 1, "_weight": 3}
    tx = db.apply({"r": [row, row], "s": [three], "t": [row]})  # 6 and 2 copies
    assert tx.deltas["E"].to_pylist() == [{"a": 1, "b": 1, "c": 1, "_weight": 4}] and less.count() == 4
    assert tx.deltas["I"].to_pylist() == [{"a": 1, "b": 1, "c": 1, "_weight": 2}] and len(both.to_dicts()) == 2
    tx = db.apply({"t": [three], "s": [{**row, "_weight": -1}]})  # 4 and 8
    assert tx.deltas["E"].to_pylist() == [{"a": 1, "b": 1, "c": 1, "_weight": -4}] and less.count() == 0
    assert tx.deltas["I"].to_pylist() == [{"a": 1, "b": 1, "c": 1, "_weight": 2}] and both.count() == 4


FACTORISED = "SELECT r.b, r.a, {0}.a AS c, COUNT(*) + 1 AS n FROM r JOIN {0} ON r.b = {0}.b GROUP BY r.b, r.a, {0}.a"


def test_groups_that_are_enumerated_are_looked_up() -> None:
    """A group of several parts is found by the totals of each, and what is computed from them must agree."""
    db = freshet.connect()
    db.execute(TABLES)
    view = db.create_view("v", f"{FACTORISED.format('s')} UNION {FACTORISED.format('t')}")
    root = view.plan.root
    assert isinstance(root, LookedUpPlan) and freshet.Plan.from_json(view.plan.to_json()) == view.plan
    assert all(side["guarantee"]["totals"].startswith("factorised") for side in as_dict(root)["inputs"].values())
    row = {"a": 1, "b": 1}
    db.apply({"r": [row], "s": [row, row], "t": [row, row]})
    assert view.to_dicts() == [{"b": 1, "a": 1, "c": 1, "n": 3}]
    tx = db.apply({"t": [{**row, "_weight": -1}]})
    assert tx.deltas["v"].to_pylist() == [{"b": 1, "a": 1, "c": 1, "n": 2, "_weight": 1}] and view.count() == 2
    tx = db.apply({"s": [{**row, "_weight": -1}]})
    assert tx.deltas["v"].to_pylist() == [{"b": 1, "a": 1, "c": 1, "n": 3, "_weight": -1}] and view.count() == 1


def test_copies_of_tuples_that_are_not_shown() -> None:
    """Counted by their join column, they multiply the copies of a row; conditions are checked on the tuples."""
    hidden = "SELECT r.a, r.b FROM r JOIN {0} ON r.b = {0}.b"
    db = freshet.connect()
    db.execute(TABLES)
    view = db.create_view("v", f"{LEFT} AND r.a + s.a > 1 EXCEPT ALL {RIGHT}")
    assert isinstance(view.plan.root, LookedUpPlan)
    less = db.create_view("w", f"SELECT a, b, c FROM ({LEFT}) EXCEPT ALL SELECT a, b, a FROM ({hidden.format('t')})")
    assert isinstance(less.plan.root, LookedUpPlan)
    db.apply({"r": [{"a": 1, "b": 1}], "s": [{"a": a, "b": 1, "_weight": 3} for a in (0, 1)], "t": [{"a": 1, "b": 1}]})
    assert sorted(row["c"] for row in view.to_dicts()) == [1, 1]
    assert sorted(row["c"] for row in less.to_dicts()) == [0, 0, 0, 1, 1]


def test_groups_are_not_stored_twice() -> None:
    """UNION of groups looks them up where they are stored; EXCEPT of few groups counts rows, for a constant delay."""
    union = " UNION ".join(map(GROUPED.format, "rs"))
    plan = freshet.plan(union, TABLES)
    assert isinstance(plan.root, LookedUpPlan) and freshet.Plan.from_json(plan.to_json()) == plan
    assert not isinstance(freshet.plan(union.replace("UNION", "EXCEPT"), TABLES).root, LookedUpPlan)
    many = freshet.plan(f"{WIDE.format('s')} EXCEPT {WIDE.format('t')}", TABLES)
    assert isinstance(many.root, LookedUpPlan)
    hidden = union.replace("SELECT r.b, r.a", "SELECT r.b, r.b AS a")  # groups that share a row
    assert not isinstance(freshet.plan(hidden, TABLES).root, LookedUpPlan)

    def state(sql: str) -> int:
        db = freshet.connect()
        db.execute(TABLES)
        for table in "rs":
            db.apply({table: [{"a": i, "b": i + (table == "s" and i % 2)} for i in range(3_000)]})
        before = db.metrics()["state_bytes"]
        assert db.create_view("v", sql).count() in (3_000, 4_500)
        return int(db.metrics()["state_bytes"] - before)

    alone = sum(state(GROUPED.format(table)) for table in "rs")
    assert state(union) < 1.1 * alone
