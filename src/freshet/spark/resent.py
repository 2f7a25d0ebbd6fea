"""The rows of tables in a checkpoint, as blocks for another job.

A job keeps no tables, but streams of them: some columns of the rows that pass some filters, in the cells of a grid. A
stream of another job can be filled from one of them if that has all the columns that are read and all the rows that
pass. Rows that are in several cells are taken from the first of them, so each is there as often as in its table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.database.change_type import ChangeType
from freshet.database.changes import null_column
from freshet.errors import StateError
from freshet.logical.query import TableSchema, watermark_of
from freshet.scalar.column import Column
from freshet.scalar.types import BIGINT, TINYINT
from freshet.spark.block import Signed, from_block, joined, summed
from freshet.spark.dispatch import first_copies
from freshet.spark.encode import Sent, blocks_batch, passing, send
from freshet.spark.failure import plainly
from freshet.spark.first_level import read_of
from freshet.spark.job import Job, Normalized, Stream
from freshet.spark.log import ShardFolder, read_entry
from freshet.spark.shipped import ShippedJob, read_job


@dataclass(frozen=True, slots=True)
class Refill:
    """Streams of a new job that are filled from one stream of an old one."""

    stored: str
    filled: tuple[str, ...]


def refills(old: Job, new: Job) -> list[Refill]:
    """From where each table's streams are filled: none for tables that the old job does not read. StateError if too
    little of a table is stored."""
    known = {t.name.lower() for t in old.tables}
    found: dict[str, list[str]] = {}
    for table in new.tables:
        name = table.name.lower()
        if name not in known:
            continue
        for stream in kept_streams(new, name):
            source = next((s for s in kept_streams(old, name) if _serves(old, new, s, stream, name)), None)
            if source is None:
                raise StateError(
                    f"table {table.name}: the checkpoint does not hold all the rows and columns that the views read "
                    f"now ({_lacking(old, new, stream, name)}); start with another checkpoint folder, which reads the "
                    "sources from the beginning"
                )
            found.setdefault(source.name, []).append(stream.name)
    made = [Refill(source, tuple(streams)) for source, streams in found.items()]
    return [*made, *_of_watermarks(old, new)]


def _of_watermarks(old: Job, new: Job) -> Iterator[Refill]:
    """From where the watermarks of tables are filled."""
    for mark in (watermark_of(t).name for t in new.tables if t.lateness is not None):
        stored = next((s.name for s in old.streams if s.sources == (mark,)), None)
        if stored is not None:
            yield Refill(stored, tuple(s.name for s in new.streams if s.sources == (mark,)))


def kept_streams(job: Job, table: str) -> list[Stream]:
    """The streams that a table's own changes go to, those of removed keys aside."""
    known = _normalized(job, table)
    return [s for s in job.streams if (s.name == known.stream if known is not None else s.sources == (table,))]


def _normalized(job: Job, table: str) -> Normalized | None:
    return next((n for n in job.normalized if n.table == table), None)


def _serves(old: Job, new: Job, source: Stream, stream: Stream, table: str) -> bool:
    before, now = _normalized(old, table), _normalized(new, table)
    if now is not None and now.ordered and not (before is not None and before.ordered):
        return False
    there = _places(old, new, source, table)
    if not _reads(new, source, stream, table) <= there:
        return False
    return not source.filters or (bool(stream.filters) and {*stream.filters} <= {*source.filters})


def _places(old: Job, new: Job, source: Stream, table: str) -> set[int]:
    """The positions, in the table as it is now, of the columns that a stream of the old job has; those that the table
    did not have then are NULL in all its rows."""
    then, now = _schema(old, table), _schema(new, table)
    stored = {then.fields[c].name.lower() for c in source.columns}
    before = {f.name.lower() for f in then.fields}
    return {i for i, f in enumerate(now.fields) if f.name.lower() in stored or f.name.lower() not in before}


def _reads(new: Job, source: Stream, stream: Stream, table: str) -> set[int]:
    """The positions of the columns that are needed to fill a stream. Filters that all rows of the source have passed
    are not computed again."""
    passed = stream if {*stream.filters} != {*source.filters} else _unfiltered(stream)
    return read_of([passed], table) if stream.sources == (table,) else {*stream.columns}


def _unfiltered(stream: Stream) -> Stream:
    return Stream(stream.name, stream.sources, stream.level, stream.columns, stream.schema, (), stream.grid)


def _schema(job: Job, table: str) -> TableSchema:
    return next(t for t in job.tables if t.name.lower() == table)


def _lacking(old: Job, new: Job, stream: Stream, table: str) -> str:
    """What keeps a stream from being filled, in words."""
    stored = set().union(*(_places(old, new, s, table) for s in kept_streams(old, table)))
    columns = [_schema(new, table).fields[c].name for c in sorted({*stream.columns} - stored)]
    if columns:
        return f"{', '.join(columns)} {'was' if len(columns) == 1 else 'were'} not read before"
    return "rows were filtered, or their columns are stored apart"


def _stored(job: Job, log_folder: str | None, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Stream, Signed]]:
    """The rows of streams in logs, each row in the first shard that has it."""
    logs: dict[tuple[int, str], list[list[Any]]] = {}
    for batch in batches:
        for shard, stream, *entry in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            if stream is not None:
                logs.setdefault((shard, stream), []).append(entry)
    for shard, name in sorted(logs):
        stream = _stream(job, name)
        place = None if log_folder is None else ShardFolder(log_folder, stream.level, shard)
        types = [f.type for f in stream.schema.fields]
        blocks = (read_entry(place, *entry) for entry in logs.pop((shard, name)))
        yield stream, _first_of(stream, shard, summed(joined([from_block(b, types) for b in blocks], types)))


class RowCount:
    """A function for mapInArrow: logs of one stored stream in, its rows counted out."""

    def __init__(self, job: ShippedJob, log_folder: str | None) -> None:
        self.job, self.log_folder = job, log_folder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with plainly():
            counts = [int(rows.weights.sum()) for _, rows in _stored(read_job(self.job), self.log_folder, batches)]
            yield pa.RecordBatch.from_arrays([pa.array(counts, pa.int64())], ["rows"])


class Resend:
    """A function for mapInArrow: logs of one stored stream in, blocks of the streams filled from it out."""

    def __init__(self, old: ShippedJob, new: ShippedJob, refill: Refill, log_folder: str | None) -> None:
        self.old, self.new, self.refill, self.log_folder = old, new, refill, log_folder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with plainly():
            yield from self._sent(batches)

    def _sent(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        old, new = read_job(self.old), read_job(self.new)
        for stream, rows in _stored(old, self.log_folder, batches):
            yield blocks_batch(list(self._blocks(old, new, stream, rows)))

    def _blocks(self, old: Job, new: Job, stored: Stream, rows: Signed) -> Iterator[Sent]:
        gone = next((n for n in old.normalized if n.gone == stored.name), None)
        for name in self.refill.filled:
            stream = _stream(new, name)
            if gone is not None:
                yield from send(stream, new.shards, _removals(old, new, gone, stream, rows))
                continue
            if stream.sources == stored.sources and stream.sources[0] in {watermark_of(t).name for t in new.tables}:
                yield from send(stream, new.shards, rows) if len(rows) else ()
                continue
            table = _table_of(old, stored)
            known = _normalized(new, table)
            columns = _by_place(old, new, stored, rows, table)
            chosen = Signed([columns[c] for c in stream.columns], rows.weights)
            if known is not None:
                chosen.columns += _noted(known, _schema(new, table), rows)
            elif stream.filters and {*stream.filters} != {*stored.filters}:
                chosen = chosen.take(passing(stream, columns, len(rows)))
            if len(chosen):
                yield from send(stream, new.shards, chosen)


def _first_of(stream: Stream, shard: int, rows: Signed) -> Signed:
    """The rows of which this shard has the first copy."""
    place = {c: i for i, c in enumerate(stream.columns)}
    first = first_copies(stream.grid, shard, lambda c: rows.columns[place[c.column]], len(rows))
    return rows.take(np.flatnonzero(first))


def _table_of(job: Job, stream: Stream) -> str:
    return next((n.table for n in job.normalized if n.stream == stream.name), stream.sources[0])


def _stream(job: Job, name: str) -> Stream:
    return next(s for s in job.streams if s.name == name)


def _by_place(old: Job, new: Job, stored: Stream, rows: Signed, table: str) -> dict[int, Column]:
    """Stored columns by their position in the table as it is now."""
    then, now = _schema(old, table), _schema(new, table)
    by_name = {then.fields[c].name.lower(): values for c, values in zip(stored.columns, rows.columns, strict=False)}
    found = {}
    for position, field in enumerate(now.fields):
        column = by_name.get(field.name.lower())
        found[position] = null_column(field.type, len(rows)) if column is None else column
    return found


def _noted(known: Normalized, table: TableSchema, rows: Signed) -> list[Column]:
    """What changes that pass the first level carry beyond their columns: of a table in sequence what they do and when,
    of one with a primary key that they give whole rows."""
    if known.ordered:
        codes = np.full(len(rows), ChangeType.INSERT.code, np.int64)
        return [Column(TINYINT, codes), Column(BIGINT, rows.columns[-1].data)]
    return [Column(TINYINT, np.zeros(len(rows), np.int64))] if table.primary_key else []


def _removals(old: Job, new: Job, gone: Normalized, stream: Stream, rows: Signed) -> Signed:
    """Keys that were removed, as deletes by key alone."""
    table = _schema(new, gone.table)
    keys = dict(zip(_schema(old, gone.table).primary_key, rows.columns, strict=False))
    columns = [keys[c] if c in keys else null_column(table.fields[c].type, len(rows)) for c in stream.columns]
    codes = np.full(len(rows), ChangeType.DELETE.code, np.int64)
    return Signed([*columns, Column(TINYINT, codes), Column(BIGINT, rows.columns[-1].data)], rows.weights)


def gone_refills(old: Job, new: Job) -> list[Refill]:
    """The keys that were removed from tables whose changes are in sequence."""
    pairs = ((n, _normalized(new, n.table)) for n in old.normalized if n.ordered)
    return [Refill(before.gone, (now.stream,)) for before, now in pairs if now is not None and now.ordered]


def level_of(refill: Refill, old: Job) -> int:
    return _stream(old, refill.stored).level


def table_order(old: Job, new: Job) -> Mapping[str, int]:
    """The number that each table of the new job had among those of the old one."""
    places = {t.name.lower(): i for i, t in enumerate(old.tables)}
    return {t.name.lower(): places[t.name.lower()] for t in new.tables if t.name.lower() in places}
