"""Queries that a page of SQL makes endless: each is planned in bounded time, or refused with its size."""

from __future__ import annotations

import pytest

import freshet
from freshet.logical.extent import MOST_MERGED, MOST_RELATIONS, Extents
from freshet.logical.query import Query
from freshet.logical.rewrite.blocks import subtree
from freshet.plans import build_plan
from freshet.sql.catalog import Catalog
from freshet.sql.parse import bind_query

TABLES = "CREATE TABLE t (a INT, b INT)"

#: The definition of common table i over the one before it, p.
TWICE = {
    "join": "SELECT x.a, y.b FROM {p} x JOIN {p} y ON x.b = y.a",
    "grouped": "SELECT x.a, SUM(y.b) AS b FROM {p} x JOIN {p} y ON x.b = y.a GROUP BY x.a",
    "union all": "SELECT a, b FROM {p} UNION ALL SELECT b, a FROM {p}",
    "except": "SELECT a, b FROM {p} EXCEPT SELECT b, a FROM {p}",
    "value": "SELECT a, (SELECT MAX(b) FROM {p}) AS b FROM {p}",
    "exists": "SELECT a, b FROM {p} WHERE EXISTS (SELECT 1 FROM {p} q WHERE q.a = {p}.b)",
    "full join": "SELECT x.a, y.b FROM {p} x FULL JOIN {p} y ON x.b = y.a",
    "not in": "SELECT a, b FROM {p} WHERE a NOT IN (SELECT b FROM {p})",
}


def doubled(body: str, times: int) -> str:
    tables = [f"c{i} AS ({body.format(p=f'c{i - 1}')})" for i in range(1, times + 1)]
    return f"WITH c0 AS (SELECT a, b FROM t), {', '.join(tables)} SELECT * FROM c{times}"


@pytest.mark.parametrize("body", TWICE.values(), ids=TWICE)
def test_common_tables_that_double_are_refused_with_their_size(body: str) -> None:
    catalog = Catalog.from_ddl(TABLES)
    build_plan(bind_query(doubled(body, 4), catalog))
    for times in (14, 18, 60):
        with pytest.raises(
            freshet.UnsupportedError, match=r"a query of [\d,]+ relations.*is not supported; 6,000"
        ) as e:
            bind_query(doubled(body, times), catalog)
        assert e.value.line == 1


def test_views_that_double_are_refused() -> None:
    catalog = Catalog.from_ddl(TABLES)
    catalog.views["c0"] = bind_query("SELECT a, b FROM t", catalog)
    for i in range(1, 13):
        catalog.views[f"c{i}"] = bind_query(TWICE["except"].format(p=f"c{i - 1}"), catalog)
    with pytest.raises(freshet.UnsupportedError, match="a query of 8,192 relations, with what it reads written out"):
        bind_query(TWICE["except"].format(p="c12"), catalog)


def test_a_join_that_grows_too_large_is_kept_in_parts() -> None:
    bound = bind_query(doubled(TWICE["join"], 9), Catalog.from_ddl(TABLES))
    assert Extents().relations(bound) == 512 < MOST_RELATIONS
    assert isinstance(bound, Query) and len(subtree(bound.block)) == 512 / MOST_MERGED
    part = bound.relations[0].source
    assert isinstance(part, Query) and len(subtree(part.block)) == MOST_MERGED
    assert all(r.source == part for r in bound.relations), "which is kept once for all of them"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a + a AS a1" + "".join(f", a{i} + a{i} AS a{i + 1}" for i in range(1, 40)) + " FROM t",
        "SELECT " + "(" * 30 + "a = 1" + ") BETWEEN (a = 1) AND (b = 1)" * 30 + " AS x FROM t",
        "SELECT " + "CASE " * 12 + "a" + " WHEN 1 THEN 2 WHEN 2 THEN 3 WHEN 3 THEN 4 ELSE a END" * 12 + " AS x FROM t",
    ],
    ids=["aliases", "between", "case"],
)
def test_expressions_that_double_are_refused_with_their_size(text: str) -> None:
    with pytest.raises(freshet.UnsupportedError, match=r"an expression of [\d,]+ parts.*; 50,000 is the most"):
        bind_query(text, Catalog.from_ddl(TABLES))


def test_expressions_that_would_double_are_computed_one_after_the_other() -> None:
    steps = ", ".join(f"c{i} AS (SELECT (a + a) % 7 AS a, b FROM c{i - 1})" for i in range(1, 40))
    sql = f"WITH c0 AS (SELECT a, b FROM t), {steps} SELECT a FROM c39"
    db = freshet.connect()
    db.execute(TABLES)
    view = db.create_view("v", sql)
    db.execute("INSERT INTO t VALUES (3, 0), (NULL, 0)")
    assert sorted(view.to_arrow().column(0).to_pylist(), key=str) == [3 * 2**39 % 7, None]


def test_grouping_sets_are_counted_before_they_are_made() -> None:
    names = [f"c{i}" for i in range(20)]
    catalog = Catalog.from_ddl(f"CREATE TABLE t ({', '.join(f'{n} INT' for n in names)})")
    listed = ", ".join(names)
    for group in (f"CUBE ({listed})", ", ".join(f"CUBE ({n})" for n in names), f"{listed} WITH CUBE"):
        with pytest.raises(freshet.UnsupportedError, match="GROUP BY of 1,048,576 grouping sets"):
            bind_query(f"SELECT c0, COUNT(*) AS n FROM t GROUP BY {group}", catalog)
    bind_query(f"SELECT c0, COUNT(*) AS n FROM t GROUP BY ROLLUP ({listed}), CUBE (c0, c1)", catalog)
