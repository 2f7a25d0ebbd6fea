"""Rows of values compared, range(), VALUES, ORDER BY ALL, and subqueries in the ON of outer joins."""

from __future__ import annotations

_COMPARED = [
    f"(x, y) {operator} {other}"
    for operator in (">", ">=", "<", "<=", "=", "<>", "<=>", "IS DISTINCT FROM")
    for other in ("(1, 1)", "(2, CAST(NULL AS INT))", "(y, x)", "(2, NULL)", "(1, 1, 1)", "(1L, 1)")
]
_TESTED = [
    "(x, y) IN ((1, 1), (2, 3))", "(x, y) IN ((1, 1), (2, NULL))", "(x, y) NOT IN ((1, 1), (2, 3))",
    "(x, y) BETWEEN (1, 1) AND (2, 5)", "(x, y) = (1, '1')", "(x, s) = (1, 'a')", "(x, (y, s)) = (1, (2, 'b'))",
    "(x, (y, s)) < (1, (2, 'b'))", "(x, y) IS NULL", "(x, y) IS NOT NULL", "((x, y)) > ((1, 1))",
    "(x, y) > (1, 1) AND x < 3", "NOT (x, y) > (1, 1)", "STRUCT(x, y) = STRUCT(1, 2)", "(NULL, x) = (NULL, 1)",
    "NAMED_STRUCT('a', x, 'b', y) = (1, 2)", "(x, y) LIKE 'a'", "(x, y) > NULL", "(x, y) > (SELECT 1, 1)",
    "CASE (x, y) WHEN (1, 1) THEN 'one' ELSE 'none' END", "(x) = (1)", "COALESCE((x, y), (1, 1)) = (1, 1)",
]  # fmt: skip
_ARGUMENTS = (
    "5", "2, 5", "2, 10, 3", "10, 2, -3", "0, 5, 1, 2", "5, 2", "0", "-1", "1, 5, 0", "1 + 1", "'3'", "3.5", "3.5, 5.9",
    "NULL", "2L", "1e1", "9223372036854775800, 9223372036854775807, 5", "", "1, 2, 3, 4, 5", "CAST(NULL AS INT)", "p.x",
)  # fmt: skip
_JOIN = "SELECT a.x, b.y FROM p AS a {} JOIN p AS b ON a.x = b.x AND {}"
_SUBQUERY = "(SELECT y FROM p WHERE s = 'b')"

QUERIES = [
    *(f"SELECT x, y, {test} AS r FROM p" for test in (*_COMPARED, *_TESTED)),
    "SELECT x, y FROM p WHERE (x, y) IN (SELECT 1, 1 UNION ALL SELECT 2, NULL)",
    "SELECT x, y FROM p WHERE (x, y) NOT IN (SELECT 1, 1)",
    "SELECT x, y FROM p WHERE (x, y) NOT IN (SELECT 1, CAST(NULL AS INT))",
    "SELECT a.x FROM p AS a JOIN p AS b ON (a.x, a.y) = (b.x, b.y)",
    "SELECT a.x, b.y FROM p AS a LEFT JOIN p AS b ON (a.x, a.y) = (b.x, b.y)",
    "SELECT a.x, b.y FROM p AS a JOIN p AS b ON (a.x, a.y) < (b.x, b.y)",
    "SELECT COUNT(*) AS n FROM p GROUP BY (x, y)",
    *(f"SELECT * FROM range({given})" for given in _ARGUMENTS),
    "SELECT id + 1 AS j FROM range(3) AS r",
    "SELECT r.j FROM range(3) AS r(j) WHERE j > 0",
    "SELECT a.x, r.id FROM p AS a JOIN range(3) AS r ON a.x = r.id",
    "SELECT x, s FROM p WHERE x IN (SELECT id FROM range(2))",
    "SELECT COUNT(*) AS n FROM range(100)",
    "SELECT r.id, COUNT(p.x) AS n FROM range(4) AS r LEFT JOIN p ON p.x = r.id GROUP BY r.id",
    "VALUES 1, 2",
    "VALUES (1, 1.5), (2, 3)",
    "VALUES (1, 'a'), ('2', 'b')",
    "VALUES (1 + 1, UPPER('a'))",
    "VALUES (NULL), (1)",
    "VALUES (NULL), ('a')",
    "VALUES (DATE'2024-01-01'), (TIMESTAMP'2024-01-01 10:00:00')",
    "VALUES (1, 2), (3)",
    "VALUES (true), (1)",
    "SELECT * FROM VALUES (1, 2) AS v(a)",
    "SELECT * FROM VALUES (1/0)",
    "SELECT * FROM VALUES ((SELECT 1))",
    "SELECT * FROM p ORDER BY ALL LIMIT 3",
    "SELECT * FROM p ORDER BY ALL DESC NULLS FIRST LIMIT 3",
    "SELECT x, y FROM p ORDER BY ALL ASC NULLS LAST LIMIT 3",
    "SELECT x, y FROM p ORDER BY x, ALL LIMIT 3",
    "SELECT DISTINCT y FROM p ORDER BY ALL LIMIT 2",
    "SELECT x FROM p UNION SELECT y FROM p ORDER BY ALL LIMIT 2",
    *(
        _JOIN.format(kind, test.format(_SUBQUERY))
        for kind in ("LEFT", "RIGHT", "FULL")
        for test in ("a.y IN {}", "b.y IN {}",
                     "EXISTS (SELECT 1 FROM p AS c WHERE c.x = a.x AND c.y = 2)",
                     "EXISTS (SELECT 1 FROM p AS c WHERE c.x = b.x AND c.y = 2)",
                     "b.y = (SELECT MAX(y) FROM p)", "b.y IN (1, 2)", "a.x IN (b.x, 1)")
    ),
    _JOIN.format("LEFT", f"a.y NOT IN {_SUBQUERY}"),
    _JOIN.format("LEFT", f"b.y NOT IN {_SUBQUERY}"),
    "SELECT a.x FROM p AS a LEFT SEMI JOIN p AS b ON a.x = b.x AND b.y IN (SELECT y FROM p WHERE s = 'b')",
    "SELECT a.x FROM p AS a LEFT ANTI JOIN p AS b ON a.x = b.x AND a.y IN (SELECT y FROM p WHERE s = 'b')",
]  # fmt: skip
