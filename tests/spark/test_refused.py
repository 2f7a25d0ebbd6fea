"""What views on Spark cannot have, said in one line before a query starts."""

from __future__ import annotations

import pytest

import freshet
from freshet.spark.explain import explain_job
from freshet.spark.stages import make_job


@pytest.mark.parametrize(
    ("ddl", "sql", "words"),
    [
        (
            "CREATE TABLE t (a INT, b INT)",
            (
                "WITH RECURSIVE r(a) AS (SELECT a FROM t UNION SELECT t.b FROM r JOIN t ON t.a = r.a"
                " JOIN (VALUES (1)) AS x(c) ON x.c = t.b) SELECT a FROM r"
            ),
            "WITH RECURSIVE r that joins tables with constant rows",
        ),
    ],
)
def test_what_is_refused(ddl: str, sql: str, words: str) -> None:
    db = freshet.connect()
    db.execute(ddl)
    with pytest.raises(freshet.UnsupportedError, match=words):
        make_job({"v": freshet.plan(sql, db.catalog).root}, 2)


def test_a_recursion_is_on_one_shard() -> None:
    plan = freshet.plan(
        "WITH RECURSIVE r(a) AS (SELECT 1 UNION SELECT t.b FROM r JOIN t USING (a)) SELECT a, SUM(1) FROM r GROUP BY a",
        "CREATE TABLE t (a INT, b INT)",
    )
    job = make_job({"v": plan.root}, 4)
    assert [(o.level, o.cells) for o in job.operators] == [(0, 1), (1, 4)]
    assert "#0 is recursive\n  t (a, b) · 1 cells" in explain_job(job)


def test_lateral_is_a_join_like_any_other() -> None:
    plan = freshet.plan(
        "SELECT t.a, l.b FROM t, LATERAL (SELECT b FROM u WHERE u.a = t.a ORDER BY b LIMIT 2) l",
        "CREATE TABLE t (a INT); CREATE TABLE u (a INT, b INT)",
    )
    job = make_job({"v": plan.root}, 2)
    assert {name for stream in job.streams for name in stream.sources} >= {"t", "u"}
