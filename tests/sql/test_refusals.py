"""Every error points: line, column, the fact, then the remedy. Every construct that is not maintained is refused."""

from __future__ import annotations

import pytest

from freshet.errors import SqlError, UnsupportedError
from freshet.sql.catalog import Catalog
from freshet.sql.parse import bind_query, parse

#: text → column of the error, words of its message. Each on line 1.
ERRORS = {
    "SELECT kk FROM a": (8, "no column kk; a has k, "),
    "SELECT a.kk FROM a": (8, "no column kk; a has k, "),
    "SELECT nope FROM a, b": (8, "no column nope; a, b have "),
    "SELECT q.k FROM a": (8, "no table or alias q in FROM; it has a"),
    "SELECT q.* FROM a": (8, "no table or alias q in FROM; it has a"),
    "SELECT k FROM plein": (15, "no table plein; known tables and views: plain, a, "),
    "SELECT k FROM a, b": (8, "column k is ambiguous; write a.k or b.k"),
    "SELECT k FROM (SELECT k, x AS k FROM a) t": (8, "column k is ambiguous: t has two"),
    "SELECT k FROM a, b AS a": (18, "two relations are called a; give one of them another alias"),
    "SELECT k, sum(x) FROM a": (8, "column k is not in GROUP BY; add it to GROUP BY or aggregate it, as in MIN(k)"),
    "SELECT x FROM a GROUP BY x HAVING y > 1": (35, "column y is not in GROUP BY"),
    "SELECT k FROM a WHERE sum(y) > 1": (23, "aggregate SUM(y) in WHERE; filter groups in HAVING"),
    "SELECT sum(max(x)) FROM a": (12, "aggregate MAX(x) in an aggregate's argument"),
    "SELECT x FROM a GROUP BY sum(x)": (26, "aggregate SUM(x) in GROUP BY"),
    "SELECT k FROM a WHERE x": (23, "WHERE needs a condition, not INT"),
    "SELECT k FROM a ORDER BY nope": (26, "no column nope"),
    "SELECT k FROM a ORDER BY 2": (26, "ORDER BY 2 is not a valid position; the select list has 1 to 1"),
    "SELECT x FROM a GROUP BY 3": (26, "GROUP BY 3 is not a valid position"),
    "SELECT d + d FROM a": (8, "DATE"),
    "SELECT grouping(x, k) FROM a GROUP BY ROLLUP (x, k)": (8, "GROUPING takes one key"),
    "SELECT count() FROM a": (8, "COUNT takes at least one argument; write COUNT(*) to count rows"),
    "SELECT count(DISTINCT) FROM a": (8, "COUNT takes at least one argument"),
    "WITH w AS (SELECT 1), W AS (SELECT 2) SELECT * FROM w": (23, "WITH defines W twice"),
    "SELECT sum(x) OVER (RANGE CURRENT ROW) FROM a": (8, "depends on an order; add ORDER BY"),
    "SELECT sum(x) OVER (ORDER BY x ROWS BETWEEN 3 FOLLOWING AND 1 FOLLOWING) FROM a": (8, "ends before it begins"),
    "SELECT sum(x) OVER (ORDER BY x ROWS BETWEEN 1 PRECEDING AND 3 PRECEDING) FROM a": (8, "ends before it begins"),
    "SELECT sum(x) OVER (ORDER BY x ROWS UNBOUNDED FOLLOWING) FROM a": (8, "cannot begin with UNBOUNDED FOLLOWING"),
    "SELECT sum(x) OVER (ORDER BY x ROWS BETWEEN 1 PRECEDING AND UNBOUNDED PRECEDING) FROM a": (
        8,
        "a frame cannot end with UNBOUNDED PRECEDING",
    ),
    "SELECT sum(x) OVER (ORDER BY x ROWS y PRECEDING) FROM a": (
        8,
        "a frame's bound must be a constant, not y; write one",
    ),
    "SELECT x * NULL FROM a GROUP BY y": (8, "column x is not in GROUP BY"),
    "SELECT y FROM a GROUP BY y HAVING NULL = x": (42, "column x is not in GROUP BY"),
    "SELECT y FROM a GROUP BY y ORDER BY x || NULL": (37, "column x is not in GROUP BY"),
    "SELECT CAST('2023-11-05 01:40-07:00' AS TIMESTAMP)": (8, "is not a value of TIMESTAMP"),
    "SELECT *": (8, "* without FROM has no columns"),
    "SELECT t.q FROM (SELECT k FROM a) AS t(q, r)": (38, "t names 2 columns, but there are 1"),
    "SELECT k FROM a WHERE (k, x) IN (SELECT k FROM b)": (24, "2 values are compared with 1 columns"),
    "SELECT k FROM a WHERE": (17, "something is missing after WHERE"),
    "SELECT a b c FROM a": (12, "c does not fit here"),
    "SELECT k FROM a WHERE s = 'it": (27, "close the quote"),
    "SELEC k FROM a": (1, "no statement begins with SELEC; begin with SELECT"),
    "CREATE MATERIALIZED VIEW v AS SELECT k AS _Weight FROM a": (
        43,
        "column name _Weight is reserved for changes",
    ),
    "CREATE MATERIALIZED VIEW v AS SELECT NULL AS n": (26, "column n has no storable type; CAST it"),
    "CREATE MATERIALIZED VIEW a AS SELECT 1": (26, "a table a already exists"),
    "CREATE TABLE plain (k INT)": (14, "a view plain already exists"),
    "CREATE TABLE t (k INT, K INT)": (24, "table t has two columns K"),
    "CREATE TABLE t (k INT, PRIMARY KEY (q))": (37, "no column q; t has k"),
    "CREATE TABLE t (k INT PRIMARY KEY, PRIMARY KEY (k))": (49, "table t has two primary keys"),
    "CREATE TABLE t (k INT, l INT, PRIMARY KEY (k, l, K))": (50, "the primary key of t names a column twice"),
    "CREATE TABLE t (_weight INT)": (17, "column name _weight is reserved"),
    "CREATE TABLE t (p DECIMAL(39, 2))": (27, "up to 38 digits"),
    "DROP TABLE nope": (12, "no table nope; known tables and views: "),
    "DROP TABLE plain": (12, "plain is a view; write DROP VIEW plain"),
    "DROP VIEW a": (11, "a is a table; write DROP TABLE a"),
    "INSERT INTO a VALUES (1, 2)": (23, "2 values for 6 columns of a; it takes k, x, y"),
    "INSERT INTO b (k) SELECT k, x FROM c": (19, "2 values for 1 columns of b"),
    "INSERT INTO a (k) VALUES (1)": (13, "column y of a is NOT NULL; give it a value"),
    "INSERT INTO b (k, q) VALUES (1, 1)": (19, "no column q; b has k, x, z"),
    "INSERT INTO b (k, x, k) VALUES (1, 1, 1)": (13, "named twice"),
    "INSERT INTO plain VALUES (1)": (13, "plain is a view; change the tables it reads"),
    "INSERT INTO b VALUES (x, 1, 1)": (23, "no column x: the query has no FROM"),
    "INSERT INTO b VALUES ('one', 1, 1)": (23, "one"),
    "UPDATE a SET nope = 1": (14, "no column nope; a has"),
    "UPDATE a SET x = 1, x = 2": (21, "column x is set twice"),
    "DELETE FROM nope": (13, "no table nope; known tables: "),
}

REFUSED = {
    "SELECT sum(x) OVER (PARTITION BY y) AS w, count(w) OVER (PARTITION BY y) AS n FROM a": (43, "alias of another"),
    "SELECT k FROM a WHERE x = (SELECT max(a.x) FROM b)": (28, "an aggregate of the enclosing query"),
    "SELECT 1 FROM a FULL JOIN LATERAL (SELECT 1) t ON TRUE": (27, "FULL JOIN LATERAL"),
    "SELECT 1 FROM a LATERAL VIEW stack(2, s, s) t AS q": (30, "LATERAL VIEW of STACK(2, s, s)"),
    "SELECT k FROM a TABLESAMPLE (10 PERCENT)": (15, "TABLESAMPLE"),
    "SELECT k FROM db.a": (15, "the qualified name db.a is not supported; write a"),
    "SELECT rand() FROM a": (8, "RAND() in a maintained query"),
    "SELECT uuid() FROM a": (8, "UUID() in a maintained query"),
    "SELECT now() FROM a": (8, "NOW() as anything but the bound of a comparison"),
    "SELECT current_timestamp FROM a": (8, "NOW() as anything but the bound of a comparison"),
    "SELECT my_function(x) FROM a": (8, "function my_function is not supported; write it in Python, with create_func"),
    "SELECT kurtosis(x) FROM a": (8, "KURTOSIS(x)"),
    "SELECT approx_top_k(x, 2) FROM a": (8, "keep the greatest counts with ORDER BY COUNT(*) DESC LIMIT"),
    "SELECT shuffle(x) FROM a": (8, "SHUFFLE(x) in a maintained query"),
    "SELECT k FROM a WHERE d < localtimestamp()": (27, "LOCALTIMESTAMP in a maintained query"),
    "SELECT db.my_function(x) FROM a": (8, "function db.my_function is not supported; compute it before"),
    "SELECT arrays_zip(x) FROM a": (8, "ARRAYS_ZIP(x)"),
    "SELECT s RLIKE '(?>x)' FROM a": (8, "use (...) and (?:...)"),
    "SELECT s RLIKE '(?=(x))' FROM a": (8, "a group in (?=(x))"),
    "SELECT s RLIKE '(?<=x*)y' FROM a": (8, "which looks behind without a limit of 50 characters"),
    "SELECT s RLIKE '(?<=x(?!y))z' FROM a": (8, "look-around in (?<=x(?!y))"),
    "SELECT s RLIKE '(?<!x)😀' FROM a": (8, "a character beyond U+FFFF next to look-behind"),
    "SELECT date_format(d, 'ww') FROM a": (8, "ww in the pattern"),
    "SELECT INTERVAL x DAY FROM a": (17, "multiply one, as in INTERVAL '1' DAY * n"),
    "SELECT * REPLACE (k + 1 AS k) FROM a": (8, "REPLACE (k + 1 AS k)"),
    "SELECT DISTINCT ON (x) k FROM a": (8, "DISTINCT ON"),
    "SELECT CAST(s AS VARIANT) FROM a": (1, "a column of VARIANT, s"),
    "CREATE TABLE t (v VARIANT)": (19, "type VARIANT"),
    "CREATE MATERIALIZED VIEW v AS SELECT ? AS one": (21, "a parameter in a definition"),
    "CREATE VIEW v AS SELECT 1": (8, "write CREATE MATERIALIZED VIEW"),
    "CREATE MATERIALIZED VIEW v (q) AS SELECT 1": (26, "a column list on a view"),
    "CREATE TABLE t AS SELECT 1": (14, "CREATE TABLE AS SELECT"),
    "CREATE TABLE t (k INT DEFAULT 1)": (17, "DEFAULT 1 on a column"),
    "CREATE TABLE t (k INT) USING parquet": (8, "USING PARQUET on a table"),
    "CREATE TABLE t (k ARRAY<CHAR(3)>)": (30, "CHAR(3) inside of another type"),
    "CREATE INDEX i ON a (k)": (19, "an index on table a"),
    "DROP TABLE a, b": (15, "DROP of several at once"),
    "INSERT OVERWRITE b SELECT k, x, 1 FROM c": (8, "INSERT OVERWRITE"),
    "MERGE INTO a USING b ON a.k = b.k WHEN MATCHED THEN DELETE": (1, "MERGE"),
    "ALTER TABLE a RENAME TO q": (25, "ALTER TABLE"),
    "BEGIN ISOLATION LEVEL SERIALIZABLE": (1, "write BEGIN alone"),
    "COMMIT AND CHAIN": (1, "write COMMIT alone"),
    "TRUNCATE TABLE a": (1, "use DELETE FROM without WHERE"),
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors_point_at_the_mistake(text: str, catalog: Catalog) -> None:
    column, words = ERRORS[text]
    with pytest.raises(SqlError) as caught:
        parse(text, catalog)
    assert not isinstance(caught.value, UnsupportedError)
    assert words in caught.value.reason
    assert (caught.value.line, caught.value.column) == (1, column)
    assert caught.value.text == text


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_maintained_is_refused(text: str, catalog: Catalog) -> None:
    column, words = REFUSED[text]
    with pytest.raises(UnsupportedError) as caught:
        parse(text, catalog)
    assert words in caught.value.reason
    assert (caught.value.line, caught.value.column) == (1, column)
    assert "in some part" not in caught.value.reason


def test_lines_are_counted(catalog: Catalog) -> None:
    with pytest.raises(SqlError) as caught:
        parse("SELECT 1;\nSELECT k\nFROM a\n  JOIN nope ON 1 = 1", catalog)
    assert (caught.value.line, caught.value.column) == (4, 8)
    assert str(caught.value).endswith("\n    JOIN nope ON 1 = 1\n         ^")


@pytest.mark.parametrize("text", ["", ";", "-- nothing"])
def test_no_query(text: str, catalog: Catalog) -> None:
    assert parse(text, catalog) == []
    with pytest.raises(SqlError, match="text is empty"):
        bind_query(text, catalog)


def test_one_query_only(catalog: Catalog) -> None:
    with pytest.raises(SqlError, match="another statement"):
        bind_query("SELECT 1; SELECT 2", catalog)
    with pytest.raises(SqlError, match="a SELECT is expected"):
        bind_query("DELETE FROM a", catalog)


def test_what_the_binder_never_saw_is_refused_too(catalog: Catalog) -> None:
    deep = "SELECT " + "(" * 3000 + "1" + ")" * 3000
    with pytest.raises(SqlError):
        parse(deep, catalog)
