"""Rows of a batch and of runs as Arrow tables in this process, for what is small.

Law: a row has the same bytes here as where Spark groups: one NaN, no zero below zero. So equal rows are equal bytes.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.types import DecimalType, StructType

from freshet.database.change_type import WEIGHT
from freshet.spark.sink.batch import HASH, NOTHING, Batch
from freshet.spark.sink.hashes import row_hashes

#: Spark's types by name, as Parquet files of both Spark and Arrow have them.
_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_WIDE = pa.decimal256(19, 0)  # holds every BIGINT, and products of two do not overflow


def arrow_schema(schema: StructType) -> pa.Schema | None:
    """A view's columns and the weight; None where a type is left to Spark."""
    fields = []
    for f in schema:
        type_ = f.dataType
        if isinstance(type_, DecimalType):
            fields.append(pa.field(f.name, pa.decimal128(type_.precision, type_.scale)))
        elif type_.simpleString() in _TYPES:
            fields.append(pa.field(f.name, _TYPES[type_.simpleString()]))
        else:
            return None
    return pa.schema([*fields, pa.field(WEIGHT, pa.int64())])


def normal(column: pa.Array) -> pa.Array:
    """The column with one NaN, and no zero below zero."""
    if not pa.types.is_floating(column.type):
        return column
    nan, zero = (pa.scalar(value, column.type) for value in (math.nan, 0.0))
    return pc.if_else(pc.is_nan(column), nan, pc.add(column, zero))


def summed(rows: pa.Table) -> pa.Table:
    """Each row once, with the sum of its weights where that is not 0."""
    keys = [str(i) for i in range(rows.num_columns - 1)]  # a view may have a column of any name
    groups = rows.rename_columns([*keys, WEIGHT]).group_by(keys).aggregate([(WEIGHT, "sum")])
    found = groups.select([*keys, f"{WEIGHT}_sum"]).rename_columns(rows.column_names)
    return found.filter(pc.not_equal(found[WEIGHT], 0))


def gathered_batch(rows: pa.Table, schema: StructType, spark: SparkSession, number: int, query: str) -> Batch:
    """The batch of consolidated rows, which have no hash yet."""
    rows = rows.add_column(0, pa.field(HASH, pa.int64()), pa.array(row_hashes(rows.drop_columns(WEIGHT))))
    weights = rows[WEIGHT]
    content = pc.sum(pc.multiply(rows[HASH].cast(_WIDE), weights.cast(_WIDE))).as_py()
    removed = int(np.count_nonzero(weights.to_numpy() < 0))
    weight = pc.sum(weights).as_py() or 0
    shown = NOTHING if content is None else str(int(content))
    return Batch(number, query, rows, schema, spark, rows.num_rows, removed, weight, shown)
