"""The cost of plans: the nodes that changes visit, counted by hand."""

from __future__ import annotations

import time

import pytest

import freshet
from freshet.plans import QueryPlan, build_plan
from freshet.plans.cost import walked
from freshet.sql.catalog import Catalog
from freshet.sql.parse import bind_query

DDL = "CREATE TABLE a (x BIGINT, p INT); CREATE TABLE b (x BIGINT, y BIGINT); CREATE TABLE c (y BIGINT, q INT)"
CHANGES = {"a": 1.0, "b": 10.0, "c": 100.0}


@pytest.mark.parametrize(
    ("sql", "cost"),
    [
        ("SELECT x FROM a", 1),
        ("SELECT a.x FROM a WHERE EXISTS (SELECT * FROM b WHERE a.x = b.x)", 1 + 2 * 10),
        ("SELECT x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.x = b.x AND EXISTS (SELECT 1 FROM c WHERE c.y = b.y))",
         1 + 2 * 10 + 3 * 100),
        # Below a generalized node both are at the top.
        ("SELECT a.p, b.y FROM a JOIN b ON a.x = b.x", 1 + 10),
        ("SELECT x FROM a UNION ALL SELECT y FROM c", 1 + 100),
        # A query's changes are those of its tables; inside it they walk, too.
        ("SELECT a.x FROM a WHERE EXISTS (SELECT * FROM (SELECT DISTINCT x FROM b) AS n WHERE n.x = a.x)",
         1 + 2 * 10 + 10),
    ],
)  # fmt: skip
def test_walked(sql: str, cost: float) -> None:
    assert walked(freshet.plan(sql, DDL).root, CHANGES) == cost


def test_the_planner_walks_least() -> None:
    """The chain has a tree with each end below b; the table that changes more is at the top."""
    query = bind_query(
        "SELECT a.p, b.x, b.y, c.q FROM a JOIN b ON a.x = b.x JOIN c ON b.y = c.y", Catalog.from_ddl(DDL)
    )
    turned = {"a": 100.0, "b": 10.0, "c": 1.0}
    one, other = build_plan(query, CHANGES), build_plan(query, turned)
    assert walked(one, CHANGES) == walked(other, turned) == 100 + 10 + 2 * 1
    assert walked(one, turned) == walked(other, CHANGES) == 1 + 10 + 2 * 100


def test_a_query_with_many_comparisons_is_planned_in_time() -> None:
    """A chain of 16 relations compared each with the next three: 15 comparisons can be on edges, and there are very
    many choices of 15."""
    names = [f"r{i}" for i in range(16)]
    ddl = "; ".join(f"CREATE TABLE {name} (v BIGINT)" for name in names)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 : i + 4]]
    sql = f"SELECT r0.v FROM {', '.join(names)} WHERE " + " AND ".join(f"{a}.v <> {b}.v" for a, b in pairs)
    started = time.perf_counter()
    root = freshet.plan(sql, ddl).root
    assert time.perf_counter() - started < 30
    assert isinstance(root, QueryPlan)
    assert sum(n.edge is not None and n.edge.comparison is not None for n in root.nodes) == 15
    assert len(root.residual) == len(pairs) - 15
