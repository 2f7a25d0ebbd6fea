"""A checkpoint that is to be rebuilt: what it holds, and its place in the sources."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions

from freshet.errors import StateError
from freshet.spark.dispatch import shard_keys
from freshet.spark.encode import BEGIN, BLOCKS, Sent
from freshet.spark.job import Job
from freshet.spark.pending import pending
from freshet.spark.record import RECORD, Requested, recorded_job, views_changed
from freshet.spark.resent import Refill, Resend, RowCount, gone_refills, kept_streams, level_of, refills, table_order
from freshet.spark.shipped import pack_job
from freshet.spark.sink.folder import LocalFolder
from freshet.spark.snapshot import snapshot
from freshet.spark.stored import StoredState, last_batch


class OldCheckpoint:
    """A checkpoint as it is before it is rebuilt."""

    def __init__(self, spark: SparkSession, folder: LocalFolder) -> None:
        self.spark, self.folder, self.path = spark, folder, folder.path
        batch = last_batch(folder)
        stored = None if batch is None else StoredState(spark, self.path, self.path, batch, recorded_job(folder))
        found = {} if stored is None else stored.levels()
        if batch is None or stored is None or not found:
            raise StateError(f"{self.path} holds no finished micro-batch to be rebuilt; use another checkpoint folder")
        if max(int(name) for name in folder.names("offsets") if name.isdigit()) > batch:
            raise StateError(
                f"the last micro-batch of {self.path} was not finished; run the query as it was, then rebuild"
            )
        self.batch, self.stored = batch, stored
        self.job = Job.from_text(next(iter(found.values()))[1])
        self.numbers = {level: number for number, (level, _) in found.items()}  # of operators
        self.answers: dict[str, Path] = {}
        self._check_operators(found)
        self._check_pending()

    def _check_operators(self, found: Mapping[int, Any]) -> None:
        metadata = self.spark.read.format("state-metadata").load(self.path)
        operators = metadata.select("operatorId").distinct().count()
        if operators > len(found):
            raise StateError(
                f"{self.path} has {operators - len(found)} stateful steps of others, whose state cannot be taken over; "
                "use another checkpoint folder"
            )

    def _check_pending(self) -> None:
        if pending(self.path) is None:
            return
        first = self.stored.standing(self.numbers[0]).where("value.shard = 0 AND value.version = 1")
        if first.count():
            raise StateError(
                f"{self.path} was rebuilt, and what that changed in the answers is not yet emitted; run the query "
                "until its next micro-batch, then rebuild again"
            )

    def read(self, job: Job, asked: Requested, parts: Path) -> None:
        """Reads the tables' rows, as blocks for the new job, and the answers of views that change."""
        self.sources(job)  # refused before anything is read
        frames = [self._refilled(each, job) for each in (*refills(self.job, job), *gone_refills(self.job, job))]
        keys = shard_keys(job.shards)
        begin = [(keys[0], level, BEGIN, b"") for level in sorted({0, job.begins or 0})]
        frames.append(_frame(self.spark, begin))
        functools.reduce(DataFrame.union, frames).write.parquet(str(parts / "blocks"))
        for name in views_changed(self.folder.read(RECORD), asked):
            view = next((v for v in self.job.views if v.name == name), None)
            after = next((v for v in job.views if v.name == name), None)
            if after is None:
                continue
            self.answers[name] = parts / f"answer{len(self.answers)}"
            if view is not None and [f.type for f in view.fields] == [f.type for f in after.fields]:
                answer = snapshot(self.spark, self.path, name).toDF(*(f.name for f in after.fields))
                answer.write.parquet(str(self.answers[name]))

    def logged(self) -> int:
        """Rows in all logs: no fewer than those of the tables, and not many more than twice as many."""
        numbers = self.numbers.values()
        rows = (self.stored.standing(n).agg(functions.sum("value.logged")).collect()[0][0] for n in numbers)
        return sum(int(n or 0) for n in rows)

    def sizes(self) -> dict[str, float]:
        """The rows of each table, as far as views read them."""
        found = {}
        for table in (t.name.lower() for t in self.job.tables):
            counts = [self._count(Refill(s.name, ())) for s in kept_streams(self.job, table)]
            found[table] = float(max(counts, default=0))
        return found

    def _count(self, refill: Refill) -> int:
        logs = self._logs(refill, self.job.shards)
        if logs is None:
            return 0
        counted = logs.mapInArrow(RowCount(pack_job(self.job), self.path), "rows BIGINT")
        return int(counted.agg(functions.sum("rows")).collect()[0][0] or 0)

    def _logs(self, refill: Refill, shards: int) -> DataFrame | None:
        """The log of a stored stream; None if nothing ever reached its level."""
        number = self.numbers.get(level_of(refill, self.job))
        return None if number is None else self.stored.logs(number, [refill.stored]).repartition(shards, "shard")

    def _refilled(self, refill: Refill, job: Job) -> DataFrame:
        logs = self._logs(refill, job.shards)
        if logs is None:
            return self.spark.createDataFrame([], BLOCKS)
        return logs.mapInArrow(Resend(pack_job(self.job), pack_job(job), refill, self.path), BLOCKS)

    # Places in the sources ------------------------------------------------------------------------------------

    def offsets(self) -> list[str]:
        lines = self.folder.read(f"offsets/{self.batch}").split("\n")
        if lines[0] != "v1":
            raise StateError(f"{self.path} stores offsets in format {lines[0]}, not v1; use another checkpoint folder")
        return lines

    def sources(self, job: Job) -> list[int | None]:
        """Of each source of the new query, its number among those of the old one; None for a new one."""
        count, order = len(self.offsets()) - 2, table_order(self.job, job)
        names = [t.name.lower() for t in job.tables]
        if count == 1 and len(order) == len(names):  # all tables are read from one stream
            return [0]
        if names == [t.name.lower() for t in self.job.tables]:
            return list(range(count))
        if count != len(self.job.tables):
            raise StateError(
                f"{self.path} has {count} sources for {len(self.job.tables)} tables, so it is unknown which is whose; "
                "use another checkpoint folder"
            )
        return [order.get(name) for name in names]


def _frame(spark: SparkSession, sent: list[Sent]) -> DataFrame:
    return spark.createDataFrame([(k, level, s, bytearray(p)) for k, level, s, p in sent], BLOCKS)
