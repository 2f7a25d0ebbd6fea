"""The sinks of a job: the function of foreachBatch that passes each sink the changes of its view.

All sinks are part of one streaming query, so all are at the same version. A batch that Spark runs again after a failure
does not change files and copies: the files of a batch are a folder that is rewritten, and a copy records the batches it
has applied. Kafka and the console may receive such a batch twice.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from freshet.database.change_type import WEIGHT
from freshet.job.file import JobFile, JobSink
from freshet.job.options import ENVELOPE, KEY, split_key
from freshet.spark.envelopes import JSON, check_key, envelopes, messages, upserts
from freshet.spark.maintain import split
from freshet.spark.quarantine import QUARANTINE
from freshet.spark.sink.batch import HASH, Batch, Copy, check_columns
from freshet.spark.sink.gathered import MicroBatch, PackedStream, computed, packed
from freshet.spark.sink.jdbc import JdbcCopy
from freshet.spark.sink.versions import VersionedCopy

VERSION = "version"  # the column of files that contains the batch of a change
_SHOWN = 20

#: Called with the changes of a view, the number of the batch and the name of the query.
Write = Callable[[DataFrame, int, str], None]


@dataclass(slots=True)
class BatchCounts:
    """Changes of each view in the last batch: rows that appeared and disappeared, and rows of the answer since the
    start."""

    appeared: dict[str, int] = field(default_factory=dict)
    vanished: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)


class TakesBatch(Protocol):
    """A sink of consolidated changes."""

    def apply(self, batch: Batch) -> None:
        """Writes the batch."""


class Sinks:
    def __init__(self, spark: SparkSession, job: JobFile, changes: DataFrame, watchers: list[Write]) -> None:
        """`watchers`: functions that are called with the changes of all views, as `maintain` returns them."""
        self.counts = BatchCounts(rows=dict.fromkeys(job.views, 0))
        self.watchers = watchers
        self.writes: list[tuple[str, Write | TakesBatch]] = []
        self.packing: PackedStream | None = None
        for sink in job.sinks:
            schema = changes.schema[sink.view].dataType
            assert isinstance(schema, StructType)
            self.writes.append((sink.view, _writer(spark, job, sink, schema)))

    def stream(self, changes: DataFrame) -> DataFrame:
        """The stream whose micro-batches the sinks are to be called with. Sinks that take consolidated changes need no
        rows."""
        self.packing = None
        wanted = self._gathered()
        if self.watchers or len(wanted) < len(self.writes):
            return changes
        types = {view: changes.schema[view].dataType for view in wanted}
        found = packed(changes, {view: type_ for view, type_ in types.items() if isinstance(type_, StructType)})
        if found is None:
            return changes
        stream, self.packing = found
        return stream

    def _gathered(self) -> list[str]:
        return [view for view, write in self.writes if not callable(write)]

    def __call__(self, changes: DataFrame, number: int) -> None:
        query = changes.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
        if self.packing is not None:
            batches = self.packing.computed(changes, number, query)
        else:
            batches = computed(changes, number, query, self._gathered())
        with batches as batch:
            self._count(batch)
            for view, write in self.writes:
                if not callable(write):
                    batch.give(view, write.apply)
                    continue
                part = split(changes, view)
                write(part.drop(WEIGHT) if view == QUARANTINE else part, number, query)
            for watch in self.watchers:
                watch(changes, number, query)

    def _count(self, batch: MicroBatch) -> None:
        self.counts.appeared, self.counts.vanished = batch.appeared, batch.vanished
        for view in batch.appeared:
            self.counts.rows[view] = self.counts.rows.get(view, 0) + batch.appeared[view] - batch.vanished[view]


def _writer(spark: SparkSession, job: JobFile, sink: JobSink, schema: StructType) -> Write | TakesBatch:
    kind, path = sink.place.format, job.path(sink.place)
    own = ("path", ENVELOPE, KEY) if sink.place.get(ENVELOPE) else ("path",)
    options = {k: v for k, v in sink.place.options.items() if k.lower() not in own}
    if kind == "console":
        return _Console(sink, int(options.get("rows", _SHOWN)))
    if kind == "materialized":
        return _materialized(spark, sink, path, options, schema)
    write = _written(kind, path, options)
    if sink.place.get(ENVELOPE):
        return _Enveloped(sink, write, schema)
    if kind == "kafka":
        return lambda changes, number, query: write(_as_messages(changes, number), number, query)
    return write


def _as_messages(changes: DataFrame, number: int) -> DataFrame:
    return changes.select(sf.to_json(sf.struct("*", sf.lit(number).alias(VERSION)), JSON).alias("value"))


def _written(kind: str, path: str | None, options: dict[str, str]) -> Write:
    if kind == "kafka":

        def send(sent: DataFrame, number: int, query: str) -> None:
            sent.write.format("kafka").options(**options).save()

        return send
    if kind == "delta":

        def append(changes: DataFrame, number: int, query: str) -> None:
            rows = changes.withColumn(VERSION, sf.lit(number).cast("bigint"))
            once = {"txnAppId": query, "txnVersion": str(number)}
            rows.write.format("delta").mode("append").options(**options, **once).save(path)

        return append

    def keep(changes: DataFrame, number: int, query: str) -> None:
        rows = changes.coalesce(int(options.get("files", "1")))
        rows.write.format(kind).mode("overwrite").options(**options).save(f"{path}/{VERSION}={number}")

    return keep


class _Enveloped:
    """Writes changes by key: upserts, or Debezium's envelopes."""

    def __init__(self, sink: JobSink, write: Write, schema: StructType) -> None:
        self.sink, self.write = sink, write
        self.key = check_key(split_key(sink.place.get(KEY)), schema.names)
        check_columns(schema)

    def apply(self, batch: Batch) -> None:
        if not batch.count:
            return
        changes = batch.frame().drop(HASH)
        if self.sink.place.get(ENVELOPE) == "upsert":
            rows = upserts(changes, self.key)
        else:
            rows = envelopes(changes, self.key, source={"table": self.sink.view, "batch": batch.number})
        if self.sink.place.format == "kafka":
            rows = messages(rows, self.key)
        self.write(rows, batch.number, batch.query)


def _materialized(
    spark: SparkSession, sink: JobSink, path: str | None, options: dict[str, str], schema: StructType
) -> Copy:
    check_columns(schema)
    copy: Copy
    if path is None:
        url = next(options.pop(k) for k in list(options) if k.lower() == "url")
        copy = JdbcCopy(spark, url, options)
    else:
        copy = VersionedCopy(spark, path, int(options.get("keep_versions", "30")))
    copy.prepare(schema)
    return copy


class _Console:
    """Prints changes as lines: +1 for a row that appeared, −1 for one that disappeared."""

    def __init__(self, sink: JobSink, most: int) -> None:
        self.sink, self.most = sink, most

    def __call__(self, changes: DataFrame, number: int, query: str) -> None:
        rows = [r.asDict() for r in changes.limit(self.most + 1).collect()]
        if not rows:
            return
        lines = [f"{self.sink.name}, version {number}"]
        for row in rows[: self.most]:
            weight = row.pop(WEIGHT, 1)
            lines.append(f"  {weight:+d}  " + "  ".join(f"{k}={_shown(v)}" for k, v in row.items()))
        lines += [f"  ... the first {self.most}; OPTIONS (rows '...') shows more"] if len(rows) > self.most else []
        print("\n".join(lines), file=sys.stdout, flush=True)


def _shown(value: Any) -> str:
    return "NULL" if value is None else str(value)
