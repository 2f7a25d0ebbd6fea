"""SQL in, meaning out: one pair for each thing the binder or a rewrite does. See `described` for the notation."""

from __future__ import annotations

import pyarrow as pa
import pytest

import freshet
from freshet.logical.query import Block
from freshet.sql.catalog import Catalog
from freshet.sql.parse import bind_query
from tests.sql.described import bind_select, described

PAIRS = {
    "GROUP BY ALL groups by the outputs that are not aggregates": (
        "SELECT s, SUM(x) AS n, k + 1 AS m FROM a GROUP BY ALL",
        "a | group a.s, a.k + 1, sum(x) | select #0, #2, #1",
    ),
    "GROUP BY ALL of aggregates alone": ("SELECT COUNT(*) AS n FROM a GROUP BY ALL", "a | group count(*) | select #0"),
    "EXCEPT leaves columns out of *": ("SELECT b.* EXCEPT (z) FROM b", "b | select b.k, b.x"),
    "comma joins and NOT pushed inward": (
        "SELECT a.k FROM a, b WHERE a.k = b.k AND NOT (a.x < 3 OR b.z = 4)",
        "a, b | a.k = b.k & a.x >= 3 & b.z <> 4 | select a.k",
    ),
    "NOT LIKE is not LIKE": (
        "SELECT k FROM a WHERE s NOT LIKE 'x%' AND s NOT LIKE '!%' ESCAPE '!'",
        "a | NOT((a.s LIKE 'x%')) & NOT((a.s LIKE '!%' ESCAPE '!')) | select a.k",
    ),
    "NOT around AND becomes OR": (
        "SELECT k FROM a WHERE NOT (x = 1 AND y IS NULL)",
        "a | (a.x <> 1) OR IS_NOT_NULL(a.y) | select a.k",
    ),
    "common conjuncts leave OR": (
        "SELECT DISTINCT x FROM a WHERE (x = 1 AND y = 2) OR (x = 1 AND y = 3)",
        "a | a.x = 1 & (a.y = 2) OR (a.y = 3) | distinct a.x",
    ),
    "an OR branch that is only the common part": (
        "SELECT k FROM a WHERE (x = 1 AND y = 2) OR x = 1",
        "a | a.x = 1 | select a.k",
    ),
    "BETWEEN, IN, dates and intervals": (
        "SELECT s FROM a WHERE d BETWEEN DATE '2020-01-01' AND '2020-01-31'::date + INTERVAL '1' MONTH AND x IN (1, 2)",
        "a | a.d >= DATE '2020-01-01' & a.d <= DATE '2020-02-29' & IN(a.x, 1, 2) | select a.s",
    ),
    "LEFT JOIN is an arm with its ON": (
        "SELECT a.k, b.z FROM a LEFT JOIN b ON a.k = b.k AND b.x > 1",
        "a | left[b | a.k = b.k & b.x > 1] | select a.k, b.z",
    ),
    "a condition that refuses NULL makes LEFT inner": (
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WHERE b.z > 1",
        "a, b | b.z > 1 & a.k = b.k | select a.k",
    ),
    "a condition that accepts NULL waits": (
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WHERE b.z IS NULL AND a.x = 1",
        "a | a.x = 1 | left[b | a.k = b.k] | where IS_NULL(b.z) | select a.k",
    ),
    "coalesce accepts NULL": (
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WHERE coalesce(b.z, 0) = 0",
        "a | left[b | a.k = b.k] | where COALESCE(b.z, 0) = 0 | select a.k",
    ),
    "LEFT JOIN on a LEFT JOIN nests": (
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON c.x = b.x",
        "a | left[b | a.k = b.k | left[c | c.x = b.x]] | select a.k",
    ),
    "two LEFT JOINs side by side": (
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON c.x = a.x",
        "a | left[b | a.k = b.k] | left[c | c.x = a.x] | select a.k",
    ),
    "inner JOIN on a LEFT JOIN makes it inner": (
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k JOIN c ON c.x = b.x",
        "a, c, b | c.x = b.x & a.k = b.k | select a.k",
    ),
    "a chain of LEFT JOINs falls from its end": (
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON c.x = b.x WHERE c.w = 1",
        "a, c, b | c.w = 1 & c.x = b.x & a.k = b.k | select a.k",
    ),
    "LEFT JOIN of a parenthesized join": (
        "SELECT a.k FROM a LEFT JOIN (b JOIN c ON b.x = c.x) ON a.k = b.k",
        "a | left[b, c | b.x = c.x & a.k = b.k] | select a.k",
    ),
    "USING and * show the shared column once": (
        "SELECT * FROM b JOIN c USING (k)",
        "b, c | b.k = c.k | select b.k, b.x, b.z, c.x, c.w",
    ),
    "NATURAL JOIN": (
        "SELECT k, w FROM b NATURAL JOIN c",
        "b, c | b.k = c.k & b.x = c.x | select b.k, c.w",
    ),
    "EXISTS in EXISTS": (
        (
            "SELECT k FROM a WHERE EXISTS"
            " (SELECT 1 FROM b WHERE b.k = a.k AND NOT EXISTS (SELECT * FROM c WHERE c.x = b.x))"
        ),
        "a | semi[b | b.k = a.k | anti[c | c.x = b.x]] | select a.k",
    ),
    "EXISTS that reads two selects out joins the one between": (
        "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE EXISTS (SELECT 1 FROM c WHERE c.w = a.x AND c.x = b.x))",
        "a | semi[b, c | c.w = a.x & c.x = b.x] | select a.k",
    ),
    "EXISTS that reads only further out is a condition of its own": (
        "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.x > 2 AND EXISTS (SELECT 1 FROM c WHERE c.x = a.x))",
        "a | semi[c | c.x = a.x] | semi[b | b.x > 2] | select a.k",
    ),
    "EXISTS correlated by <> (TPC-H Q21)": (
        "SELECT k FROM a WHERE EXISTS (SELECT * FROM b WHERE b.k = a.k AND b.x <> a.x LIMIT 1)",
        "a | semi[b | b.k = a.k & b.x <> a.x] | select a.k",
    ),
    "NOT NOT EXISTS, and De Morgan around it": (
        "SELECT k FROM a WHERE NOT (x = 1 OR NOT EXISTS (SELECT 1 FROM b))",
        "a | a.x <> 1 | semi[b] | select a.k",
    ),
    "EXISTS makes a LEFT JOIN inner": (
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WHERE EXISTS (SELECT 1 FROM c WHERE c.x = b.x)",
        "a, b | a.k = b.k | semi[c | c.x = b.x] | select a.k",
    ),
    "IN, NOT IN, ANY and row IN": (
        (
            "SELECT k FROM a WHERE x IN (SELECT x FROM b) AND k NOT IN (SELECT k FROM b) AND x > ANY (SELECT z FROM b)"
            " AND (x, y) IN (SELECT x, w FROM c)"
        ),
        (
            "a | semi[b | a.x = b.x] | anti[b | a.k = b.k] | semi[b | a.x > b.z]"
            " | semi[c | a.x = c.x & a.y = c.w] | select a.k"
        ),
    ),
    "IN over groups is a fed node": (
        "SELECT k FROM a WHERE x IN (SELECT x FROM b GROUP BY x HAVING count(*) > 2)",
        "a | semi[subquery:(b | group b.x, count(*) | having #1 > 2 | select #0) | a.x = subquery.x] | select a.k",
    ),
    "SEMI and ANTI JOIN": (
        "SELECT a.k FROM a LEFT SEMI JOIN b ON a.k = b.k LEFT ANTI JOIN c ON c.x = a.x",
        "a | semi[b | a.k = b.k] | anti[c | c.x = a.x] | select a.k",
    ),
    "EXISTS in ON of a LEFT JOIN": (
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k AND EXISTS (SELECT 1 FROM c WHERE c.x = b.x)",
        "a | left[b | a.k = b.k | semi[c | c.x = b.x]] | select a.k",
    ),
    "a plain view dissolves, a grouped one stays": (
        "SELECT plain.k, x1, n FROM plain JOIN grouped ON x1 = grouped.x",
        (
            "plain, grouped:(b | group b.x, count(*) | select #0, #1) | (plain.x + 1) = grouped.x & plain.y > 0"
            " | select plain.k, plain.x + 1, grouped.n"
        ),
    ),
    "a computed output keeps a view whole under LEFT JOIN": (
        "SELECT x1 FROM b LEFT JOIN plain ON plain.k = b.k",
        "b | left[plain:(a | a.y > 0 | select a.k, a.x + 1) | plain.k = b.k] | select plain.x1",
    ),
    "used in ON alone it dissolves under LEFT JOIN too": (
        "SELECT b.k FROM b LEFT JOIN plain ON plain.k = b.k AND x1 > 2",
        "b | left[plain | plain.k = b.k & (plain.x + 1) > 2 & plain.y > 0] | select b.k",
    ),
    "a subquery with a LEFT JOIN dissolves": (
        "SELECT t.k FROM (SELECT a.k, b.z FROM a LEFT JOIN b ON a.k = b.k) t JOIN c ON c.x = t.k WHERE z IS NULL",
        "t.a, c | CAST(c.x AS BIGINT) = t.a.k | left[t.b | t.a.k = t.b.k] | where IS_NULL(t.b.z) | select t.a.k",
    ),
    "unless an arm joins on what its LEFT JOIN left NULL": (
        "SELECT t.k FROM (SELECT a.k, b.z FROM a LEFT JOIN b ON a.k = b.k) t LEFT JOIN c ON c.x = t.z",
        "t:(a | left[b | a.k = b.k] | select a.k, b.z) | left[c | c.x = t.z] | select t.k",
    ),
    "CTEs, named columns, self-join": (
        (
            "WITH w AS (SELECT k, x FROM a), v(q) AS (SELECT k FROM w WHERE x > 1)"
            " SELECT w.x, v.q FROM w JOIN v ON w.k = v.q"
        ),
        "w, v | w.k = v.k & v.x > 1 | select w.x, v.k",
    ),
    "constants fold through a dissolved subquery": (
        "SELECT k FROM (SELECT k, 1 AS one FROM a) WHERE one = 1",
        "a | select a.k",
    ),
    "GROUP BY column, having by alias, expressions over aggregates": (
        "SELECT x, sum(y) + 1 AS t, count(DISTINCT s), count(y) FROM a GROUP BY x HAVING t > 3 ORDER BY x",
        "a | group a.x, sum(y), count(DISTINCT s), count(*) | having (#1 + 1) > 3 | select #0, #1 + 1, #2, #3",
    ),
    "GROUP BY alias, FILTER": (
        "SELECT x + 1 AS q, max(DISTINCT y) FILTER (WHERE x > 2) FROM a GROUP BY q",
        "a | group a.x + 1, max(y) if a.x > 2 | select #0, #1",
    ),
    "GROUP BY position, expressions over keys": (
        "SELECT x + 1, (x + 1) * 2, count(x, p) FROM a GROUP BY 1",
        "a | group a.x + 1, count(x, p) | select #0, #0 * 2, #1",
    ),
    "an aggregate in HAVING alone": (
        "SELECT x FROM a GROUP BY x HAVING count(*) > 1",
        "a | group a.x, count(*) | having #1 > 1 | select #0",
    ),
    "aggregates without GROUP BY": ("SELECT count(*), min(s) FROM a", "a | group count(*), min(s) | select #0, #1"),
    "GROUP BY without aggregates": ("SELECT x FROM a GROUP BY x, x", "a | group a.x | select #0"),
    "an output names an earlier one": ("SELECT x AS q, q + 1 AS r FROM a", "a | select a.x, a.x + 1"),
    "SELECT without FROM": ("SELECT 1, 'x' || 'y'", " | select 1, 'xy'"),
    "a condition that is FALSE stays": ("SELECT k FROM a WHERE 1 = 0", "a | FALSE | select a.k"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_binds(name: str, catalog: Catalog) -> None:
    text, meaning = PAIRS[name]
    query = bind_select(text, catalog)
    assert described(query) == meaning
    numbers = list(range(len(query.relations)))
    assert sorted(_numbers(query.block)) == numbers, "every relation stands in exactly one block"


def _numbers(block: Block) -> list[int]:
    return [*block.relations, *(n for arm in block.arms for n in _numbers(arm.block))]


@pytest.mark.parametrize(
    ("text", "nullable"),
    [
        ("SELECT k, x FROM a", [False, True]),
        ("SELECT a.k, b.k FROM a LEFT JOIN b ON a.k = b.k", [False, True]),
        ("SELECT a.k, b.k FROM a LEFT JOIN b ON a.k = b.k WHERE b.z = 1", [False, False]),
        ("SELECT count(*), sum(y), max(k) FROM a", [False, True, True]),
        ("SELECT x, sum(y), sum(x) FROM a GROUP BY x", [True, False, True]),
        ("SELECT k, n FROM (SELECT k, count(*) AS n FROM b GROUP BY k) t", [False, False]),
        ("SELECT t.k FROM a LEFT JOIN (SELECT k FROM b) t ON t.k = a.k", [True]),
    ],
)
def test_nullability(text: str, nullable: list[bool], catalog: Catalog) -> None:
    assert [field.nullable for field in bind_query(text, catalog).fields] == nullable


def test_output_names(catalog: Catalog) -> None:
    query = bind_query("SELECT K, x AS Total, count(*) FROM a GROUP BY k, x", catalog)
    assert [field.name for field in query.fields] == ["K", "Total", "COUNT(*)"]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1 | 2 & 0", 1),
        ("1 & 3 >> 1", 1),
        ("1 | 3 ^ 1", 3),
        ("1 << 2 + 1", 8),
        ("8 >> 1 << 2", 16),
        ("-8 >>> 1", 2147483644),
        ("'1' || 2 + 9", 21),
        ("1 - 2 || '3'", "-13"),
    ],
)
def test_operators_bind_as_in_spark(written: str, value: object) -> None:
    answer = freshet.connect().execute(f"SELECT {written} AS x")
    assert isinstance(answer, pa.Table) and answer["x"].to_pylist() == [value]
