"""The columns of `*` over chains of joins, their order, and the effect of EXCEPT: each query with Spark's columns and
rows, None if it is refused."""

from __future__ import annotations

import pytest

import freshet
from freshet.logical.query import Field
from freshet.scalar.types import INT
from freshet.sql.output_names import apart

TABLES = """
CREATE TABLE t1 (a INT, b INT);
INSERT INTO t1 VALUES (1, 2), (3, 4), (5, NULL);
CREATE TABLE t2 (b INT, c INT);
INSERT INTO t2 VALUES (2, 6), (4, 8), (9, 9);
CREATE TABLE t3 (c INT, d INT);
INSERT INTO t3 VALUES (6, 60), (8, 80), (7, 70);
CREATE TABLE tb (B INT, c INT);
INSERT INTO tb VALUES (2, 9);
CREATE TABLE x1 (x INT, y INT);
INSERT INTO x1 VALUES (1, 2), (3, 4);
CREATE TABLE x2 (x INT, z INT);
INSERT INTO x2 VALUES (1, 5), (3, 6);
CREATE TABLE e0 (k INT);
"""

CASES: list[tuple[str, str | None, list[tuple[int | None, ...]] | None]] = [
    ("SELECT * FROM t1 JOIN t2 USING (b) JOIN t3 USING (c)", "c b a d", [(6, 2, 1, 60), (8, 4, 3, 80)]),
    ("SELECT * FROM t1 NATURAL JOIN t2 NATURAL JOIN t3", "c b a d", [(6, 2, 1, 60), (8, 4, 3, 80)]),
    ("SELECT * FROM t1 JOIN t2 USING (b) LEFT JOIN t3 USING (c)", "c b a d", [(6, 2, 1, 60), (8, 4, 3, 80)]),
    (
        "SELECT * FROM t1 JOIN t2 USING (b) RIGHT JOIN t3 USING (c)",
        "c b a d",
        [(6, 2, 1, 60), (7, None, None, 70), (8, 4, 3, 80)],
    ),
    (
        "SELECT * FROM t1 FULL JOIN t2 USING (b) FULL JOIN t3 USING (c)",
        "c b a d",
        [(6, 2, 1, 60), (7, None, None, 70), (8, 4, 3, 80), (9, 9, None, None), (None, None, 5, None)],
    ),
    (
        "SELECT * FROM t1 LEFT JOIN t2 USING (b) FULL JOIN t3 USING (c)",
        "c b a d",
        [(6, 2, 1, 60), (7, None, None, 70), (8, 4, 3, 80), (None, None, 5, None)],
    ),
    ("SELECT * FROM t1 FULL JOIN t2 USING (b) JOIN t3 USING (c)", "c b a d", [(6, 2, 1, 60), (8, 4, 3, 80)]),
    ("SELECT * FROM t1 JOIN t2 USING (b) JOIN t1 AS q USING (b)", "b a c a", [(2, 1, 6, 1), (4, 3, 8, 3)]),
    ("SELECT * FROM t1 JOIN t2 USING (b) JOIN t1 AS q USING (a, b)", "a b c", [(1, 2, 6), (3, 4, 8)]),
    ("SELECT * FROM t1 JOIN t2 USING (b) JOIN t1 AS q USING (b, a)", "b a c", [(2, 1, 6), (4, 3, 8)]),
    ("SELECT * FROM t1 AS p JOIN t1 AS q USING (b, a)", "b a", [(2, 1), (4, 3)]),
    ("SELECT * FROM t1 AS p JOIN t1 AS q USING (b)", "b a a", [(2, 1, 1), (4, 3, 3)]),
    ("SELECT * FROM t1 AS p NATURAL JOIN t1 AS q", "a b", [(1, 2), (3, 4)]),
    (
        "SELECT * FROM t1 JOIN t2 USING (b), t3",
        "b a c c d",
        [(2, 1, 6, 6, 60), (2, 1, 6, 7, 70), (2, 1, 6, 8, 80), (4, 3, 8, 6, 60), (4, 3, 8, 7, 70), (4, 3, 8, 8, 80)],
    ),
    (
        "SELECT * FROM t3, t1 JOIN t2 USING (b)",
        "b c d a c",
        [(2, 6, 60, 1, 6), (2, 7, 70, 1, 6), (2, 8, 80, 1, 6), (4, 6, 60, 3, 8), (4, 7, 70, 3, 8), (4, 8, 80, 3, 8)],
    ),
    (
        "SELECT * FROM t3 CROSS JOIN (t1 JOIN t2 USING (b))",
        "c d b a c",
        [(6, 60, 2, 1, 6), (6, 60, 4, 3, 8), (7, 70, 2, 1, 6), (7, 70, 4, 3, 8), (8, 80, 2, 1, 6), (8, 80, 4, 3, 8)],
    ),
    ("SELECT * FROM t3 JOIN (t1 JOIN t2 USING (b)) USING (c)", "c d b a", [(6, 60, 2, 1), (8, 80, 4, 3)]),
    ("SELECT * FROM t1 JOIN (t2 JOIN t3 USING (c)) USING (b)", "b a c d", [(2, 1, 6, 60), (4, 3, 8, 80)]),
    ("SELECT * FROM t1 JOIN t2 ON t1.b = t2.b JOIN t3 USING (c)", "c a b b d", [(6, 1, 2, 2, 60), (8, 3, 4, 4, 80)]),
    (
        "SELECT * FROM t1 JOIN t2 ON t1.b = t2.b JOIN t3 ON t2.c = t3.c",
        "a b b c c d",
        [(1, 2, 2, 6, 6, 60), (3, 4, 4, 8, 8, 80)],
    ),
    ("SELECT t1.*, t3.* FROM t1 JOIN t2 USING (b) JOIN t3 USING (c)", "b a c d", [(2, 1, 6, 60), (4, 3, 8, 80)]),
    ("SELECT t2.* FROM t1 JOIN t2 USING (b) JOIN t3 USING (c)", "b c", [(2, 6), (4, 8)]),
    ("SELECT t2.*, b, c FROM t1 JOIN t2 USING (b) JOIN t3 USING (c)", "b c b c", [(2, 6, 2, 6), (4, 8, 4, 8)]),
    ("SELECT t3.* FROM t1 JOIN t2 USING (b) LEFT JOIN t3 USING (c)", "c d", [(6, 60), (8, 80)]),
    ("SELECT t2.* FROM t1 RIGHT JOIN t2 USING (b)", "b c", [(2, 6), (4, 8), (9, 9)]),
    ("SELECT t1.* FROM t1 RIGHT JOIN t2 USING (b)", "b a", [(2, 1), (4, 3), (None, None)]),
    (
        "SELECT t1.*, t2.* FROM t1 FULL JOIN t2 USING (b)",
        "b a b c",
        [(2, 1, 2, 6), (4, 3, 4, 8), (None, 5, None, None), (None, None, 9, 9)],
    ),
    ("SELECT * FROM t1 LEFT SEMI JOIN t2 USING (b)", "b a", [(2, 1), (4, 3)]),
    ("SELECT * FROM t1 LEFT ANTI JOIN t2 USING (b)", "b a", [(None, 5)]),
    ("SELECT * FROM t1 JOIN t2 USING (b) LEFT SEMI JOIN t3 USING (c)", "c b a", [(6, 2, 1), (8, 4, 3)]),
    ("SELECT * FROM t1 JOIN t2 USING (b) LEFT ANTI JOIN t3 USING (c)", "c b a", []),
    ("SELECT * FROM t1 JOIN t3 USING (zz)", None, None),
    ("SELECT * FROM t1 NATURAL LEFT JOIN t2", "b a c", [(2, 1, 6), (4, 3, 8), (None, 5, None)]),
    ("SELECT * FROM t1 NATURAL RIGHT JOIN t2", "b a c", [(2, 1, 6), (4, 3, 8), (9, None, 9)]),
    ("SELECT * FROM t1 NATURAL FULL JOIN t2", "b a c", [(2, 1, 6), (4, 3, 8), (9, None, 9), (None, 5, None)]),
    (
        "SELECT *, b FROM t1 NATURAL FULL JOIN t2",
        "b a c b",
        [(2, 1, 6, 2), (4, 3, 8, 4), (9, None, 9, 9), (None, 5, None, None)],
    ),
    (
        "SELECT b, t1.b, t2.b FROM t1 FULL JOIN t2 USING (b)",
        "b b b",
        [(2, 2, 2), (4, 4, 4), (9, None, 9), (None, None, None)],
    ),
    ("SELECT b, t1.b, t2.b FROM t1 RIGHT JOIN t2 USING (b)", "b b b", [(2, 2, 2), (4, 4, 4), (9, None, 9)]),
    ("SELECT b, t1.b, t2.b FROM t1 LEFT JOIN t2 USING (b)", "b b b", [(2, 2, 2), (4, 4, 4), (None, None, None)]),
    ("SELECT * FROM t1 JOIN t2 USING (B)", "b a c", [(2, 1, 6), (4, 3, 8)]),
    ("SELECT * FROM t1 JOIN t2 USING (b) JOIN t2 AS r USING (b)", "b a c c", [(2, 1, 6, 6), (4, 3, 8, 8)]),
    ("SELECT * FROM t1 JOIN t2 USING (b) JOIN t2 AS r USING (b, c)", "b c a", [(2, 6, 1), (4, 8, 3)]),
    ("SELECT * FROM t1 JOIN t2 AS r USING (b) JOIN t2 USING (c)", "c b a b", [(6, 2, 1, 2), (8, 4, 3, 4)]),
    ("SELECT * EXCEPT (x2.x) FROM x1 JOIN x2 ON x1.x = x2.x", "x y z", [(1, 2, 5), (3, 4, 6)]),
    ("SELECT * EXCEPT (x1.x) FROM x1 JOIN x2 ON x1.x = x2.x", "y x z", [(2, 1, 5), (4, 3, 6)]),
    ("SELECT * EXCEPT (x) FROM x1 JOIN x2 ON x1.x = x2.x", None, None),
    ("SELECT * EXCEPT (X2.X) FROM x1 JOIN x2 ON x1.x = x2.x", "x y z", [(1, 2, 5), (3, 4, 6)]),
    ("SELECT * EXCEPT (x1.x, x2.x) FROM x1 JOIN x2 ON x1.x = x2.x", "y z", [(2, 5), (4, 6)]),
    ("SELECT * EXCEPT (x1.x, x) FROM x1 JOIN x2 ON x1.x = x2.x", None, None),
    ("SELECT * EXCEPT (y, y) FROM x1", None, None),
    ("SELECT * EXCEPT (q) FROM x1", None, None),
    ("SELECT * EXCEPT (x1.q) FROM x1", None, None),
    ("SELECT * EXCEPT (zz.x) FROM x1", None, None),
    ("SELECT x1.* EXCEPT (x) FROM x1 JOIN x2 ON x1.x = x2.x", "y", [(2,), (4,)]),
    ("SELECT x1.* EXCEPT (x1.x) FROM x1 JOIN x2 ON x1.x = x2.x", "y", [(2,), (4,)]),
    ("SELECT x1.* EXCEPT (x2.x) FROM x1 JOIN x2 ON x1.x = x2.x", None, None),
    ("SELECT x1.* EXCEPT (z) FROM x1 JOIN x2 ON x1.x = x2.x", None, None),
    ("SELECT * EXCEPT (x) FROM x1 JOIN x2 USING (x)", "y z", [(2, 5), (4, 6)]),
    ("SELECT * EXCEPT (x1.x) FROM x1 JOIN x2 USING (x)", "y z", [(2, 5), (4, 6)]),
    ("SELECT * EXCEPT (x2.x) FROM x1 JOIN x2 USING (x)", None, None),
    ("SELECT * EXCEPT (x1.x) FROM x1 FULL JOIN x2 USING (x)", None, None),
    ("SELECT * EXCEPT (y), y FROM x1", "x y", [(1, 2), (3, 4)]),
    ("SELECT * EXCEPT (x2.z), x2.z AS w FROM x1 JOIN x2 USING (x)", "x y w", [(1, 2, 5), (3, 4, 6)]),
    ("SELECT * EXCEPT () FROM x1", None, None),
    ("SELECT x1.* EXCEPT (x, y), 1 AS one FROM x1", "one", [(1,), (1,)]),
    ("SELECT * EXCEPT (x1.x) FROM x1 RIGHT JOIN x2 USING (x)", None, None),
    ("SELECT * EXCEPT (x2.x) FROM x1 RIGHT JOIN x2 USING (x)", "y z", [(2, 5), (4, 6)]),
    ("SELECT count(x1.*) FROM x1", None, None),
    ("SELECT * FROM x1 JOIN x2", "x y x z", [(1, 2, 1, 5), (1, 2, 3, 6), (3, 4, 1, 5), (3, 4, 3, 6)]),
    ("SELECT * FROM x1 AS x JOIN x2 USING (x)", "x y z", [(1, 2, 5), (3, 4, 6)]),
    ("SELECT x.* FROM x1 AS x JOIN x2 USING (x)", "x y", [(1, 2), (3, 4)]),
    ("SELECT x FROM x1 AS x JOIN x2 USING (x)", "x", [(1,), (3,)]),
    (
        "SELECT * FROM e0, x2 RIGHT JOIN t1 ON x2.x = t1.a",
        "k x z a b",
        [(None, None, None, 1, 2), (None, None, None, 3, 4), (None, None, None, 5, None)],
    ),
    (
        "SELECT * FROM x1, x2 RIGHT JOIN t1 ON x2.x = t1.a",
        "x y x z a b",
        [
            (1, 2, 1, 5, 1, 2),
            (1, 2, 3, 6, 3, 4),
            (3, 4, 1, 5, 1, 2),
            (3, 4, 3, 6, 3, 4),
            (None, None, None, None, 5, None),
        ],
    ),
    (
        "SELECT * FROM x1, x2 FULL JOIN t1 ON x2.x = t1.a",
        "x y x z a b",
        [
            (1, 2, 1, 5, 1, 2),
            (1, 2, 3, 6, 3, 4),
            (3, 4, 1, 5, 1, 2),
            (3, 4, 3, 6, 3, 4),
            (None, None, None, None, 5, None),
        ],
    ),
    (
        "SELECT * FROM x1, x2 LEFT JOIN t1 ON x2.x = t1.a AND x1.x = t1.a",
        "x y x z a b",
        [(1, 2, 1, 5, 1, 2), (1, 2, 3, 6, None, None), (3, 4, 1, 5, None, None), (3, 4, 3, 6, 3, 4)],
    ),
    (
        "SELECT * FROM x1, x2 JOIN t1 ON x1.x = t1.a",
        "x y x z a b",
        [(1, 2, 1, 5, 1, 2), (1, 2, 3, 6, 1, 2), (3, 4, 1, 5, 3, 4), (3, 4, 3, 6, 3, 4)],
    ),
    (
        "SELECT * FROM x1, x2 LEFT SEMI JOIN t1 ON x1.x = t1.a",
        "x y x z",
        [(1, 2, 1, 5), (1, 2, 3, 6), (3, 4, 1, 5), (3, 4, 3, 6)],
    ),
    ("SELECT * FROM x1, x2 LEFT ANTI JOIN t1 ON x1.x = t1.a", "x y x z", []),
    (
        "SELECT * FROM x1, (x2 RIGHT JOIN t1 ON x2.x = t1.a)",
        "x y x z a b",
        [
            (1, 2, 1, 5, 1, 2),
            (1, 2, 3, 6, 3, 4),
            (1, 2, None, None, 5, None),
            (3, 4, 1, 5, 1, 2),
            (3, 4, 3, 6, 3, 4),
            (3, 4, None, None, 5, None),
        ],
    ),
    ("SELECT * FROM x1, x2 JOIN t1 USING (x)", None, None),
    (
        "SELECT * FROM x1, x2 AS q JOIN x2 USING (x)",
        "x y x z z",
        [(1, 2, 1, 5, 5), (1, 2, 3, 6, 5), (3, 4, 1, 5, 6), (3, 4, 3, 6, 6)],
    ),
    ("SELECT * FROM x1 JOIN x2 ON x1.x = x2.x JOIN x1 AS w USING (x)", "x y x z y", [(1, 2, 1, 5, 2), (3, 4, 3, 6, 4)]),
    ("SELECT * FROM x1 JOIN x2 ON x1.x = x2.x NATURAL JOIN x1 AS w", "x y x z", [(1, 2, 1, 5), (3, 4, 3, 6)]),
    ("SELECT * FROM t1 NATURAL JOIN tb", "b a c", [(2, 1, 9)]),
    ("SELECT * FROM t1 JOIN tb USING (b)", "b a c", [(2, 1, 9)]),
    ("SELECT * FROM t1 FULL JOIN tb USING (b)", "b a c", [(2, 1, 9), (4, 3, None), (None, 5, None)]),
    ("SELECT B FROM t1 FULL JOIN tb USING (b)", "B", [(2,), (4,), (None,)]),
    ("SELECT * FROM t1 RIGHT JOIN tb USING (b)", "B a c", [(2, 1, 9)]),
    ("SELECT * FROM t1 FULL JOIN tb USING (B)", "b a c", [(2, 1, 9), (4, 3, None), (None, 5, None)]),
    ("SELECT * FROM t1 JOIN t2 USING (b) WHERE t2.b > 2 AND b > 1", "b a c", [(4, 3, 8)]),
    ("SELECT * FROM x1 JOIN (t1 JOIN t2 ON x1.x = t1.a) ON x1.y = t2.b", None, None),
    (
        "SELECT * FROM x1 JOIN (t1 JOIN t2 ON t1.b = t2.b) AS j ON x1.x = j.a",
        "x y a b b c",
        [(1, 2, 1, 2, 2, 6), (3, 4, 3, 4, 4, 8)],
    ),
    ("SELECT * FROM (t1 JOIN t2 USING (b)) AS j", "b a c", [(2, 1, 6), (4, 3, 8)]),
    ("SELECT j.* FROM (t1 JOIN t2 USING (b)) AS j", "b a c", [(2, 1, 6), (4, 3, 8)]),
    ("SELECT t1.a FROM (t1 JOIN t2 USING (b)) AS j", None, None),
    ("SELECT t1.a FROM (t1 JOIN t2 USING (b))", "a", [(1,), (3,)]),
    ("SELECT a.x FROM x1 a, x1 a", None, None),
    ("SELECT x1.x FROM x1 JOIN x1", None, None),
    ("SELECT t1.b, t2.b FROM t1 JOIN t2 USING (b) ORDER BY b", "b b", [(2, 2), (4, 4)]),
    (
        "SELECT (SELECT count(*) FROM t3 WHERE t3.c = t2.c AND t2.b > 1) AS n, * FROM t1 JOIN t2 USING (b)",
        "n b a c",
        [(1, 2, 1, 6), (1, 4, 3, 8)],
    ),
    (
        "SELECT * FROM t1 LEFT JOIN t2 USING (b) RIGHT JOIN t3 USING (c)",
        "c b a d",
        [(6, 2, 1, 60), (7, None, None, 70), (8, 4, 3, 80)],
    ),
    (
        "SELECT t1.*, t2.*, t3.* FROM t1 FULL JOIN t2 USING (b) FULL JOIN t3 USING (c)",
        "b a c b c d",
        [
            (2, 1, 6, 2, 6, 60),
            (4, 3, 8, 4, 8, 80),
            (None, 5, None, None, None, None),
            (None, None, 9, 9, None, None),
            (None, None, None, None, 7, 70),
        ],
    ),
    (
        "SELECT t1.*, t2.*, t3.* FROM t1 LEFT JOIN t2 USING (b) RIGHT JOIN t3 USING (c)",
        "b a c b c d",
        [(2, 1, 6, 2, 6, 60), (4, 3, 8, 4, 8, 80), (None, None, None, None, 7, 70)],
    ),
    ("SELECT q.* FROM t1 JOIN t2 USING (b) JOIN t2 AS q USING (c, b)", "c b", [(6, 2), (8, 4)]),
    ("SELECT q.* FROM t1 JOIN t2 USING (b) JOIN t2 AS q USING (b, c)", "b c", [(2, 6), (4, 8)]),
    ("SELECT t2.* FROM t1 JOIN t2 USING (b) RIGHT JOIN t2 AS q USING (c, b)", "c b", [(6, 2), (8, 4), (None, None)]),
    (
        "SELECT *, t2.* FROM t1 JOIN (t2 JOIN t3 USING (c)) USING (b)",
        "b a c d b c",
        [(2, 1, 6, 60, 2, 6), (4, 3, 8, 80, 4, 8)],
    ),
]


@pytest.fixture(scope="module")
def db() -> freshet.Database:
    made = freshet.connect()
    made.execute(TABLES)
    return made


@pytest.mark.parametrize(("sql", "names", "rows"), CASES)
def test_as_in_spark(
    sql: str, names: str | None, rows: list[tuple[int | None, ...]] | None, db: freshet.Database
) -> None:
    if names is None:
        with pytest.raises(freshet.SqlError) as raised:
            db.execute(sql)
        assert raised.value.line == 1
        return
    answer = db.execute(sql)
    assert answer.column_names == [f.name for f in apart([Field(name, INT) for name in names.split()])]
    assert sorted(zip(*(column.to_pylist() for column in answer.columns), strict=True), key=repr) == rows


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT * EXCEPT (x, y) FROM x1", "EXCEPT removes every column of *"),
        ("SELECT * EXCEPT () FROM x1", "EXCEPT () leaves out nothing"),
        ("SELECT * FROM x1 JOIN x2 USING (x, X)", "USING names X twice"),
        ("SELECT * FROM x1 AS a, x2 AS a", "two relations are called a"),
    ],
)
def test_refused(sql: str, words: str, db: freshet.Database) -> None:
    with pytest.raises(freshet.SqlError, match=words.replace("*", r"\*").replace("(", r"\(").replace(")", r"\)")):
        db.execute(sql)
