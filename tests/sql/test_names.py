"""The meaning of names when aliases hide columns, and NULL under NOT: each query with Spark's answer, None if
refused."""

from __future__ import annotations

import itertools

import pytest

import freshet

TABLES = """
CREATE TABLE t (a INT, b INT, c INT);
INSERT INTO t VALUES (1, 10, 100), (2, 20, 200), (3, 30, 300), (3, 10, NULL);
CREATE TABLE u (a INT, d INT);
INSERT INTO u VALUES (1, 7), (2, 8), (NULL, 9);
"""

Answer = list[tuple[int | bool | None, ...]]

CASES: list[tuple[str, Answer | None]] = [
    # HAVING
    ("SELECT -a AS a FROM t GROUP BY a HAVING a > 1", [(-2,), (-3,)]),
    ("SELECT -a AS A FROM t GROUP BY a HAVING a > 1", [(-2,), (-3,)]),
    ("SELECT sum(a) AS a FROM t GROUP BY b HAVING a > 2", [(3,), (4,)]),
    ("SELECT sum(a) AS b FROM t GROUP BY b HAVING b > 10", [(2,), (3,)]),
    ("SELECT b + 1 AS b FROM t GROUP BY b + 1 HAVING b > 11", [(21,), (31,)]),
    ("SELECT b + 1 AS x, -(b + 1) AS b FROM t GROUP BY b + 1 HAVING b + 1 > 11", [(21, -21), (31, -31)]),
    ("SELECT b + 1 AS x, -(b + 1) AS b FROM t GROUP BY b + 1 HAVING b + 1 > 11 AND b < -21", [(31, -31)]),
    ("SELECT -b AS a, a AS c FROM t GROUP BY a, b HAVING a > 1", [(-10, 3), (-20, 2), (-30, 3)]),
    ("SELECT -b AS x, a AS x FROM t GROUP BY a, b HAVING x > 1", None),
    ("SELECT -b AS b, a AS b FROM t GROUP BY a, b HAVING b > 10", [(-20, 2), (-30, 3)]),
    ("SELECT sum(a) AS x, max(b) AS x FROM t HAVING x > 1", None),
    ("SELECT sum(a) AS a FROM t HAVING a > 8", [(9,)]),
    ("SELECT -a AS a FROM t GROUP BY a HAVING t.a > 1", [(-2,), (-3,)]),
    ("SELECT a AS z FROM t GROUP BY a HAVING t.z > 1", None),
    ("SELECT -a AS a FROM t GROUP BY 1 HAVING a < -1", [(-2,), (-3,)]),
    ("SELECT -a AS a FROM t GROUP BY -a HAVING -a < -1", [(-2,), (-3,)]),
    ("SELECT a AS b, sum(b) AS a FROM t GROUP BY a HAVING a > 2", [(3, 40)]),
    ("SELECT a, sum(b) AS b FROM t GROUP BY a HAVING max(b) > 20 AND b > 30", [(3, 40)]),
    ("SELECT a, sum(b) AS s FROM t GROUP BY a HAVING max(s) > 20", None),
    ("SELECT a, sum(b) AS c FROM t GROUP BY a HAVING c + max(c) > 219", [(2, 20), (3, 40)]),
    ("SELECT a, row_number() OVER (ORDER BY a) AS n FROM t GROUP BY a HAVING n > 1", None),
    ("SELECT DISTINCT -a AS a FROM t GROUP BY a HAVING a > 1", [(-2,), (-3,)]),
    ("SELECT -b AS b FROM t GROUP BY b HAVING b - 3 IN (SELECT d FROM u)", [(-10,)]),
    ("SELECT -b AS b FROM t GROUP BY b HAVING EXISTS (SELECT 1 FROM u WHERE u.d = b - 3)", [(-10,)]),
    (
        "SELECT a, b, (SELECT max(u.d) AS b FROM u HAVING b > 9) AS z FROM t",
        [(1, 10, None), (2, 20, None), (3, 10, None), (3, 30, None)],
    ),
    ("SELECT a, b FROM t WHERE EXISTS (SELECT u.a AS b FROM u GROUP BY u.a HAVING b = 10)", []),
    ("SELECT a, b FROM t WHERE EXISTS (SELECT u.a AS q FROM u GROUP BY u.a HAVING b = 10)", [(1, 10), (3, 10)]),
    ("SELECT -b AS b FROM t GROUP BY a, b HAVING NOT + b BETWEEN NULL AND a", [(-10,), (-10,), (-20,), (-30,)]),
    # GROUP BY
    ("SELECT -a AS b, sum(b) AS s FROM t GROUP BY b", None),
    ("SELECT -a AS x, count(*) AS n FROM t GROUP BY X", [(-1, 1), (-2, 1), (-3, 2)]),
    ("SELECT -a AS x, count(*) AS n FROM t GROUP BY x + 1", None),
    ("SELECT -a AS x, -a + 1 AS y, count(*) AS n FROM t GROUP BY x, x + 1", [(-1, 0, 1), (-2, -1, 1), (-3, -2, 2)]),
    ("SELECT -a AS x, -a AS x, count(*) AS n FROM t GROUP BY x", [(-1, -1, 1), (-2, -2, 1), (-3, -3, 2)]),
    ("SELECT -a AS x, b AS x, count(*) AS n FROM t GROUP BY x", None),
    ("SELECT sum(a) AS x FROM t GROUP BY x", None),
    ("SELECT row_number() OVER (ORDER BY a) AS x FROM t GROUP BY x", None),
    ("SELECT a, sum(b) AS s FROM t GROUP BY 2", None),
    ("SELECT a FROM t GROUP BY 0", None),
    ("SELECT a FROM t GROUP BY -1, a", None),
    ("SELECT a FROM t GROUP BY (1)", [(1,), (2,), (3,)]),
    ("SELECT count(*) AS n FROM t GROUP BY NULL, 1.0, 'x', TRUE", [(4,)]),
    ("SELECT * FROM t GROUP BY 1, 2, 3", None),
    ("SELECT *, 1 AS one FROM t GROUP BY ALL", [(1, 10, 100, 1), (2, 20, 200, 1), (3, 10, None, 1), (3, 30, 300, 1)]),
    ("SELECT a, b + 1 AS c FROM t GROUP BY ALL", [(1, 11), (2, 21), (3, 11), (3, 31)]),
    ("SELECT sum(b) + a AS x FROM t GROUP BY ALL", None),
    ("SELECT a FROM t GROUP BY ALL, b", None),
    ("SELECT t.a AS x FROM t GROUP BY t.x", None),
    (
        "SELECT a x, b y, count(*) AS n FROM t GROUP BY ROLLUP (x, y)",
        [(1, 10, 1), (1, None, 1), (2, 20, 1), (2, None, 1), (3, 10, 1), (3, 30, 1), (3, None, 2), (None, None, 4)],
    ),
    (
        "SELECT -a AS a, count(*) AS n, grouping(a) AS g FROM t GROUP BY ROLLUP (a)",
        [(-1, 1, 0), (-2, 1, 0), (-3, 2, 0), (None, 4, 1)],
    ),
    ("SELECT t.a + u.d AS a FROM t JOIN u ON t.a = u.a GROUP BY a", None),
    ("SELECT 2 AS a, count(*) AS n FROM t GROUP BY a", [(2, 1), (2, 1), (2, 2)]),
    ("SELECT 2 AS x, count(*) AS n FROM t GROUP BY x", [(2, 4)]),
    (
        "SELECT a, (SELECT -u.a AS c FROM u WHERE u.a = t.a GROUP BY c) AS z FROM t",
        [(1, -1), (2, -2), (3, None), (3, None)],
    ),
    ("SELECT a, (SELECT max(-u.a) AS b FROM u WHERE u.a = t.a GROUP BY b) AS z FROM t", None),
    ("SELECT a = 1 AS p, count(*) AS n FROM t GROUP BY p", [(False, 3), (True, 1)]),
    # select list
    ("SELECT a AS x, x + 1 AS y, y + x AS z FROM t", [(1, 2, 3), (2, 3, 5), (3, 4, 7), (3, 4, 7)]),
    ("SELECT a AS b, b AS c FROM t", [(1, 10), (2, 20), (3, 10), (3, 30)]),
    ("SELECT -a AS a, a + 1 AS z FROM t", [(-1, 2), (-2, 3), (-3, 4), (-3, 4)]),
    ("SELECT 1 AS x, 2 AS x, x AS y FROM t", None),
    ("SELECT a AS x, t.x AS y FROM t", None),
    ("SELECT x + 1 AS y, a AS x FROM t", None),
    ("SELECT sum(b) AS x, x + 1 AS y FROM t GROUP BY a", [(10, 11), (20, 21), (40, 41)]),
    ("SELECT sum(a) AS x, sum(x) AS y FROM t", None),
    ("SELECT row_number() OVER (ORDER BY a, b) AS r, r + 1 AS s FROM t", [(1, 2), (2, 3), (3, 4), (4, 5)]),
    ("SELECT sum(sum(b)) OVER (ORDER BY a) AS s, -a AS a FROM t GROUP BY a", [(10, -1), (30, -2), (70, -3)]),
    ("SELECT sum(sum(b)) OVER () AS s FROM t", [(70,)]),
    ("SELECT a, sum(b) AS b, sum(b) OVER (ORDER BY a) AS s FROM t GROUP BY a", None),
    (
        "SELECT -a AS b, sum(b) OVER w AS s FROM t WINDOW w AS (PARTITION BY b)",
        [(-1, 20), (-2, 20), (-3, 20), (-3, 30)],
    ),
    ("SELECT a, sum(b) OVER w AS s FROM t WINDOW w AS (PARTITION BY a), w AS (ORDER BY a)", None),
    ("SELECT a, b FROM t WHERE (5, b) IN (SELECT 5 AS b, b FROM u)", []),
    ("SELECT -a AS x FROM t WHERE x < -1", None),
    ("SELECT -a AS a FROM t WHERE a > 1", [(-2,), (-3,), (-3,)]),
    # QUALIFY
    ("SELECT a, row_number() OVER (PARTITION BY a ORDER BY b) AS r FROM t QUALIFY r = 1", [(1, 1), (2, 1), (3, 1)]),
    ("SELECT -a AS a, row_number() OVER (PARTITION BY a ORDER BY b) AS r FROM t QUALIFY a > 0", None),
    (
        "SELECT -a AS a, row_number() OVER (ORDER BY b, a) AS r FROM t QUALIFY t.a > 1 AND r > 0",
        [(-2, 3), (-3, 2), (-3, 4)],
    ),
    ("SELECT -a AS a FROM t QUALIFY row_number() OVER (ORDER BY a, b) = 1", [(-1,)]),
    ("SELECT -a AS x FROM t QUALIFY row_number() OVER (ORDER BY x, b) = 1", [(-3,)]),
    ("SELECT -a AS a FROM t QUALIFY a > 0 AND row_number() OVER (ORDER BY b) > 0", [(-1,), (-2,), (-3,), (-3,)]),
    (
        "SELECT -a AS x FROM t QUALIFY x + a = 0 AND row_number() OVER (ORDER BY x + a) > 0",
        [(-1,), (-2,), (-3,), (-3,)],
    ),
    ("SELECT a AS b, row_number() OVER (ORDER BY b) AS r FROM t QUALIFY b > 1", None),
    ("SELECT -a AS x, b AS x FROM t QUALIFY row_number() OVER (ORDER BY x) > 0", None),
    ("SELECT -a AS a, sum(b) AS s FROM t GROUP BY a QUALIFY row_number() OVER (ORDER BY a) = 1", [(-1, 10)]),
    ("SELECT -a AS a, sum(b) AS s FROM t GROUP BY a QUALIFY row_number() OVER (ORDER BY s DESC) = 1", [(-3, 40)]),
    (
        "SELECT a, sum(b) AS b, rank() OVER (ORDER BY sum(b)) AS r FROM t GROUP BY a QUALIFY b > 10",
        [(2, 20, 2), (3, 40, 3)],
    ),
    ("SELECT a AS x, max(b) AS b FROM t GROUP BY a QUALIFY row_number() OVER (ORDER BY b) = 1", None),
    ("SELECT DISTINCT -a AS a FROM t QUALIFY row_number() OVER (ORDER BY a, b) > 1", [(-2,), (-3,)]),
    ("SELECT a FROM t QUALIFY a > 1", None),
    ("SELECT a, max(b) AS m FROM t GROUP BY a QUALIFY sum(m) OVER (ORDER BY a) > 10", [(2, 20), (3, 30)]),
    # ORDER BY
    ("SELECT -a AS a FROM t ORDER BY a LIMIT 1", [(-3,)]),
    ("SELECT -a AS x FROM t ORDER BY a LIMIT 1", [(-1,)]),
    ("SELECT -a AS a FROM t ORDER BY t.a LIMIT 1", [(-1,)]),
    ("SELECT -a AS a FROM t ORDER BY -a LIMIT 1", [(-1,)]),
    ("SELECT -a AS a, b AS a FROM t ORDER BY a LIMIT 1", [(-1, 10)]),
    ("SELECT b AS x, a AS x FROM t ORDER BY x LIMIT 1", None),
    ("SELECT a AS b, b AS a FROM t ORDER BY a, b DESC LIMIT 1", [(3, 10)]),
    ("SELECT a FROM t ORDER BY b DESC LIMIT 1", [(3,)]),
    ("SELECT DISTINCT -a AS a FROM t ORDER BY a LIMIT 1", [(-3,)]),
    ("SELECT DISTINCT a FROM t ORDER BY a * -1 LIMIT 1", [(3,)]),
    ("SELECT DISTINCT a FROM t ORDER BY b LIMIT 1", None),
    ("SELECT DISTINCT -a AS a FROM t ORDER BY t.a LIMIT 1", None),
    ("SELECT a, -sum(b) AS b FROM t GROUP BY a ORDER BY b LIMIT 1", [(3, -40)]),
    ("SELECT -a AS a FROM t GROUP BY a HAVING a > 1 ORDER BY a LIMIT 1", [(-3,)]),
    ("SELECT a + 1 AS a FROM t GROUP BY a + 1 ORDER BY -(a + 1) LIMIT 1", [(4,)]),
    ("SELECT a FROM t GROUP BY a ORDER BY b LIMIT 1", None),
    ("SELECT a FROM t GROUP BY a ORDER BY max(b) DESC LIMIT 1", [(3,)]),
    ("SELECT a FROM t ORDER BY 0 LIMIT 1", None),
    ("SELECT a FROM t ORDER BY -1 LIMIT 1", None),
    ("SELECT a, b FROM t ORDER BY ALL DESC LIMIT 1", [(3, 30)]),
    ("SELECT a, b FROM t ORDER BY ALL, a LIMIT 1", None),
    ("SELECT a FROM t UNION ALL SELECT d FROM u ORDER BY -a LIMIT 1", [(9,)]),
    ("SELECT a FROM t UNION ALL SELECT d FROM u ORDER BY d LIMIT 1", None),
    ("SELECT a AS x FROM t UNION ALL SELECT d FROM u ORDER BY a LIMIT 1", None),
    ("SELECT t.a, u.a FROM t JOIN u ON t.a = u.a ORDER BY a LIMIT 1", None),
    ("SELECT t.a FROM t JOIN u ON t.a = u.a ORDER BY u.a LIMIT 1", [(1,)]),
    ("SELECT count(*) AS n FROM t ORDER BY a LIMIT 1", None),
    # NULL
    ("SELECT a FROM t WHERE NOT (a BETWEEN NULL AND 2)", [(3,), (3,)]),
    ("SELECT a FROM t WHERE a NOT BETWEEN 2 AND NULL", [(1,)]),
    (
        "SELECT a, a BETWEEN NULL AND 2 AS p, NOT (a BETWEEN NULL AND 2) AS q, a NOT BETWEEN 2 AND NULL AS r FROM t",
        [(1, None, None, True), (2, None, None, None), (3, False, True, None), (3, False, True, None)],
    ),
    (
        "SELECT a, a IN (1, NULL) AS p, a NOT IN (1, NULL) AS q, NOT (a IN (NULL)) AS r FROM t",
        [(1, True, False, None), (2, None, None, None), (3, None, None, None), (3, None, None, None)],
    ),
    ("SELECT a FROM t WHERE NOT (a IN (1, NULL))", []),
    ("SELECT count(*) AS n FROM t HAVING NOT (count(*) BETWEEN NULL AND 3)", [(4,)]),
    ("SELECT count(*) AS n FROM t HAVING NOT (count(*) BETWEEN NULL AND 5)", []),
    (
        "SELECT a, CASE WHEN a BETWEEN NULL AND 2 THEN 1 WHEN NOT (a BETWEEN NULL AND 2) THEN 2 ELSE 3 END AS z FROM t",
        [(1, 3), (2, 3), (3, 2), (3, 2)],
    ),
    ("SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE NOT (u.a BETWEEN NULL AND t.a))", [(2,), (3,), (3,)]),
    ("SELECT a, c FROM t WHERE NOT (c BETWEEN 150 AND a * 1000)", [(1, 100)]),
    ("SELECT a FROM t WHERE NOT (a IN (SELECT u.a FROM u) AND a > 0)", []),
]


@pytest.fixture(scope="module")
def db() -> freshet.Database:
    made = freshet.connect()
    made.execute(TABLES)
    return made


def rows(db: freshet.Database, sql: str) -> Answer:
    answer = db.execute(sql)
    return sorted(zip(*(column.to_pylist() for column in answer.columns), strict=True), key=repr)


@pytest.mark.parametrize(("sql", "expected"), CASES)
def test_as_in_spark(sql: str, expected: Answer | None, db: freshet.Database) -> None:
    if expected is None:
        with pytest.raises(freshet.SqlError) as raised:
            db.execute(sql)
        assert raised.value.line == 1
    else:
        assert rows(db, sql) == expected


def test_the_query_of_sqlite() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE tab0 (col0 INT, col1 INT, col2 INT); INSERT INTO tab0 VALUES (43, 81, 24), (26, 0, 79)")
    sql = "SELECT - col1 AS col1 FROM tab0 GROUP BY col0, col1, col2 HAVING NOT + col1 BETWEEN NULL AND col0"
    assert rows(db, sql) == [(-81,)]


def test_between_and_in_are_three_valued() -> None:
    """Every x, low and high of 1, 2, 3 and NULL, as columns and as literals, in WHERE, HAVING, CASE and the select
    list, according to three-valued logic."""
    values = (None, 1, 2, 3)

    def both(p: bool | None, q: bool | None) -> bool | None:
        return False if p is False or q is False else None if p is None or q is None else True

    def between(x: int | None, low: int | None, high: int | None) -> bool | None:
        return both(None if None in (x, low) else x >= low, None if None in (x, high) else x <= high)  # type: ignore[operator]

    def among(x: int | None, *others: int | None) -> bool | None:
        if x is None or x in others:
            return None if x is None else True
        return None if None in others else False

    db = freshet.connect()
    db.execute("CREATE TABLE r (x INT, low INT, high INT)")
    table = list(itertools.product(values, repeat=3))
    db.apply({"r": [{"x": x, "low": low, "high": high} for x, low, high in table]})
    for test, meaning in (("x BETWEEN {} AND {}", between), ("x IN ({}, {})", among)):
        for low, high in [("low", "high"), *itertools.product(("NULL", "2"), ("high", "NULL", "1"))]:
            value = {"low": None, "high": None, "NULL": None, "1": 1, "2": 2}
            condition = test.format(low, high)
            expected = [
                (
                    *row,
                    meaning(row[0], row[1] if low == "low" else value[low], row[2] if high == "high" else value[high]),
                )
                for row in table
            ]
            negated = condition.replace("x ", "x NOT ", 1)
            denied = [(*row, None if p is None else not p) for *row, p in expected]
            for text, wanted in ((condition, expected), (f"NOT ({condition})", denied), (negated, denied)):
                shown = sorted(wanted, key=repr)
                assert rows(db, f"SELECT x, low, high, {text} AS p FROM r") == shown, text
                case = f"CASE WHEN {text} THEN TRUE WHEN NOT ({text}) THEN FALSE END"
                assert rows(db, f"SELECT x, low, high, {case} AS p FROM r") == shown, text
                kept = sorted(((x, a, b) for x, a, b, p in wanted if p), key=repr)
                assert rows(db, f"SELECT x, low, high FROM r WHERE {text}") == kept, text
                assert rows(db, f"SELECT x, low, high FROM r GROUP BY x, low, high HAVING {text}") == kept, text


def test_what_in_does_not_know_is_null() -> None:
    """The standard's answer, also in a select list. Spark returns FALSE for IN and for NOT IN there."""
    db = freshet.connect()
    db.execute(TABLES)
    sql = "SELECT a, a IN (SELECT u.a FROM u) AS p, a NOT IN (SELECT u.a FROM u) AS q FROM t"
    unknown = (3, None, None)
    assert rows(db, sql) == [(1, True, False), (2, True, False), unknown, unknown]
    assert rows(db, "SELECT a FROM t WHERE (a IN (SELECT u.a FROM u)) IS NULL") == [(3,), (3,)]
