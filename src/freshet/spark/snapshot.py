"""snapshot: the whole answer of a view, read back from a stream's checkpoint.

Each shard's log holds the rows its operators need. The shards of the level that gives the view are made again from
their logs on the executors, and say their part of the answer; no stream has to run. One may: the version to be read is
chosen once for all of it, and kept as long as Spark retains it (`log.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from freshet.errors import StateError
from freshet.plans import codec
from freshet.plans.model import schemas
from freshet.scalar.arrow import to_arrow
from freshet.spark.decode import decoded, fields_ddl, out_array, out_type
from freshet.spark.failure import plainly, show_reason_first
from freshet.spark.job import Job, Operator, ViewOutput, view_names
from freshet.spark.log import ShardFolder, read_entry
from freshet.spark.record import recorded_job
from freshet.spark.shard import Shard
from freshet.spark.shipped import ShippedJob, pack_job, read_job
from freshet.spark.sink.folder import LocalFolder, open_folder
from freshet.spark.stored import StoredState, last_batch
from freshet.spark.transaction import read_block
from freshet.state.arena import Arena

_BATCH = 65_536


def snapshot(
    spark: SparkSession, checkpoint: str, view: str | None = None, *,
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> DataFrame:  # fmt: skip
    """Read the answer as of the last finished micro-batch.

    The DataFrame reads that micro-batch's state whenever it is asked. Next to a running stream, ask within
    spark.sql.streaming.minBatchesToRetain batches.

    Parameters
    ----------
    spark
        The session.
    checkpoint
        The folder the query was started with.
    view
        Which view, where the query has several.
    functions
        The functions in Python that its views call, by name.

    Returns
    -------
    pyspark.sql.DataFrame
        The view's columns, duplicates as repeated rows.

    Raises
    ------
    StateError
        The checkpoint holds no finished micro-batch, or not that view.

    Examples
    --------
    With the checkpoint of `maintain`:

    >>> sorted(tuple(row) for row in snapshot(spark, f"{folder}/state").collect())
    [('Ann', 30), ('Bob', 5)]
    """
    show_reason_first()
    folder = open_folder(spark, checkpoint)
    log_folder = folder.path if isinstance(folder, LocalFolder) else None
    batch = last_batch(folder)
    held = None if batch is None else StoredState(spark, checkpoint, log_folder, batch, recorded_job(folder))
    found = {} if held is None else held.levels()
    if held is None or not found:
        raise StateError(f"{checkpoint} holds no finished batch of a maintained view; wait for the first one")
    given = {name.lower(): body for name, body in (functions or {}).items()}
    with nullcontext() if functions is None else codec.calling(given):
        job = Job.from_text(next(iter(found.values()))[1])
    chosen = _choose(job, view)
    levels = {level: number for number, (level, _) in found.items()}
    parts = [
        _part(held, levels[o.level], job, chosen, o)
        for o in job.operators
        if o.name in chosen.operators and o.level in levels  # else nothing ever reached it
    ]
    return functools.reduce(DataFrame.union, parts) if parts else spark.createDataFrame([], fields_ddl(chosen.fields))


def views(spark: SparkSession, checkpoint: str) -> list[str]:
    """List the views a checkpoint holds.

    Parameters
    ----------
    spark
        The session.
    checkpoint
        The folder a query was started with.

    Returns
    -------
    list of str
        Their names; a single query is called ``view``.

    Examples
    --------
    With the checkpoint of `maintain`:

    >>> views(spark, f"{folder}/state")
    ['view']
    """
    folder = open_folder(spark, checkpoint)
    batch = last_batch(folder)
    found = {} if batch is None else StoredState(spark, checkpoint, None, batch, recorded_job(folder)).levels()
    return view_names(next(iter(found.values()))[1]) if found else []


def _part(held: StoredState, number: int, job: Job, view: ViewOutput, operator: Operator) -> DataFrame:
    """What one operator gives to a view."""
    parts = held.logs(number, [table.name for table in schemas(operator.plan)])
    answer = _Answer(pack_job(job), view.name, operator.name, held.log_folder)
    return decoded(parts.repartition(job.shards, "shard"), answer, functools.partial(fields_ddl, view.fields))


class _Answer:
    """A function for mapInArrow: logs of whole shards in, their parts of the answer out."""

    def __init__(self, shipped: ShippedJob, view: str, operator: str, log_folder: str | None) -> None:
        self.shipped, self.view, self.operator, self.log_folder = shipped, view, operator, log_folder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with plainly():
            yield from self._parts(batches)

    def _parts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        logs: dict[int, dict[str, list[list[Any]]]] = {}
        for batch in batches:
            for shard, stream, *entry in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                log = logs.setdefault(shard, {})
                if stream is not None:
                    log.setdefault(stream, []).append(entry)
        for number in sorted(logs):
            yield from self._part(number, logs.pop(number))

    def _part(self, number: int, log: dict[str, list[list[Any]]]) -> Iterator[pa.RecordBatch]:
        job = read_job(self.shipped)
        view = _choose(job, self.view)
        operator = next(o for o in job.operators if o.name == self.operator)
        if number >= operator.cells:
            return
        place = None if self.log_folder is None else ShardFolder(self.log_folder, operator.level, number)
        shard = Shard(job, operator.level, number, Arena(), only=operator.name)
        for stream, entries in log.items():
            shard.load(stream, (read_block(shard, stream, read_entry(place, *entry)) for entry in entries))
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
