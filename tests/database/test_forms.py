"""The forms of input rows: Arrow streams, DataFrames, iterators, dicts and tuples; ISO texts in these."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import freshet

DDL = "CREATE TABLE t (a BIGINT, d DATE, ts TIMESTAMP, x DECIMAL(8,2))"
TABLE = pa.table({"a": [1, 2]})


class Capsule:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("form", [
    lambda: TABLE, lambda: TABLE.to_batches()[0], lambda: TABLE.to_reader(), Capsule, lambda: TABLE.to_pandas(),
    lambda: pl.DataFrame({"a": [1, 2]}), lambda: pl.LazyFrame({"a": [1]}).select(pl.col("a").append(pl.lit(2))),
    lambda: duckdb.sql("SELECT UNNEST([1, 2])::BIGINT AS a"), lambda: iter(TABLE.to_batches(1)),
    lambda: (Capsule() for _ in range(1)), lambda: ({"a": a} for a in (1, 2)), lambda: [{"a": 1}, {"a": 2}],
    lambda: iter([(1, None, None, None), (2, None, None, None)]),
])  # fmt: skip
def test_forms(form: Callable[[], Any]) -> None:
    db = freshet.connect()
    db.execute(DDL)
    db.apply({"t": form()})
    assert sorted(row["a"] for row in db.query("SELECT a FROM t").to_pylist()) == [1, 2]


def test_a_view_of_the_same_database() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1)")
    view = db.create_view("v", "SELECT a + 1 AS a FROM t")
    db.apply({"t": view})
    db.apply({"t": duckdb.sql("SELECT a FROM view")})
    assert sorted(row["a"] for row in view) == [2, 3, 3, 4]


def test_texts() -> None:
    db = freshet.connect()
    db.execute(DDL)
    db.apply({"t": [
        (1, "2024-02-29", "2024-02-29T12:30:00.25+01:00", "12.345"), (2, "0001-01-01", "2024-02-29", "-7"),
        (3, dt.date(2024, 1, 1), "2024-02-29 01:02", Decimal(1)), (4, None, "2024-02-29T00:00:00Z", None),
    ]})  # fmt: skip
    assert [tuple(row.values()) for row in db.query("SELECT * FROM t ORDER BY a").to_pylist()] == [
        (1, dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 11, 30, 0, 250_000), Decimal("12.35")),
        (2, dt.date(1, 1, 1), dt.datetime(2024, 2, 29), Decimal("-7.00")),
        (3, dt.date(2024, 1, 1), dt.datetime(2024, 2, 29, 1, 2), Decimal("1.00")),
        (4, None, dt.datetime(2024, 2, 29), None),
    ]


def failing() -> Any:
    yield TABLE.to_batches()[0]
    raise OSError("the source is gone")


@pytest.mark.parametrize(("rows", "message"), [
    ([{"d": "2024-02-30"}], "row 0: d is '2024-02-30', not a value of DATE"),
    ([{"d": "20240229"}], "d is '20240229', not a value of DATE"),
    ([{"d": "2024-02-28T00:00"}], "not a value of DATE"),
    ([{"ts": "2024-02-28T25:00"}], "not a value of TIMESTAMP"),
    ([{"ts": None}, {"ts": "now"}], "row 1: ts is 'now', not a value of TIMESTAMP"),
    ([{"x": "1e3"}], "x is '1e3', not a value of DECIMAL"),
    ([{"x": "NaN"}], "not a value of DECIMAL"),
    ([{"a": "1"}], r"a: '1' \(string\) is not a value of BIGINT; give numbers"),
    ([(1, 2)], "row 0: the row has 2 values for 4 columns; give a, d, ts, x"),
    ([(1, None, None, None), {"a": 1}], "row 1: the row is a dict, and others are tuples"),
    (failing(), r"the generator could not be read \(OSError: the source is gone\)"),
    (iter([1]), "item 0 of the iterator is an int; give batches, dicts or tuples"),
    (iter([TABLE, pa.table({"a": ["x"]})]), "the batches do not have the same columns"),
    (pl.LazyFrame({"a": [1]}).select("b"), "the LazyFrame could not be read"),
    (object(), r"rows are an object; give Arrow \(anything with __arrow_c_stream__\)"),
])  # fmt: skip
def test_refused(rows: Any, message: str) -> None:
    db = freshet.connect()
    db.execute(DDL)
    with pytest.raises(freshet.ChangeError, match=message):
        db.apply({"t": rows})
    assert db.version == 0
