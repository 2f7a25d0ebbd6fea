"""A stream as files, and its schedule: the rules that all peers share, those in Python and those in `rust/stream`.

A stream is a folder with an Arrow file for each table: its columns, `_weight` and `_position`. Rows with position -1
are loaded first; a transaction consists of the rows of all tables with positions from one number up to another. Peers
in Python take it as one record batch for each table.

The first changes, until the window is full, are applied unmeasured. The others are divided into rounds. In each round,
transactions of one size are measured until the share of the round is used up, in changes or in seconds; the rest of the
round is applied in large steps, so that every peer sees the whole stream and ends with the same answer.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Changes = dict[str, pa.RecordBatch]


@dataclass(frozen=True)
class Schedule:
    size: int
    step: int  # changes of a transaction that is not measured
    fill: int  # changes until the window is full
    total: int
    rounds: int
    most: int  # changes to measure
    seconds: float  # to spend on them
    limit: float  # seconds after which a peer gives up

    def words(self) -> list[str]:
        return [word for name, value in asdict(self).items() for word in (f"--{name}", str(value))]

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        for name, kind in Schedule.__annotations__.items():
            parser.add_argument(f"--{name}", type=float if kind == "float" else int, required=True)

    @staticmethod
    def of(options: argparse.Namespace) -> Schedule:
        return Schedule(**{name: getattr(options, name) for name in Schedule.__annotations__})


class Peer(Protocol):
    """An engine that keeps one query fresh, in this process."""

    version: str

    def load(self, tables: Changes) -> None:
        """Takes the rows of all tables before the first change; moving tables have none."""

    def apply(self, changes: Changes, read: bool) -> None:
        """Applies a transaction; if `read`, what changed in the answer, or the answer, is read completely."""

    def applied(self) -> None:
        """Called after each transaction; this is not measured."""

    def answer(self) -> pa.Table: ...


def write_table(folder: Path, name: str, rows: pa.Table, weight: Any, position: Any) -> None:
    table = rows.append_column("_weight", pa.array(weight, pa.int64()))
    table = table.append_column("_position", pa.array(position, pa.int64())).combine_chunks()
    with pa.OSFile(str(folder / f"{name}.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=max(table.num_rows, 1))


class Stream:
    """The files of a stream, in memory."""

    def __init__(self, folder: Path, tables: Sequence[str]) -> None:
        self.loaded: Changes = {}
        self.moving: dict[str, tuple[pa.RecordBatch, Any]] = {}
        for name in tables:
            with pa.OSFile(str(folder / f"{name}.arrow")) as file:
                table = pa.ipc.open_file(file).read_all()
            position = table["_position"].to_numpy()
            batch = table.drop_columns(["_position"]).combine_chunks().to_batches()[0]
            first = int(np.searchsorted(position, 0))
            self.loaded[name] = batch.slice(0, first).drop_columns(["_weight"])
            if first < len(position):
                self.moving[name] = (batch.slice(first), position[first:])

    def transaction(self, first: int, last: int) -> Changes:
        changes = {}
        for name, (batch, position) in self.moving.items():
            start, end = (int(i) for i in np.searchsorted(position, (first, last)))
            if start < end:
                changes[name] = batch.slice(start, end - start)
        return changes

    def surviving(self, last: int) -> dict[str, pa.Table]:
        """The rows of all tables after the changes before position `last`."""
        tables = {name: pa.table(batch) for name, batch in self.loaded.items() if name not in self.moving}
        for name, (batch, position) in self.moving.items():
            changes = pa.table(batch.slice(0, int(np.searchsorted(position, last))))
            columns = changes.column_names[:-1]
            held = changes.group_by(columns).aggregate([("_weight", "sum")])
            tables[name] = held.filter(pc.greater(held["_weight_sum"], 0)).select(columns)
        return tables


def resident() -> int:
    """Resident memory of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def measure(peer: Peer, read: Callable[[], Stream], schedule: Schedule, scales: Mapping[str, int]) -> dict[str, Any]:
    empty = resident()
    stream = read()
    data = resident() - empty
    began, at, measured = time.perf_counter(), 0, 0
    walls: list[int] = []
    processors: list[int] = []
    peer.load(stream.loaded)
    peer.applied()

    def unmeasured(end: int) -> None:
        nonlocal at
        while at < end:
            last = min(at + schedule.step, end)
            peer.apply(stream.transaction(at, last), read=False)
            peer.applied()
            at = last

    unmeasured(schedule.fill)
    for part in range(1, schedule.rounds + 1):
        end = schedule.fill + (schedule.total - schedule.fill) * part // schedule.rounds
        first, started = at, time.perf_counter()
        while (
            at + schedule.size <= end
            and at - first < schedule.most // schedule.rounds
            and time.perf_counter() - started < schedule.seconds / schedule.rounds
        ):
            changes = stream.transaction(at, at + schedule.size)
            wall, processor = time.perf_counter_ns(), time.process_time_ns()
            peer.apply(changes, read=True)
            processors.append(time.process_time_ns() - processor)
            walls.append(time.perf_counter_ns() - wall)
            peer.applied()
            at += schedule.size
        measured += at - first
        if time.perf_counter() - began > schedule.limit:
            break
        unmeasured(end)
    held = max(resident() - data, 0)
    answer = peer.answer()
    return {
        "version": peer.version, "position": at, "measured": measured, "rows": answer.num_rows,
        "check": checksum(answer, scales), "empty": empty, "resident": held, "wall": walls, "processor": processors,
    }  # fmt: skip


def checksum(rows: pa.Table, scales: Mapping[str, int], weights: Any = None) -> int:
    """The sum of the rows' hashes, modulo 2^64: that of an answer is the sum of those of its deltas."""
    total = np.zeros(rows.num_rows, np.uint64)
    for name in rows.column_names:
        total = (total ^ _lane(rows[name], scales.get(name, 0))) * np.uint64(0x9E3779B97F4A7C15)
        total ^= total >> np.uint64(32)
    if weights is not None:
        total = total * weights.astype(np.uint64)
    return int(total.sum(dtype=np.uint64))


def _lane(column: pa.ChunkedArray, scale: int) -> Any:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        encoded = column.cast(pa.string()).combine_chunks().dictionary_encode()
        hashes = np.array([_text(value) for value in encoded.dictionary.to_pylist()], np.uint64)
        return hashes[encoded.indices.to_numpy()]
    if pa.types.is_decimal(kind):
        scaled = column.cast(pa.decimal128(38, scale)).combine_chunks()
        return np.frombuffer(scaled.buffers()[1], np.uint64)[2 * scaled.offset :][: 2 * len(scaled) : 2]
    if pa.types.is_date(kind):
        column = column.cast(pa.date32()).cast(pa.int32())
    return column.cast(pa.int64()).to_numpy().astype(np.uint64)


def _text(value: str) -> int:
    """FNV-1a."""
    hashed = 0xCBF29CE484222325
    for byte in value.encode():
        hashed = ((hashed ^ byte) * 0x100000001B3) % 2**64
    return hashed


def save(result: Mapping[str, Any], out: Path) -> None:
    out.write_text(json.dumps(result))
