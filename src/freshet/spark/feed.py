"""Reads the change columns of a source: what each row does to its table, when, and whether it is complete."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from freshet.database.change_type import (
    CHANGE_TYPE,
    WEIGHT,
    ChangeType,
    ChangeTypes,
    read_change_types,
    read_weights,
)
from freshet.errors import ChangeError
from freshet.logical.query import TableSchema
from freshet.scalar.column import Column
from freshet.spark.job import SEQUENCE
from freshet.state.arrays import Bools, Int64s


def changes_of(schema: TableSchema, given: pa.Table, first: int) -> tuple[ChangeTypes, Int64s]:
    """The change type and weight of each row; by default an insert."""
    if WEIGHT in given.column_names:
        weights = read_weights(given.column(WEIGHT).combine_chunks(), schema.name, first)
        return ChangeTypes.of_weights(weights), weights
    if CHANGE_TYPE in given.column_names:
        kinds = read_change_types(given.column(CHANGE_TYPE).combine_chunks(), schema.name, first)
    else:
        kinds = ChangeTypes.alike(ChangeType.INSERT, given.num_rows)
    return kinds, kinds.signs


def refuse_upserts(schema: TableSchema, kinds: ChangeTypes, first: int) -> None:
    upserts = kinds.are(ChangeType.UPSERT)
    if upserts.any():
        raise ChangeError(
            "an upsert replaces a row, so order matters; name the column that orders changes (sequence=...)",
            schema.name, first + int(np.argmax(upserts)),
        )  # fmt: skip


def refuse_copies(schema: TableSchema, weights: Int64s, first: int) -> None:
    """Refuses weights other than 1 and -1 in a table with a primary key."""
    wrong = np.abs(weights) != 1
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ChangeError(
            f"{WEIGHT} is {weights[row]}, and the table has a primary key; give 1 for a row that is there from now on, "
            "-1 for one that is gone", schema.name, first + row,
        )  # fmt: skip


def sequence_of(schema: TableSchema, given: pa.Table, first: int) -> Int64s:
    array = given.column(SEQUENCE).combine_chunks()
    if array.null_count:
        row = int(np.argmax(np.asarray(array.is_null())))
        raise ChangeError("the column that orders changes is NULL; give a value", schema.name, first + row)
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    try:
        return np.array(array.cast(pa.int64()), np.int64)
    except pa.ArrowInvalid:  # a decimal
        wide = [not -(1 << 63) <= v < 1 << 63 for v in array.to_pylist()]
        raise ChangeError(
            f"the column that orders changes is {array[wide.index(True)]}; give a number that fits BIGINT",
            schema.name, first + wide.index(True),
        ) from None  # fmt: skip


def check_nulls(schema: TableSchema, column: int, values: Column, where: Bools | None, first: int) -> None:
    field = schema.fields[column]
    if field.nullable or values.valid is None:
        return
    bad = ~values.valid if where is None else ~values.valid & where
    if not bad.any():
        return
    remedy = "give a value"
    if where is None and schema.primary_key and column not in schema.primary_key:
        remedy = (
            "give a value, or, to delete by key alone, name the column that orders changes (sequence=...) or have keys "
            "checked (check_keys=True)"
        )
    what = "the primary key" if column in schema.primary_key else "NOT NULL"
    raise ChangeError(
        f"{field.name} is NULL or missing, and it is {what}; {remedy}", schema.name, first + int(np.argmax(bad))
    )
