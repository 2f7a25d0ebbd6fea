"""The log: one file of records, each of which is complete or absent.

A record is a head of 32 bytes (a mark, a checksum, its kind and what was not synced before it, how many rows it
changes, the version it leads to, the bytes of its payload) and the payload, of whole 64-bit words. The checksum begins
with the log's own id, so that remains of another file are never mistaken for a record.

Law: bytes before `end` are records, and are never written again; a record that cannot be written completely is cut off
before anything else happens. The file is replaced as a whole, by a new one that is on disk before it is renamed.

A record is acknowledged when it was synced, and others may be written meanwhile: several are then not on disk, and any
of them may survive a loss of power. So each stores how many bytes before it were not known to be synced when it was
written (at level "fsync"; at the others it stores 0). An incomplete record was never acknowledged, and is cut off with
everything after it, unless a complete one after it says that it was synced: then the file was damaged.
"""

from __future__ import annotations

import contextlib
import os
import struct
import uuid
import zlib
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np

from freshet.durable.gather import CRC, HEAD, KIND, find_records
from freshet.errors import StateError
from freshet.state.arrays import Int64s

FORMAT = 3  # incremented when the previous version cannot read the log; 1 and 2 had no log
_MAGIC = b"freshet log\n\0\0\0\0"
_HEADER = struct.Struct("<16sI16s20xI4x")  # magic, format, id, room for more, checksum
_HEAD = struct.Struct("<4sIIIQQ")
_MARK = b"\xf5rec"
_MARK_WORD = int.from_bytes(_MARK, "little")
_CHUNK = 8 << 20
_MOST = 1 << 17  # records examined together
_FAR = (1 << 24) - 1  # words before a record that may be unsynced: limited by the bits that store it
_HELD = 1 << 20  # bytes of records that level "none" keeps in memory


class Durability(StrEnum):
    """What a transaction survives when it is acknowledged."""

    FSYNC = "fsync"  # the machine may crash: its record is synced
    OS = "os"  # the process may be killed: its record is with the operating system
    NONE = "none"  # nothing: records may be kept in memory


class NewerFormatError(StateError):
    """A log that this version cannot read."""


class Record(NamedTuple):
    """`synced`: the position up to which the log was known to be on disk when the record was written."""

    kind: int
    rows: int
    version: int
    payload: memoryview
    start: int
    end: int
    synced: int


class Run(NamedTuple):
    """Consecutive records with rows: their words, and where their payloads begin."""

    words: Int64s
    payloads: Int64s
    rows: int
    transactions: int
    version: int


class RecordPosition(NamedTuple):
    """A record of a log: which log, where the record ends, how long it is, its checksum."""

    log: str
    end: int
    size: int
    checksum: int


class Log:
    """An open log. `end`: the end of its records, which the writer knows and a reader finds by reading. `synced`: the
    position up to which they are on disk, known to a writer that syncs."""

    def __init__(self, path: Path, level: Durability = Durability.FSYNC, write: bool = True) -> None:
        self.path, self.level = path, level
        self.fd = -1
        self.broken: str | None = None  # why the log cannot be written any more
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._last = (0, 0)  # size and checksum of the last record
        try:
            self.fd = os.open(path, os.O_RDWR if write else os.O_RDONLY)
            head = os.pread(self.fd, _HEADER.size, 0)
            self.id = _id_of(path, head)
            self._seed = zlib.crc32(self.id.bytes)
            self.end = self.synced = _HEADER.size
        except OSError as e:
            raise StateError(f"{path} cannot be opened: {e.strerror}; {_remedy(write)}") from None
        except BaseException:
            self.close()
            raise

    @property
    def first(self) -> int:
        """Where the first record is."""
        return _HEADER.size

    @property
    def size(self) -> int:
        """Bytes in the file, records or not."""
        return os.fstat(self.fd).st_size

    @property
    def replaced(self) -> bool:
        """Whether another log has taken its name: then nothing is appended to this one."""
        try:
            return os.stat(self.path).st_ino != os.fstat(self.fd).st_ino
        except FileNotFoundError:
            return False

    @property
    def place(self) -> RecordPosition:
        return RecordPosition(self.id.hex, self.end, *self._last)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        self.close()

    # Reading --------------------------------------------------------------------------------------------------

    def holds(self, place: RecordPosition) -> bool:
        """Whether that record is there, complete. `end` is then after it."""
        if place.log != self.id.hex or place.end > self.size:
            return False
        if place.size:
            record = next(self.records(place.end - place.size), None)
            if record is None or record.end != place.end or self._last != (place.size, place.checksum):
                return False
        self.end = place.end
        return True

    def head(self, at: int) -> tuple[int, ...] | None:
        """The unchecked head of the record there."""
        data = os.pread(self.fd, _HEAD.size, at)
        return _HEAD.unpack(data) if len(data) == _HEAD.size else None

    def records(self, start: int) -> Iterator[Record]:
        """Complete records from `start` on; advances `end`."""
        self.end = start
        chunk, base = b"", start
        while True:
            at = self.end - base
            head = chunk[at : at + _HEAD.size]
            if len(head) == _HEAD.size:
                mark, checksum, kind, rows, version, length = _HEAD.unpack(head)
                if mark != _MARK or length % 8:
                    return
                wanted = _HEAD.size + length
            else:
                wanted = _HEAD.size
            if len(chunk) - at < wanted:
                if wanted > self.size - self.end:
                    return
                chunk, base = _read(self.fd, self.end, max(_CHUNK, wanted)), self.end
                if len(chunk) < wanted:
                    return
                continue
            view = memoryview(chunk)[at : at + wanted]
            if zlib.crc32(view[8:], self._seed) != checksum:
                return
            start, self.end = self.end, self.end + wanted
            self._last = wanted, checksum
            synced = start - 8 * (kind >> KIND.bit_length())
            yield Record(kind & KIND, rows, version, view[_HEAD.size :], start, self.end, synced)

    def run(self, most: int, until: int) -> Run | None:
        """Complete records with rows from `end` on, about `most` rows, up to a version; None if a record of another
        kind or none follows. Advances `end`."""
        head = self.head(self.end)
        if head is None:
            return None
        size = min(max(_CHUNK, _HEAD.size + head[-1]), self.size - self.end)
        words = np.empty(size // 8, np.int64)
        used = _fill(self.fd, words, self.end) // 8
        payloads = np.empty(_MOST, np.int64)
        n, taken, transactions = find_records(words, used, _MARK_WORD, self._seed, CRC, most, until, payloads)
        if not n:
            return None
        payloads, last = payloads[:n], int(payloads[n - 1]) - HEAD
        self.end += 8 * taken
        self._last = 8 * (taken - last), int(words[last] >> 32) & 0xFFFFFFFF
        rows = int(((words[payloads - 3] >> 32) & 0xFFFFFFFF).sum())
        return Run(words, payloads, rows, transactions, int(words[last + 2]))

    def whole_after(self, start: int) -> int | None:
        """The position of the first complete record beyond `start` that was written when the record at `start` was on
        disk, if there is one: then the file is damaged before it."""
        kept = self.end, self._last
        at = start + 1
        try:
            while at < self.size:
                chunk = _read(self.fd, at, _CHUNK)
                mark = chunk.find(_MARK)
                while mark >= 0:
                    record = next(self.records(at + mark), None)
                    if record is not None and record.synced > start:
                        return at + mark
                    mark = chunk.find(_MARK, mark + 1)
                at += max(len(chunk) - len(_MARK) + 1, 1)
            return None
        finally:
            self.end, self._last = kept

    # Writing --------------------------------------------------------------------------------------------------

    @property
    def far(self) -> bool:
        """Whether too much is unsynced for the next record to store how much."""
        return self.level is Durability.FSYNC and self.end - self.synced > 8 * _FAR

    def record(self, kind: int, rows: int, version: int, payload: bytes) -> bytes:
        """To be appended next."""
        if self.level is Durability.FSYNC:
            kind |= (self.end - self.synced) // 8 << KIND.bit_length()
        tail = _HEAD.pack(_MARK, 0, kind, rows & 0xFFFFFFFF, version, len(payload))[8:]
        checksum = zlib.crc32(payload, zlib.crc32(tail, self._seed))
        return b"".join((_MARK, checksum.to_bytes(4, "little"), tail, payload))

    def append(self, record: bytes) -> None:
        """Appends a record, which is durable after `sync`; if this raises, the log is unchanged."""
        if self.broken is not None:
            raise StateError(f"{self.path} could not be written ({self.broken}); close the database and connect again")
        last = len(record), int.from_bytes(record[4:8], "little")
        if self.level is Durability.NONE:
            self._held.append(record)
            self._held_bytes += len(record)
            if self._held_bytes > _HELD:
                try:
                    self.flush()
                except BaseException:
                    self._held_bytes -= len(self._held.pop())
                    raise
            self._last = last
            return
        self._write(record)
        self.end += len(record)
        self._last = last

    def first_record(self, record: bytes) -> None:
        """Writes the first record again, with another version. Only while the log has not replaced the old one."""
        self.flush()
        view, at = memoryview(record), self.first
        try:
            while view:
                done = os.pwrite(self.fd, view, at)
                view, at = view[done:], at + done
        except OSError as e:
            raise _unwritten(self.path, e) from e

    def flush(self) -> None:
        """Writes the records that level "none" has kept in memory."""
        if self._held:
            self._write(b"".join(self._held))
            self.end += self._held_bytes
            self._held, self._held_bytes = [], 0

    def sync(self) -> None:
        """Waits until everything appended so far is on disk. Other threads may append meanwhile."""
        end = self.end
        try:
            os.fsync(self.fd)
        except OSError as e:  # the contents of the disk are unknown now: nothing more is written
            self.broken = f"fsync: {e.strerror}"
            self._cut_off(self.synced)
            raise StateError(
                f"{self.path} could not be written ({self.broken}), and unsynced transactions are not acknowledged; "
                "close the database and connect again"
            ) from e
        self.synced = end

    def _write(self, data: bytes) -> None:
        view, at = memoryview(data), self.end
        try:
            while view:
                done = os.pwrite(self.fd, view, at)
                view, at = view[done:], at + done
        except BaseException as e:
            self._cut_off(self.end)
            if isinstance(e, OSError):
                raise StateError(
                    f"{self.path} could not be written ({e.strerror}); nothing was changed; free space, then try again"
                ) from e
            raise

    def _cut_off(self, end: int) -> None:
        try:
            os.ftruncate(self.fd, end)
        except OSError as e:
            self.broken = self.broken or f"{e.strerror}"

    def cut(self) -> None:
        """Truncates the file after the last complete record."""
        os.ftruncate(self.fd, self.end)
        if self.level is not Durability.NONE:
            self.sync()


def make(path: Path, level: Durability, records: Iterable[tuple[int, int, int, bytes]] = ()) -> Log:
    """Creates a log with these records, which replaces an existing one when it is on disk. If this fails, nothing has
    changed."""
    log = begin(path, level)
    try:
        for kind, rows, version, payload in records:
            log.append(log.record(kind, rows, version, payload))
        return put_in_place(log, path, level)
    except BaseException:
        discard(log, path)
        raise


def discard(log: Log, path: Path) -> None:
    """Removes a log that was begun for this place, unless it has already taken it."""
    log.close()
    with contextlib.suppress(OSError):
        path.with_name(path.name + ".new").unlink(missing_ok=True)


def begin(path: Path, level: Durability) -> Log:
    """A log without records that will take this place; it has another name until then."""
    fresh = path.with_name(path.name + ".new")
    try:
        with open(fresh, "wb") as file:
            id = uuid.uuid4().bytes
            head = _HEADER.pack(_MAGIC, FORMAT, id, 0)[:-8]
            file.write(head + zlib.crc32(head).to_bytes(4, "little") + bytes(4))
        return Log(fresh, Durability.NONE if level is Durability.NONE else Durability.OS)
    except BaseException as e:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise _unwritten(fresh, e) from e


def put_in_place(log: Log, path: Path, level: Durability) -> Log:
    """Puts a log that was begun in its place. If this fails, the log must still be closed and removed."""
    try:
        log.flush()
        log.level = level
        if level is not Durability.NONE:
            log.sync()
        os.replace(log.path, path)
    except BaseException as e:
        raise _unwritten(log.path, e) from e
    log.path = path
    if level is not Durability.NONE:
        try:
            sync_folder(path.parent)
        except OSError as e:  # unknown which log survives a loss of power: append to neither
            log.broken = f"fsync of {path.parent}: {e.strerror}"
    return log


def _unwritten(file: Path, error: BaseException) -> BaseException:
    if isinstance(error, OSError):
        return StateError(f"{file} could not be written ({error.strerror}); free space, then try again")
    return error


def sync_folder(folder: Path) -> None:
    """Syncs the names in a folder to disk."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _id_of(path: Path, head: bytes) -> uuid.UUID:
    if len(head) < _HEADER.size or head[: len(_MAGIC)] != _MAGIC:
        raise StateError(f"{path} is not a Freshet log; restore it from a copy, or try: freshet recover {path.parent}")
    _, format, id, checksum = _HEADER.unpack(head)
    if zlib.crc32(head[:-8]) != checksum:
        raise StateError(
            f"the head of {path} is damaged; restore it from a copy, or try: freshet recover {path.parent}"
        )
    if format > FORMAT:
        raise NewerFormatError(
            f"{path} was written by a newer version of Freshet (format {format}, here {FORMAT}); open it with that one"
        )
    return uuid.UUID(bytes=id)


def _read(fd: int, at: int, size: int) -> bytes:
    data = os.pread(fd, size, at)
    if len(data) == size or not data:
        return data
    parts = [data]
    at += len(data)
    size -= len(data)
    while size and (more := os.pread(fd, size, at)):
        parts.append(more)
        at += len(more)
        size -= len(more)
    return b"".join(parts)


def _fill(fd: int, words: Int64s, at: int) -> int:
    """Reads the available bytes into the words."""
    view, done = memoryview(words.view(np.uint8).data), 0
    while done < len(view) and (more := os.preadv(fd, [view[done:]], at + done)):
        done += more
    return done


def _remedy(write: bool) -> str:
    return "grant write access, or open it with read_only=True" if write else "grant read access"
