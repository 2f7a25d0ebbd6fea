"""What a checkpoint holds: the shards of each level, and their logs, as of one micro-batch."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession, functions

from freshet.spark.sink.folder import Folder


def last_batch(folder: Folder) -> int | None:
    return max((int(name) for name in folder.names("commits") if name.isdigit()), default=None)


@dataclass(frozen=True, slots=True)
class StoredState:
    """What a checkpoint holds as of one batch. `log_folder`: its folder, if it is one; `job`: where its shards keep one
    value each, and not the job."""

    spark: SparkSession
    checkpoint: str
    log_folder: str | None
    batch: int
    job: str | None

    def levels(self) -> dict[int, tuple[int, str]]:
        """Stateful operators of the checkpoint that are levels of a job: their level, and the job."""
        operators = self.spark.read.format("state-metadata").load(self.checkpoint).select("operatorId").distinct()
        found = {}
        for (number,) in sorted(tuple(r) for r in operators.collect()):
            level = self.standing(number).select("value.level").limit(1).collect()
            job = self.job
            if level and job is None:
                job = str(self.read(number, "job").select("value.job").limit(1).collect()[0][0])
            if level and job is not None:
                found[int(number)] = (int(level[0][0]), job)
        return found

    def standing(self, operator: int) -> DataFrame:
        return self.read(operator, "standing" if self.job is None else "shard")

    def logs(self, operator: int, streams: list[str]) -> DataFrame:
        """Of every shard its number and the entries of its log, NULL where it has none."""
        number, wanted = functions.col("value.shard").alias("shard"), functions.col("stream").isin(streams)
        if self.job is not None:
            entries = functions.filter("value.entries", lambda e: e["stream"].isin(streams))
            return self.standing(operator).select(number, functions.inline_outer(entries))
        standing = self.standing(operator).select(functions.col("key.key").alias("key"), number)
        log = self.read(operator, "log").select(functions.col("key.key").alias("key"), "list_element.*")
        return standing.join(log.where(wanted), "key", "left").drop("key")

    def read(self, operator: int, variable: str) -> DataFrame:
        return (
            self.spark.read.format("statestore")
            .option("operatorId", str(operator))
            .option("stateVarName", variable)
            .option("batchId", str(self.batch))
            .load(self.checkpoint)
        )
