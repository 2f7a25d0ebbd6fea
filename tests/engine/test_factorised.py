"""GROUP BY as a join of totals: DuckDB's answers, look-ups by the keys of groups, and state that stays linear."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import freshet
from freshet.plans import build, codec
from freshet.plans.model import QueryPlan
from tests.oracle import RunningSum, duckdb_answer, same_bag
from tests.small_tables import COLUMNS, TableModel, follow


@st.composite
def groups(draw: st.DrawFn, tables: list[TableModel]) -> str:
    """GROUP BY over a tree of up to four roles, by columns of several of them: the joined ones, and some others."""
    n = draw(st.integers(2, 4))
    column = st.sampled_from(COLUMNS)
    roles = [draw(st.sampled_from(tables)).name for _ in range(n)]
    joins, keys = [f"{roles[0]} r0"], []
    for i in range(1, n):
        parent, here, there = draw(st.integers(0, i - 1)), draw(column), draw(column)
        kind = draw(st.sampled_from(("=",) * 12 + ("IS NOT DISTINCT FROM", "<", "CROSS")))
        if kind == "CROSS":
            joins.append(f"CROSS JOIN {roles[i]} r{i}")
            continue
        more = draw(st.sampled_from(("",) * 6 + (f" AND r{i}.b >= 1", f" AND r0.c <= r{i}.c", f" AND r{i}.a = r{i}.b")))
        joins.append(f"JOIN {roles[i]} r{i} ON r{parent}.{here} {kind} r{i}.{there}{more}")
        if draw(st.integers(0, 9)):
            keys.append(draw(st.sampled_from((f"r{parent}.{here}", f"r{i}.{there}"))))
    shown = draw(st.lists(st.integers(0, n - 1), min_size=2, max_size=3, unique=True))
    keys += [draw(st.sampled_from(("r{}.{}",) * 5 + ("COALESCE(r{}.{}, 7)",))).format(i, draw(column)) for i in shown]
    keys = list(dict.fromkeys(keys))
    x, y, z = (f"r{draw(st.integers(0, n - 1))}.{draw(column)}" for _ in range(3))
    wide = f"CAST({x} AS DECIMAL(9, 2))"
    calls = draw(
        st.lists(
            st.sampled_from(
                ("COUNT(*)", "COUNT(*)", f"COUNT({x})", f"SUM({x})", f"AVG({x})", f"MIN({x})", f"MAX({y})",
                 f"COUNT(DISTINCT {x})", f"SUM(DISTINCT {y})", f"SUM({x}) FILTER (WHERE {y} > 0)", f"SUM({x} * {y})",
                 f"COUNT(*) FILTER (WHERE {y} = 1)", f"AVG({wide})", f"SUM({wide} * {z})", f"SUM({x} + {y})",
                 f"MAX({x}) FILTER (WHERE {y} = 1)", f"SUM(({x} - {y}) * {z})", f"COUNT({x} + {y})",
                 f"SUM(CAST({x} AS DOUBLE) / 8)", f"AVG({x} / 8) FILTER (WHERE {y} = 1)", f"VAR_POP({x})",
                 f"STDDEV_SAMP({x})", f"BOOL_OR({x} > 1)", f"MAX_BY({x}, {x})")
            ),
            max_size=3, unique=True,
        )
    )  # fmt: skip
    source = " ".join(joins)
    if draw(st.integers(0, 4)) == 0:
        sign, host = draw(st.sampled_from(("", "NOT "))), draw(st.integers(0, n - 1))
        source += f" WHERE {sign}EXISTS (SELECT 1 FROM {draw(st.sampled_from(roles))} q WHERE q.a = r{host}.b)"
    having = draw(st.sampled_from(("", "", "", " HAVING COUNT(*) > 2", f" HAVING SUM({x}) > 1 AND MIN({y}) = 0")))
    outputs = [f"{k} AS k{i}" for i, k in enumerate(keys)] + [f"{c} AS m{i}" for i, c in enumerate(calls)]
    return f"SELECT {', '.join(draw(st.permutations(outputs)))} FROM {source} GROUP BY {', '.join(keys)}{having}"


def found_by_key(view: freshet.View) -> None:
    """Each row by its key, and nothing by one that is not there."""
    root = view.plan.root
    if not isinstance(root, QueryPlan) or not root.key:
        return
    names = [root.fields[i].name for i in root.key]
    rows = view.to_arrow().to_pylist()
    if rows and not _is_found(view, names, rows[0]):
        return
    for row in rows[:5]:
        assert view.get([row[n] for n in names]) == row
    assert not rows or view.get([99] * len(names)) is None


def _is_found(view: freshet.View, names: list[str], row: dict[str, Any]) -> bool:
    try:
        view.get([row[n] for n in names])
    except freshet.PlanError:
        return False
    return True


@given(st.data())
def test_random_groups(data: st.DataObject) -> None:
    tables = [TableModel(f"t{i}", data.draw(st.integers(0, 3)) == 0) for i in range(data.draw(st.integers(1, 2)))]

    def check(view: freshet.View) -> None:
        event(view.plan.root.guarantee.totals.partition(":")[0])
        found_by_key(view)

    follow(data, tables, data.draw(groups(tables)), check=check)


TABLES = """CREATE TABLE r (x BIGINT, y BIGINT); CREATE TABLE s (y BIGINT, z BIGINT, w DOUBLE);
CREATE TABLE t (z BIGINT, v BIGINT); CREATE TABLE p (id BIGINT PRIMARY KEY, y BIGINT, name STRING)"""
STAR = "r JOIN s ON r.y = s.y"
FACTORISED = (
    f"SELECT x, r.y, z, COUNT(*) AS n FROM {STAR} GROUP BY x, r.y, z",
    f"SELECT x, s.y, z, SUM(x * z) AS n, AVG(w) AS a, VAR_POP(w) AS v FROM {STAR} GROUP BY x, s.y, z HAVING AVG(w) > 0",
    f"SELECT x, r.y, s.z, MAX(v) AS m, COUNT(DISTINCT v) AS d FROM {STAR} JOIN t ON t.z = s.z GROUP BY x, r.y, s.z",
    f"SELECT x, r.y, s.z, SUM(v) AS m FROM {STAR} JOIN t ON t.v = s.z GROUP BY x, r.y, s.z",
    "SELECT p.id, p.y, x, COUNT(*) AS n, MIN(p.name) AS name FROM p JOIN r ON p.y = r.y GROUP BY p.id, p.y, x",
    "SELECT r.x, t.v, COUNT(*) AS n FROM r CROSS JOIN t GROUP BY r.x, t.v",
    f"SELECT x, r.y, z FROM {STAR} WHERE EXISTS (SELECT 1 FROM t WHERE t.z = r.x) GROUP BY x, r.y, z",
    f"SELECT * FROM (SELECT x, r.y, z, COUNT(*) AS n FROM {STAR} GROUP BY x, r.y, z) WHERE n > 1 ORDER BY n",
)
STORED = {
    f"SELECT x, z, COUNT(*) AS n FROM {STAR} GROUP BY x, z": "joined by columns that are not keys",
    f"SELECT x, r.y, z, MODE(z) AS m FROM {STAR} GROUP BY x, r.y, z": "MODE needs each joined row",
    f"SELECT x, r.y, z, MIN(x + z) AS m FROM {STAR} GROUP BY x, r.y, z": "MIN needs each joined row",
    "SELECT r.y, r.x, z, COUNT(*) AS n FROM r LEFT JOIN s ON r.y = s.y GROUP BY r.y, r.x, z": "outer joins",
}
FEW = (  # the tuple of one relation decides the group
    f"SELECT x, r.y, COUNT(*) AS n FROM {STAR} GROUP BY x, r.y",
    "SELECT x, p.id, p.name, COUNT(*) AS n FROM r JOIN p ON p.id = r.y GROUP BY x, p.id, p.name",
)


@pytest.mark.parametrize("sql", FACTORISED)
def test_groups_that_may_be_many_are_enumerated(sql: str) -> None:
    plan = freshet.plan(sql, TABLES)
    assert "factorised: each group is one joined row" in plan.explain()
    assert "state linear" not in plan.explain()
    assert freshet.Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("sql", STORED)
def test_an_answer_that_cannot_be_enumerated_says_so(sql: str) -> None:
    lost = freshet.plan(sql, TABLES).root.guarantee.lost
    assert any("groups are stored, and may be more" in reason and STORED[sql] in reason for reason in lost), lost


@pytest.mark.parametrize("sql", FEW)
def test_few_groups_are_stored(sql: str) -> None:
    explained = freshet.plan(sql, TABLES).explain()
    assert "factorised" not in explained and "state linear" not in explained


@pytest.mark.parametrize("sql", FACTORISED)
def test_groups_next_to_the_oracle(sql: str) -> None:
    """Over text, doubles and NULLs, with rows that reappear and groups that become empty; also a second view over all
    rows."""
    rows: dict[str, list[dict[str, Any]]] = {
        "r": [{"x": x, "y": y} for x in (1, 2, None) for y in (0, 1)],
        "s": [{"y": y, "z": z, "w": w} for y, z, w in ((0, 5, 0.1), (0, 5, 0.2), (1, None, 1e300), (1, 2, None))],
        "t": [{"z": z, "v": v} for z in (1, 2, 5) for v in (2, 5, 7)],
        "p": [{"id": i, "y": i % 2, "name": name} for i, name in enumerate(("a", None, "c"))],
    }
    db = freshet.connect()
    db.execute(TABLES)
    view = db.create_view("v", sql)
    total = RunningSum(view.to_arrow())
    held: dict[str, list[dict[str, Any]]] = {name: [] for name in rows}
    schemas = {name: db.query(f"SELECT * FROM {name}").schema for name in rows}
    signs = [(name, row, 1) for name, some in rows.items() for row in some]
    signs += [(name, row, -1) for name, row, _ in signs[::2]] + [(name, row, 1) for name, row, _ in signs[::4]]
    for name, row, sign in signs:
        tx = db.apply({name: [{**row, "_weight": sign}]})
        (held[name].append if sign > 0 else held[name].remove)(row)
        total.add(tx.deltas["v"])
        total.equals(view.to_arrow())
        tables = {name: pa.Table.from_pylist(some, schemas[name]) for name, some in held.items()}
        same_bag(view.to_arrow(), duckdb_answer(sql, tables))
        found_by_key(view)
    same_bag(db.create_view("again", sql).to_arrow(), view.to_arrow())


def _state(n: int, kind: str) -> int:
    db = freshet.connect()
    db.execute(TABLES)
    db.apply({"r": [{"x": i, "y": 0} for i in range(n)], "s": [{"y": 0, "z": i, "w": 0.5} for i in range(n)]})
    view = db.create_view("v", kind.format(f"FROM {STAR}"))
    assert view.count() == n * n
    (line,) = (line for line in view.explain().splitlines() if line.startswith("state "))
    return int(line.split()[1].replace(",", ""))


def test_state_is_linear_however_many_groups_there_are() -> None:
    """As DISTINCT of the same columns, up to the totals that are kept as well."""
    grouped = "SELECT x, r.y, z, COUNT(*) AS n, SUM(w) AS w {} GROUP BY x, r.y, z"
    small, large = _state(64, grouped), _state(512, grouped)
    assert large < 8 * small + 100_000
    assert large < 10 * _state(512, "SELECT DISTINCT x, r.y, z {}")


def test_a_group_that_is_beyond_its_type_takes_the_transaction_back() -> None:
    db = freshet.connect()
    db.execute(TABLES)
    sql = f"SELECT x, r.y, s.z, COUNT(*) AS n FROM {STAR} JOIN t ON t.z = s.z GROUP BY x, r.y, s.z"
    view = db.create_view("v", sql)
    many = (1 << 31) - 1
    db.apply({"r": [{"x": 3, "y": 1, "_weight": many}], "s": [{"y": 1, "z": 2, "_weight": many}]})
    db.apply({"t": [{"z": 2, "v": 0}]})
    before = view.to_arrow().to_pylist()
    assert before == [{"x": 3, "y": 1, "z": 2, "n": many * many}]
    with pytest.raises(freshet.FreshetError):
        db.apply({"t": [{"z": 2, "v": 0, "_weight": 3}]})
    assert view.to_arrow().to_pylist() == before
    assert db.apply({"t": [{"z": 2, "v": 0, "_weight": -1}]}).deltas["v"].num_rows == 1
    assert view.count() == 0
    db.execute("DROP MATERIALIZED VIEW v")
    db.apply({"t": [{"z": 2, "v": 0, "_weight": 4}]})
    with pytest.raises(freshet.FreshetError):
        db.create_view("v", sql)


def test_a_document_may_ask_for_stored_groups() -> None:
    """As those say that were written before groups were enumerated."""
    sql = FACTORISED[0]
    document = json.loads(freshet.plan(sql, TABLES).to_json())
    tree = [{"node": "r", "parent": None}, {"node": "s", "parent": "r"}]
    document["trees"] = [{"nodes": tree, "shares": {}}]
    plan = freshet.Plan.from_json(json.dumps(document))
    assert isinstance(plan.root, QueryPlan) and plan.root.grouping is not None
    db = freshet.connect()
    db.execute(TABLES)
    views = [db.create_view("stored", plan), db.create_view("enumerated", sql)]
    db.apply({"r": [{"x": 1, "y": 1}], "s": [{"y": 1, "z": 2, "w": 1.0}]})
    assert views[0].to_arrow() == views[1].to_arrow()
    assert views[0].get((1, 1, 2)) == views[1].get((1, 1, 2)) == {"x": 1, "y": 1, "z": 2, "n": 1}


def test_a_folder_goes_on_with_the_plan_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view that was made when groups were stored stays so, in the words in which its plan was written down then."""
    sql = FACTORISED[0]
    with monkeypatch.context() as before:
        before.setattr(build, "factorised", lambda query: "")
        with freshet.connect(tmp_path / "db") as db:
            db.execute(TABLES)
            db.create_view("v", sql)
            db.apply({"r": [{"x": 1, "y": 1}], "s": [{"y": 1, "z": 2, "w": 1.0}]})
            assert '"key"' not in codec.to_json(db.view("v").plan)
    with freshet.connect(tmp_path / "db") as db:
        view = db.view("v")
        assert isinstance(view.plan.root, QueryPlan) and view.plan.root.grouping is not None
        db.apply({"r": [{"x": 1, "y": 1}]})
        assert view.to_arrow().to_pylist() == [{"x": 1, "y": 1, "z": 2, "n": 2}]
        made = db.create_view("again", sql)
        assert isinstance(made.plan.root, QueryPlan) and made.plan.root.key == (0, 1, 2)
    with freshet.connect(tmp_path / "db") as db:
        assert db.view("again").get((1, 1, 2)) == db.view("v").get((1, 1, 2)) == {"x": 1, "y": 1, "z": 2, "n": 2}


def test_sums_of_doubles_are_rounded_once() -> None:
    db = freshet.connect()
    db.execute(TABLES)
    view = db.create_view("v", f"SELECT x, r.y, z, SUM(w) AS w FROM {STAR} GROUP BY x, r.y, z")
    values = (0.1, 0.2, 1e17, -1e17, 3e-20)
    db.apply({"r": [{"x": 1, "y": 1, "_weight": 7}], "s": [{"y": 1, "z": 2, "w": w} for w in values]})
    (row,) = view.to_arrow().to_pylist()
    assert row["w"] == float(7 * sum(map(Fraction, values)))


def test_computed_columns_that_may_fail() -> None:
    """They are computed on rows of the answer alone, so a part of the join cannot compute them; `explain` says so."""
    tables = "CREATE TABLE f (a INT, b INT); CREATE TABLE g (a INT, b INT)"
    sql = "SELECT DISTINCT {0} AS x, {1} AS y FROM f CROSS JOIN g"
    lost = freshet.plan(sql.format("f.a + f.b", "g.a + g.b"), tables).root.guarantee.lost
    assert any("not a join of parts; an expression over f may have no value on some row" in reason for reason in lost)
    certain = freshet.plan(sql.format("f.a = f.b", "g.a = g.b"), tables)
    assert "factorised" in certain.root.guarantee.totals and not certain.root.guarantee.lost
    db = freshet.connect()
    db.execute(tables)
    view = db.create_view("v", sql.format("f.a + f.b", "g.a + g.b"))
    largest, small = {"a": 2**31 - 1, "b": 1}, {"a": 1, "b": 1}
    db.apply({"f": [largest]})  # no partner, no row
    with pytest.raises(freshet.ChangeError, match="no answer after it"):
        db.apply({"g": [small]})
    db.apply({"f": [{**largest, "_weight": -1}, small, small], "g": [small]})
    assert view.to_dicts() == [{"x": 2, "y": 2}]
