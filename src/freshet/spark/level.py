"""The stateful step of one level: all blocks of a micro-batch for one shard are one transaction of that shard.

Durable state, in Spark's state store: the log of the blocks applied, and where it stands (version, and a token that is
a digest of everything applied so far). Spark's checkpoint alone decides what happened; the arena is a cache of it.
"""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from freshet.spark import profile
from freshet.spark.block import to_block
from freshet.spark.cache import Cached, open_shard
from freshet.spark.dispatch import shard_keys
from freshet.spark.encode import Sent, read_job
from freshet.spark.job import Job, fingerprint
from freshet.spark.shard import Shard
from freshet.spark.transaction import read_block, take_in, tell

LOG = StructType([StructField("stream", StringType()), StructField("payload", BinaryType())])
STANDING = StructType(
    [
        StructField("level", IntegerType()),
        StructField("shard", IntegerType()),
        StructField("version", LongType()),
        StructField("token", BinaryType()),
        StructField("logged", LongType()),
        StructField("fingerprint", StringType()),
        StructField("home", StringType()),
    ]
)
JOB = StructType([StructField("job", StringType())])

_LEAST_LOG = 8_192  # rows of a log not worth compacting
_APPEND = 32 << 20  # bytes handed to the state store at a time

logger = logging.getLogger("freshet.spark")


@dataclass(slots=True)
class _Standing:
    version: int
    token: bytes
    logged: int  # rows in the log
    home: str  # the folder of its arena: a name of its own, since queries share machines


@dataclass(slots=True)
class _Done:
    """A transaction of one shard: rows it changed, what belongs in the log, what it tells, when it was applied."""

    rows: int
    log: list[tuple[str, bytes]]
    told: list[Sent]
    applied: float


class Level(StatefulProcessor):
    def __init__(self, job_json: str, level: int, arenas: str | None, profile_to: str | None = None) -> None:
        self.job_json, self.level, self.arenas, self.profile_to = job_json, level, arenas, profile_to
        self.fingerprint = fingerprint(job_json)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._log = handle.getListState("log", LOG)
        self._standing = handle.getValueState("standing", STANDING)
        self._written = handle.getValueState("job", JOB)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        began = time.perf_counter()
        job = read_job(self.job_json)
        arrived: dict[str, list[bytes]] = {}
        passing: list[Sent] = []
        for row in rows:
            if row.level == self.level:
                arrived.setdefault(row.stream, []).append(bytes(row.payload))
            else:
                passing.append((key[0], row.level, row.stream, bytes(row.payload)))
        read = time.perf_counter()
        told: list[Sent] = []
        if arrived:
            told = self._transaction(job, shard_keys(job.shards).index(key[0]), arrived, read - began)
        for sent in (*passing, *told):
            yield Row(key=sent[0], level=sent[1], stream=sent[2], payload=sent[3])

    def _transaction(self, job: Job, shard: int, arrived: dict[str, list[bytes]], reading: float) -> list[Sent]:
        started = time.perf_counter()
        standing = self._stands()
        for blocks in arrived.values():
            blocks.sort()  # the order in which blocks were fetched means nothing, and the token must not depend on it
        token = _token(standing.token, arrived)
        cached = self._open(job, shard, standing)
        opened = time.perf_counter()
        try:
            cached.begin()
            try:
                done = self._advance(job, cached.shard, shard, arrived, standing)
            except OSError as e:  # a full disk under the arena
                cached = self._in_memory(job, shard, standing, cached, e)
                done = self._advance(job, cached.shard, shard, arrived, standing)
            encoded = time.perf_counter()
            logged = standing.logged + done.rows
            if logged > max(2 * cached.shard.live_rows(), _LEAST_LOG):
                logged = self._compact(cached.shard)
            else:
                _append(self._log, done.log)
            version = standing.version + 1
            self._standing.update((self.level, shard, version, token, logged, self.fingerprint, standing.home))
            if standing.version == 0:
                self._written.update((self.job_json,))
            cached.commit(self.fingerprint, version, token)
        except BaseException:
            cached.discard()
            raise
        finally:
            cached.close()
        profile.note(
            self.profile_to, "level", level=self.level, shard=shard, version=standing.version + 1, reading=reading,
            opening=opened - started, engine=done.applied - opened, telling=encoded - done.applied,
            logging=time.perf_counter() - encoded, rows=done.rows,
            bytes=sum(len(b) for bs in arrived.values() for b in bs),
        )  # fmt: skip
        return done.told

    def _advance(
        self, job: Job, shard: Shard, number: int, arrived: dict[str, list[bytes]], standing: _Standing
    ) -> _Done:
        taken = take_in(shard, arrived, job.quarantine)
        deltas = shard.apply(taken.changes)
        applied = time.perf_counter()
        told = tell(job, shard, number, taken, deltas, standing.version == 0)
        shard.sweep()
        return _Done(taken.rows, taken.log, told, applied)

    def _stands(self) -> _Standing:
        found = self._standing.get()
        if found is None:
            return _Standing(0, b"", 0, uuid.uuid4().hex)
        if found[5] != self.fingerprint:
            from freshet.errors import StateError

            raise StateError(
                "the checkpoint was made by another query, another number of shards or another version of Freshet; "
                "start with a new checkpoint, or go back to what made it"
            )
        return _Standing(int(found[2]), bytes(found[3]), int(found[4]), str(found[6]))

    # The arena ------------------------------------------------------------------------------------------------

    def _open(self, job: Job, shard: int, standing: _Standing) -> Cached:
        folder = None if self.arenas is None else Path(self.arenas) / standing.home
        cached = open_shard(folder, job, self.fingerprint, self.level, shard, standing.version, standing.token)
        if not cached.whole:
            try:
                self._rebuild(cached.shard, cached.why, f"level {self.level}, shard {shard}")
            except OSError as e:
                cached.discard()
                cached.close()
                cached = open_shard(None, job, self.fingerprint, self.level, shard, standing.version, standing.token)
                self._rebuild(cached.shard, f"{e.strerror} under {self.arenas}", f"level {self.level}, shard {shard}")
        return cached

    def _rebuild(self, shard: Shard, why: str, where: str) -> None:
        start = time.perf_counter()
        by_stream: dict[str, list[bytes]] = {}
        for stream, payload in self._log.get():
            by_stream.setdefault(stream, []).append(bytes(payload))
        fetched = time.perf_counter()
        rows = sum(shard.load(name, (read_block(shard, name, b) for b in blocks)) for name, blocks in by_stream.items())
        shard.loaded()
        spent = time.perf_counter() - start
        logger.warning(
            "freshet: %s rebuilt from its log: %s rows in %.2f s (%.2f s to read it); %s",
            where, f"{rows:,}", spent, fetched - start, why,
        )  # fmt: skip
        profile.note(self.profile_to, "rebuild", level=self.level, rows=rows, seconds=spent, why=why)

    def _in_memory(self, job: Job, number: int, standing: _Standing, spoiled: Cached, error: OSError) -> Cached:
        spoiled.discard()
        spoiled.close()
        cached = open_shard(None, job, self.fingerprint, self.level, number, standing.version, standing.token)
        self._rebuild(cached.shard, f"{error.strerror} under {self.arenas}", f"level {self.level}, shard {number}")
        return cached

    # What goes on ---------------------------------------------------------------------------------------------

    def _compact(self, shard: Shard) -> int:
        """Writes the log anew as what the shard holds."""
        self._log.clear()
        rows, entries, size = 0, [], 0
        for name, part in shard.contents():
            payload = to_block(part)
            rows += len(part)
            entries.append((name, payload))
            size += len(payload)
            if size > _APPEND:
                _append(self._log, entries)
                entries, size = [], 0
        _append(self._log, entries)
        return rows

    def close(self) -> None:
        pass


def _append(log: Any, entries: list[tuple[str, bytes]]) -> None:
    if entries:
        log.appendList(entries)


def _token(before: bytes, arrived: dict[str, list[bytes]]) -> bytes:
    digest = hashlib.blake2b(before, digest_size=16)
    for name in sorted(arrived):
        digest.update(name.encode())
        for block in arrived[name]:
            digest.update(len(block).to_bytes(8, "little"))
            digest.update(block)
    return digest.digest()
