"""Cyclic joins: bags of their relations, kept by delta joins, make them trees. DuckDB is the oracle."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import freshet
from benchmarks.papers.queries import CYCLES
from freshet.database.db import inside
from freshet.plans.model import QueryPlan
from tests.small_tables import COLUMNS, KEYED, TableModel, follow
from tests.twin import Twin, TwinTable, complete_graph, drain, waves

TRIANGLE = CYCLES["triangle"].split(" FROM ")[1]
QUERIES = CYCLES | {
    "some triangles": f"SELECT g1.src AS a, g2.src AS b FROM {TRIANGLE} AND g1.src < g2.src AND g3.dst % 2 = 0",
    "triangles of a vertex": f"SELECT g1.src AS a, COUNT(*) AS n, SUM(g2.dst) AS s FROM {TRIANGLE} GROUP BY g1.src",
    "vertices on triangles": f"SELECT DISTINCT g1.src AS a FROM {TRIANGLE}",
    "edges on no triangle": "SELECT g.src, g.dst FROM g WHERE NOT EXISTS (SELECT 1 FROM g g2, g g3"
    " WHERE g2.src = g.dst AND g3.src = g2.dst AND g3.dst = g.src)",
}


@pytest.mark.parametrize("seed", range(3))
def test_random_graph(seed: int) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE g (src BIGINT, dst BIGINT)")
    twin = Twin(db, [TwinTable("g", complete_graph(4 + seed))], QUERIES)
    waves(twin, np.random.default_rng(seed), 20)
    for name, sizes in twin.sizes.items():
        assert max(sizes) > 0, f"{name} was always empty"
    drain(twin)
    assert all(view.count() == 0 for view in twin.views.values())


@st.composite
def cyclic(draw: st.DrawFn, tables: list[TableModel]) -> str:
    """Three to five roles, connected in a ring and by chords."""
    n = draw(st.integers(3, 5))
    roles = [draw(st.sampled_from(tables)).name for _ in range(n)]
    column = st.sampled_from(COLUMNS)
    pairs = [(i, (i + 1) % n) for i in range(n)]
    pairs += draw(st.lists(st.sampled_from([(i, j) for i in range(n) for j in range(i)]), max_size=2))
    where = [f"r{i}.{draw(column)} = r{j}.{draw(column)}" for i, j in pairs]
    where += draw(
        st.lists(st.sampled_from(("r0.b >= 1", "r1.a <> r2.c", "r0.c < r1.b", "r2.b IS NOT NULL")), max_size=2)
    )
    arm = draw(
        st.sampled_from(("", "", " LEFT JOIN t0 s ON s.a = r0.b", " LEFT JOIN t0 s ON s.b = r0.c AND s.a = r1.b"))
    )
    joined = " CROSS JOIN ".join(f"{role} r{i}" for i, role in enumerate(roles)) + arm
    if draw(st.integers(0, 3)) == 0:
        where.append("NOT EXISTS (SELECT 1 FROM t0 u WHERE u.a = r1.c)")
    outputs = draw(st.lists(st.tuples(st.integers(0, n - 1), column), min_size=1, max_size=3))
    shown = ", ".join(f"r{i}.{c} AS o{k}" for k, (i, c) in enumerate(outputs)) + (", s.c AS sc" if arm else "")
    source = f"FROM {joined} WHERE {' AND '.join(where)}"
    shape = draw(st.sampled_from(("plain", "distinct", "group")))
    if shape == "group":
        return f"SELECT r0.a AS k, COUNT(*) AS n, SUM(r1.b) AS s, MIN(r2.c) AS m {source} GROUP BY r0.a"
    return f"SELECT {'DISTINCT ' if shape == 'distinct' else ''}{shown} {source}"


@given(st.data())
def test_random_cycles(data: st.DataObject) -> None:
    tables = [TableModel(f"t{i}", data.draw(KEYED)) for i in range(data.draw(st.integers(1, 2)))]
    follow(data, tables, data.draw(cyclic(tables)))


def test_roles_of_one_table_share_what_the_bag_stores() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE g (src BIGINT NOT NULL, dst BIGINT NOT NULL)")
    view = db.create_view("v", QUERIES["triangle"])
    (bag,) = inside(view).operator.below
    assert len(bag.below) == 1
    assert "bag of width 2" in view.explain() and "cyclic" in view.explain()


def test_a_hub_is_entered_by_its_smaller_side() -> None:
    """A triangle through two hubs is found by walking the shorter list, however long the other is."""
    db = freshet.connect()
    db.execute("CREATE TABLE g (src BIGINT NOT NULL, dst BIGINT NOT NULL)")
    view = db.create_view("v", QUERIES["triangle"])
    hub = [(1, i) for i in range(10, 2_000)] + [(5, 1)]
    db.apply({"g": [{"src": s, "dst": d} for s, d in hub]})
    before = inside(view).operator.work().counters
    db.apply({"g": [{"src": 1_500, "dst": 5}]})
    after = inside(view).operator.work().counters
    assert view.count() == 3 and after - before < 50


@pytest.mark.parametrize("kind", ["BIGINT", "STRING", "DOUBLE"])
def test_null_equals_null_in_a_cycle(kind: str) -> None:
    """Zeros and empty texts stand next to NULLs: neither may be taken for the other."""
    values: list[object] = [None, *{"BIGINT": (0, 1), "STRING": ("", "a"), "DOUBLE": (0.0, 1.5)}[kind]]
    pairs = [(s, d) for s in values for d in values]
    type_ = {"BIGINT": pa.int64(), "STRING": pa.string(), "DOUBLE": pa.float64()}[kind]
    ends = [pa.array([pair[side] for pair in pairs], type_) for side in (0, 1)]
    db = freshet.connect()
    db.execute(f"CREATE TABLE g (src {kind}, dst {kind})")
    join = "FROM g a, g b, g c WHERE a.dst IS NOT DISTINCT FROM b.src AND b.dst IS NOT DISTINCT FROM c.src"
    queries = {
        "all": f"SELECT a.src, b.src AS t, c.src AS u {join} AND c.dst IS NOT DISTINCT FROM a.src",
        "one plain": f"SELECT a.src, b.src AS t, c.src AS u {join} AND c.dst = a.src",
        "counted": f"SELECT a.src, COUNT(*) AS n {join} AND c.dst IS NOT DISTINCT FROM a.src GROUP BY a.src",
        "exists": "SELECT h.src, h.dst FROM g h WHERE EXISTS (SELECT 1 "
        f"{join} AND c.dst IS NOT DISTINCT FROM a.src AND a.src = h.src)",
    }
    twin = Twin(db, [TwinTable("g", pa.table(ends, ["src", "dst"]))], queries)
    waves(twin, np.random.default_rng(3), 16)
    drain(twin)


def test_the_tree_above_a_bag_can_be_asked_for() -> None:
    ddl = "CREATE TABLE g (src BIGINT NOT NULL, dst BIGINT NOT NULL)"
    plan = freshet.plan(QUERIES["triangle"], ddl)
    document = json.loads(plan.to_json())
    (tree, *_) = document["trees"]
    (bag,) = [n["node"] for n in tree["nodes"] if n["node"].startswith("bag of")]
    tree["nodes"] = [{"node": bag, "parent": None}, *({"node": g, "parent": bag} for g in ("g1", "g2", "g3"))]
    edited = freshet.Plan.from_json(json.dumps(document))
    db = freshet.connect()
    db.execute(ddl)
    view = db.create_view("v", edited)
    assert isinstance(edited.root, QueryPlan) and not any(n.generalized for n in edited.root.nodes)
    db.apply({"g": [{"src": 1, "dst": 2}, {"src": 2, "dst": 3}, {"src": 3, "dst": 1}]})
    assert view.count() == 3
