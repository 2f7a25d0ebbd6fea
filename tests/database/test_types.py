"""Every SQL type through tables and views: NULLs, extremes, and as keys of joins and groups."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import freshet
from tests.oracle import duckdb_answer, same_bag
from tests.twin import Twin, TwinTable

D = Decimal
INF = math.inf
WIDE = D("9" * 28 + "." + "9" * 10)
FIRST, LAST = datetime.date(1, 1, 1), datetime.date(9999, 12, 31)
TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "BOOLEAN": (pa.bool_(), [True, False, True]),
    "TINYINT": (pa.int8(), [-128, 127, 0]),
    "SMALLINT": (pa.int16(), [-(2**15), 2**15 - 1, 0]),
    "INT": (pa.int32(), [-(2**31), 2**31 - 1, 0]),
    "BIGINT": (pa.int64(), [-(2**63), 2**63 - 1, 0, -1]),
    "FLOAT": (pa.float32(), [INF, -INF, 0.0, 1.5, 1e-45, 3.4028234663852886e38]),
    "DOUBLE": (pa.float64(), [INF, -INF, 0.0, 0.1, 5e-324, 1.7976931348623157e308]),
    "DECIMAL(1, 0)": (pa.decimal128(1, 0), [D(-9), D(9), D(0)]),
    "DECIMAL(18, 2)": (pa.decimal128(18, 2), [D("-9999999999999999.99"), D("9999999999999999.99"), D("0.01")]),
    "DECIMAL(19, 2)": (pa.decimal128(19, 2), [D("-99999999999999999.99"), D("99999999999999999.99"), D("-0.01")]),
    "DECIMAL(38, 10)": (pa.decimal128(38, 10), [WIDE, WIDE.copy_negate(), D("1E-10")]),
    "DECIMAL(38, 38)": (pa.decimal128(38, 38), [D("0." + "9" * 38), D("1E-38"), D(0)]),
    "STRING": (pa.string(), ["", "a", "A", " a ", "é", "e\u0301", "日本語", "😀", "a\0b", "x" * 70_000, "\n'\"\\"]),
    "VARCHAR(5)": (pa.string(), ["", "five5", "ééééé", "😀😀😀😀😀"]),
    "DATE": (pa.date32(), [FIRST, LAST, datetime.date(1970, 1, 1), datetime.date(1969, 12, 31)]),
    "TIMESTAMP": (
        pa.timestamp("us"),
        [
            datetime.datetime(1, 1, 1),
            datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999),
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),
            datetime.datetime(2024, 2, 29, 12),
        ],
    ),
}  # fmt: skip

KINDS = {
    "rows": "SELECT id, v FROM t",
    "joined": "SELECT a.id, b.id AS other, b.v FROM t a JOIN t b ON a.v = b.v",
    "joined_safely": "SELECT a.id, b.id AS other FROM t a JOIN t b ON a.v IS NOT DISTINCT FROM b.v",
    "kept": "SELECT a.id, b.v FROM t a LEFT JOIN t b ON b.v = a.v AND b.id > 100",
    "missing": "SELECT a.id FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE b.v = a.v AND b.id > 100)",
    "grouped": "SELECT v, COUNT(*) AS n, COUNT(v) AS m, MIN(id) AS first FROM t GROUP BY v",
    "told_apart": "SELECT DISTINCT v FROM t",
    "counted": "SELECT COUNT(DISTINCT v) AS n FROM t",
    "bounds": "SELECT MIN(v) AS low, MAX(v) AS high FROM t",
    "chosen": "SELECT id, CASE WHEN v IS NULL THEN v ELSE v END AS c, COALESCE(v, v) AS d, v IS NULL AS e FROM t",
}


@pytest.mark.parametrize("name", TYPES)
def test_values_as_they_are(name: str) -> None:
    """In and out of a table with and without a key; as a join key, a group, a least and a greatest value."""
    kind, values = TYPES[name]
    db = freshet.connect()
    db.execute(f"CREATE TABLE t (id INT, v {name})")
    known = [None, *values, *values, None]
    table = TwinTable(
        "t", pa.table({"id": pa.array(range(98, 98 + len(known)), pa.int32()), "v": pa.array(known, kind)})
    )
    twin = Twin(db, [table], KINDS)
    assert twin.views["rows"].schema.field("v").type == kind
    rng = np.random.default_rng(1)
    for _ in range(6):
        inside, outside = rng.permutation(table.inside()), rng.permutation(table.outside())
        come, gone = outside[: 1 + len(outside) // 2], inside[: len(inside) // 2]
        twin.move({"t": (np.concatenate([come, gone]), np.array([1] * len(come) + [-1] * len(gone)))})
    inside = table.inside()
    twin.move({"t": (inside, np.full(len(inside), -1))})


@pytest.mark.parametrize("name", TYPES)
def test_values_as_primary_keys(name: str) -> None:
    kind, values = TYPES[name]
    db = freshet.connect()
    db.execute(f"CREATE TABLE t (v {name} PRIMARY KEY, x INT)")
    view = db.create_view("v", "SELECT v, x FROM t")
    keys = pa.array(values, kind)
    if name == "BOOLEAN":
        keys = keys.slice(0, 2)
    numbers = pa.array(range(len(keys)), pa.int32())
    db.apply({"t": pa.table({"v": keys, "x": numbers})})
    same_bag(view.to_arrow(), pa.table({"v": keys, "x": numbers}))
    with pytest.raises(freshet.ChangeError, match="second row with primary key"):
        db.apply({"t": pa.table({"v": keys.slice(1, 1)})})
    db.apply({"t": pa.table({"v": keys, "x": numbers, "_change_type": ["upsert"] * len(keys)})})
    db.apply({"t": pa.table({"v": keys, "_change_type": ["delete"] * len(keys)})})
    assert view.count() == 0


@pytest.mark.parametrize("name", TYPES)
def test_values_from_python(name: str) -> None:
    kind, values = TYPES[name]
    db = freshet.connect()
    db.execute(f"CREATE TABLE t (v {name})")
    view = db.create_view("v", "SELECT v FROM t")
    db.apply({"t": [{"v": value} for value in [*values, None]]})
    same_bag(view.to_arrow(), pa.table({"v": pa.array([*values, None], kind)}))
    db.apply({"t": [{"v": value, "_weight": -1} for value in [*values, None]]})
    assert view.count() == 0


def test_zeros_are_one_value_and_so_is_nan() -> None:
    """As in Spark, and unlike DuckDB's joins, keys tell neither 0.0 from -0.0 nor one NaN from another, and NaN is the
    greatest value."""
    db = freshet.connect()
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v DOUBLE)")
    grouped = db.create_view("grouped", "SELECT v, COUNT(*) AS n FROM t GROUP BY v")
    joined = db.create_view("joined", "SELECT a.id, b.id AS other FROM t a JOIN t b ON a.v = b.v")
    other = np.frombuffer(np.array([0xFFF8000000000001], np.uint64).tobytes(), np.float64)[0]
    db.apply({"t": pa.table({"id": [1, 2, 3, 4], "v": pa.array(np.array([0.0, -0.0, math.nan, other]))})})
    assert sorted(grouped.to_arrow()["n"].to_pylist()) == [2, 2] and joined.count() == 8
    bounds = db.create_view("bounds", "SELECT MIN(v) AS low, MAX(v) AS high, SUM(v) AS total FROM t")
    low, high, total = bounds.to_arrow().to_pylist()[0].values()
    assert low == 0.0 and math.isnan(high) and math.isnan(total)
    db.execute("DELETE FROM t WHERE v > 1")
    assert bounds.to_arrow().to_pylist() == [{"low": 0.0, "high": 0.0, "total": 0.0}]
    db.execute("DELETE FROM t WHERE v = 0.0")
    assert grouped.count() == joined.count() == 0


def test_char_is_padded() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (c CHAR(4) PRIMARY KEY, v VARCHAR(4))")
    view = db.create_view("v", "SELECT c, v FROM t WHERE c = 'ab'")
    db.apply({"t": [{"c": "ab", "v": "ab"}, {"c": "abcd", "v": "x"}]})
    assert view.to_arrow().to_pylist() == [{"c": "ab  ", "v": "ab"}]
    db.apply({"t": [{"c": "ab", "_change_type": "delete"}]})
    assert view.count() == 0


MIXED = [
    ("TINYINT", "BIGINT", [1, 2, None, 3], [2, 3, 3, None]),
    ("INT", "DECIMAL(5, 1)", [1, 2, 3], [D("1.0"), D("2.5"), D("3.0")]),
    ("BIGINT", "DOUBLE", [1, 2, 3], [1.0, 2.5, 3.0]),
    ("DECIMAL(10, 2)", "DECIMAL(22, 4)", [D("1.50"), D("2.25")], [D("1.5000"), D("2.2501")]),
    ("FLOAT", "DOUBLE", [0.5, 0.1], [0.5, 0.1]),
    ("DATE", "TIMESTAMP", [FIRST, LAST], [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 1)]),
    ("VARCHAR(3)", "STRING", ["a", "b", ""], ["a", "", "c"]),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right", "xs", "ys"), MIXED, ids=[f"{m[0]} and {m[1]}" for m in MIXED])
def test_joins_across_types(left: str, right: str, xs: list[Any], ys: list[Any]) -> None:
    db = freshet.connect()
    db.execute(f"CREATE TABLE a (x {left}); CREATE TABLE b (y {right})")
    views = {
        "inner_": "SELECT a.x, b.y FROM a JOIN b ON a.x = b.y",
        "left_": "SELECT a.x, b.y FROM a LEFT JOIN b ON a.x = b.y",
        "anti_": "SELECT b.y FROM b WHERE NOT EXISTS (SELECT 1 FROM a WHERE a.x = b.y)",
        "distinct_": "SELECT DISTINCT b.y FROM a JOIN b ON b.y = a.x",
    }
    for name, sql in views.items():
        db.create_view(name, sql)
    for changes in ({"b": [{"y": y} for y in ys]}, {"a": [{"x": x} for x in xs]}, {"b": [{"y": ys[0], "_weight": -1}]}):
        db.apply(changes)
        tables = {name: db.execute(f"SELECT * FROM {name}") for name in ("a", "b")}
        for name, sql in views.items():
            same_bag(db.view(name).to_arrow(), duckdb_answer(sql, tables))


@pytest.mark.parametrize(
    "given",
    [
        pa.int8(),
        pa.int16(),
        pa.uint8(),
        pa.uint64(),
        pa.float64(),
        pa.decimal128(20, 0),
        pa.dictionary(pa.int8(), pa.int64()),
    ],
    ids=str,
)
def test_numbers_in_other_arrow_types(given: pa.DataType) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (i INT, d DECIMAL(10, 3), f DOUBLE)")
    values = pa.array([1, None, 7], pa.int64())
    values = values.dictionary_encode() if pa.types.is_dictionary(given) else values.cast(given)
    db.apply({"t": pa.table({"i": values, "d": values, "f": values})})
    answer = db.execute("SELECT i, d, f FROM t WHERE i IS NOT NULL ORDER BY i")
    assert sorted(map(tuple, (r.values() for r in answer.to_pylist()))) == [(1, D(1), 1.0), (7, D(7), 7.0)]


@pytest.mark.parametrize(
    "given", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int16(), pa.string())], ids=str
)
def test_text_in_other_arrow_types(given: pa.DataType) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (s STRING)")
    db.apply({"t": pa.table({"s": pa.array(["a", None, "b", "a"], given)})})
    assert sorted(v or "-" for v in db.execute("SELECT s FROM t")["s"].to_pylist()) == ["-", "a", "a", "b"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_in_other_units_and_zones(unit: str) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (at TIMESTAMP)")
    noon = datetime.datetime(2024, 5, 1, 12)
    db.apply({"t": pa.table({"at": pa.array([noon, None], pa.timestamp(unit))})})
    zoned = pa.array([noon.replace(tzinfo=datetime.UTC)], pa.timestamp(unit, "Asia/Tokyo"))
    db.apply({"t": pa.table({"at": zoned})})
    assert [v for v in db.execute("SELECT at FROM t")["at"].to_pylist() if v] == [noon, noon]
