"""A job run in this process: the same encoding, dispatch, shards and levels as on Spark, without Spark.

What each shard received and did in the last micro-batch is counted, so that the critical path of any number of shards
can be read off on one core: a level ends when its busiest shard does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from freshet.engine.work import total
from freshet.scalar.arrow import to_arrow
from freshet.spark.block import from_block, to_block
from freshet.spark.dispatch import shard_keys
from freshet.spark.encode import Encoder, Sent
from freshet.spark.job import Job, ViewOutput
from freshet.spark.quarantine import QUARANTINE, refused_rows
from freshet.spark.shard import Shard
from freshet.spark.shipped import pack_job
from freshet.spark.transaction import emit, read_block, take_in
from freshet.state.arena import Arena


@dataclass(frozen=True)
class Load:
    """What one shard of one level had of a micro-batch: rows received, the bytes of their blocks, and the steps of its
    operators."""

    rows: int
    nbytes: int
    steps: int


class LocalJob:
    """`chunk`: rows encoded at a time, few so that blocks are many."""

    def __init__(self, job: Job, chunk: int = 3) -> None:
        self.job, self.shipped, self.chunk = job, pack_job(job), chunk
        self.shards: dict[tuple[int, int], Shard] = {}
        self.logs: dict[tuple[int, int], list[tuple[str, bytes]]] = {}
        self.quarantined: list[tuple[str, str, str]] = []
        self.late = 0  # rows that came too late
        self.loads: dict[tuple[int, int], Load] = {}  # by level and shard, of the last micro-batch
        self.distinct = 0  # rows that were sent in it, whatever the number of their copies

    def apply(self, changes: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """One micro-batch; every view's delta, as its shards emitted it."""
        self.loads, self.distinct = {}, 0
        sent: list[Sent] = []
        for table in self.job.tables:
            rows = changes.get(table.name.lower())
            if rows is not None and rows.num_rows:
                for made in Encoder(self.shipped, table.name.lower())(rows.to_batches(max_chunksize=self.chunk)):
                    sent += zip(*(made.column(i).to_pylist() for i in range(4)), strict=True)
        for level in range(self.job.levels):
            sent = [b for b in sent if b[1] != level] + self._level(level, [b for b in sent if b[1] == level])
        for block in sent:
            if block[2] == QUARANTINE:
                self.quarantined += zip(*(c.to_pylist() for c in refused_rows(block[3])), strict=True)
        return {v.name: self._delta(v, [b[3] for b in sent if b[2] in v.operators]) for v in self.job.views}

    def _level(self, level: int, sent: Sequence[Sent]) -> list[Sent]:
        emitted: list[Sent] = []
        by_key: dict[int, dict[str, list[bytes]]] = {}
        for key, _, stream, payload in sent:
            by_key.setdefault(key, {}).setdefault(stream, []).append(payload)
        self.distinct += sum(map(_rows, {(b[2], b[3]) for b in sent}))
        for number, key in enumerate(shard_keys(self.job.shards)):
            mine = by_key.get(key)
            if mine is None:
                continue
            first = (level, number) not in self.shards
            if first:
                self.shards[level, number] = Shard(self.job, level, number, Arena())
            shard = self.shards[level, number]
            before = _steps(shard)
            taken = take_in(shard, mine, self.job.quarantine)
            self.late += taken.late
            deltas = shard.apply(taken.changes)
            self.logs.setdefault((level, number), []).extend(taken.log)
            emitted += emit(self.job, shard, number, taken, deltas, first)
            nbytes = sum(len(b) for blocks in mine.values() for b in blocks)
            self.loads[level, number] = Load(taken.rows, nbytes, _steps(shard) - before)
        return emitted

    def forget(self) -> None:
        """Throws every shard away and makes it again from its log."""
        for (level, number), log in self.logs.items():
            shard = Shard(self.job, level, number, Arena())
            by_stream: dict[str, list[bytes]] = {}
            for name, payload in log:
                by_stream.setdefault(name, []).append(payload)
            for name, blocks in by_stream.items():
                shard.load(name, (read_block(shard, name, b) for b in blocks))
            shard.loaded()
            self.shards[level, number] = shard

    def compact(self) -> None:
        """Rewrites every log from the contents of its shard, and rebuilds the shard from that."""
        for place, shard in self.shards.items():
            self.logs[place] = [(name, to_block(rows)) for name, rows in shard.contents()]
        self.forget()

    def _delta(self, view: ViewOutput, blocks: list[bytes]) -> pa.Table:
        schema = pa.schema([*((f.name, f.type.to_arrow()) for f in view.fields), ("_weight", pa.int64())])
        parts = []
        for block in blocks:
            rows = from_block(block, [f.type for f in view.fields])
            parts.append(pa.Table.from_arrays([*map(to_arrow, rows.columns), pa.array(rows.weights)], schema=schema))
        return pa.concat_tables(parts) if parts else schema.empty_table()


def _rows(block: tuple[str, bytes]) -> int:
    """The rows of a block; the one that only announces the first transaction has none."""
    if not block[1]:
        return 0
    with pa.ipc.open_stream(block[1]) as reader:
        return int(reader.read_next_batch().num_rows)


def _steps(shard: Shard) -> int:
    return total(kept.work() for kept in shard.core.operators.values()).steps
