"""VARIANT next to Spark: the same expressions over a column of texts, in Freshet and in Spark."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

import freshet

TEXTS = (
    '{"b": 1, "a": [1, 2.50, 1e10, "x", null, true], "c": {"d": "é", "e": []}}',
    '{"a": {"b": [5, "6", 7.9, "x", true, null]}, "A": 1}',
    '{"a": [{"b": 1, "c": "2024-02-29"}, {"b": "2", "d": 1}]}',
    '{"a": {"x": 1, "y": [1.5, 2]}, "b": "2024-02-29 01:02:03"}',
    '{"a": null, "b": [null]}',
    "{}", "[]", "null", "true", "false", '""', '"text"', '"5"', '" 7 "', '"1e3"', '"true"', '"2024-01-31"',
    "0", "-0", "5", "-7", "127", "128", "300", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
    "12345678901234567890123456789012345678", "123456789012345678901234567890123456789",
    "1.0", "-0.0", "1.50", "2.5", "-2.5", "0.1e1", "1e3", "1E400", "1e-7", "123456.789e3", "1e7", "100.0e0",
    "0.12345678901234567890123456789012345678", "0.123456789012345678901234567890123456789", "99999.995",
    '{"z": 1, "é": 2, "a b": 3, "\\u0001": 4, "q\\"": 5}', '"\\u0041\\n\\t\\\\\\/\\u001f\\u20ac\\ud83d\\ude00"',
    "[1] and more", "[[[1]]]", " 5 ", "\n[ 1 ,\t2 ]\r",
    '{"a": 1, "a": 2}', "{", "", " ", "{'a': 1}", "nul", "1x", "01", "+1", ".5", "5.", "NaN", "[1,]",
    '"open', "truefalse",
)  # fmt: skip
TYPES = (
    "BOOLEAN", "TINYINT", "INT", "BIGINT", "DOUBLE", "FLOAT", "DECIMAL(5,2)", "DECIMAL(38,10)", "STRING", "DATE",
    "TIMESTAMP",
    "ARRAY<INT>", "ARRAY<STRING>", "MAP<STRING, STRING>", "STRUCT<b: INT, c: STRING>", "ARRAY<STRUCT<b: INT, c: DATE>>",
)  # fmt: skip
V = "try_parse_json(x)"
EXPRESSIONS = (
    f"to_json({V})", f"{V} IS NULL", f"is_variant_null({V})", f"is_variant_null({V}:a)", f"{V}:a IS NULL",
    f"typeof({V})",
    *(f"try_variant_get({V}, '$', '{type}')" for type in TYPES),
    *(f"try_variant_get({V}, '{path}', 'STRING')" for path in ("$.a", "$.a[1]", "$.a.b[0]", "$[0]", '$["a b"]', "$.A")),
    f"try_variant_get({V}, '$.a', 'ARRAY<STRUCT<b: INT, c: DATE>>')", f"try_variant_get({V}, '$.a.b', 'ARRAY<INT>')",
    f"try_variant_get({V}, '$.b', 'TIMESTAMP')", f"to_json(variant_get({V}, '$.a'))", f"{V}:a.b[1]::STRING",
    f"{V}:c::STRING",
    f"to_json(COALESCE({V}, parse_json('[0]')))", f"to_json(CASE WHEN id > 9 THEN {V} END)",
    "to_json(CAST(id AS VARIANT))",
    "to_json(CAST(x AS VARIANT))", f"CAST(try_variant_get({V}, '$', 'INT') IS NULL AS STRING)",
    "to_json(CAST(id / 4 AS VARIANT))",
)  # fmt: skip


@pytest.fixture(scope="module")
def both(spark: SparkSession) -> tuple[freshet.Database, SparkSession]:
    db = freshet.connect()
    db.execute("CREATE TABLE j (id INT PRIMARY KEY, x STRING)")
    rows: list[dict[str, Any]] = [{"id": i, "x": text} for i, text in enumerate((*TEXTS, None))]
    db.apply({"j": rows})
    spark.createDataFrame([(row["id"], row["x"]) for row in rows], "id INT, x STRING").createOrReplaceTempView("j")
    return db, spark


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_values(both: tuple[freshet.Database, SparkSession], expression: str) -> None:
    db, spark = both
    ours = {row["id"]: _ours(row["made"]) for row in db.query(f"SELECT id, {expression} AS made FROM j").to_pylist()}
    found = spark.sql(f"SELECT id, {expression} AS made FROM j").collect()
    theirs = {row["id"]: _theirs(row["made"]) for row in found}
    assert not {text: (theirs[i], ours[i]) for i, text in enumerate(TEXTS) if ours[i] != theirs[i]}
    assert ours == theirs


def _ours(value: Any) -> Any:
    """A map is a list of pairs, sorted by name, a struct a dict."""
    if isinstance(value, dict):
        return {name: _ours(each) for name, each in value.items()}
    return [_ours(each) for each in value] if isinstance(value, list) else value


def _theirs(value: Any) -> Any:
    """A map is a dict in the order of its hashes, a struct a row."""
    if isinstance(value, Row):
        return {name: _theirs(each) for name, each in value.asDict().items()}
    if isinstance(value, dict):
        return sorted((name, _theirs(each)) for name, each in value.items())
    return [_theirs(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "expression",
    ["variant_get(parse_json('\"x\"'), '$', 'INT')", "parse_json('{')", "CAST(parse_json('300') AS TINYINT)",
     "parse_json('1') = parse_json('1')", "variant_get(parse_json('1'), 'a', 'INT')", "MAX(parse_json('1'))",
     "parse_json('{\"a\": 1, \"a\": 2}')", "CAST(parse_json('[1]') AS INT)",
     "parse_json('1'):a::DATE + parse_json('2')"],
)  # fmt: skip
def test_refused_by_both(both: tuple[freshet.Database, SparkSession], expression: str) -> None:
    db, spark = both
    with pytest.raises(freshet.FreshetError):
        db.query(f"SELECT to_json({expression}) AS made FROM j")
    with pytest.raises(Exception):  # noqa: B017, PT011  (Spark's own, of several classes)
        spark.sql(f"SELECT {expression} AS made FROM j").collect()
