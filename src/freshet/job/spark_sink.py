"""The sinks of a job: the function of foreachBatch that passes each sink the changes of its view.

All sinks are part of one streaming query, so all are at the same version. A batch that Spark runs again after a failure
does not change files and copies: the files of a batch are a folder that is rewritten, and a copy records the batches it
has applied. Kafka and the console may receive such a batch twice.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from freshet.database.change_type import WEIGHT
from freshet.job.file import JobFile, JobSink
from freshet.spark.decode import VIEW
from freshet.spark.maintain import split
from freshet.spark.quarantine import QUARANTINE
from freshet.spark.sink.batch import Copy, check_columns, with_batch
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


class Sinks:
    def __init__(self, spark: SparkSession, job: JobFile, changes: DataFrame, watchers: list[Write]) -> None:
        """`watchers`: functions that are called with the changes of all views, as `maintain` returns them."""
        self.counts = BatchCounts(rows=dict.fromkeys(job.views, 0))
        self.watchers = watchers
        self.writes: list[tuple[str, Write]] = []
        for sink in job.sinks:
            schema = changes.schema[sink.view].dataType
            assert isinstance(schema, StructType)
            self.writes.append((sink.view, _writer(spark, job, sink, schema)))

    def __call__(self, changes: DataFrame, number: int) -> None:
        query = changes.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
        changes.persist()
        try:
            self._count(changes)
            for view, write in self.writes:
                part = split(changes, view)
                write(part.drop(WEIGHT) if view == QUARANTINE else part, number, query)
            for watch in self.watchers:
                watch(changes, number, query)
        finally:
            changes.unpersist()

    def _count(self, changes: DataFrame) -> None:
        weight = sf.col(WEIGHT)
        found = changes.groupBy(VIEW).agg(
            sf.sum(sf.greatest(weight, sf.lit(0))), sf.sum(sf.greatest(-weight, sf.lit(0)))
        )
        self.counts.appeared, self.counts.vanished = {}, {}
        for view, appeared, vanished in found.collect():
            self.counts.appeared[view], self.counts.vanished[view] = appeared, vanished
            self.counts.rows[view] = self.counts.rows.get(view, 0) + appeared - vanished


def _writer(spark: SparkSession, job: JobFile, sink: JobSink, schema: StructType) -> Write:
    kind, path = sink.place.format, job.path(sink.place)
    options = {k: v for k, v in sink.place.options.items() if k.lower() != "path"}
    if kind == "console":
        return _Console(sink, int(options.get("rows", _SHOWN)))
    if kind == "materialized":
        return _materialized(spark, sink, path, options, schema)
    if kind == "kafka":

        def send(changes: DataFrame, number: int, query: str) -> None:
            rows = changes.select(
                sf.to_json(sf.struct("*", sf.lit(number).alias(VERSION)), {"ignoreNullFields": "false"}).alias("value")
            )
            rows.write.format("kafka").options(**options).save()

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


def _materialized(
    spark: SparkSession, sink: JobSink, path: str | None, options: dict[str, str], schema: StructType
) -> Write:
    check_columns(schema)
    copy: Copy
    if path is None:
        url = next(options.pop(k) for k in list(options) if k.lower() == "url")
        copy = JdbcCopy(spark, url, options)
    else:
        copy = VersionedCopy(spark, path, int(options.get("keep_versions", "30")))
    copy.prepare(schema)
    return lambda changes, number, query: with_batch(changes, number, query, copy.apply)


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
