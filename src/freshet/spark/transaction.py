"""What a shard is given by blocks, and what it tells in blocks: one transaction's way in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from freshet.engine.rows import Rows
from freshet.spark.block import Signed, from_block, joined, to_block
from freshet.spark.dispatch import shard_keys
from freshet.spark.encode import Sent, send, send_table
from freshet.spark.job import Job
from freshet.spark.shard import Shard
from freshet.types import BIGINT, TINYINT


def read_block(shard: Shard, stream: str, payload: bytes) -> Signed:
    return from_block(payload, [f.type for f in shard.streams[stream].schema.fields])


def take_in(shard: Shard, arrived: Mapping[str, Sequence[bytes]]) -> tuple[dict[str, Signed], list[tuple[str, bytes]]]:
    """The blocks of a transaction as whole-row changes by stream, and what of them belongs in the log."""
    changes: dict[str, Signed] = {}
    log: list[tuple[str, bytes]] = []
    for name, blocks in sorted(arrived.items()):
        types = [f.type for f in shard.streams[name].schema.fields]
        if name in shard.normalized:
            types += [TINYINT, BIGINT]
        rows = joined([from_block(b, types) for b in blocks], types)
        if name in shard.normalized:
            rows = shard.normalize(name, rows)
            blocks = [to_block(rows)]
        changes[name] = rows
        if len(rows):
            log += [(name, b) for b in blocks]
    return changes, log


def tell(
    job: Job, shard: Shard, number: int, changes: Mapping[str, Signed], deltas: Mapping[str, Rows], first: bool
) -> list[Sent]:
    """What was normalized, and the operators' deltas, on their way to the streams that read them and to the views."""
    keys = shard_keys(job.shards)
    told: list[Sent] = []
    for name, table in shard.normalized.items():
        if name in changes:
            schema = next(t for t in job.tables if t.name.lower() == table)
            whole = changes[name]
            by_place = dict(zip(shard.streams[name].columns, whole.columns, strict=True))
            told += send_table(job, schema, by_place, whole.weights)
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
