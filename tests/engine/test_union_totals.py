"""Aggregates over UNION ALL and FULL JOIN, combined from those of the inputs, next to DuckDB."""

from __future__ import annotations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import freshet
from tests.small_tables import COLUMNS, TableModel, follow

TABLES = "CREATE TABLE a (k INT, g INT, x DOUBLE); CREATE TABLE b (k INT, v INT); CREATE TABLE c (k INT, w INT)"
FULL = "a FULL JOIN b ON a.k = b.k"
COMBINED = "annotation: those of the union's inputs"


@st.composite
def over_unions(draw: st.DrawFn, tables: list[TableModel]) -> str:
    column, kind = st.sampled_from(COLUMNS), st.sampled_from(("JOIN", "LEFT JOIN"))
    roles = [draw(st.sampled_from(tables)).name for _ in range(4)]
    if draw(st.booleans()):
        extra = draw(st.sampled_from(("", "", f" JOIN {roles[2]} z ON z.a = COALESCE(x.b, y.b)", " AND x.c > y.c")))
        source = f"{roles[0]} x FULL JOIN {roles[1]} y ON x.{draw(column)} = y.{draw(column)}{extra}"
        p, q = (f"{draw(st.sampled_from('xy'))}.{draw(column)}" for _ in range(2))
    else:
        sides = [
            f"SELECT x.{draw(column)} AS p, y.{draw(column)} AS q FROM {left} x {draw(kind)} {right} y"
            f" ON x.{draw(column)} = y.{draw(column)}"
            for left, right in (roles[:2], roles[2:])
        ]
        source, p, q = f"({' UNION ALL '.join(sides)}) u", "p", "q"
    calls = draw(
        st.lists(
            st.sampled_from(
                ("COUNT(*)", f"COUNT({q})", f"SUM({q})", f"AVG({q})", f"MIN({q})", f"MAX({p})", f"SUM({p} * {q})",
                 f"SUM({q}) FILTER (WHERE {p} > 0)", f"COUNT(DISTINCT {q})", f"SUM({q} / 8)", f"STDDEV({q})",
                 f"AVG(CAST({q} AS DECIMAL(9, 2)))", f"BOOL_OR({q} > 1)", "MAX(7)", "SUM(2)")
            ),
            min_size=1, max_size=3, unique=True,
        )
    )  # fmt: skip
    where = draw(st.sampled_from(("", "", f" WHERE {p} > 0", f" WHERE {q} IS NOT NULL OR {p} = 1")))
    outputs = ", ".join(f"{c} AS m{i}" for i, c in enumerate(calls))
    if draw(st.integers(0, 3)) == 0:
        return f"SELECT {outputs} FROM {source}{where}"
    having = draw(st.sampled_from(("", "", " HAVING COUNT(*) > 1")))
    return f"SELECT {p} AS k, {outputs} FROM {source}{where} GROUP BY {p}{having}"


@given(st.data())
def test_random_unions(data: st.DataObject) -> None:
    tables = [TableModel(f"t{i}", data.draw(st.integers(0, 3)) == 0) for i in range(2)]

    def check(view: freshet.View) -> None:
        event(view.plan.root.guarantee.totals)

    follow(data, tables, data.draw(over_unions(tables)), check=check)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT g, COUNT(*) AS n, SUM(v) AS s, AVG(x) AS m FROM {FULL} GROUP BY g",
        f"SELECT COUNT(*) AS n, MAX(v) AS m FROM {FULL}",
        "SELECT p, COUNT(*) AS n FROM (SELECT g AS p FROM a JOIN b ON a.k = b.k UNION ALL SELECT w FROM c) GROUP BY p",
    ],
)
def test_joined_rows_are_not_enumerated(sql: str) -> None:
    plan = freshet.plan(sql, TABLES)
    assert COMBINED in plan.explain()
    assert freshet.Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT g, COUNT(DISTINCT v) AS n FROM {FULL} GROUP BY g",
        f"SELECT g, MEDIAN(v) AS n FROM {FULL} GROUP BY g",
        "SELECT p, COUNT(*) AS n FROM (SELECT k AS p FROM b UNION ALL SELECT w FROM c) GROUP BY p",  # no join
        "SELECT p, COUNT(*) AS n FROM (SELECT k AS p FROM b UNION SELECT w FROM c) GROUP BY p",
    ],
)
def test_other_aggregates_read_each_row(sql: str) -> None:
    assert COMBINED not in freshet.plan(sql, TABLES).explain()
