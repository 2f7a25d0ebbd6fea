"""The streams that tables are read from: what each must bring, and its rows encoded."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from difflib import get_close_matches

from pyspark.sql import DataFrame, functions
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
)

from freshet.database.change_type import CHANGE_TYPE, CHANGE_TYPES, WEIGHT
from freshet.errors import PlanError
from freshet.spark.encode import BLOCKS, Encoder, needed_columns
from freshet.spark.job import SEQUENCE, Job
from freshet.spark.shipped import ShippedJob

_ORDERED = (IntegralType, DecimalType, DateType, TimestampType, TimestampNTZType)  # decimals: whole ones


def sequences(tables: Mapping[str, DataFrame], sequence: str | Mapping[str, str] | None) -> dict[str, str]:
    """The column that orders each table's changes, by table in lower case."""
    if sequence is None:
        return {}
    given = {name.lower(): df for name, df in tables.items()}
    if isinstance(sequence, str):
        found = {name: sequence for name, df in given.items() if sequence in df.columns}
        if not found:
            raise PlanError(f"no stream has a column {sequence} to order changes by; name the column that does")
    else:
        found = {name.lower(): column for name, column in sequence.items()}
    for name, column in found.items():
        if name not in given or column not in given[name].columns:
            raise PlanError(f"the stream of {name} has no column {column} to order its changes by; add it")
        _check_type(given[name], name, column, _ORDERED, "whole numbers, dates or timestamps")
    return found


def _check_type(df: DataFrame, table: str, column: str, types: tuple[type[DataType], ...], wanted: str) -> None:
    """Refuses a column of ours that is not what it must be, before anything is read."""
    found = df.schema[column].dataType
    if not isinstance(found, types) or (isinstance(found, DecimalType) and found.scale):
        raise PlanError(f"{column} of the stream of {table} is {found.simpleString()}; give {wanted}")


def encoded(
    job: Job, shipped: ShippedJob, tables: Mapping[str, DataFrame], ordered: Mapping[str, str], profile: str | None,
    log_folder: str | None,
) -> DataFrame:  # fmt: skip
    given = {name.lower(): df for name, df in tables.items()}
    parts = []
    for table in job.tables:
        name = table.name.lower()
        if name not in given:
            raise PlanError(f"no stream for table {table.name}; the streams given are {', '.join(given) or 'none'}")
        df = given[name]
        columns = {c.lower(): c for c in df.columns}
        moment = ordered.get(name)
        own = (WEIGHT, CHANGE_TYPE, moment)
        unknown = [c for c in df.columns if table.position(c) is None and c not in own]
        if unknown:
            near = get_close_matches(unknown[0], [f.name for f in table.fields], 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise PlanError(f"table {table.name} has no column {unknown[0]}{hint}; select the table's own columns")
        if WEIGHT in columns and CHANGE_TYPE in columns:
            raise PlanError(f"the stream of {table.name} carries both {WEIGHT} and {CHANGE_TYPE}; keep one")
        if WEIGHT in columns:
            _check_type(df, table.name, WEIGHT, (IntegralType,), "whole numbers: +n adds n copies, -n removes n")
        if CHANGE_TYPE in columns:
            _check_type(df, table.name, CHANGE_TYPE, (StringType,), f"text: one of {CHANGE_TYPES}")
        wanted = []
        for position in needed_columns(job, name):
            field = table.fields[position]
            column = columns.get(field.name.lower())
            if column is not None and isinstance(df.schema[column].dataType, YearMonthIntervalType):
                df = df.withColumn(column, functions.col(f"`{column}`").cast("INTERVAL MONTH").cast("INT"))
            if column is not None:
                wanted.append(column)
            elif not field.nullable and (moment is None or position in table.primary_key):
                raise PlanError(f"the stream of {table.name} lacks {field.name}, which is NOT NULL; add the column")
        wanted += [c for c in (WEIGHT, CHANGE_TYPE) if c in columns]
        chosen = [functions.col(f"`{c}`") for c in wanted]
        if moment is not None:
            chosen.append(functions.col(f"`{moment}`").alias(SEQUENCE))
        parts.append(df.select(*chosen).mapInArrow(Encoder(shipped, name, profile, log_folder), BLOCKS))
    return functools.reduce(DataFrame.union, parts)
