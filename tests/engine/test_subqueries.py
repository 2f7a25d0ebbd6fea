"""Subqueries wherever they may stand: scalar ones, EXISTS, IN, ANY and ALL, correlated by = or not, with NULLs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import freshet
from freshet.logical.query import AnyQuery
from freshet.sql.selection import Selection
from tests.small_tables import KEYED, TableModel, follow

WRITTEN = (
    # One value for all rows
    "SELECT a FROM t0 WHERE b > (SELECT AVG(b) FROM t1)",
    "SELECT a FROM t0 WHERE b = (SELECT MAX(b) FROM t0)",
    "SELECT a, (SELECT COUNT(*) FROM t1) AS n FROM t0",
    "SELECT a, b + (SELECT MIN(c) FROM t1 WHERE a > 0) AS n FROM t0",
    "SELECT a FROM t0 WHERE (SELECT COUNT(*) FROM t1) > 2 AND b >= 1",
    "SELECT a FROM t0 WHERE b < (SELECT MAX(b) FROM t1) OR c = (SELECT MIN(c) FROM t1)",
    "SELECT (SELECT COUNT(*) FROM t0) AS x, (SELECT SUM(b) FROM t1) AS y",
    "SELECT a FROM t0 WHERE b = (SELECT b FROM t1 ORDER BY b NULLS FIRST LIMIT 1)",
    "SELECT a FROM t0 WHERE b <> (SELECT MAX(b) FROM (SELECT b FROM t1 UNION SELECT c FROM t0) u)",
    "SELECT a FROM t0 WHERE b BETWEEN (SELECT MIN(b) FROM t1) AND (SELECT MAX(b) FROM t1)",
    "SELECT CASE WHEN a > (SELECT AVG(a) FROM t1) THEN 'more' ELSE 'less' END AS m, COUNT(*) AS n FROM t0 GROUP BY 1",
    # One value for each row
    "SELECT a FROM t0 WHERE b = (SELECT MAX(b) FROM t1 WHERE t1.c = t0.c)",
    "SELECT a FROM t0 WHERE b < (SELECT SUM(b) FROM t1 WHERE t1.c = t0.c AND t1.a > 0)",
    "SELECT a, (SELECT COUNT(*) FROM t1 WHERE t1.b = t0.b) AS n FROM t0",
    "SELECT a FROM t0 WHERE (SELECT COUNT(*) FROM t1 WHERE t1.b = t0.b) = 0",
    "SELECT a FROM t0 WHERE (SELECT COUNT(*) FROM t1 WHERE t1.b = t0.b) >= 2",
    "SELECT a FROM t0 WHERE 2 > (SELECT COUNT(c) + 1 FROM t1 WHERE t1.b = t0.b)",
    "SELECT a, (SELECT COALESCE(MAX(c), -1) FROM t1 WHERE t1.b = t0.b) AS m FROM t0",
    "SELECT a, (SELECT COUNT(*) FROM t1 WHERE t1.b = t0.b HAVING COUNT(*) < 2) AS m FROM t0",
    "SELECT a, (SELECT MAX(c) + t0.a FROM t1 WHERE t1.b = t0.b) AS m FROM t0",
    "SELECT a, (SELECT MAX(c) FROM t1 WHERE t1.b = t0.b AND t1.c = t0.c + 1) AS m FROM t0",
    "SELECT a, (SELECT COUNT(*) FROM t1 WHERE t1.b < t0.b) AS n FROM t0",
    "SELECT a, (SELECT SUM(c) FROM t1 WHERE t1.b = t0.b AND t1.c <= t0.c) AS n FROM t0",
    "SELECT a FROM t0 WHERE c > (SELECT SUM(x.b) FROM t1 x, t1 y WHERE x.a = y.a AND y.b = t0.b)",
    "SELECT r.a FROM t0 r, t0 s WHERE r.b = s.b AND r.c < (SELECT SUM(c) FROM t1 WHERE t1.a = r.a AND t1.b = s.b)",
    "SELECT r.a, s.a AS z FROM t0 r LEFT JOIN t1 s ON r.b = s.b AND s.c > (SELECT AVG(c) FROM t1)",
    "SELECT r.a, (SELECT MAX(c) FROM t1 WHERE t1.b = s.c) AS m FROM t0 r LEFT JOIN t1 s ON r.b = s.b",
    "SELECT a, (SELECT c FROM t1 WHERE t1.b = t0.b ORDER BY c NULLS FIRST LIMIT 1) AS m FROM t0",
    "SELECT a FROM t0 WHERE b > (SELECT AVG(b) FROM t1 WHERE c = (SELECT MAX(c) FROM t0))",
    "SELECT a FROM t0 WHERE b = (SELECT MAX(b) FROM t1 WHERE t1.c > (SELECT MIN(c) FROM t1 x WHERE x.a = t0.a))",
    (
        "SELECT a FROM t0 WHERE b = (SELECT MAX(b) FROM t1 WHERE t1.c = t0.c "
        "AND EXISTS (SELECT 1 FROM t0 x WHERE x.a = t1.a))"
    ),
    "SELECT DISTINCT b, (SELECT MAX(c) FROM t1 WHERE t1.b = t0.b) AS m FROM t0",
    # Above groups
    "SELECT b, SUM(c) AS s FROM t0 GROUP BY b HAVING SUM(c) > (SELECT AVG(c) FROM t1)",
    "SELECT b, COUNT(*) AS n, (SELECT COUNT(*) FROM t1 WHERE t1.b = t0.b) AS m FROM t0 GROUP BY b",
    "SELECT b, MAX(c) AS m FROM t0 GROUP BY b HAVING MAX(c) >= (SELECT MIN(c) FROM t1 WHERE t1.b = t0.b)",
    "SELECT b, SUM((SELECT MAX(c) FROM t1 WHERE t1.a = t0.a)) AS s FROM t0 GROUP BY b",
    "SELECT SUM(b) AS s, (SELECT MAX(b) FROM t1) AS m FROM t0",
    "SELECT b FROM t0 GROUP BY b HAVING EXISTS (SELECT 1 FROM t1 WHERE t1.b = t0.b)",
    "SELECT b, COUNT(*) AS n FROM t0 GROUP BY b HAVING b IN (SELECT b FROM t1)",
    # Sums of the values that satisfy a comparison
    "SELECT SUM(c) AS s, COUNT(*) AS n FROM t0 WHERE a < (SELECT AVG(a) FROM t0 z WHERE z.b = t0.b)",
    "SELECT b, SUM(c) AS s, COUNT(c) AS n FROM t0 WHERE a >= (SELECT AVG(c) FROM t1 WHERE t1.b = t0.b) GROUP BY b",
    (
        "SELECT y.c, SUM(x.c) AS s, COUNT(*) AS n FROM t0 x, t1 y WHERE x.b = y.b AND x.a > 0 "
        "AND x.a <= (SELECT MAX(a) FROM t1 z WHERE z.b = x.b) GROUP BY y.c HAVING COUNT(*) > 1"
    ),
    "SELECT SUM(x.a) AS s FROM t0 x, t1 y WHERE x.b = y.b AND x.c > (SELECT SUM(c) FROM t1 z WHERE z.b = y.b)",
    (
        "SELECT y.c, COUNT(*) AS n, SUM(x.a + x.c) AS s FROM t0 x, t1 y "
        "WHERE x.b = y.b AND x.c > 0.5 * (SELECT AVG(c) FROM t0 z WHERE z.b = y.b) GROUP BY y.c"
    ),
    # IN, NOT IN, ANY, ALL with NULLs
    "SELECT a FROM t0 WHERE b NOT IN (SELECT b FROM t1)",
    "SELECT a FROM t0 WHERE b NOT IN (SELECT b FROM t1 WHERE t1.c = t0.c)",
    "SELECT a FROM t0 WHERE b NOT IN (SELECT b FROM t1 WHERE b IS NOT NULL)",
    "SELECT a FROM t0 WHERE b NOT IN (SELECT MAX(b) FROM t1 GROUP BY c)",
    "SELECT a FROM t0 WHERE b > ALL (SELECT b FROM t1)",
    "SELECT a FROM t0 WHERE b <= ALL (SELECT b FROM t1 WHERE t1.c = t0.c)",
    "SELECT a FROM t0 WHERE b = ALL (SELECT b FROM t1 WHERE b > 0)",
    "SELECT a FROM t0 WHERE b >= ALL ((SELECT c FROM t1))",
    "SELECT a FROM t0 WHERE NOT (b < ANY (SELECT b FROM t1))",
    "SELECT a FROM t0 WHERE NOT (b < ALL (SELECT b FROM t1))",
    "SELECT a FROM t0 WHERE b <> ANY (SELECT b FROM t1 WHERE t1.c = t0.c)",
    "SELECT a FROM t0 WHERE b IN (SELECT MAX(b) FROM t1 WHERE t1.c = t0.c GROUP BY a)",
    "SELECT a FROM t0 WHERE EXISTS (SELECT 1 FROM t1 WHERE t1.c = t0.c GROUP BY b HAVING COUNT(*) > 1)",
    "SELECT a FROM t0 WHERE b IN (SELECT b FROM t1 WHERE t1.c < t0.c)",
    "SELECT a FROM t0 WHERE b > ALL (VALUES (0), (1)) OR b IN (VALUES (0), (NULL))",
    "SELECT a FROM t0 WHERE b >= ANY (((SELECT c FROM t1) UNION (SELECT 2)) EXCEPT (SELECT 1))",
    # Aggregates without GROUP BY have a row, also if nothing matches
    "SELECT a FROM t0 WHERE EXISTS (SELECT 1 FROM t1 WHERE t1.b = t0.b HAVING COUNT(*) = 0)",
    "SELECT a, EXISTS (SELECT 1 FROM t1 WHERE t1.b = t0.b HAVING COUNT(*) = 0) AS e FROM t0",
    "SELECT a FROM t0 WHERE NOT EXISTS (SELECT COUNT(*) FROM t1 WHERE t1.b = t0.b HAVING COUNT(*) > 1)",
    "SELECT a FROM t0 WHERE EXISTS (SELECT MAX(c) FROM t1 WHERE t1.b = t0.b)",
    "SELECT a FROM t0 WHERE EXISTS (SELECT MAX(c) FROM t1 WHERE t1.b = t0.b ORDER BY 1 LIMIT 1 OFFSET 1)",
    "SELECT a, (SELECT COUNT(*) FROM t1 WHERE t1.b = t0.b ORDER BY 1 LIMIT 0) AS m FROM t0",
    "SELECT a FROM t0 WHERE b IN (SELECT COUNT(*) FROM t1 WHERE t1.c = t0.c)",
    "SELECT a FROM t0 WHERE b NOT IN (SELECT COUNT(*) FROM t1 WHERE t1.c = t0.c HAVING COUNT(*) < 2)",
    "SELECT a, b < ALL (SELECT SUM(b) FROM t1 WHERE t1.c = t0.c HAVING COUNT(*) < 2) AS e FROM t0",
    "SELECT a FROM t0 WHERE (b, c) IN (SELECT MIN(b), MAX(c) FROM t1)",
    # Outer columns read elsewhere than in equalities of its WHERE
    "SELECT a, (SELECT SUM(t1.c * t0.b) FROM t1 WHERE t1.b = t0.b) AS m FROM t0",
    "SELECT a, (SELECT SUM(t1.c) FILTER (WHERE t1.b > t0.b) FROM t1) AS m FROM t0",
    "SELECT a, (SELECT COUNT(*) + t0.b FROM t1 WHERE t1.c < t0.c HAVING COUNT(*) < 2 OR t0.c = 1) AS m FROM t0",
    "SELECT a, (SELECT COUNT(*) FROM t1 WHERE t1.b = t0.b HAVING COUNT(*) > t0.c) AS m FROM t0",
    "SELECT a FROM t0 WHERE b IN (SELECT t0.c + SUM(c) FROM t1 GROUP BY b HAVING SUM(c) > t0.b)",
    "SELECT a, (SELECT MAX(c) FROM t1 GROUP BY b + t0.b ORDER BY 1 NULLS FIRST LIMIT 1) AS m FROM t0",
    "SELECT a, (SELECT DISTINCT t0.b FROM t1 WHERE t1.c = t0.c) AS m FROM t0",
    "SELECT r.a, (SELECT COUNT(*) FROM t1 WHERE t1.b < s.c) AS n FROM t0 r LEFT JOIN t1 s ON r.b = s.b",
    (
        "SELECT r.a, s.c FROM t0 r LEFT JOIN t1 s ON r.b = s.b "
        "WHERE r.c < (SELECT COUNT(*) FROM t1 WHERE t1.b <> s.c OR s.c IS NULL)"
    ),
    "SELECT s.a FROM t0 r FULL JOIN t1 s ON r.b = s.b WHERE 1 < (SELECT COUNT(*) FROM t1 WHERE t1.b < s.c OR r.a > 0)",
    "SELECT a, (SELECT SUM(c) FROM t1 WHERE t1.b > (SELECT COUNT(*) FROM t0 x WHERE x.c < t0.c)) AS m FROM t0",
    (
        "SELECT a FROM t0 WHERE b > (SELECT COUNT(*) FROM t1 WHERE t1.c > (SELECT AVG(x.c) FROM t1 x "
        "WHERE x.b <> t0.b AND x.b <> t1.b AND x.c > (SELECT MIN(c) FROM t0 y WHERE y.b < t0.c)))"
    ),
    "SELECT a FROM t0 WHERE EXISTS (SELECT 1 FROM t1 WHERE t1.b > (SELECT AVG(x.c) FROM t1 x WHERE x.b = t0.b))",
    # Outer joins whose ON reads outer columns
    "SELECT a FROM t0 WHERE EXISTS (SELECT 1 FROM t1 s LEFT JOIN t0 u ON s.a = u.a AND u.a = t0.a)",
    "SELECT a FROM t0 WHERE NOT EXISTS (SELECT 1 FROM t1 s RIGHT JOIN t1 u ON s.b = u.b AND s.c = t0.c WHERE s.a > 1)",
    "SELECT a FROM t0 WHERE EXISTS (SELECT 1 FROM t1 s FULL JOIN t1 u ON s.b = u.c AND u.b = t0.b WHERE s.b IS NULL)",
    "SELECT a FROM t0 WHERE b IN (SELECT u.b FROM t1 s LEFT JOIN t1 u ON s.c = u.c AND u.b < t0.c)",
    "SELECT a FROM t0 WHERE b NOT IN (SELECT u.b FROM t1 s LEFT JOIN t1 u ON s.b = u.c AND u.b = t0.b WHERE s.c = 1)",
    "SELECT a, (SELECT SUM(u.b) FROM t1 s LEFT JOIN t1 u ON s.b = u.b AND u.c = t0.c) AS m FROM t0",
    "SELECT a, (SELECT COUNT(s.b) FROM t1 s RIGHT JOIN t1 u ON s.b = u.b AND s.c < t0.c) AS m FROM t0",
    "SELECT a, (SELECT SUM(s.b) FROM t1 s FULL JOIN t1 u ON s.b = u.b OR s.b = t0.b) AS m FROM t0",
    "SELECT a, (SELECT SUM(s.b + w.c) FROM t1 s FULL JOIN t1 u ON s.b = t0.b FULL JOIN t1 w ON w.b = u.c) AS m FROM t0",
    "SELECT a, (SELECT COUNT(*) FROM t1 s FULL JOIN t1 u ON s.b = t0.b AND u.b = s.c WHERE t0.c > 0) AS m FROM t0",
    "SELECT a, (SELECT SUM(b) FROM t1 s FULL JOIN t0 u USING (b) WHERE s.c IS NULL OR u.c < t0.c) AS m FROM t0",
    "SELECT a, EXISTS (SELECT 1 FROM t1 s LEFT SEMI JOIN t1 u ON s.b = u.b AND u.c = t0.c) AS e FROM t0",
    "SELECT a, EXISTS (SELECT 1 FROM t1 s LEFT ANTI JOIN t1 u ON s.b = u.b AND u.c = t0.c) AS e FROM t0",
    "SELECT a, (SELECT SUM(w.b) FROM t1 s LEFT JOIN (t1 u LEFT JOIN t1 w ON w.c = t0.c) ON s.b = u.b) AS m FROM t0",
    "SELECT a, (SELECT SUM(w.b) FROM (t1 s LEFT JOIN t1 w ON w.c = t0.c) RIGHT JOIN t1 u ON s.b = u.b) AS m FROM t0",
    (
        "SELECT a FROM t0 WHERE EXISTS (SELECT 1 FROM t1 s RIGHT JOIN t1 u ON s.b = u.b WHERE t0.b = s.b AND EXISTS "
        "(SELECT 1 FROM t1 v LEFT JOIN t1 w ON v.c = w.c AND v.b = s.b WHERE s.c = v.c))"
    ),
    (
        "SELECT a FROM t0 WHERE EXISTS (SELECT 1 FROM t1 s RIGHT JOIN t1 u ON s.b = u.b AND s.c = t0.c WHERE t0.b = u.b"
        " AND EXISTS (SELECT 1 FROM t1 v LEFT JOIN t1 w ON v.c = w.c AND v.b < s.b WHERE u.c = v.c))"
    ),
    (
        "SELECT a, (SELECT SUM(s.b) FROM t1 s JOIN t1 u ON s.b = u.b "
        "AND u.c = (SELECT MAX(z.c) FROM t1 z WHERE z.b < t0.b)) AS m FROM t0"
    ),
    (
        "SELECT a FROM t0 WHERE EXISTS (SELECT 1 FROM t1 p WHERE p.b = t0.b AND EXISTS (SELECT 1 FROM t1 s "
        "FULL JOIN t1 u ON s.b = u.b AND s.c = t0.c AND u.c = p.c WHERE s.a IS NULL))"
    ),
    "SELECT s.a, u.b FROM t0 s LEFT JOIN t1 u ON s.b = u.b AND NOT EXISTS (SELECT 1 FROM t1 w WHERE w.c = s.c)",
    "SELECT s.a, u.b FROM t0 s LEFT JOIN t1 u ON s.b = u.b AND EXISTS (SELECT 1 FROM t1 WHERE b = s.c AND c = u.c)",
    "SELECT s.a, u.b FROM t0 s FULL JOIN t1 u ON s.b = u.b AND EXISTS (SELECT 1 FROM t1 WHERE b = s.c AND c < u.c)",
    (
        "SELECT a, (SELECT COUNT(*) FROM t1 s LEFT JOIN t1 u ON u.b = t0.b "
        "WHERE s.c < (SELECT COUNT(*) FROM t1 w WHERE w.b <= u.c)) AS m FROM t0"
    ),
    "SELECT s.a, u.b FROM t0 s FULL JOIN t1 u ON s.b = u.b AND s.c > (SELECT MIN(c) FROM t1)",
    (
        "SELECT s.a, u.b FROM t0 s LEFT JOIN t1 v ON v.b = s.b LEFT JOIN t1 u ON s.c = u.c "
        "AND EXISTS (SELECT 1 FROM t1 w WHERE w.b = v.c AND w.c = u.b)"
    ),
    # Windows, limits and their orders that read outer columns
    "SELECT a, (SELECT MAX(x) FROM (SELECT SUM(b) OVER (PARTITION BY c) AS x FROM t1) q) AS m FROM t0",
    "SELECT a FROM t0 WHERE b + 1 IN (SELECT SUM(t0.b + s.b) OVER () FROM t1 s WHERE s.c = 1)",
    "SELECT a FROM t0 WHERE b IN (SELECT COUNT(*) OVER (PARTITION BY s.b) FROM t1 s WHERE s.c = t0.c)",
    "SELECT a FROM t0 WHERE c IN (SELECT SUM(s.b) OVER (ORDER BY s.b) - t0.b FROM t1 s WHERE s.c <= t0.c)",
    "SELECT a FROM t0 WHERE EXISTS (SELECT 1 FROM t1 s QUALIFY RANK() OVER (ORDER BY s.b NULLS FIRST) > t0.b)",
    "SELECT a, (SELECT b FROM t1 s ORDER BY (s.c - 1) * (t0.b - 1) NULLS FIRST, s.b NULLS FIRST LIMIT 1) AS m FROM t0",
    # Everything that ...: no row without its row
    (
        "SELECT a FROM t0 WHERE NOT EXISTS (SELECT 1 FROM t1 WHERE NOT EXISTS (SELECT 1 FROM t0 x "
        "WHERE x.b = t0.b AND x.c = t1.c))"
    ),
    "SELECT a FROM t0 WHERE b NOT IN (SELECT b FROM t1 WHERE c NOT IN (SELECT c FROM t0 x WHERE x.b = t0.b))",
    "SELECT a FROM t0 WHERE b < ALL (SELECT b FROM t1 WHERE NOT EXISTS (SELECT 1 FROM t0 x WHERE x.b <> t0.b))",
    # Above several groupings
    (
        "SELECT b, SUM(c) AS s, (SELECT COUNT(*) FROM t1 WHERE t1.b = t0.b) AS n FROM t0 GROUP BY ROLLUP(b) "
        "HAVING COUNT(*) > 0"
    ),
    (
        "SELECT b, c, GROUPING(b) AS g, COUNT(*) AS n FROM t0 GROUP BY CUBE(b, c) "
        "HAVING COUNT(*) > 0 AND (GROUPING(c) = 1 OR COUNT(*) >= ALL (SELECT c FROM t1 WHERE t1.b = t0.b))"
    ),
    # The same as values
    "SELECT a, b IN (SELECT b FROM t1) AS i FROM t0",
    "SELECT a, b NOT IN (SELECT b FROM t1 WHERE t1.c = t0.c) AS i FROM t0",
    "SELECT a, b < ANY (SELECT b FROM t1) AS i, b < ALL (SELECT b FROM t1 WHERE t1.c = t0.c) AS j FROM t0",
    "SELECT a, b <> ANY (SELECT b FROM t1) AS i, b = ALL (SELECT b FROM t1 WHERE t1.c = t0.c) AS j FROM t0",
    "SELECT a, EXISTS (SELECT 1 FROM t1 WHERE t1.b = t0.b) AS e FROM t0",
    "SELECT a FROM t0 WHERE b = 1 OR EXISTS (SELECT 1 FROM t1 WHERE t1.b = t0.b)",
    "SELECT a FROM t0 WHERE b = 1 OR b IN (SELECT c FROM t1 WHERE t1.a = t0.a)",
    "SELECT a FROM t0 WHERE NOT (b = 1 AND EXISTS (SELECT 1 FROM t1 WHERE t1.b < t0.b))",
    "SELECT CASE WHEN EXISTS (SELECT 1 FROM t1 WHERE t1.b = t0.b) THEN a ELSE -1 END AS x FROM t0",
    (
        "SELECT a FROM t0 WHERE EXISTS (SELECT 1 FROM t1 WHERE t1.b = t0.b "
        "OR EXISTS (SELECT 1 FROM t0 x WHERE x.c = t1.c))"
    ),
    (
        "SELECT a FROM t0 WHERE EXISTS (SELECT 1 FROM t1 WHERE t1.b = t0.b "
        "AND t1.c > (SELECT AVG(c) FROM t1 x WHERE x.a = t1.a))"
    ),
)


def two(data: st.DataObject) -> list[TableModel]:
    return [TableModel(f"t{i}", data.draw(KEYED)) for i in range(2)]


@pytest.mark.parametrize("sql", WRITTEN)
@given(st.data())
@settings(max_examples=8)
def test_written_subqueries_agree_with_duckdb(sql: str, data: st.DataObject) -> None:
    tables = two(data)
    freshet.plan(sql, "; ".join(t.ddl for t in tables))  # none of them is refused
    follow(data, tables, sql)


@given(st.data())
@settings(max_examples=20)
def test_rows_not_in_rows(data: st.DataObject) -> None:
    """A row with NULLs is not in rows that differ in some part that is known."""
    maybe = " AND ".join(f"(t0.{c} = t1.{c} OR t0.{c} IS NULL OR t1.{c} IS NULL)" for c in ("b", "c"))
    oracle = f"SELECT a FROM t0 WHERE NOT EXISTS (SELECT 1 FROM t1 WHERE {maybe})"
    follow(data, two(data), "SELECT a FROM t0 WHERE (b, c) NOT IN (SELECT b, c FROM t1)", oracle)


@pytest.mark.parametrize("word", ["EXISTS", "NOT EXISTS", "COUNT"])
def test_binding_again_ends(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A subquery is bound again for outer columns it has not read before, even if the query around it is bound
    again."""
    bound = 0
    bind = Selection.bind

    def counted(self: Selection, ordered: bool = False) -> AnyQuery:
        nonlocal bound
        bound += 1
        return bind(self, ordered)

    def nested(level: int, depth: int) -> str:
        x, above, far = f"x{level}", f"x{level - 1}", f"x{max(level - 2, 0)}"
        further = f" AND {nested(level + 1, depth)}" if level < depth else ""
        select = f"FROM t {x} LEFT JOIN t y{level} ON {x}.a = {above}.a WHERE {x}.b < {far}.b{further}"
        return f"{far}.a > (SELECT COUNT(*) {select})" if word == "COUNT" else f"{word} (SELECT 1 {select})"

    monkeypatch.setattr(Selection, "bind", counted)
    for depth in (2, 4, 8):
        bound = 0
        freshet.plan(f"SELECT a FROM t x0 WHERE {nested(1, depth)}", "CREATE TABLE t (a INT, b INT)")
        assert bound <= 3 * depth * depth, f"{bound} selects bound for {depth} levels"


def test_more_than_one_row_is_an_error() -> None:
    """As in SQL, and the transaction that brings the second row changes nothing."""
    db = freshet.connect()
    db.execute("CREATE TABLE t0 (a INT, b INT)")
    db.execute("CREATE TABLE t1 (b INT, c INT)")
    view = db.create_view("v", "SELECT a, (SELECT c FROM t1 WHERE t1.b = t0.b) AS m FROM t0")
    db.execute("INSERT INTO t1 VALUES (1, 10), (2, 20), (2, 21)")
    db.execute("INSERT INTO t0 VALUES (5, 1), (6, 3)")
    assert sorted(view.to_arrow().to_pylist(), key=str) == [{"a": 5, "m": 10}, {"a": 6, "m": None}]
    with pytest.raises(freshet.FreshetError, match="a scalar subquery has 2 rows"):
        db.execute("INSERT INTO t0 VALUES (7, 2)")
    assert view.count() == 2
    with pytest.raises(freshet.FreshetError, match="a scalar subquery has 2 rows"):
        db.execute("INSERT INTO t1 VALUES (1, 11)")
    db.execute("DELETE FROM t1 WHERE c = 21")
    db.execute("INSERT INTO t0 VALUES (7, 2)")
    assert {"a": 7, "m": 20} in view.to_arrow().to_pylist()


def test_a_row_found_by_its_key_is_one() -> None:
    """Nothing is stored or counted for a value looked up by a primary key."""
    ddl = "CREATE TABLE t0 (a INT, b INT); CREATE TABLE t1 (b INT PRIMARY KEY, c INT)"
    text = freshet.plan("SELECT a, (SELECT c FROM t1 WHERE t1.b = t0.b) AS m FROM t0", ddl).explain()
    assert "left on" in text and "stored as well" not in text


@pytest.mark.parametrize("test", ["o.b >=", "o.b =", "o.b <>", "o.b <"])
def test_several_rows_of_a_key_fail_only_if_the_key_is_read(test: str) -> None:
    """Not under a NULL key, which no row asks for, nor under one that no row has."""
    db = freshet.connect()
    db.execute("CREATE TABLE o (b INT); CREATE TABLE s (a INT, b INT)")
    sql = f"SELECT o.b FROM o WHERE {test} (SELECT s.a FROM s WHERE s.b = o.b)"
    view = db.create_view("v", sql)
    rows = [{"a": 2, "b": None}, {"a": 2, "b": None}, {"a": 2, "b": 7}, {"a": 3, "b": 7}, {"a": 1, "b": 1}]
    db.apply({"s": rows, "o": [{"b": 1}, {"b": None}]})
    assert view.count() == (test in ("o.b >=", "o.b ="))
    with pytest.raises(freshet.ChangeError, match="a scalar subquery has 2 rows"):
        db.apply({"o": [{"b": 7}]})
    db.apply({"s": [{"a": 3, "b": 7, "_weight": -1}], "o": [{"b": 7}]})
    assert view.to_arrow().to_pylist() == db.execute(sql).to_pylist()
    with pytest.raises(freshet.ChangeError, match="has 2 rows"):
        db.apply({"s": [{"a": 3, "b": 7}]})


def test_a_side_of_a_join_is_computed_for_every_row_of_its_table() -> None:
    """As docs/sql.md says: also for one that meets nothing."""
    db = freshet.connect()
    db.execute("CREATE TABLE o (b INT); CREATE TABLE s (a INT, b INT)")
    db.create_view("v", "SELECT o.b FROM o JOIN s ON s.b = o.b AND o.b >= 10 DIV s.a")
    with pytest.raises(freshet.ChangeError, match="division by zero"):
        db.apply({"s": [{"a": 0, "b": None}]})
    db.execute("DROP VIEW v")
    db.create_view("v", "SELECT o.b FROM o JOIN s ON s.b = o.b AND o.b >= 10 DIV NULLIF(s.a, 0)")
    db.apply({"s": [{"a": 0, "b": None}]})
