"""materialize: maintains a queryable copy of a view's answer from the stream of its changes.

Law: after micro-batch n the copy is the sum of the changes of batches 0 to n, and each step from one to the next is
atomic. A batch that Spark runs again after a failure changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import LongType, StructType

from freshet.database.change_type import WEIGHT
from freshet.errors import PlanError
from freshet.spark.connect import check_shared, is_remote, query_id
from freshet.spark.decode import VIEW
from freshet.spark.failure import show_reason_first
from freshet.spark.sink.batch import Copy, check_columns
from freshet.spark.sink.gathered import MicroBatch, PackedStream, as_one_of_several, computed, packed
from freshet.spark.sink.jdbc import JdbcCopy
from freshet.spark.sink.versions import CHECKPOINT, VersionedCopy, read_materialized

_ONE = "view"  # the name of the only one, as `maintain` has it too

__all__ = ["materialize", "read_materialized"]


def materialize(
    changes: DataFrame, target: str | Mapping[str, str], *, checkpoint: str | None = None,
    trigger: Mapping[str, Any] | None = None, name: str | None = None, options: Mapping[str, str] | None = None,
    keep_versions: int = 30,
) -> StreamingQuery:  # fmt: skip
    """Start a streaming query that keeps a copy of the answer.

    Parameters
    ----------
    changes
        What `maintain` returns: a view's columns and `_weight`, or those of several views.
    target
        A folder or a JDBC URL; with several views, a dict of view to target. Each batch is computed once for all.
    checkpoint
        The query's checkpoint folder; a copy belongs to it. The default is a folder inside `target`.
    trigger
        The arguments of Spark's `DataStreamWriter.trigger`, as in ``{"availableNow": True}``.
    name
        The query's name.
    options
        For a JDBC URL: `table` (with several views, the view's name by default) and `driver` (a class on Spark's class
        path), perhaps `user`, `password`, `key` and the options of Spark's own JDBC writer.
    keep_versions
        For how many more batches a folder keeps what is no longer needed, for readers that have begun.

    Returns
    -------
    pyspark.sql.streaming.StreamingQuery
        The query, running.

    Raises
    ------
    PlanError
        The changes are not a stream, or the target does not fit.

    Notes
    -----
    A folder holds Parquet files in versions that appear whole: see `read_materialized`.

    A JDBC table has the view's columns, `_weight` (how often the row occurs) and `_row` (a hash that identifies the
    row). With `key`, a comma-separated list of columns in which no two rows of the view agree, it has the view's
    columns alone. A batch and its number, which goes to the table freshet_batches, are one transaction.

    Examples
    --------
    With `orders`, `sql` and `ddl` as in `maintain`:

    >>> changes = maintain(spark, sql, {"orders": orders}, schema=ddl)
    >>> query = materialize(changes, f"{folder}/copy", trigger={"availableNow": True})
    >>> query.awaitTermination()
    >>> read_materialized(spark, f"{folder}/copy").count()
    2
    """
    show_reason_first()
    if not changes.isStreaming:
        raise PlanError(
            "the changes are not a stream; give what maintain() returns, or a DataFrame of spark.readStream"
        )
    if keep_versions < 1:
        raise PlanError(f"keep_versions is {keep_versions}; keep 1 version or more")
    copies: dict[str | None, Copy] = {}
    views = _views(changes, target)
    for view, schema in views.items():
        check_columns(schema)
        place = target if isinstance(target, str) else target[view or ""]
        copies[view] = _copy(changes.sparkSession, place, view, dict(options or {}), keep_versions)
        copies[view].prepare(schema)
    place = _checkpoint(target, checkpoint)
    check_shared(changes.sparkSession, place)
    found = packed(changes, {view or _ONE: schema for view, schema in views.items()})
    stream, packing = (changes, None) if found is None else found
    writer = stream.writeStream.foreachBatch(Materializer(copies, place, packing))
    writer = writer.option("checkpointLocation", place)
    if name is not None:
        writer = writer.queryName(name)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    return writer.start()


class Materializer:
    """The function of foreachBatch: passes each view's part of the batch to its copy."""

    def __init__(
        self, copies: Mapping[str | None, Copy], checkpoint: str = "", packing: PackedStream | None = None
    ) -> None:  # fmt: skip
        self.copies, self.checkpoint, self.packing = copies, checkpoint, packing

    def __call__(self, changes: DataFrame, number: int) -> None:
        self.apply(changes, number, query_id(changes.sparkSession, self.checkpoint))

    def apply(self, changes: DataFrame, number: int, query: str) -> None:
        copies = {view or _ONE: copy for view, copy in self.copies.items()}
        with self._computed(changes, number, query) as batch:
            for view, copy in copies.items():
                batch.give(view, copy.apply)

    def _computed(self, changes: DataFrame, number: int, query: str) -> AbstractContextManager[MicroBatch]:
        if self.packing is not None:
            return self.packing.computed(changes, number, query)
        if None in self.copies:
            changes = as_one_of_several(changes, _ONE)
        return computed(changes, number, query, [view or _ONE for view in self.copies])


def _views(changes: DataFrame, target: str | Mapping[str, str]) -> dict[str | None, StructType]:
    """The columns of each view to be copied."""
    weights = [f for f in changes.schema if f.name == WEIGHT]
    if not weights or not isinstance(weights[0].dataType, LongType):
        raise PlanError(f"the changes have no column {WEIGHT} of type BIGINT; give what maintain() returns")
    if isinstance(target, str):
        if VIEW in changes.columns:
            raise PlanError("these are the changes of several views; give a dict of view to target, or split() them")
        return {None: StructType([f for f in changes.schema if f.name != WEIGHT])}
    if VIEW not in changes.columns:
        raise PlanError("these are the changes of one view; give one target")
    views = [c for c in changes.columns if c not in (VIEW, WEIGHT)]
    if unknown := [v for v in target if v not in views]:
        raise PlanError(f"there is no view {unknown[0]}; the views are {', '.join(views)}")
    if not target:
        raise PlanError(f"no targets; give a dict of view to target for some of {', '.join(views)}")
    found: dict[str | None, StructType] = {}
    for view in target:
        schema = changes.schema[view].dataType
        assert isinstance(schema, StructType)
        found[view] = schema
    return found


def _copy(spark: SparkSession, target: str, view: str | None, options: dict[str, str], keep: int) -> Copy:
    if target.startswith("jdbc:"):
        if is_remote(spark):
            raise PlanError("a database cannot be filled over Spark Connect; materialize into a folder")
        if view is not None and "table" in options:
            raise PlanError(
                "several views would go to one table; leave the option table away: tables are named as views"
            )
        return JdbcCopy(spark, target, options if view is None else {"table": view, **options})
    if options:
        raise PlanError(f"a folder takes no options, and {', '.join(options)} was given; options belong to a JDBC URL")
    return VersionedCopy(spark, target, keep)


def _checkpoint(target: str | Mapping[str, str], checkpoint: str | None) -> str:
    if checkpoint is not None:
        return checkpoint
    if isinstance(target, str) and not target.startswith("jdbc:"):
        return f"{target.rstrip('/')}/{CHECKPOINT}"
    raise PlanError("a database and several targets have no place for a checkpoint; give checkpoint= a folder")
