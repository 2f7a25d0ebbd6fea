"""WITH RECURSIVE that is refused: where the error points, and what it says."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from freshet.errors import SqlError, UnsupportedError
from freshet.sql.catalog import Catalog
from freshet.sql.parse import parse

#: Text → column of the error, its message.
ERRORS = {
    "WITH RECURSIVE t(a) AS (SELECT a FROM t) SELECT * FROM t": (
        39,
        "t reads itself outside of a step; write anchor UNION ALL step, where only the step reads it",
    ),
    "WITH RECURSIVE t(a) AS (SELECT a FROM t UNION ALL SELECT 1) SELECT * FROM t": (
        39,
        "t reads itself outside of a step; write anchor UNION ALL step, where only the step reads it",
    ),
    "WITH t(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM t WHERE a < 3) SELECT * FROM t": (
        52,
        "no table t; known tables and views: e",
    ),
    "WITH RECURSIVE t(a) AS (SELECT 1 EXCEPT SELECT a FROM t) SELECT * FROM t": (
        55,
        "t reads itself outside of a step; write anchor UNION ALL step, where only the step reads it",
    ),
    "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM t WHERE a < 5 UNION ALL SELECT a + 2 FROM t WHERE a < 5) SELECT * FROM t": (
        62,
        "t reads itself outside of a step; write anchor UNION ALL step, where only the step reads it",
    ),
    "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT n FROM (SELECT COUNT(*) AS n FROM t) AS s) SELECT * FROM t": (
        44,
        "column a of t is INT in its anchor, but BIGINT in its step; CAST one of them, the anchor determines the type",
    ),
    "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT CAST(a AS BIGINT) FROM t) SELECT * FROM t": (
        44,
        "column a of t is INT in its anchor, but BIGINT in its step; CAST one of them, the anchor determines the type",
    ),
    "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT a, a FROM t) SELECT * FROM t": (
        44,
        "the anchor of t has 1 columns and its step 2; select as many in both",
    ),
    "WITH RECURSIVE t(a, b) AS (SELECT 1 UNION ALL SELECT a FROM t) SELECT * FROM t": (
        16,
        "t names 2 columns, but its query has 1; name each once",
    ),
    "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT c FROM t) SELECT * FROM t": (51, "no column c; t has a"),
    "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT iteration FROM t) SELECT * FROM t": (
        51,
        "no column iteration; t has a",
    ),
    "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM t WHERE a < 3) SELECT iteration FROM t": (
        84,
        "no column iteration; t has a",
    ),
    "WITH RECURSIVE t(a) AS (SELECT b FROM u), u(b) AS (SELECT 1) SELECT * FROM t": (
        39,
        "no table u; known tables and views: e",
    ),
    "WITH RECURSIVE t(n) MAX RECURSION LEVEL 0 AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT * FROM t": (
        16,
        "MAX RECURSION LEVEL 0 leaves no rows; write 1 or more",
    ),
    "WITH RECURSIVE t(n) MAX RECURSION LEVEL x AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT * FROM t": (
        41,
        "x does not fit here; check it and the words before it",
    ),
    "WITH t(n) MAX RECURSION LEVEL 3 AS (SELECT 1) SELECT * FROM t": (
        6,
        "MAX RECURSION LEVEL needs WITH RECURSIVE; write that",
    ),
    "SELECT * FROM e x MAX RECURSION LEVEL 3": (19, "MAX does not fit here; check it and the words before it"),
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t), t(n) AS (SELECT 2) SELECT * FROM t": (
        66,
        "WITH defines t twice; rename one of them",
    ),
}
#: What Spark or PostgreSQL may have and a view here cannot.
REFUSED = {
    "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM t ORDER BY a) SELECT * FROM t": (
        25,
        "ORDER BY in this place is not supported; leave it out",
    ),
    "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL (SELECT a + 1 FROM t ORDER BY a LIMIT 3)) SELECT * FROM t": (
        63,
        "a step that reads t below LIMIT is not supported; limit the rows of the whole recursion",
    ),
    "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT MAX(a) + 1 FROM t) SELECT * FROM t": (
        67,
        "a step that reads t in a query with aggregates or GROUP BY is not supported; aggregate the rows of the whole recursion",
    ),
    "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM t GROUP BY a) SELECT * FROM t": (
        62,
        "a step that reads t in a query with aggregates or GROUP BY is not supported; aggregate the rows of the whole recursion",
    ),
    "WITH RECURSIVE t(a, n) AS (SELECT 1, 1 UNION ALL SELECT a, ROW_NUMBER() OVER (ORDER BY a) FROM t) SELECT * FROM t": (
        96,
        "a step that reads t below window functions is not supported; compute them over the rows of the whole recursion",
    ),
    "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT e.a FROM e LEFT JOIN t ON t.a = e.a) SELECT * FROM t": (
        72,
        "a step that reads t on the inner side of an outer join, or in a SEMI or ANTI JOIN is not supported; use an inner join, or put it on the side whose rows all stay",
    ),
    "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT e.a FROM e FULL JOIN t ON t.a = e.a) SELECT * FROM t": (
        72,
        "a step that reads t on the inner side of an outer join, or in a SEMI or ANTI JOIN is not supported; use an inner join, or put it on the side whose rows all stay",
    ),
    "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT e.a FROM e LEFT SEMI JOIN t ON t.a = e.a) SELECT * FROM t": (
        77,
        "a step that reads t on the inner side of an outer join, or in a SEMI or ANTI JOIN is not supported; use an inner join, or put it on the side whose rows all stay",
    ),
    "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL (SELECT a + 1 FROM t EXCEPT SELECT 3)) SELECT * FROM t": (
        63,
        "a step that reads t on one side of EXCEPT is not supported; use joins",
    ),
    "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM (SELECT a FROM t UNION ALL SELECT 3) AS s) SELECT * FROM t": (
        77,
        "a step that reads t in one part of a UNION ALL but not in all is not supported; write rows that do not depend on it into the anchor",
    ),
    "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT b FROM (WITH RECURSIVE u(b) AS (SELECT a FROM t UNION ALL SELECT b + 1 FROM u WHERE b < 3) SELECT b FROM u) AS s) SELECT a FROM t": (
        97,
        "a step that reads t in another recursion is not supported; join the two above both",
    ),
    "SELECT a FROM e WHERE EXISTS (WITH RECURSIVE t(x) AS (SELECT e.a UNION ALL SELECT x + 1 FROM t WHERE x < 3) SELECT 1 FROM t WHERE x = 3)": (
        94,
        "WITH RECURSIVE t that reads the query around it is not supported; join the two instead",
    ),
    "WITH RECURSIVE t(n) USING KEY (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT * FROM t": (
        16,
        "t(n) USING KEY (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t), written like this, is not supported; use its plain form",
    ),
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) CYCLE n SET c USING p SELECT * FROM t": (
        16,
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) CYCLE n SET c USING p, written like this, is not supported; use its plain form",
    ),
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3 UNION ALL BY NAME SELECT 1 AS n) SELECT * FROM t": (
        25,
        "UNION BY NAME is not supported; name the columns in the same order on both sides",
    ),
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL BY NAME SELECT n + 1 AS n FROM t WHERE n < 3) SELECT * FROM t": (
        25,
        "UNION BY NAME is not supported; name the columns in the same order on both sides",
    ),
}


@pytest.mark.parametrize("text", [*ERRORS, *REFUSED])
def test_errors_point_at_the_mistake(text: str) -> None:
    column, message = ERRORS.get(text) or REFUSED[text]
    with pytest.raises(SqlError) as caught:
        parse(text, Catalog.from_ddl("CREATE TABLE e (a INT, b INT)"))
    assert caught.value.reason == message
    assert (caught.value.line, caught.value.column) == (1, column)
    assert isinstance(caught.value, UnsupportedError) == (text in REFUSED)
