"""Relations that hold the same row are one: self-joins along keys, and stars of equal totals, next to DuckDB."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import freshet
from freshet.plans import build_plan
from freshet.plans.build import ALL_REWRITES, Rewrites
from freshet.plans.document import replanned
from freshet.sql.parse import bind_query
from tests.small_tables import COLUMNS, TableModel, follow

TABLES = "CREATE TABLE g (src BIGINT, dst BIGINT); CREATE TABLE p (id BIGINT PRIMARY KEY, a BIGINT, b DOUBLE)"
BY_DOUBLE = "(SELECT b, SUM(a) AS s FROM p GROUP BY b)"
STAR = "SELECT COUNT(*) AS n FROM g g1, g g2, g g3 WHERE g1.src = g2.src AND g2.src = g3.src"


@st.composite
def self_joins(draw: st.DrawFn, tables: list[TableModel]) -> str:
    """Several roles of few tables, mostly joined on the column that may be a key."""
    n = draw(st.integers(2, 4))
    roles = [draw(st.sampled_from(tables)).name for _ in range(n)]
    column = st.sampled_from(("a", "a", "a", *COLUMNS))
    joins = [f"{roles[0]} r0"]
    for i in range(1, n):
        before = draw(st.integers(0, i - 1))
        equal = draw(st.sampled_from(("=", "=", "=", "IS NOT DISTINCT FROM")))
        more = draw(st.sampled_from(("", "", f" AND r{i}.b > 0", f" AND r{i}.c <> r{before}.b", f" AND r{i}.b = r0.c")))
        joins.append(f"JOIN {roles[i]} r{i} ON r{before}.{draw(column)} {equal} r{i}.{draw(column)}{more}")
    x, y = (f"r{draw(st.integers(0, n - 1))}.{draw(st.sampled_from(COLUMNS))}" for _ in range(2))
    source = " ".join(joins)
    if draw(st.integers(0, 3)) == 0:
        source += f" LEFT JOIN {draw(st.sampled_from(roles))} o ON o.a = r{n - 1}.a"
    if draw(st.integers(0, 3)) == 0:
        source += f" WHERE EXISTS (SELECT 1 FROM {draw(st.sampled_from(roles))} q WHERE q.b = {x})"
    return draw(
        st.sampled_from(
            (
                f"SELECT {x} AS x, {y} AS y FROM {source}",
                f"SELECT DISTINCT {x} AS x, {y} AS y FROM {source}",
                f"SELECT COUNT(*) AS n, SUM({x}) AS s FROM {source}",
                f"SELECT {x} AS x, COUNT(*) AS n, SUM({y}) AS s, MAX({y}) AS m FROM {source} GROUP BY {x}",
                f"SELECT {x} AS x, {y} AS y, COUNT(*) AS n FROM {source} GROUP BY {x}, {y} HAVING COUNT(*) > 1",
            )
        )
    )


@given(st.data())
def test_random_self_joins(data: st.DataObject) -> None:
    tables = [TableModel(f"t{i}", data.draw(st.booleans())) for i in range(data.draw(st.integers(1, 2)))]
    follow(data, tables, data.draw(self_joins(tables)))


@given(st.data())
def test_many_roles(data: st.DataObject) -> None:
    """Up to ten roles, of which most hold the same row, and some do so because others do."""
    table = TableModel("t0", True)
    joins = ["t0 r0"]
    for i in range(1, data.draw(st.integers(4, 9))):
        kind = data.draw(st.sampled_from(("JOIN",) * 6 + ("LEFT JOIN",)))
        before = data.draw(st.integers(0, i - 1))
        joins.append(f"{kind} t0 r{i} ON r{before}.{data.draw(st.sampled_from('aaab'))} = r{i}.a")
        if data.draw(st.integers(0, 3)) == 0:
            joins[-1] += f" AND r{data.draw(st.integers(0, i - 1))}.a = r{i}.b"
    follow(data, [table], f"SELECT r0.a AS x, r{len(joins) - 1}.b AS y FROM {' '.join(joins)}")


@given(st.data())
def test_copies_of_equal_totals(data: st.DataObject) -> None:
    """Relations that only multiply rows: some are equal totals, left out before others whose totals are counted too."""
    tables = [TableModel("t0", False), TableModel("t1", False)]
    name = st.sampled_from(("t0", "t0", "t0", "t1"))
    many = data.draw(st.integers(2, 3))
    inner = " CROSS JOIN ".join(f"{data.draw(name)} r{i}" for i in range(many))
    inner += f" JOIN {data.draw(name)} j ON r{data.draw(st.integers(0, many - 1))}.b = j.b"
    outer = data.draw(st.sampled_from(("RIGHT", "RIGHT", "FULL", "INNER")))
    source = f"(SELECT j.a AS x FROM {inner}) s CROSS JOIN {data.draw(name)} u {outer} JOIN {data.draw(name)} v"
    counted = data.draw(st.sampled_from(("*", "*", "s.x")))
    sql = f"SELECT v.b AS b, COUNT({counted}) AS n FROM {source} ON u.a = v.b GROUP BY v.b"
    follow(data, tables, sql)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (STAR, "totals of g2: the row of totals of g1"),
        ("SELECT x.a, y.b FROM p x JOIN p y ON x.id = y.id WHERE x.a > 1 AND y.a < 9", "y: the row of x"),
        ("SELECT x.a FROM p x, p y, p z WHERE x.id = y.a AND y.id = z.id AND z.id = x.id", "z: the row of x"),
        ("SELECT x.a FROM p x, p y, p z WHERE x.id = y.id AND x.a = z.id AND y.a = z.id", "y: the row of x"),
    ],
)
def test_the_row_is_held_once(sql: str, said: str) -> None:
    plan = freshet.plan(sql, TABLES)
    assert f"attribute  {said}" in plan.explain()
    assert freshet.Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT x.a FROM p x JOIN p y ON x.id = y.a",  # another column
        "SELECT x.src FROM g x JOIN g y ON x.src = y.src AND x.dst = y.dst",  # a row may have copies
        "SELECT x.b FROM p x JOIN p y ON x.b = y.b",
        "SELECT x.a FROM p x LEFT JOIN p y ON x.id = y.id",
        "SELECT x.a FROM p x JOIN (SELECT a, SUM(b) AS b FROM p GROUP BY a) y ON x.id = y.a",
        f"SELECT x.s FROM {BY_DOUBLE} x JOIN {BY_DOUBLE} y ON x.b = y.b",  # 0.0 = -0.0, but these are two groups
    ],
)
def test_other_rows_are_held_by_their_own_relations(sql: str) -> None:
    assert "the row of" not in freshet.plan(sql, TABLES).explain()


def test_plans_of_earlier_versions_keep_their_relations() -> None:
    query = bind_query(STAR, freshet.Catalog.from_ddl(TABLES))
    old, new = build_plan(query, rewrites=Rewrites.FACTORISE), build_plan(query, rewrites=ALL_REWRITES)
    assert old != new
    assert replanned(query, old) == old
    assert replanned(query, new) == new
