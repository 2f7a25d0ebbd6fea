"""Changes of a view by its key: as upserts and deletes, and as Debezium's envelopes.

Laws. A key has at most one row before a micro-batch and at most one after it, so that a key that changed is one change:
an update, a row that appeared, or one that vanished. A micro-batch with two rows of a key is refused. What is said of a
key depends on its own rows alone, and the last that is said of it is its row: saying a micro-batch again is harmless.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from freshet.database.change_type import CHANGE_TYPE, WEIGHT
from freshet.errors import PlanError
from freshet.spark.decode import VIEW
from freshet.spark.sink.batch import quoted
from freshet.spark.sink.keyed import AFTER, BEFORE, CAME, WENT, changed_by_key

#: How values are written as JSON: NULL as null, times whole.
JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def upserts(changes: DataFrame, key: str | Sequence[str]) -> DataFrame:
    """Turn a micro-batch of a view's changes into upserts and deletes, one for each key.

    Parameters
    ----------
    changes
        One view's changes in a function of `foreachBatch`: the view's columns and `_weight`.
    key
        A column, or several, in which no two rows of the view agree.

    Returns
    -------
    pyspark.sql.DataFrame
        The view's columns and `_change_type`: `upsert` with the row as it is now, or `delete` with the row as it was.

    Raises
    ------
    PlanError
        The changes are a stream or of several views, or a column of the key is unknown.

    Notes
    -----
    If two rows of a micro-batch have one key, a ChangeError stops what reads the result.

    Examples
    --------
    >>> rows = [("Ann", 30, -1), ("Ann", 50, 1), ("Bob", 5, -1)]
    >>> changes = spark.createDataFrame(rows, "name STRING, total INT, _weight BIGINT")
    >>> sorted(tuple(row) for row in upserts(changes, "name").collect())
    [('Ann', 50, 'upsert'), ('Bob', 5, 'delete')]
    """
    keys, columns = _checked(changes, key)
    row = sf.coalesce(AFTER, BEFORE)
    kind = sf.when(sf.col(AFTER).isNull(), "delete").otherwise("upsert")
    values = [row.getField(c).alias(c) for c in columns]
    return _by_key(changes, keys, columns).select(*values, kind.alias(CHANGE_TYPE))


def envelopes(
    changes: DataFrame, key: str | Sequence[str], *, source: Mapping[str, str | int] | None = None
) -> DataFrame:
    """Turn a micro-batch of a view's changes into Debezium's envelopes, one for each key.

    Parameters
    ----------
    changes, key
        As `upserts` takes them.
    source
        What the envelopes say of their source, as in ``{"table": "sums", "batch": number}``.

    Returns
    -------
    pyspark.sql.DataFrame
        `before` and `after`, rows of the view; `op`, which is c (a row appeared), u (it changed) or d (it vanished);
        `source`; and `ts_ms`, the time, in milliseconds since 1970.

    Raises
    ------
    PlanError
        As for `upserts`.

    Examples
    --------
    >>> rows = [("Ann", 30, -1), ("Ann", 50, 1), ("Bob", 5, -1)]
    >>> changes = spark.createDataFrame(rows, "name STRING, total INT, _weight BIGINT")
    >>> made = envelopes(changes, "name")
    >>> sorted(tuple(row) for row in made.select("op", "before.total", "after.total").collect())
    [('d', 5, None), ('u', 30, 50)]
    """
    keys, columns = _checked(changes, key)
    op = sf.when(sf.col(BEFORE).isNull(), "c").when(sf.col(AFTER).isNull(), "d").otherwise("u")
    said = [sf.lit(value).alias(name) for name, value in {"connector": "freshet", **(source or {})}.items()]
    return _by_key(changes, keys, columns).select(
        BEFORE, AFTER, op.alias("op"), sf.struct(*said).alias("source"), sf.unix_millis(sf.now()).alias("ts_ms")
    )


def messages(changes: DataFrame, key: str | Sequence[str]) -> DataFrame:
    """Write upserts or envelopes as messages for a compacted topic of Kafka.

    Parameters
    ----------
    changes
        What `upserts` or `envelopes` returns.
    key
        The same key.

    Returns
    -------
    pyspark.sql.DataFrame
        `key` and `value`, JSON objects, for Spark's Kafka sink. The value of an upsert is the row. A delete is a
        tombstone, which has no value; an envelope of a removal is followed by one.

    Examples
    --------
    >>> changes = spark.createDataFrame([("Ann", 50, 1), ("Bob", 5, -1)], "name STRING, total INT, _weight BIGINT")
    >>> for message in sorted(messages(upserts(changes, "name"), "name").collect()):
    ...     print(message.key, message.value)
    {"name":"Ann"} {"name":"Ann","total":50}
    {"name":"Bob"} None
    """
    keys = [key] if isinstance(key, str) else list(key)
    if CHANGE_TYPE in changes.columns:
        own = {c: sf.col(quoted(c)) for c in changes.columns if c != CHANGE_TYPE}
        whole = _json([column.alias(c) for c, column in own.items()])
        value = sf.when(sf.col(CHANGE_TYPE) == "upsert", whole)
        return changes.select(_json([own[k].alias(k) for k in keys]).alias("key"), value.alias("value"))
    row = sf.coalesce(AFTER, BEFORE)
    envelope = _json([sf.col(c) for c in changes.columns])
    tombstone = sf.lit(None).cast("string")
    values = sf.when(sf.col("op") == "d", sf.array(envelope, tombstone)).otherwise(sf.array(envelope))
    return changes.select(
        _json([row.getField(k).alias(k) for k in keys]).alias("key"), sf.explode(values).alias("value")
    )


def _json(columns: Sequence[Column]) -> Column:
    return sf.to_json(sf.struct(*columns), JSON)


def _checked(changes: DataFrame, key: str | Sequence[str]) -> tuple[list[str], list[str]]:
    """The columns of the key and of the view."""
    if changes.isStreaming:
        raise PlanError("the changes are a stream, and keys change once in a micro-batch; call this in foreachBatch")
    if VIEW in changes.columns:
        raise PlanError("these are the changes of several views; split() them")
    if WEIGHT not in changes.columns:
        raise PlanError(f"the changes have no column {WEIGHT}; give what maintain() returns")
    columns = [c for c in changes.columns if c != WEIGHT]
    return check_key([key] if isinstance(key, str) else list(key), columns), columns


def check_key(key: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The key, if the view has its columns."""
    if not key:
        raise PlanError(f"no key; give some of the view's columns: {', '.join(columns)}")
    if unknown := [k for k in key if k not in columns]:
        raise PlanError(f"the view has no column {unknown[0]} for the key; it has {', '.join(columns)}")
    return list(key)


def _by_key(changes: DataFrame, key: list[str], columns: list[str]) -> DataFrame:
    """The row of each key that changed, before and after."""
    names = [quoted(c) for c in columns]
    rows = changes.groupBy(*map(sf.col, names)).agg(sf.sum(WEIGHT).alias(WEIGHT)).where(sf.col(WEIGHT) != 0)
    most = sf.greatest(CAME, WENT)
    shown = sf.to_json(sf.struct(*(sf.col(quoted(k)) for k in key)), JSON)
    refused = sf.raise_error(
        sf.concat(
            # Parts, so that the sentence does not occur in the plan, which Spark shows as well.
            *map(sf.lit, ("freshet.errors.", "ChangeError: ")), most.cast("string"), sf.lit(" rows have the key "),
            shown, sf.lit("; choose key columns in which no two rows of the view agree"),
        )
    )  # fmt: skip
    fits = sf.when(most > 1, refused.cast("boolean")).otherwise(sf.lit(True))
    return changed_by_key(rows, key, columns).where(fits)
