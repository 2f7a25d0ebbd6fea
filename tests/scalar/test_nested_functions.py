"""Functions of arrays, structs and maps have Spark's values, as recorded by nested_cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import freshet
from tests.scalar.nested_cases import COLUMNS, EXPRESSIONS, QUERIES, ROWS, TIMES

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("nested_spark.json").read_text())
ANSWERS: dict[str, list[str | None]] = {e: RECORDED[e] for e in EXPRESSIONS}
#: Refused here, with a remedy, although Spark has a value.
REFUSED = {"map_from_arrays(b, a)"}


@pytest.fixture(scope="module")
def db() -> freshet.Connection:
    db = freshet.connect()
    db.execute(f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())})")
    for row in ROWS:
        db.execute(f"INSERT INTO t VALUES ({row})")
    db.create_view("times", TIMES)
    return db


def test_all_cases_are_recorded() -> None:
    assert set(RECORDED) == {*EXPRESSIONS, *QUERIES}


@pytest.mark.parametrize("expression", ANSWERS)
def test_values_are_those_of_spark(db: freshet.Connection, expression: str) -> None:
    for row, expected in enumerate(ANSWERS[expression], 1):
        try:
            sql = f"SELECT CAST({expression} AS STRING) AS value FROM t WHERE id = {row}"
            value = db.query(sql).column("value").to_pylist()[0]
        except freshet.FreshetError:
            value = "error"
        assert value == expected, f"row {row}"


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("a[5]", "no index 5 in an array of 4 elements; GET gives NULL"),
        ("element_at(a, 5)", "no index 5 in an array of 4 elements; TRY_ELEMENT_AT gives NULL"),
        ("element_at(a, 0)", "an index of 0; the first element has index 1"),
        ("map(i, 1, i, 2)", "a map with key 1 twice; give each key once"),
        ("map(a[1], 1)", "a map with a NULL key"),
        ("split(t, 'x*')", "matches between characters, is not supported"),
        ("split(t, ',', 2)", "SPLIT with a limit is not supported"),
        ("s.nope", "no field nope; STRUCT<x: INT, y: STRING> has x, y"),
        ("named_struct('p', 1, 'P', 2)", "a struct with two fields of one name"),
        ("array_contains(b, 1)", "no function ARRAY_CONTAINS(ARRAY<STRING>, INT)"),
        ("array_repeat(t, 2000000000)", "the limit is"),
        ("struct(*)", "STRUCT(*) is not supported; name the columns"),
    ],
)
def test_what_is_refused_says_why(db: freshet.Connection, expression: str, words: str) -> None:
    with pytest.raises(freshet.FreshetError) as caught:
        db.query(f"SELECT {expression} AS value FROM t WHERE id = 1")
    assert words in str(caught.value)


def test_fields_of_a_struct_are_expanded(db: freshet.Connection) -> None:
    rows = db.query("SELECT s.*, t.s.x AS again, upper(s.y) AS u FROM t WHERE id = 1").to_pylist()
    assert rows == [{"x": 1, "y": "p", "again": 1, "u": "P"}]


def test_a_column_comes_before_a_field(db: freshet.Connection) -> None:
    sql = "SELECT s.x FROM (SELECT struct(1 AS x) AS s) AS o, (SELECT 2 AS x) AS s"
    assert db.query(sql).to_pylist() == [{"x": 2}]
    grouped = "SELECT s.y AS y, COUNT(*) AS n FROM t GROUP BY s.y HAVING s.y <> '' ORDER BY y"
    assert db.query(grouped).to_pylist() == [{"y": "p", "n": 1}]


@pytest.mark.parametrize("sql", QUERIES)
def test_rows_are_those_of_spark(db: freshet.Connection, sql: str) -> None:
    columns, rows = RECORDED[sql]
    answer = db.query(sql)
    assert answer.column_names == columns
    name = f"v{QUERIES.index(sql)}"
    db.create_view(name, sql)
    texts = ", ".join(f"CAST(`{c}` AS STRING) AS c{i}" for i, c in enumerate(columns))
    for source in (f"({sql})", name):
        shown = db.query(f"SELECT {texts} FROM {source} AS q").to_pylist()
        assert sorted((list(row.values()) for row in shown), key=str) == rows


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("transform(i, x -> x)", "TRANSFORM takes an array and a function, not INT"),
        ("transform(a, (x, y, z) -> x)", "a function of 1 or 2 parameters is needed here"),
        ("filter(a, x -> x + 1)", "FILTER needs a condition, not INT; compare it"),
        ("aggregate(a, 0L, (p, x) -> x)", "AGGREGATE starts with BIGINT, but its function gives INT; CAST"),
        ("transform(a, x -> y)", "no column y"),
        ("transform(a, x -> NULL)", "a function of elements that is always NULL has no type"),
        ("transform(a, x -> sum(x))", "aggregate SUM(x) in"),
        ("transform(a, x -> (SELECT 1))", "a subquery in"),
        ("zip_with(a, a, (x, y) -> x)", "ZIP_WITH with a function of elements is not supported"),
        ("transform(a, x -> 10 / (x - 1))", "division by zero"),
    ],
)
def test_functions_of_elements_that_are_refused(db: freshet.Connection, expression: str, words: str) -> None:
    with pytest.raises(freshet.FreshetError) as caught:
        db.query(f"SELECT {expression} AS value FROM t WHERE id = 1")
    assert words in str(caught.value)


def test_the_same_function_of_elements_is_one_key(db: freshet.Connection) -> None:
    view = db.create_view(
        "keyed", "SELECT size(filter(a, x -> x > 1)) AS n FROM t GROUP BY size(filter(a, x -> x > 1))"
    )
    assert sorted(view.to_arrow().column("n").to_pylist(), key=str) == [0, 1, 2, None]
    assert "filter" in view.explain("json").lower()
