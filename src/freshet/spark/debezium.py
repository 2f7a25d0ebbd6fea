"""Debezium's envelopes as changes of a table.

An envelope contains one row before the change (`before`) and after it (`after`), and the operation (`op`): after c, r
(of a snapshot) and u the row is `after`, after d there is none. So the last envelope of a key determines its row, which
is what a table with a sequence stores. A tombstone (no value at all) follows the envelope of a removal and says nothing
new.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from freshet.database.change_type import CHANGE_TYPE
from freshet.errors import PlanError
from freshet.logical.query import TableSchema
from freshet.spark.decode import fields_ddl
from freshet.sql.catalog import Catalog

#: The column that orders changes, in what `debezium` returns.
MOMENT = "_sequence"

_OFFSET = "offset"
_MICROS = {"ms": 1_000, "us": 1}


def debezium(
    envelopes: DataFrame, schema: str | Catalog, table: str, *, sequence: str | None = None,
    timestamps: str | None = None,
) -> DataFrame:  # fmt: skip
    """Read a stream of Debezium's JSON envelopes as changes of a table, for `maintain`.

    Parameters
    ----------
    envelopes
        A DataFrame with the envelopes in its column `value`, text or bytes, with or without their schema: what Spark's
        Kafka source gives, for one.
    schema
        CREATE TABLE statements, or a `freshet.Catalog`.
    table
        The table that the envelopes are of. It has a primary key.
    sequence
        The field of the envelope that orders changes, a whole number, as in ``"source.lsn"``. The default is Kafka's
        `offset`: all envelopes of a key are in one partition, in order.
    timestamps
        What whole numbers in columns of times count since 1970: ``"ms"`` or ``"us"``. Without it they are refused.

    Returns
    -------
    pyspark.sql.DataFrame
        The table's columns, `_change_type` (upsert or delete) and `_sequence`: give maintain()
        ``sequence="_sequence"``.

    Raises
    ------
    PlanError
        The columns, the table or an option do not fit.

    Notes
    -----
    Numbers in DATE columns are days since 1970, as Debezium writes them. Let the connector write decimals as text
    (``decimal.handling.mode=string``): bytes in base 64 stop the query, and so does an envelope that cannot be read, or
    one of a TRUNCATE. Messages (op m) and tombstones are passed over.

    Examples
    --------
    >>> ddl = "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, total BIGINT)"
    >>> text = '{"before": null, "after": {"id": 7, "customer": "Ann", "total": 30}, "op": "c", "source": {"lsn": 1}}'
    >>> envelopes = spark.createDataFrame([(text,)], "value STRING")
    >>> [tuple(row) for row in debezium(envelopes, ddl, "orders", sequence="source.lsn").collect()]
    [(7, 'Ann', 30, 'upsert', 1)]
    """
    known = _table(schema, table)
    if timestamps not in (None, *_MICROS):
        raise PlanError(f"timestamps is {timestamps!r}; give {' or '.join(map(repr, _MICROS))}")
    kinds = {f.name: f.dataType for f in envelopes.schema}
    if not isinstance(kinds.get("value"), StringType | BinaryType):
        raise PlanError("the envelopes have no column value of text or bytes; give what Spark's Kafka source reads")
    if sequence is None and _OFFSET not in kinds:
        raise PlanError("the envelopes have no column offset to order them by; name a field of theirs as sequence=")
    return _changes(envelopes, known, sequence, timestamps)


def _table(schema: str | Catalog, name: str) -> TableSchema:
    catalog = Catalog.from_ddl(schema) if isinstance(schema, str) else schema
    found = catalog.table(name)
    if found is None:
        raise PlanError(f"the schema has no table {name}; declare it")
    if not found.primary_key:
        raise PlanError(f"table {name} has no primary key, by which Debezium identifies rows; declare one")
    return found


def _changes(envelopes: DataFrame, table: TableSchema, sequence: str | None, timestamps: str | None) -> DataFrame:
    target = StructType.fromDDL(fields_ddl(table.fields))
    assert isinstance(target, StructType)
    for field in target.fields:
        if isinstance(field.dataType, DecimalType) and not field.dataType.scale:
            raise PlanError(
                f"{field.name} is {field.dataType.simpleString()}, whose digits cannot be distinguished from "
                "bytes in base 64; leave the column out, or declare it BIGINT and have the connector write a number"
            )
    row = StructType([StructField(f.name, _read_as(f.dataType)) for f in target.fields])
    envelope = StructType().add("before", row).add("after", row).add("op", StringType())
    if sequence is not None:
        envelope = _with_field(envelope, sequence.split("."))
    text = functions.col("value").cast("string")
    whole = StructType([StructField("payload", envelope), *envelope.fields])
    said = functions.from_json(text, whole, {"mode": "FAILFAST"})
    bare = functions.struct(*(functions.col(f"m.{f.name}") for f in envelope.fields))
    read = envelopes.where(text.isNotNull()).withColumn("m", said)
    read = read.withColumn("e", functions.coalesce("m.payload", bare)).where("e.op IS NULL OR e.op <> 'm'")
    op = functions.col("e.op")
    unknown = _refused(table, functions.concat(functions.lit("no change of a row is "), text), "take it out")
    kind = functions.when(op == "d", "delete").when(op.isin("c", "r", "u"), "upsert").otherwise(unknown)
    image = functions.when(op == "d", functions.col("e.before")).otherwise(functions.col("e.after"))
    moment = functions.col(_OFFSET if sequence is None else f"e.{sequence}").cast("BIGINT")
    read = read.select(image.alias("row"), kind.alias(CHANGE_TYPE), moment.alias(MOMENT))
    columns = [_value(table, f, timestamps).alias(f.name) for f in target.fields]
    return read.select(*columns, CHANGE_TYPE, MOMENT)


def _with_field(envelope: StructType, path: list[str]) -> StructType:
    """The envelope with an additional integer field at a path."""
    if path[0] in envelope.fieldNames():
        raise PlanError(f"{path[0]} does not order changes; name another field of the envelope, as source.lsn")
    kind: DataType = LongType()
    for name in reversed(path[1:]):
        kind = StructType([StructField(name, kind)])
    return StructType([*envelope.fields, StructField(path[0], kind)])


def _read_as(kind: DataType) -> DataType:
    """Values that Debezium writes in several forms are read as text."""
    return StringType() if isinstance(kind, DateType | TimestampType | TimestampNTZType | DecimalType) else kind


def _value(table: TableSchema, field: StructField, timestamps: str | None) -> Column:
    value, kind = functions.col(f"row.`{field.name}`"), field.dataType
    number = value.rlike("^-?[0-9]+$")
    if isinstance(kind, DateType):
        days = functions.date_add(functions.lit("1970-01-01").cast("date"), value.cast("int"))
        return functions.when(number, days).otherwise(value.cast("date"))
    if isinstance(kind, TimestampType | TimestampNTZType):
        said = functions.concat(functions.lit(f"{field.name} is "), value)
        counted = _refused(table, said, "say what it counts: timestamps='ms' or 'us'")
        if timestamps is not None:
            counted = functions.timestamp_micros(value.cast("bigint") * _MICROS[timestamps]).cast(kind)
        return functions.when(number, counted).otherwise(value.cast(kind))
    if isinstance(kind, DecimalType):
        written = value.rlike(r"^-?[0-9]+\.[0-9]+(E-?[0-9]+)?$")  # base 64 contains no decimal point
        said = functions.concat(functions.lit(f"{field.name} is "), value)
        bytes_given = _refused(table, said, "have the connector write decimals as text: decimal.handling.mode=string")
        return functions.when(value.isNull() | written, value.cast(kind)).otherwise(bytes_given)
    return value


def _refused(table: TableSchema, fact: Column, remedy: str) -> Column:
    """Stops the query with one sentence, like other refusals of Freshet; the sentence is composed when it is raised, so
    that it does not occur in the plan, which Spark shows as well."""
    named = (functions.lit("freshet.errors."), functions.lit(f"ChangeError: table {table.name}: "))
    return functions.raise_error(functions.concat(*named, fact, functions.lit(f"; {remedy}")))
