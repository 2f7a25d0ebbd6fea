"""Hashes of rows are those that Spark computes, whatever the types."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from freshet.spark.sink.hashes import row_hashes
from freshet.spark.sink.rows import arrow_schema
from freshet.spark.sink.spread import hash_sql

TYPES = (
    "b BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INT, i64 BIGINT, f FLOAT, d DOUBLE, narrow DECIMAL(18,2), "
    "wide DECIMAL(19,0), widest DECIMAL(38,3), s STRING, x BINARY, day DATE, t TIMESTAMP, n TIMESTAMP_NTZ"
)


def value(rng: random.Random, kind: pa.DataType) -> Any:
    if rng.random() < 0.2:
        return None
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_integer(kind):
        return rng.choice([0, -1, rng.getrandbits(kind.bit_width) - 2 ** (kind.bit_width - 1)])
    if pa.types.is_floating(kind):
        return rng.choice([0.0, float("nan"), float("inf"), -1.5, rng.random()])
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        near = rng.choice([1, -1]) * (2 ** (8 * rng.randint(1, 15) - 1) + rng.randint(-1, 1))
        unscaled = rng.choice([0, 1, -1, most, -most, near % most, -(near % most), rng.randint(-most, most)])
        return Decimal(f"{unscaled}e-{kind.scale}")
    if pa.types.is_string(kind):
        return "".join(rng.choices("aé漢😀", k=rng.randint(0, 30)))
    if pa.types.is_binary(kind):
        return rng.randbytes(rng.randint(0, 70))
    if pa.types.is_date(kind):
        return date(1, 1, 1) + timedelta(days=rng.randrange(3_000_000))
    at = datetime(1600, 1, 1, tzinfo=UTC) + timedelta(microseconds=rng.randrange(10**16))
    return at if kind.tz else at.replace(tzinfo=None)


def test_as_spark_computes_them(spark: SparkSession) -> None:
    rng = random.Random(1)
    schema = spark.createDataFrame([], TYPES).schema
    arrow = arrow_schema(schema)
    assert arrow is not None
    fields = [f for f in arrow if f.name != "_weight"]
    columns = [pa.array([value(rng, f.type) for _ in range(300)], f.type) for f in fields]
    rows = pa.table(columns, [f.name for f in fields])
    halves = pa.concat_tables([rows[:100], rows[100:]])
    expected = spark.createDataFrame(rows, schema).selectExpr(f"{hash_sql(rows.column_names)} AS h").toArrow()["h"]
    assert row_hashes(rows).tolist() == expected.to_pylist()
    assert row_hashes(halves[50:]).tolist() == expected.to_pylist()[50:]
    assert row_hashes(rows[:0]).tolist() == []
