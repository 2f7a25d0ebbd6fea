"""A job run in this process by Spark's own stateful steps, over state stores that can be kept, copied and put back."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from freshet.spark import disputed
from freshet.spark.decode import Decoder
from freshet.spark.dispatch import shard_keys
from freshet.spark.encode import Encoder
from freshet.spark.job import Job
from freshet.spark.level import Level
from freshet.spark.log import Entries
from freshet.spark.shipped import pack_job


class Value:
    def __init__(self) -> None:
        self.held: tuple[Any, ...] | None = None

    def get(self) -> tuple[Any, ...] | None:
        return self.held

    def update(self, value: tuple[Any, ...]) -> None:
        self.held = value


class Store:
    """Stands for the state store of one shard."""

    def __init__(self) -> None:
        self.log, self.values = Entries(), dict[str, Value]()

    def getListState(self, name: str, schema: object) -> Entries:  # noqa: N802
        return self.log

    def getValueState(self, name: str, schema: object) -> Value:  # noqa: N802
        return self.values.setdefault(name, Value())

    @property
    def base(self) -> int:
        """The version at which its log was last rewritten."""
        held = next(self.values[name].held for name in ("shard", "standing") if name in self.values)
        return 0 if held is None else int(held[5].split()[-1])


class LevelJob:
    """`checkpoint`: a folder for the files of logs; `arenas`: one for the cached state."""

    def __init__(self, job: Job, checkpoint: Path | None = None, arenas: Path | None = None, retained: int = 2) -> None:
        self.retained = retained
        self.turn(job, job.quarantine)
        self.checkpoint = None if checkpoint is None else str(checkpoint)
        self.arenas = None if arenas is None else str(arenas)
        self.stores: dict[tuple[int, int], Store] = {}
        self.batch = 0  # the number of the next micro-batch

    def turn(self, job: Job, quarantine: bool) -> None:
        """Resumes the job, and sets bad changes aside or not."""
        self.job = replace(job, quarantine=quarantine)
        self.shipped = pack_job(self.job)

    def apply(self, changes: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """Runs one micro-batch; returns every view's delta. A failure leaves the stores unchanged."""
        before = self.kept()
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(disputed, "current_batch", lambda: str(self.batch))
                made = self._apply(changes)
        except BaseException:
            self.stores = before
            raise
        self.batch += 1
        return made

    def kept(self) -> dict[tuple[int, int], Store]:
        """A copy of the stores that can be restored later: a version that Spark retains."""
        return copy.deepcopy(self.stores)

    def _apply(self, changes: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        rows: list[Row] = []
        for name, table in changes.items():
            for made in Encoder(self.shipped, name, None, self.checkpoint)(table.to_batches(max_chunksize=3)):
                rows += [Row(**r) for r in made.to_pylist()]
        for level in range(self.job.levels):
            rows = [sent for shard in range(self.job.shards) for sent in self._shard(level, shard, rows)]
        schema = pa.schema([("stream", pa.string()), ("payload", pa.binary())])
        out = pa.RecordBatch.from_pylist([{"stream": r.stream, "payload": r.payload} for r in rows], schema)
        parts: dict[str, list[pa.Table]] = {}
        for batch in Decoder(self.shipped, False)([out]):
            for view in {*batch.column("_view").to_pylist()}:
                struct = batch.column(view)
                fields = [struct.field(i) for i in range(struct.type.num_fields)]
                delta = pa.table([*fields, batch.column("_weight")], [*(f.name for f in struct.type), "_weight"])
                parts.setdefault(view, []).append(delta)
        return {view: pa.concat_tables(deltas) for view, deltas in parts.items()}

    def _shard(self, level: int, shard: int, rows: list[Row]) -> list[Row]:
        key = shard_keys(self.job.shards)[shard]
        mine = [r for r in rows if r.key == key]
        if not mine:
            return []
        step = Level(
            self.shipped, level, self.arenas, self.checkpoint, self.retained, together=self.checkpoint is not None
        )
        step.init(cast(StatefulProcessorHandle, self.stores.setdefault((level, shard), Store())))
        return list(step.handleInputRows((key,), iter(mine), None))
