"""The sources of a job as streaming DataFrames: the columns of the table, and the column that says how each row changes
it.

A value that cannot be read is an error and never becomes NULL: text formats are read in FAILFAST mode unless the job
says otherwise.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from freshet.errors import PlanError
from freshet.job.file import JobFile, JobSource
from freshet.job.options import CHANGES, SEQUENCE
from freshet.spark.decode import fields_ddl

_TYPES = {"_weight": "BIGINT", "_change_type": "STRING"}
_END = "_end"


def columns_ddl(source: JobSource) -> str:
    """All columns of the source, as DDL."""
    columns = [fields_ddl(source.schema.fields)]
    changes = source.place.get(CHANGES)
    if changes is not None:
        columns.append(f"`{changes}` {_TYPES[changes]}")
    ordered = source.sequence
    if ordered is not None and source.schema.position(ordered[0]) is None:
        columns.append(f"`{ordered[0]}` {ordered[1]}")
    return ", ".join(columns)


def source_stream(spark: SparkSession, job: JobFile, source: JobSource) -> DataFrame:
    kind = source.place.format
    path = job.path(source.place)
    options = {k: v for k, v in source.place.options.items() if k.lower() not in (CHANGES, SEQUENCE, "path")}
    ddl = columns_ddl(source)
    if kind == "rate":
        return _chosen(spark.readStream.format("rate").options(**options).load(), source)
    if kind == "kafka":
        if not any(name.lower().startswith("starting") for name in options):
            options["startingOffsets"] = "earliest"  # the table is the whole topic, not only its future messages
        raw = spark.readStream.format("kafka").options(**options).load()
        value = sf.from_json(raw["value"].cast("string"), ddl, {"mode": "FAILFAST"})
        return raw.select(value.alias("row")).select("row.*")
    if kind == "delta":
        return _chosen(spark.readStream.format("delta").options(**options).load(path), source)
    if kind == "tbl":
        ended = options.pop("trailing", "true").lower() == "true"  # dbgen ends each line with the delimiter
        options = {"mode": "FAILFAST", "sep": options.pop("delimiter", "|"), **options}
        ddl = f"{ddl}, `{_END}` STRING" if ended else ddl
        return spark.readStream.format("csv").schema(ddl).options(**options).load(path).drop(_END)
    if kind in ("csv", "json"):
        options = {"mode": "FAILFAST", **options}
    return spark.readStream.format(kind).schema(ddl).options(**options).load(path)


def _chosen(stream: DataFrame, source: JobSource) -> DataFrame:
    """Selects the table's columns from a source that has a schema of its own."""
    wanted = [f.name for f in source.schema.fields]
    changes, ordered = source.place.get(CHANGES), source.sequence
    wanted += [changes] if changes else []
    wanted += [ordered[0]] if ordered and ordered[0] not in wanted else []
    there = {c.lower() for c in stream.columns}
    for name in wanted:
        if name.lower() not in there:
            raise PlanError(
                f"table {source.schema.name}: {source.place.format} has no column {name}; "
                f"it has {', '.join(stream.columns)}"
            )
    return stream.select(*wanted)
