"""Large texts: flat ones of any length are accepted, at a cost proportional to the length; deeply nested ones are
refused; and all messages are short."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

import freshet

MOST = 1_200  # characters of a message

LONG: dict[str, Callable[[int], str]] = {
    "IN": lambda n: f"SELECT a FROM t WHERE a IN ({', '.join(map(str, range(n)))})",
    "AND": lambda n: f"SELECT a FROM t WHERE {' AND '.join(f'a <> {i}' for i in range(5, n))}",
    "OR": lambda n: f"SELECT a FROM t WHERE {' OR '.join(f'a = {i}' for i in range(n))}",
    "OR of ANDs": lambda n: f"SELECT a FROM t WHERE {' OR '.join(f'(a = {i} AND b = {i})' for i in range(n))}",
    "HAVING": lambda n: f"SELECT a FROM t GROUP BY a HAVING {' OR '.join(f'a = {i}' for i in range(n))}",
    "an output": lambda n: f"SELECT {' OR '.join(f'a = {i}' for i in range(n))} AS x FROM t",
    "||": lambda n: f"SELECT {' || '.join(['s'] * n)} AS x FROM t",
    "LIKE ANY": lambda n: f"SELECT a FROM t WHERE s LIKE ANY ({', '.join(repr(f'{i}%') for i in range(n))})",
    "rows": lambda n: f"SELECT a FROM t WHERE (a, b) IN ({', '.join(f'({i}, {i})' for i in range(n))})",
    "CASE": lambda n: f"SELECT CASE {' '.join(f'WHEN a = {i} THEN {i}' for i in range(n))} END AS x FROM t",
    "columns": lambda n: f"SELECT {', '.join(f'a + {i} AS c{i}' for i in range(n))} FROM t",
    "aggregates": lambda n: f"SELECT {', '.join(f'SUM(a + {i}) AS c{i}' for i in range(n))} FROM t",
    "keys": lambda n: f"SELECT COUNT(*) AS n FROM t GROUP BY {', '.join(f'a + {i}' for i in range(n))}",
    "UNION ALL": lambda n: " UNION ALL ".join(f"SELECT a + {i} AS a FROM t" for i in range(n)),
    "VALUES": lambda n: f"VALUES {', '.join(f'({i}, NULL)' for i in range(n))}",
    "INSERT": lambda n: f"INSERT INTO t VALUES {', '.join(f'({i}, NULL, NULL)' for i in range(n))}",
    "a table": lambda n: f"CREATE TABLE w{n} ({', '.join(f'c{i} INT' for i in range(n))})",
    "names": lambda n: f"SELECT {', '.join(f'c{i}' for i in range(n))} FROM w{n}",
    "*": lambda n: f"SELECT * FROM w{n}",
}


def database() -> freshet.Database:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT, b INT, s STRING); INSERT INTO t VALUES (1, 2, 'x')")
    return db


def calls(work: Callable[[], object]) -> int:
    """How many calls something makes, which is the same each time."""
    count = 0

    def seen(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("kind", LONG)
def test_twice_as_long_costs_about_twice_as_much(kind: str) -> None:
    db = database()
    for n in (10, 150, 300):
        db.execute(LONG["a table"](n))
        if kind != "a table":
            db.execute(LONG[kind](n))  # kernels, caches
    if kind == "a table":
        db.execute("DROP TABLE w150; DROP TABLE w300")
    once = calls(lambda: db.execute(LONG[kind](150)))
    twice = calls(lambda: db.execute(LONG[kind](300)))
    assert twice < 2.6 * once, f"{once:,} calls, then {twice:,}"


@pytest.mark.parametrize("kind", [k for k in LONG if k not in ("a table", "names", "*")])
def test_thousands_are_taken(kind: str) -> None:
    db = database()
    db.execute(LONG[kind](2_000))


def test_ten_thousand_columns_and_conditions() -> None:
    db = database()
    db.execute(LONG["a table"](10_000))
    assert db.execute(LONG["*"](10_000)).num_columns == 10_000
    assert db.execute(LONG["AND"](10_000)).num_rows == 1
    assert db.execute(LONG["OR"](10_000)).num_rows == 1


DEEP = {
    "parentheses": "SELECT " + "(" * 5_000 + "a" + ")" * 5_000 + " FROM t",
    "open parentheses": "SELECT " + "(" * 100_000,
    "sums": "SELECT " + " + ".join(["a"] * 5_000) + " FROM t",
    "NOT": "SELECT a FROM t WHERE " + "NOT " * 5_000 + "a = 1",
    "CASE": "SELECT " + "CASE WHEN a = 1 THEN 1 ELSE " * 1_000 + "0" + " END" * 1_000 + " FROM t",
    "subqueries": "SELECT a FROM (" * 2_000 + "SELECT a FROM t" + ")" * 2_000,
    "calls": "SELECT f(" * 20_000,
}
GARBAGE = {
    "a word": "x" * 1_000_000,
    "a name": "SELECT " + "y" * 1_000_000 + " FROM t",
    "a quoted name": "SELECT `" + "y" * 1_000_000 + "` FROM t",
    "a text": "SELECT a FROM t WHERE a = '" + "y" * 1_000_000 + "'",
    "an open quote": "SELECT '" + "y" * 1_000_000,
    "quotes": "'" * 99_999,
    "signs": "SELECT " + "@#$ %^& " * 20_000,
    "words": "SELECT a FROM t WHERE " + "foo bar baz " * 20_000,
    "commas": "SELECT " + "a," * 50_000 + " FROM nope",
    "a function": "SELECT " + "z" * 1_000_000 + "(a) FROM t",
    "an unknown aggregate": "SELECT kurtosis(" + " + ".join(["a"] * 100) + ") FROM t",
    "a long list": "SELECT nope(" + ", ".join(map(str, range(50_000))) + ")",
    "a number": "SELECT " + "9" * 1_000_000,
    "a unit": "SELECT INTERVAL 1 " + "u" * 1_000_000,
    "a table": "SELECT a FROM " + "t" * 1_000_000,
}


@pytest.mark.parametrize("sql", [*DEEP.values(), *GARBAGE.values()], ids=[*DEEP, *GARBAGE])
def test_refusals_are_short(sql: str) -> None:
    with pytest.raises(freshet.SqlError) as raised:
        database().execute(sql)
    assert raised.value.line is not None
    assert len(str(raised.value)) < MOST


@pytest.mark.parametrize("sql", [f"SELECT a FROM t ORDER BY a LIMIT {limit} OFFSET {offset}"
                                 for limit in (1, 2**63 - 1) for offset in (0, 1, 2**63 - 1)])  # fmt: skip
def test_the_largest_limits(sql: str) -> None:
    db = database()
    view = db.create_view("v", sql)
    assert view.count() == db.execute(sql).num_rows == (1 if sql.endswith(" 0") else 0)


@pytest.mark.parametrize(
    "sql", ["SELECT '\ud800' AS x", "SELECT a AS `\udc00` FROM t", "INSERT INTO t VALUES (9, 1, '\udfff')", "\ud800"]
)
def test_half_a_character(sql: str) -> None:
    with pytest.raises(freshet.SqlError, match="is a lone surrogate") as raised:
        database().execute(sql)
    str(raised.value).encode()
    assert sql[(raised.value.column or 0) - 1] in "\ud800\udc00\udfff"


def test_a_mark_at_the_beginning_of_a_file() -> None:
    assert database().execute("\ufeffSELECT a FROM t").num_rows == 1


@pytest.mark.parametrize("words", ["a SELECT 1", "IF NOT EXISTS a SELECT 1 AS x"])
def test_a_view_without_as(words: str) -> None:
    with pytest.raises(freshet.SqlError, match="follows AS; write AS before it"):
        database().execute(f"CREATE MATERIALIZED VIEW {words}")
