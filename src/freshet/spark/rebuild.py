"""Rebuilds the state of a checkpoint for another query: other views, another number of shards, tables with new columns.

The old state holds the rows of the tables (`resent.py`). They are loaded into a new checkpoint of the new query by a
stream of one micro-batch, whose deltas nobody receives. Then the new checkpoint is given the place in the sources, and
the number of the last micro-batch, of the old one, so the new query goes on where the old one stopped, and sinks see
the same query. What changes in the answers by the rebuilding itself is stored in the checkpoint, as blocks, and emitted
with the next micro-batch (`pending`).

Law: the old checkpoint is not touched until the new one is complete on disk; then it is renamed, and kept. A rebuilding
that was interrupted is done again, or, if only the second of the two renames is missing, completed.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession, functions

from freshet.database.change_type import WEIGHT
from freshet.errors import StateError
from freshet.scalar.arrow import from_arrow
from freshet.spark.block import Signed, to_block
from freshet.spark.dispatch import shard_keys
from freshet.spark.encode import BLOCKS, blocks_batch
from freshet.spark.failure import plainly
from freshet.spark.job import Job, ViewOutput
from freshet.spark.level import Level
from freshet.spark.old_checkpoint import OldCheckpoint
from freshet.spark.pending import DIFFERENCE
from freshet.spark.record import JOB_RECORD, Requested, claimed
from freshet.spark.shipped import ShippedJob, pack_job, read_job
from freshet.spark.sink.folder import LocalFolder, open_folder
from freshet.spark.snapshot import snapshot
from freshet.spark.stored import last_batch

NEW, BEFORE = ".rebuilding", ".before-rebuild"  # appended to the checkpoint's name
_PARTS = "parts"  # of a rebuilding: what was read from the old checkpoint
_COMPLETE = "freshet/rebuilt"

logger = logging.getLogger("freshet.spark")


def rebuild(
    spark: SparkSession, checkpoint: str, job: Job, asked: Requested, sizes: Mapping[str, float], retained: int
) -> None:
    """Makes the checkpoint one of this job. StateError if it does not hold what the job needs; nothing has changed
    then."""
    folder = open_folder(spark, checkpoint)
    if not isinstance(folder, LocalFolder):
        raise StateError(f"{checkpoint} is not a folder of this machine and cannot be rebuilt; use another checkpoint")
    old = OldCheckpoint(spark, folder)
    new = Path(folder.path + NEW)
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(0o700)
    start = time.perf_counter()
    try:
        old.read(job, asked, new / _PARTS)
        _load(spark, new, old, job, asked, sizes, retained)
        _note_differences(spark, new, job, old.answers)
        _take_place(new, old, job)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    _swap(folder.path)
    seconds = time.perf_counter() - start
    logger.warning(
        "freshet: %s was rebuilt in %.1f s for the query as it is now; the checkpoint as it was is kept in %s: remove "
        "it when it is no longer needed", checkpoint, seconds, folder.path + BEFORE,
    )  # fmt: skip


def complete(spark: SparkSession, checkpoint: str) -> None:
    """Completes a rebuilding that was interrupted between its two renames."""
    folder = open_folder(spark, checkpoint)
    if isinstance(folder, LocalFolder) and not os.path.exists(folder.path):
        new = folder.path + NEW
        if os.path.exists(os.path.join(new, _COMPLETE)):
            os.rename(new, folder.path)


def _load(
    spark: SparkSession,
    new: Path,
    old: OldCheckpoint,
    job: Job,
    asked: Requested,
    sizes: Mapping[str, float],
    retained: int,
) -> None:
    """Runs the new query over the blocks."""
    own = spark.newSession()
    for name, value in spark.conf.getAll.items():
        if name.startswith("spark.sql.") and own.conf.isModifiable(name):
            own.conf.set(name, value)
    # A version of the state is then one file, which can be given another number.
    own.conf.set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "false")
    folder = LocalFolder(str(new))
    folder.create("freshet/sizes.json", json.dumps(dict(sizes)))
    if JOB_RECORD in old.folder.names():
        folder.create(JOB_RECORD, old.folder.read(JOB_RECORD), private=True)
    job, together = claimed(spark, str(new), job, asked)
    shipped = pack_job(job)
    blocks = own.readStream.schema(BLOCKS).parquet(str(new / _PARTS / "blocks"))
    for level in range(job.levels):
        processor = Level(shipped, level, None, str(new), retained, None, together)
        blocks = blocks.groupBy("key").transformWithState(processor, BLOCKS, "append", "none")
    writer = blocks.writeStream.format("noop").option("checkpointLocation", str(new)).trigger(availableNow=True)
    writer.start().awaitTermination()
    if last_batch(folder) != 0:
        raise StateError(f"the rows of {old.path} were not loaded as one micro-batch; use another checkpoint folder")


def _note_differences(spark: SparkSession, new: Path, job: Job, answers: Mapping[str, Path]) -> None:
    """Stores what has changed in answers, as blocks of the views."""
    for name, before in answers.items():
        view = next(v for v in job.views if v.name == name)
        columns = [f"c{i}" for i in range(len(view.fields))]
        now = snapshot(spark, str(new), name).toDF(*columns).withColumn(WEIGHT, functions.lit(1))
        if before.exists():
            then = spark.read.parquet(str(before)).toDF(*columns).withColumn(WEIGHT, functions.lit(-1))
            now = now.union(then)
        summed = now.groupBy(*columns).agg(functions.sum(WEIGHT).alias(WEIGHT)).where(f"{WEIGHT} <> 0")
        target = str(new / DIFFERENCE)
        summed.mapInArrow(_Difference(pack_job(job), name), BLOCKS).write.mode("append").parquet(target)


class _Difference:
    """A function for mapInArrow: rows of a view with weights in, blocks of its delta out."""

    def __init__(self, shipped: ShippedJob, view: str) -> None:
        self.shipped, self.view = shipped, view

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with plainly():
            job = read_job(self.shipped)
            view = next(v for v in job.views if v.name == self.view)
            for batch in batches:
                if batch.num_rows:
                    sent = shard_keys(job.shards)[0], job.levels, view.operators[0], _block(view, batch)
                    yield blocks_batch([sent])


def _block(view: ViewOutput, batch: pa.RecordBatch) -> bytes:
    columns = [from_arrow(pa.chunked_array([batch.column(i)]), f.type) for i, f in enumerate(view.fields)]
    weights = batch.column(len(columns)).to_numpy(zero_copy_only=False)
    return to_block(Signed(columns, weights.astype(np.int64)))


def _take_place(new: Path, old: OldCheckpoint, job: Job) -> None:
    """The new checkpoint goes on from the old one's place in the sources, as the same query."""
    number = old.batch + 1  # of the micro-batch that the rebuilding counts as
    for state in (new / "state").glob("*/*"):
        if state.name.isdigit():
            _renumber(state, number + 1)
    shutil.rmtree(new / "sources", ignore_errors=True)
    for place, source in enumerate(old.sources(job)):
        given = Path(old.path) / "sources" / str(source)
        if source is not None and given.is_dir():
            shutil.copytree(given, new / "sources" / str(place))
    lines = old.offsets()
    own = (new / "offsets" / "0").read_text().split("\n")
    metadata = {**json.loads(lines[1]), "conf": json.loads(own[1])["conf"]}
    places = ["-" if source is None else lines[2 + source] for source in old.sources(job)]
    commit = old.folder.read(f"commits/{old.batch}")
    for log in ("offsets", "commits"):
        shutil.rmtree(new / log)
        (new / log).mkdir()
    for batch in (old.batch, number):
        _write(new / "offsets" / str(batch), "\n".join([lines[0], json.dumps(metadata), *places]))
        _write(new / "commits" / str(batch), commit)
    _write(new / "metadata", old.folder.read("metadata"))
    for file in (new / "state").glob("*/_metadata/v2/*"):
        if not file.name.startswith("."):
            _write(file, file.read_text().replace(str(new), old.path))
    shutil.rmtree(new / _PARTS)
    _write(new / _COMPLETE, "")
    _sync(new)


def _renumber(state: Path, version: int) -> None:
    for file in state.iterdir():
        for given in (file.name, file.name.removeprefix(".")):
            if given.split(".")[0].split("_")[0] == "1":
                dot = "." if file.name.startswith(".") else ""
                file.rename(state / f"{dot}{version}{given.removeprefix('1')}")
                break


def _write(file: Path, text: str) -> None:
    """Writes a file, without the checksum that Hadoop stored for what it was."""
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _sync(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _swap(checkpoint: str) -> None:
    shutil.rmtree(checkpoint + BEFORE, ignore_errors=True)
    os.rename(checkpoint, checkpoint + BEFORE)
    os.rename(checkpoint + NEW, checkpoint)
