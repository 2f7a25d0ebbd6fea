"""snapshot: the whole answer of a view, read back from a stream's checkpoint.

Each shard's log holds the rows its operators need. The shards of the level that gives the view are made again from
their logs on the executors, and say their part of the answer; no stream has to run.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions

from freshet.arrow import to_arrow
from freshet.errors import StateError
from freshet.plans.model import schemas
from freshet.spark.encode import read_job
from freshet.spark.job import Job, Operator, ViewOutput
from freshet.spark.maintain import fields_ddl, out_array, out_type
from freshet.spark.shard import Shard
from freshet.spark.transaction import read_block
from freshet.state.arena import Arena

_BATCH = 65_536


def snapshot(spark: SparkSession, checkpoint: str, view: str | None = None) -> DataFrame:
    """The answer as of the last finished micro-batch, duplicates as repeated rows. `view` names one of several."""
    found = _standings(spark, checkpoint)
    if not found:
        raise StateError(f"{checkpoint} holds no finished batch of a maintained view; wait for the first one")
    job = read_job(next(iter(found.values()))[1])
    chosen = _choose(job, view)
    levels = {level: number for number, (level, _) in found.items()}
    parts = [
        _part(spark, checkpoint, levels[o.level], job, chosen, o)
        for o in job.operators
        if o.name in chosen.operators and o.level in levels  # else nothing ever reached it
    ]
    return functools.reduce(DataFrame.union, parts) if parts else spark.createDataFrame([], fields_ddl(chosen.fields))


def _part(
    spark: SparkSession, checkpoint: str, number: int, job: Job, view: ViewOutput, operator: Operator
) -> DataFrame:
    """What one operator gives to a view."""
    standing = _read(spark, checkpoint, number, "standing").select(
        functions.col("key.key").alias("key"), functions.col("value.shard").alias("shard")
    )
    streams = [table.name for table in schemas(operator.plan)]
    log = (
        _read(spark, checkpoint, number, "log")
        .select(functions.col("key.key").alias("key"), functions.col("list_element.stream").alias("stream"),
                functions.col("list_element.payload").alias("payload"))
        .where(functions.col("stream").isin(streams))
    )  # fmt: skip
    parts = standing.join(log, "key", "left").select("shard", "stream", "payload")
    return parts.repartition(job.shards, "shard").mapInArrow(
        _Answer(job.to_json(), view.name, operator.name), fields_ddl(view.fields)
    )


def views(spark: SparkSession, checkpoint: str) -> list[str]:
    """The views a checkpoint holds."""
    found = _standings(spark, checkpoint)
    return [v.name for v in read_job(next(iter(found.values()))[1]).views] if found else []


class _Answer:
    """A function for mapInArrow: logs of whole shards in, their parts of the answer out."""

    def __init__(self, job_json: str, view: str, operator: str) -> None:
        self.job_json, self.view, self.operator = job_json, view, operator

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        logs: dict[int, dict[str, list[bytes]]] = {}
        for batch in batches:
            shards, streams = batch.column("shard").to_pylist(), batch.column("stream").to_pylist()
            for shard, stream, payload in zip(shards, streams, batch.column("payload"), strict=True):
                log = logs.setdefault(shard, {})
                if stream is not None:
                    log.setdefault(stream, []).append(payload.as_py())
        for number in sorted(logs):
            yield from self._part(number, logs.pop(number))

    def _part(self, number: int, log: dict[str, list[bytes]]) -> Iterator[pa.RecordBatch]:
        job = read_job(self.job_json)
        view = _choose(job, self.view)
        operator = next(o for o in job.operators if o.name == self.operator)
        if number >= operator.cells:
            return
        shard = Shard(job, operator.level, number, Arena(), only=operator.name)
        for stream, blocks in log.items():
            shard.load(stream, (read_block(shard, stream, b) for b in blocks))
        shard.loaded()
        schema = pa.schema([(f.name, out_type(f.type)) for f in view.fields])
        for columns in shard.answer(operator).batches(_BATCH):
            arrays = [out_array(to_arrow(c), f.type) for c, f in zip(columns, view.fields, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        shard.close()


def _choose(job: Job, view: str | None) -> ViewOutput:
    names = [v.name for v in job.views]
    if view is None:
        if len(names) > 1:
            raise StateError(f"the checkpoint holds the views {', '.join(names)}; say which one")
        return job.views[0]
    for v in job.views:
        if v.name.lower() == view.lower():
            return v
    raise StateError(f"the checkpoint holds no view {view}; it holds {', '.join(names)}")


def _standings(spark: SparkSession, checkpoint: str) -> dict[int, tuple[int, str]]:
    """Stateful operators of the checkpoint that are levels of a job: their level, and the job."""
    operators = spark.read.format("state-metadata").load(checkpoint).select("operatorId").distinct().collect()
    found = {}
    for (number,) in sorted(tuple(r) for r in operators):
        row = _read(spark, checkpoint, number, "job").select("value.job").limit(1).collect()
        level = _read(spark, checkpoint, number, "standing").select("value.level").limit(1).collect()
        if row and level:
            found[int(number)] = (int(level[0][0]), str(row[0][0]))
    return found


def _read(spark: SparkSession, checkpoint: str, operator: int, variable: str) -> DataFrame:
    return (
        spark.read.format("statestore")
        .option("operatorId", str(operator))
        .option("stateVarName", variable)
        .load(checkpoint)
    )
