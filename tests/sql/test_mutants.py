"""Mistyped SQL is answered or refused, with a position, a fact and a remedy; `make fuzz-texts` tests more of it."""

from __future__ import annotations

import pytest

import freshet
from tests.fuzz.mutants import run

WRONG = {
    "SELECT": "something is missing after SELECT",
    "SELECT FROM t": "something is missing after SELECT",
    "SELECT a,, b FROM t": "something is missing after ,",
    "SELECT a, FROM t": "something is missing after ,",
    "SELECT , a FROM t": "something is missing after SELECT",
    "SELECT a FROM t,": "something is missing after ,",
    "SELECT MAX(a,) FROM t": "something is missing after ,",
    "SELECT a FROM t WHERE a IN (, 1)": "something is missing before ,",
    "SELECT 1 AS": "something is missing after AS",
    "SELECT COUNT(*) FROM t GROUP BY": "something is missing after GROUP BY",
    "SELECT SUM(a) OVER (PARTITION BY ORDER BY b) FROM t": "something is missing after PARTITION BY",
    "SELECT a FROM t ORDER BY a WHERE a > 1": "WHERE does not fit here; write it before ORDER BY",
    "SELECT a FROM t WHERE a > 1 WHERE b > 1": "WHERE does not fit here; write it once",
    "SELECT a FROM t GROUP BY a WHERE a > 1": "WHERE does not fit here; write it before GROUP BY",
    "UPDATE t": "UPDATE sets nothing; write SET column = value",
    "UPDATE t SET": "UPDATE sets nothing; write SET column = value",
    "DELETE t": "DELETE without FROM is not supported; write DELETE FROM and the table",
    "SELECT b = a IN (1) FROM t": "can be read in two ways; put parentheses around it",
    "SELECT a IN (1) = TRUE FROM t": "can be read in two ways; put parentheses around it",
    "SELECT TRUE = NOT FALSE": "can be read in two ways; put parentheses around it",
    "SELECT a FROM t UNION BY NAME SELECT a FROM t": "UNION BY NAME is not supported",
    "SELECT a FROM t LIMIT 10 PERCENT": "LIMIT with PERCENT or TIES is not supported",
    "SELECT a FROM t TABLESAMPLE (1 ROWS)": "TABLESAMPLE is not supported",
    "SELECT 1.5F * DATE '2020-01-01'": "no operator FLOAT * DATE; * takes",
    "SELECT COUNT() FROM t": "COUNT takes at least one argument; write COUNT(*) to count rows",
    "SELECT MAX() FROM t": "an argument is missing; complete it",
    "SELECT DAYOFYEAR()": "an argument is missing; complete it",
    "SELECT ROW_NUMBER() FROM t": "window function ROW_NUMBER() without OVER; write OVER",
    "SELECT LAG(a) FROM t": "window function LAG(a) without OVER; write OVER",
    "CREATE MATERIALIZED VIEW a SELECT 1": "a view's query follows AS; write AS before it",
    "SELECT '\ud800'": "U+D800 is a lone surrogate",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM t ORDER BY z)": "no column z; t has a, b",
    "SELECT a FROM t WHERE a IN (SELECT a FROM t ORDER BY b + z LIMIT 1)": "no column z; t has a, b",
    "SELECT k.z FROM (SELECT 1 AS x) AS k": "no column z; k has x",
    "SELECT z FROM (SELECT 1 AS x)": "no column z; the query has x",
    "garbage " * 130_000: "no statement begins with garbage; begin with SELECT",
    "SELECT " + "garbage " * 130_000: "garbage does not fit here; check it",
    "SELECT (SELECT SUM(c + 1) OVER ()) FROM t": "no column c; t has a, b",
    "SELECT x.b.c.d FROM t": "x.b.c.d is not supported; qualify a column with its table or alias only",
    "SELECT a.b.c.d FROM t": "INT has no field b; only structs have fields",
    "SELECT REGEXP_REPLACE(CAST(a AS STRING), 'x') FROM t": "REGEXP_REPLACE takes",
    "SELECT -a AS x FROM t WHERE x < 1": "x is an output of the select list, which cannot be read here; write its",
    "SELECT a FROM t UNION SELECT b FROM t ORDER BY b": "no column b; the query has a",
    "SELECT * FROM t, (SELECT u.a FROM t AS u WHERE u.b = t.b) AS x": "t.b is a column of the enclosing query",
    "SELECT ROW_NUMBER(a) OVER (ORDER BY a) FROM t": "with all of these arguments is not supported; leave out the last",
    "SELECT SUM(a) OVER (ORDER BY a ROWS) FROM t": "a frame without an end",
}


@pytest.mark.parametrize("sql", WRONG)
def test_messages(sql: str) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT, b INT)")
    with pytest.raises(freshet.SqlError) as raised:
        db.execute(sql)
    assert WRONG[sql] in raised.value.reason
    assert raised.value.line == 1
    assert len(str(raised.value)) < 700


def test_unusual_spellings_are_accepted() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2)")
    for sql in (
        "SELECT (a IN (1)) = TRUE AS x FROM t",
        "SELECT (NOT FALSE) = TRUE AS x",
        "SELECT a = b IS NOT NULL AS x FROM t",
        "SELECT REGEXP_LIKE('a', 'a') = TRUE AS x",
        "SELECT a FROM t WHERE a IS DISTINCT FROM b ORDER BY a LIMIT 1",
        "SELECT EXTRACT(YEAR FROM DATE '2020-01-01') = 2020 AS x",
        "SELECT (SELECT MAX(b) FROM t GROUP BY a ORDER BY a LIMIT 1) = 2 AS x FROM t WHERE a = 1 ORDER BY x",
        "(SELECT a FROM t WHERE a = 1) UNION ALL (SELECT b FROM t WHERE b = 3) ORDER BY a",
    ):
        assert db.execute(sql).column(0).to_pylist() == [True if "AS x" in sql else 1], sql


def test_a_subquery_is_quoted_as_it_was_written() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2)")
    numbered = "SELECT -a AS a FROM t QUALIFY ROW_NUMBER() OVER (ORDER BY a + b) = 1"
    assert db.execute(f"SELECT ({numbered}) FROM t").column_names == [f"({numbered})"]


def test_words_changed_at_random() -> None:
    counts, failed = run(range(400))
    assert not failed, "\n".join(failed)
    assert counts["read"] > 20
