"""What plans cost: the nodes that changes walk, by hand."""

from __future__ import annotations

import pytest

import freshet
from freshet.plans import build_plan
from freshet.plans.cost import walked
from freshet.sql import Catalog, bind_query

DDL = "CREATE TABLE a (x BIGINT); CREATE TABLE b (x BIGINT, y BIGINT); CREATE TABLE c (y BIGINT)"
CHANGES = {"a": 1.0, "b": 10.0, "c": 100.0}


@pytest.mark.parametrize(
    ("sql", "cost"),
    [
        ("SELECT x FROM a", 1),
        ("SELECT a.x FROM a WHERE EXISTS (SELECT * FROM b WHERE a.x = b.x)", 1 + 2 * 10),
        ("SELECT x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.x = b.x AND EXISTS (SELECT 1 FROM c WHERE c.y = b.y))",
         1 + 2 * 10 + 3 * 100),
        # Below a generalized node both are at the top.
        ("SELECT a.x, b.y FROM a JOIN b ON a.x = b.x", 1 + 10),
        ("SELECT x FROM a UNION ALL SELECT y FROM c", 1 + 100),
        # A query's changes are those of its tables; inside it they walk, too.
        ("SELECT a.x FROM a WHERE EXISTS (SELECT * FROM (SELECT DISTINCT x FROM b) AS n WHERE n.x = a.x)",
         1 + 2 * 10 + 10),
    ],
)  # fmt: skip
def test_walked(sql: str, cost: float) -> None:
    assert walked(freshet.plan(sql, DDL).root, CHANGES) == cost


def test_the_planner_walks_least() -> None:
    """The chain has a tree for each end to hang below b; what changes more is at the top."""
    query = bind_query("SELECT b.x, b.y FROM a JOIN b ON a.x = b.x JOIN c ON b.y = c.y", Catalog.from_ddl(DDL))
    turned = {"a": 100.0, "b": 10.0, "c": 1.0}
    one, other = build_plan(query, CHANGES), build_plan(query, turned)
    assert walked(one, CHANGES) == walked(other, turned) == 100 + 10 + 2 * 1
    assert walked(one, turned) == walked(other, CHANGES) == 1 + 10 + 2 * 100
