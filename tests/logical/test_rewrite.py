"""The stage between binding and planning: run once, over the whole tree, in one order."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import freshet.sql
from freshet.logical import rewrite as stage
from freshet.logical.query import Query, UnionAll
from freshet.scalar.expression import GroupRef, walk
from freshet.sql.catalog import Catalog
from freshet.sql.parse import bind_query

DDL = "CREATE TABLE a (k INT NOT NULL, x INT); CREATE TABLE b (k INT, x INT)"


def bound(sql: str, ddl: str = DDL) -> Query:
    query = bind_query(sql, Catalog.from_ddl(ddl))
    assert isinstance(query, Query)
    return query


def test_binding_runs_no_pass() -> None:
    """Only parse.py passes the bound statement to the stage."""
    callers = set()
    for path in Path(freshet.sql.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "freshet.logical.rewrite":
                callers.add(path.name)
    assert callers == {"parse.py"}


def test_a_query_that_stands_in_another_twice_is_rewritten_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Query] = []

    def first(query: Query, again: object) -> Query:
        seen.append(query)
        return query

    monkeypatch.setattr(stage, "PASSES", (first, *stage.PASSES))
    sql = "WITH w AS (SELECT k, COUNT(*) AS n FROM a GROUP BY k) SELECT v.k FROM w AS v JOIN w AS u ON v.n = u.n"
    bound(sql)
    assert len(seen) == 2


def test_a_view_is_not_rewritten_again_where_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = Catalog.from_ddl(f"{DDL}; CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM a GROUP BY k")
    seen: list[Query] = []

    def first(query: Query, again: object) -> Query:
        seen.append(query)
        return query

    monkeypatch.setattr(stage, "PASSES", (first, *stage.PASSES))
    bind_query("SELECT b.x FROM b JOIN v ON b.k = v.k", catalog)
    assert len(seen) == 1


def test_what_a_pass_finds_below_is_known_above() -> None:
    """A condition in its select turns the LEFT JOIN into an inner join."""
    inner = "SELECT a.k, b.k AS j FROM b LEFT JOIN a ON a.x = b.x WHERE a.k > 0"
    for sql in (inner, f"SELECT k, j FROM ({inner} GROUP BY a.k, b.k) AS s", f"{inner} UNION ALL SELECT k, k FROM a"):
        query = bind_query(sql, Catalog.from_ddl(DDL))
        assert [f.nullable for f in query.fields] == [False, True], sql


def test_a_union_read_by_a_select_in_a_union_is_one_list_of_inputs() -> None:
    query = bind_query(
        "SELECT k FROM a UNION ALL SELECT k FROM (SELECT k FROM a UNION ALL SELECT k FROM b) AS s",
        Catalog.from_ddl(DDL),
    )
    assert isinstance(query, UnionAll) and len(query.inputs) == 3


def test_above_a_grouping_the_groups_row_is_read_by_references_of_its_own() -> None:
    query = bound("SELECT k + 1 AS k, SUM(x) AS s FROM a GROUP BY k HAVING COUNT(*) > 1")
    assert query.grouping is not None and query.grouping.having is not None
    above = [e for o in (*query.outputs, query.grouping.having) for e in walk(o)]
    assert sorted(e.column for e in above if isinstance(e, GroupRef)) == [0, 1, 2]
