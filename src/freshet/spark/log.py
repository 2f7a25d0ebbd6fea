"""The log of a shard: the blocks applied to it, from which it can be rebuilt.

There is an entry for each block, in the state store. A small block is stored in its entry; others are in files next to
the checkpoint, if its folder is known, and the entry contains the position and a checksum. So the versions that Spark
keeps of a state are versions of names, and the rows themselves are stored once.

Law: what a version that Spark retains names is there, unchanged, for a query that goes back to it and for a reader of
it (a snapshot). A file is whole and on disk before the version that names it is committed, and it is never written to
again. A log names no file from before its base, the version at which it was last rewritten. A shard makes at most one
version a micro-batch, so of the batches that Spark retains none is of a version more than `retained` back. Therefore a
transaction removes the files from before the last base that is at least that far back. Versions and bases only grow,
so not even a forgotten task that comes late removes what a newer version names. Names are of each attempt's own: what
failed attempts leave lies about until then.
"""

from __future__ import annotations

import contextlib
import os
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from freshet.errors import StateError

ENTRY = StructType(
    [
        StructField("stream", StringType()),
        StructField("payload", BinaryType()),  # NULL if the block is in a file
        StructField("file", StringType()),
        StructField("start", LongType()),
        StructField("size", LongType()),
        StructField("checksum", LongType()),
    ]
)
_FOLDER = "freshet"  # our folder in a checkpoint
_SMALL = 64 << 10  # total bytes of blocks in the entries of a shard
_APPEND = 32 << 20  # bytes passed to the state store at a time
_NO_FILE = (None, None, None, None)

Block = tuple[str, bytes]  # of which stream, and its rows
Merge = Callable[[Mapping[str, list[bytes]]], Iterable[Block]]


@dataclass(frozen=True, slots=True)
class ShardFolder:
    """The files of one shard: in a checkpoint folder that every worker can access."""

    checkpoint: str
    level: int
    shard: int

    @property
    def folder(self) -> Path:
        return Path(self.checkpoint) / _FOLDER / "log" / f"{self.level}.{self.shard}"


class Entries:
    """Entries in memory, with the interface of a state store variable."""

    def __init__(self, held: Iterable[tuple[Any, ...]] = ()) -> None:
        self.held = list(held)

    def get(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.held)

    def appendList(self, entries: list[tuple[Any, ...]]) -> None:  # noqa: N802  (as PySpark has it)
        self.held += entries

    def clear(self) -> None:
        self.held = []


class ShardLog:
    """`bases`: the versions at which it was rewritten, oldest first, as far back as needed. `small`: bytes of the
    blocks in its entries, if files are possible."""

    def __init__(self, entries: Any, place: ShardFolder | None, bases: Sequence[int] = (0,), small: int = 0) -> None:
        self.entries, self.place, self.bases, self.small = entries, place, list(bases), small

    def read(self) -> dict[str, list[bytes]]:
        """All blocks, by stream."""
        found: dict[str, list[bytes]] = {}
        for stream, *entry in self.entries.get():
            found.setdefault(stream, []).append(read_entry(self.place, *entry))
        return found

    def append(self, version: int, blocks: list[Block], merge: Merge) -> None:
        """Adds the blocks of a version. `merge` combines blocks of the same stream into one."""
        size = sum(len(payload) for _, payload in blocks)
        if self.place is None:
            self._enter(blocks)
        elif self.small + size <= _SMALL:
            self._enter(blocks)
            self.small += size
        elif size > _SMALL:
            self._hand(list(self._filed(version, blocks)))
        else:
            self._gather(version, blocks, merge)

    def _gather(self, version: int, blocks: list[Block], merge: Merge) -> None:
        """Combines blocks of few rows, which are mostly headers: the result is small, or large enough for a file."""
        small: dict[str, list[bytes]] = {}
        filed = []
        for entry in self.entries.get():
            if entry[1] is None:
                filed.append(tuple(entry))
            else:
                small.setdefault(entry[0], []).append(bytes(entry[1]))
        for stream, payload in blocks:
            small.setdefault(stream, []).append(payload)
        merged = list(merge(small))
        self.small = sum(len(payload) for _, payload in merged)
        self.entries.clear()
        if self.small > _SMALL // 2:
            self.small = 0
            self._hand([*filed, *self._filed(version, merged)])
        else:
            self._hand(filed)
            self._enter(merged)

    def rewrite(self, version: int, blocks: Iterable[Block]) -> None:
        """Replaces the log by these blocks."""
        self.entries.clear()
        if self.place is None:
            self._enter(blocks)
        else:
            self._hand(list(self._filed(version, blocks)))
        self.bases.append(version)
        self.small = 0

    def sweep(self, version: int, retained: int) -> None:
        """Removes the files that no version names which Spark retains when the given one is made; for a log as it is
        committed."""
        left = [base for base in self.bases if base <= version - retained]
        if self.place is None or len(left) < 2:
            return
        self.bases = self.bases[len(left) - 1 :]
        with contextlib.suppress(FileNotFoundError):
            for file in self.place.folder.iterdir():
                if int(file.name.partition("-")[0]) < self.bases[0]:
                    file.unlink(missing_ok=True)

    def _filed(self, version: int, blocks: Iterable[Block]) -> Iterator[tuple[Any, ...]]:
        """Writes blocks to a file and returns their entries once it is on disk."""
        assert self.place is not None
        folder = self.place.folder
        _make(folder, Path(self.place.checkpoint))
        path = folder / f"{version:012}-{uuid.uuid4().hex}"
        entries, start = [], 0
        with open(path, "xb") as file:
            for stream, payload in blocks:
                file.write(payload)
                entries.append((stream, None, path.name, start, len(payload), zlib.crc32(payload)))
                start += len(payload)
            file.flush()
            os.fsync(file.fileno())
        _sync(folder)
        yield from entries

    def _enter(self, blocks: Iterable[Block]) -> None:
        self._hand((stream, payload, *_NO_FILE) for stream, payload in blocks)

    def _hand(self, entries: Iterable[tuple[Any, ...]]) -> None:
        """Passes entries to the state store, a limited number of bytes at a time."""
        some: list[tuple[Any, ...]] = []
        size = 0
        for entry in entries:
            some.append(entry)
            size += len(entry[1] or b"")
            if size > _APPEND:
                self.entries.appendList(some)
                some, size = [], 0
        if some:
            self.entries.appendList(some)


def read_entry(
    place: ShardFolder | None, payload: bytes | None, file: str | None, start: int | None, size: int | None,
    checksum: int | None,
) -> bytes:  # fmt: skip
    """The block of an entry."""
    if payload is not None:
        return bytes(payload)
    assert file is not None and start is not None and size is not None
    if place is None:
        raise StateError(
            "the rows of this checkpoint are in files next to it; give maintain() the folder as checkpoint=, as before"
        )
    path = place.folder / file
    try:
        with open(path, "rb") as opened:
            opened.seek(start)
            block = opened.read(size)
    except FileNotFoundError:
        raise StateError(
            f"{path} is not there; if the checkpoint was moved, move all of it; if this is a snapshot of more than "
            "spark.sql.streaming.minBatchesToRetain batches ago, take it again; else restore the checkpoint"
        ) from None
    if len(block) != size or zlib.crc32(block) != checksum:
        raise StateError(f"{path} is not as it was written; the checkpoint is damaged: restore it")
    return block


def _make(folder: Path, above: Path) -> None:
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        while folder != above:
            folder = folder.parent
            _sync(folder)


def _sync(folder: Path) -> None:
    """Syncs the names in the folder to disk."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
