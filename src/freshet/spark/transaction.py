"""What a shard is given by blocks, and what it tells in blocks: one transaction's way in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from freshet.engine.rows import Rows
from freshet.spark.block import Signed, from_block, joined, to_block
from freshet.spark.dispatch import shard_keys
from freshet.spark.encode import Sent, send
from freshet.spark.job import Job
from freshet.spark.shard import Shard


def read_block(shard: Shard, stream: str, payload: bytes) -> Signed:
    return from_block(payload, [f.type for f in shard.streams[stream].schema.fields])


def arrived_rows(shard: Shard, stream: str, blocks: Sequence[bytes]) -> Signed:
    types = [f.type for f in shard.streams[stream].schema.fields]
    return joined([from_block(b, types) for b in blocks], types)


def tell(job: Job, shard: Shard, number: int, deltas: Mapping[str, Rows], first: bool) -> list[Sent]:
    """The operators' deltas on their way to the streams that read them, and to the views they are."""
    keys, told = shard_keys(job.shards), []
    for operator, _ in shard.operators:
        rows = deltas[operator.name]
        streams = [s for s in job.streams if s.source == operator.name]
        if not len(rows):
            # A total over no rows at all is an answer too: whoever gives it must hear of the first transaction.
            for s in streams if first and number == 0 else []:
                nothing = shard.told(operator, rows)
                chosen = Signed([nothing.columns[c] for c in s.columns], nothing.weights)
                told.append((keys[0], s.level, s.name, to_block(chosen)))
            continue
        columns = shard.told(operator, rows)
        for s in streams:
            told += send(s, job.shards, Signed([columns.columns[c] for c in s.columns], columns.weights))
        if any(v.operator == operator.name for v in job.views):
            told.append((keys[number], job.levels, operator.name, to_block(columns)))
    return told
