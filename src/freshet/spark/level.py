"""The stateful step of one level: all blocks of a micro-batch for one shard are one transaction of that shard.

Durable state, in Spark's state store: the log of the blocks applied (`log.py`), and where it stands (version, and a
token that is a digest of everything applied so far). Spark's checkpoint alone decides what happened; the arena is a
cache of it.

Opening a variable of the state store, reading and writing it takes a task longer than many rows do. Where blocks are in
files, all a shard keeps there is small, and one value: read once a transaction, and written once.
"""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, StringType, StructField, StructType

from freshet.errors import StateError
from freshet.spark import profile
from freshet.spark.arenas import arenas_folder
from freshet.spark.block import joined, to_block
from freshet.spark.cache import Cached, open_shard
from freshet.spark.dispatch import shard_keys
from freshet.spark.disputed import DisputedError
from freshet.spark.encode import Sent
from freshet.spark.failure import plainly
from freshet.spark.job import Job, fingerprint
from freshet.spark.log import ENTRY, Block, Entries, ShardFolder, ShardLog
from freshet.spark.observed import OBSERVED, Observed
from freshet.spark.pending import LOADED, pending, pending_blocks
from freshet.spark.shard import Shard
from freshet.spark.shipped import ShippedJob, read_job
from freshet.spark.transaction import emit, read_block, take_in

STANDING = StructType(
    [
        StructField("level", IntegerType()),
        StructField("shard", IntegerType()),
        StructField("version", LongType()),
        StructField("token", BinaryType()),
        StructField("logged", LongType()),
        StructField("bases", StringType()),  # versions at which the log was rewritten
        StructField("small", LongType()),
        StructField("fingerprint", StringType()),
        StructField("home", StringType()),
    ]
)
JOB = StructType([StructField("job", StringType())])
TOGETHER = StructType([*STANDING.fields, StructField("entries", ArrayType(ENTRY))])

_LEAST_LOG = 8_192  # rows of a log not worth compacting

logger = logging.getLogger("freshet.spark")


@dataclass(slots=True)
class _Standing:
    version: int
    token: bytes
    logged: int  # rows in the log
    log: ShardLog
    home: str  # the folder of its arena: a name of its own, since queries share machines


@dataclass(slots=True)
class _ShardResult:
    """A transaction of one shard: rows it changed, what belongs in the log, what it emits, when it was applied; the
    counters it moved, and of each view the rows of its delta."""

    rows: int
    log: list[Block]
    emitted: list[Sent]
    applied: float
    counters: int
    views: dict[str, int]
    late: int


class Level(StatefulProcessor):
    def __init__(
        self, shipped: ShippedJob, level: int, arenas: str | None, checkpoint: str | None, retained: int,
        profile_to: str | None = None, together: bool = False,
    ) -> None:  # fmt: skip
        """`checkpoint`: its folder, where every worker has it, for the files of logs; `retained`: how many batches
        Spark can go back; `together`: log and standing are one value of the state store, and the job is not there."""
        self.shipped, self.level, self.arenas, self.profile_to = shipped, level, arenas, profile_to
        self.checkpoint, self.retained, self.together = checkpoint, retained, together
        self.fingerprint = fingerprint(read_job(shipped))

    def init(self, handle: StatefulProcessorHandle) -> None:
        if self.together:
            self._standing = handle.getValueState("shard", TOGETHER)
            return
        self._log = handle.getListState("log", ENTRY)
        self._standing = handle.getValueState("standing", STANDING)
        self._written = handle.getValueState("job", JOB)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        with plainly():
            yield from self._rows(key, rows)

    def _rows(self, key: Any, rows: Iterator[Row]) -> Iterator[Row]:
        began = time.perf_counter()
        job = read_job(self.shipped)
        arrived: dict[str, list[bytes]] = {}
        passing: list[Sent] = []
        for row in rows:
            if row.level == self.level:
                arrived.setdefault(row.stream, []).append(bytes(row.payload))
            else:
                passing.append((key[0], row.level, row.stream, bytes(row.payload)))
        read = time.perf_counter()
        emitted: list[Sent] = []
        if arrived:
            emitted = self._transaction(job, shard_keys(job.shards).index(key[0]), arrived, read - began)
        for sent in (*passing, *emitted):
            yield Row(key=sent[0], level=sent[1], stream=sent[2], payload=sent[3])

    def _transaction(self, job: Job, shard: int, arrived: dict[str, list[bytes]], reading: float) -> list[Sent]:
        started = time.perf_counter()
        standing = self._stands(shard)
        log, version = standing.log, standing.version + 1
        log.sweep(version, self.retained)
        for blocks in arrived.values():
            blocks.sort()  # the order in which blocks were fetched means nothing, and the token must not depend on it
        token = _token(standing.token, arrived)
        cached = self._open(job, shard, standing)
        opened = time.perf_counter()
        try:
            cached.begin()
            try:
                done = self._advance(job, cached.shard, shard, arrived, standing)
            except OSError as e:  # a full disk under the arena, or one of its files vanished
                cached = self._in_memory(job, shard, standing, cached, e)
                done = self._advance(job, cached.shard, shard, arrived, standing)
            encoded = time.perf_counter()
            logged = standing.logged + done.rows
            if logged > max(2 * cached.shard.live_rows(), _LEAST_LOG):
                logged = cached.shard.live_rows()
                log.rewrite(version, ((name, to_block(part)) for name, part in cached.shard.contents()))
            else:
                log.append(version, done.log, partial(_merged, cached.shard))
            self._keep(shard, standing, version, token, logged)
            stored, size = cached.shard.live_rows(), cached.shard.core.arena.nbytes()
            cached.commit(self.fingerprint, version, token, self.checkpoint)
        except DisputedError as e:
            cached.discard()
            raise e.noted(self.checkpoint) from None
        except BaseException:
            cached.discard()
            raise
        finally:
            cached.close()
        ended = time.perf_counter()
        profile.note(
            self.profile_to, "level", level=self.level, shard=shard, version=version, reading=reading,
            opening=opened - started, engine=done.applied - opened, telling=encoded - done.applied,
            logging=ended - encoded, rows=done.rows, bytes=sum(len(b) for bs in arrived.values() for b in bs),
        )  # fmt: skip
        observed = Observed(
            self.level, shard, version, done.rows, done.counters, stored, size, opened - started, done.applied - opened,
            ended - encoded, done.views, done.late,
        )  # fmt: skip
        said = (shard_keys(job.shards)[shard], job.levels, OBSERVED, observed.payload())
        rebuilt = pending(self.checkpoint) if (self.level, shard, standing.version) == (0, 0, LOADED) else None
        return [*done.emitted, *(() if rebuilt is None else pending_blocks(rebuilt)), said]

    def _advance(
        self, job: Job, shard: Shard, number: int, arrived: dict[str, list[bytes]], standing: _Standing
    ) -> _ShardResult:
        before = shard.work()
        taken = take_in(shard, arrived, job.quarantine)
        deltas = shard.apply(taken.changes)
        applied = time.perf_counter()
        emitted = emit(job, shard, number, taken, deltas, standing.version == 0)
        shard.sweep()
        counters = shard.work() - before
        if self.profile_to is not None:
            profile.note(self.profile_to, "nodes", shard=number, trees=shard.trees(), counted=counters)
        given = {v.name: [deltas[o] for o in v.operators if o in deltas] for v in job.views}
        views = {name: sum(map(len, rows)) for name, rows in given.items() if rows}
        return _ShardResult(taken.rows, taken.log, emitted, applied, counters, views, taken.late)

    def _stands(self, shard: int) -> _Standing:
        place = None if self.checkpoint is None else ShardFolder(self.checkpoint, self.level, shard)
        found = self._standing.get()
        if found is None:
            return _Standing(0, b"", 0, ShardLog(Entries() if self.together else self._log, place), uuid.uuid4().hex)
        if found[7] != self.fingerprint:
            raise StateError(
                "the checkpoint was made by another query, another number of shards or another version of Freshet; "
                "start with a new checkpoint, or go back to what made it (maintain() says what differs where it is "
                "given the folder as checkpoint=)"
            )
        entries = Entries(map(tuple, found[9])) if self.together else self._log
        log = ShardLog(entries, place, [int(base) for base in found[5].split()], int(found[6]))
        return _Standing(int(found[2]), bytes(found[3]), int(found[4]), log, str(found[8]))

    def _keep(self, shard: int, standing: _Standing, version: int, token: bytes, logged: int) -> None:
        log, bases = standing.log, " ".join(map(str, standing.log.bases))
        kept = (self.level, shard, version, token, logged, bases, log.small, self.fingerprint, standing.home)
        if self.together:
            self._standing.update((*kept, list(log.entries.get())))
            return
        self._standing.update(kept)
        if standing.version == 0:
            self._written.update((self.shipped.text,))

    # The arena ------------------------------------------------------------------------------------------------

    def _open(self, job: Job, shard: int, standing: _Standing) -> Cached:
        folder = arenas_folder(self.arenas)
        home = None if folder is None else folder / standing.home
        cached = open_shard(home, job, self.fingerprint, self.level, shard, standing.version, standing.token)
        if not cached.whole:
            try:
                self._rebuild(cached.shard, standing.log, cached.why, shard)
            except OSError as e:
                cached = self._in_memory(job, shard, standing, cached, e)
        return cached

    def _rebuild(self, shard: Shard, log: ShardLog, why: str, number: int) -> None:
        start = time.perf_counter()
        by_stream = log.read()
        fetched = time.perf_counter()
        rows = sum(shard.load(name, (read_block(shard, name, b) for b in blocks)) for name, blocks in by_stream.items())
        shard.loaded()
        spent = time.perf_counter() - start
        logger.warning(
            "freshet: level %s, shard %s rebuilt from its log: %s rows in %.2f s (%.2f s to read it); %s",
            self.level, number, f"{rows:,}", spent, fetched - start, why,
        )  # fmt: skip
        profile.note(self.profile_to, "rebuild", level=self.level, rows=rows, seconds=spent, why=why)

    def _in_memory(self, job: Job, number: int, standing: _Standing, damaged: Cached, error: OSError) -> Cached:
        damaged.discard()
        damaged.close()
        cached = open_shard(None, job, self.fingerprint, self.level, number, standing.version, standing.token)
        self._rebuild(cached.shard, standing.log, f"{error.strerror} under {arenas_folder(self.arenas)}", number)
        return cached

    def close(self) -> None:
        pass


def _merged(shard: Shard, blocks: Mapping[str, list[bytes]]) -> Iterable[Block]:
    for name, payloads in blocks.items():
        types = [f.type for f in shard.streams[name].schema.fields]
        yield name, to_block(joined([read_block(shard, name, p) for p in payloads], types))


def _token(before: bytes, arrived: dict[str, list[bytes]]) -> bytes:
    digest = hashlib.blake2b(before, digest_size=16)
    for name in sorted(arrived):
        digest.update(name.encode())
        for block in arrived[name]:
            digest.update(len(block).to_bytes(8, "little"))
            digest.update(block)
    return digest.digest()
