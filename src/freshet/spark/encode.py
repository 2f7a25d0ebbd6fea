"""Encode: rows of a source, a partition at a time, to blocks for the cells that need them.

Runs before the shuffle, inside mapInArrow. Values are checked against the declared types, rows no operator asks for are
left out, and only columns some operator reads go on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.database.change_type import CHANGE_TYPE, ChangeType
from freshet.database.changes import null_column
from freshet.database.lateness import watermark_at
from freshet.errors import ChangeError, EvaluationError
from freshet.logical.query import CLOCK, TableSchema, watermark_of
from freshet.plans.expressions import node_filters
from freshet.scalar.arrow import from_arrow
from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate_filter
from freshet.scalar.expression import Expression, Reference
from freshet.scalar.types import BIGINT, TIMESTAMP, TINYINT
from freshet.spark import profile
from freshet.spark.block import Signed, to_block
from freshet.spark.clock import last_time
from freshet.spark.dispatch import cells, shard_keys
from freshet.spark.disputed import Note, notes
from freshet.spark.failure import plainly
from freshet.spark.feed import (
    changes_of,
    check_nulls,
    refuse_copies,
    refuse_upserts,
    sequence_of,
)
from freshet.spark.first_level import read_of
from freshet.spark.job import Job, Stream
from freshet.spark.pending import pending
from freshet.spark.quarantine import QUARANTINE, Refused, refused_block, to_json
from freshet.spark.shipped import ShippedJob, read_job
from freshet.state.arrays import Bools, Int64s

#: The rows of every step: which shard (by its key), which level, which stream, and a block.
BLOCKS = "key BIGINT, level INT, stream STRING, payload BINARY"
_ARROW = pa.schema([("key", pa.int64()), ("level", pa.int32()), ("stream", pa.string()), ("payload", pa.binary())])

BEGIN = "begin"  # the stream without rows by which a shard hears of the first transaction

_CHUNK = 1 << 20  # rows packed at a time

Sent = tuple[int, int, str, bytes]


def blocks_batch(sent: Sequence[Sent]) -> pa.RecordBatch:
    columns: list[Sequence[Any]] = list(zip(*sent, strict=True)) if sent else [[]] * len(_ARROW)
    return pa.RecordBatch.from_arrays(
        [pa.array(c, t.type) for c, t in zip(columns, _ARROW, strict=True)], schema=_ARROW
    )


def send(stream: Stream, shards: int, rows: Signed) -> Iterator[Sent]:
    """Rows of a stream's source, its columns already chosen by `Stream.columns`, on their way to the cells."""
    keys = shard_keys(shards)
    place = {c: i for i, c in enumerate(stream.columns)}
    for where, chosen in cells(stream.grid, lambda c: rows.columns[place[c.column]], len(rows)):
        payload = to_block(rows if chosen is None else rows.take(chosen))
        for cell in where:
            yield keys[cell], stream.level, stream.name, payload


def needed_columns(job: Job, table: str) -> list[int]:
    """Positions of the columns a table's source must bring."""
    schema = next(t for t in job.tables if t.name.lower() == table)
    keyed = any(n.table == table for n in job.normalized)
    return sorted({*read_of(job.streams, table), *(schema.primary_key if keyed else ())})


def send_table(job: Job, schema: TableSchema, columns: Mapping[int, Column], weights: Int64s) -> Iterator[Sent]:
    """Whole-row changes of a table, by column, on their way to every stream that wants them."""
    n, sent = len(weights), False
    streams = [s for s in job.streams if s.sources == (schema.name.lower(),)]
    for stream in streams:
        rows = Signed([columns[c] for c in stream.columns], weights)
        if stream.filters:
            chosen = passing(stream, columns, n)
            if len(chosen) < n:
                rows = rows.take(chosen)
        if len(rows):
            sent = True
            yield from send(stream, job.shards, rows)
    if not sent:  # the transaction is there even if no row of it counts
        empty = np.empty(0, np.int64)
        nothing = Signed([columns[c].take(empty) for c in streams[0].columns], weights[:0])
        yield shard_keys(job.shards)[0], streams[0].level, streams[0].name, to_block(nothing)


def _send_watermark(job: Job, schema: TableSchema, columns: Mapping[int, Column], weights: Int64s) -> Iterator[Sent]:
    """The watermark by the rows that come, on its way to every shard that judges rows or views by it."""
    if schema.lateness is None:
        return
    column = columns[schema.lateness.column]
    there = weights > 0 if column.valid is None else (weights > 0) & column.valid
    if not there.any():
        return
    greatest = int(schema.lateness.time.of(column.data[there], column.type).max())
    mark = np.array([watermark_at(greatest, schema.lateness)])
    for stream in (s for s in job.streams if s.sources == (watermark_of(schema).name,)):
        yield from send(stream, job.shards, Signed([Column(TIMESTAMP, mark)], np.ones(1, np.int64)))


def passing(stream: Stream, columns: Mapping[int, Column], rows: int) -> Int64s:
    """The rows of a table, given by column, that some filter of the stream lets pass."""
    keep = np.zeros(rows, np.bool_)
    for conjunction in stream.filters:
        keep |= evaluate_filter(conjunction, lambda c: columns[c.column], rows)
    return np.flatnonzero(keep)


class Encoder:
    """A function for mapInArrow: record batches of a source's columns in, batches of blocks out."""

    def __init__(
        self, shipped: ShippedJob, table: str, profile_to: str | None = None, checkpoint: str | None = None
    ) -> None:
        """`checkpoint`: its folder, where every worker has it."""
        self.shipped, self.table, self.profile_to, self.checkpoint = shipped, table, profile_to, checkpoint
        self.__name__ = f"encode table {table}"  # as Spark's plans call it
        self.notes: list[Note] = []
        self.filters: list[tuple[Sequence[int], tuple[Expression, ...]]] = []

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with plainly():
            yield from self._packed(batches)

    def _packed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        job = read_job(self.shipped)
        schema = next(t for t in job.tables if t.name.lower() == self.table)
        if job.quarantine:
            self.filters = list(_filters(job, self.table))
            self.notes = [] if self.table in job.passing else notes(self.checkpoint, job, self.table)
        waiting: list[pa.RecordBatch] = []
        seen, first = 0, 0
        spent = 0.0
        for batch in batches:
            waiting.append(batch)
            seen += batch.num_rows
            if seen - first >= _CHUNK:
                start = time.perf_counter()
                made = blocks_batch(self._blocks(job, schema, pa.Table.from_batches(waiting), first))
                spent += time.perf_counter() - start
                yield made
                waiting, first = [], seen
        if seen > first:
            start = time.perf_counter()
            made = blocks_batch(self._blocks(job, schema, pa.Table.from_batches(waiting), first))
            spent += time.perf_counter() - start
            yield made
        if seen:
            profile.note(self.profile_to, "encode", seconds=spent, rows=seen, table=self.table)

    def _blocks(self, job: Job, schema: TableSchema, given: pa.Table, first: int) -> list[Sent]:
        """Everything the rows send; bad ones are found by halving and set aside, if the job does so."""
        begun = set() if job.begins is None else {job.begins}
        if pending(self.checkpoint) is not None:
            begun.add(0)
        sent: list[Sent] = [(shard_keys(job.shards)[0], level, BEGIN, b"") for level in sorted(begun)]
        refused: list[Refused] = []
        waiting = [(last_time(given) if schema == CLOCK else given, first)]
        while waiting:
            part, at = waiting.pop()
            try:
                sent += list(self._encode(job, schema, part, at))  # all of it or nothing
            except ChangeError as e:
                if e.row is None:  # a mistake of the whole stream, such as a column of a type that never fits
                    raise
                row = to_json(given.slice(e.row - first, 1).to_pylist()[0])
                if not job.quarantine:
                    raise ChangeError(f"{e.reason} (the row is {row})", e.table, e.row) from None
                if part.num_rows == 1:
                    refused.append((schema.name, row, e.reason))
                    continue
                middle = part.num_rows // 2
                waiting += [(part.slice(middle), at + middle), (part.slice(0, middle), at)]
        if refused:
            sent.append((shard_keys(job.shards)[0], job.levels, QUARANTINE, refused_block(refused)))
        return sent

    def _encode(self, job: Job, schema: TableSchema, given: pa.Table, first: int) -> Iterator[Sent]:
        n = given.num_rows
        kinds, weights = changes_of(schema, given, first)
        keyed = next((m for m in job.normalized if m.table == self.table), None)
        ordered = keyed is not None and keyed.ordered
        if not ordered:
            refuse_upserts(schema, kinds, first)
        whole = None  # rows that must have a value in every column that wants one; None: all
        if ordered:
            whole = kinds.signs > 0
        elif keyed is not None and schema.primary_key and CHANGE_TYPE in given.column_names:
            whole = ~kinds.are(ChangeType.DELETE)
        names = {name.lower(): name for name in given.column_names}
        columns: dict[int, Column] = {}
        for i in needed_columns(job, self.table):
            field = schema.fields[i]
            if field.name.lower() not in names:
                columns[i] = null_column(field.type, n)
            else:
                try:
                    columns[i] = from_arrow(given.column(names[field.name.lower()]), field.type)
                except EvaluationError as e:
                    raise ChangeError(
                        f"{field.name}: {e.reason}", schema.name, None if e.row is None else first + e.row
                    ) from None
            check_nulls(schema, i, columns[i], None if i in schema.primary_key else whole, first)
        if self.filters:
            self._check_filters(schema, columns, np.ones(n, np.bool_) if whole is None else whole, first)
        yield from _send_watermark(job, schema, columns, weights)
        if keyed is not None:
            stream = next(s for s in job.streams if s.name == keyed.stream)
            kept_with = []
            if ordered:
                refuse_copies(schema, weights, first)
                kept_with = [Column(TINYINT, kinds.codes), Column(BIGINT, sequence_of(schema, given, first))]
                weights = np.ones(n, np.int64)
            elif schema.primary_key:
                by_key = np.zeros(n, np.int64) if whole is None else (~whole).astype(np.int64)
                kept_with = [Column(TINYINT, by_key)]
            rows = Signed([*(columns[c] for c in stream.columns), *kept_with], weights)
            yield from send(stream, job.shards, rows)
            return
        for note in self.notes:
            refused = note.first(columns, weights)
            if refused is not None:
                raise ChangeError(refused[1], schema.name, first + refused[0])
        try:
            yield from send_table(job, schema, columns, weights)
        except EvaluationError as e:
            raise ChangeError(e.reason, schema.name, None if e.row is None else first + e.row) from None

    def _check_filters(self, schema: TableSchema, columns: Mapping[int, Column], whole: Bools, first: int) -> None:
        """Refuses rows on which a view's filter has no value here, where it is known which change they are of."""
        chosen = np.flatnonzero(whole)
        for place, conjunction in self.filters:

            def read(c: Reference, place: Sequence[int] = place) -> Column:
                return columns[place[c.column]].take(chosen)

            try:
                evaluate_filter(conjunction, read, len(chosen))
            except EvaluationError as e:
                row = None if e.row is None else first + int(chosen[e.row])
                raise ChangeError(e.reason, schema.name, row) from None


def _filters(job: Job, table: str) -> Iterator[tuple[Sequence[int], tuple[Expression, ...]]]:
    """Every filter over a table alone, and the columns that it reads as its own."""
    schema = next(t for t in job.tables if t.name.lower() == table)
    for stream in (s for s in job.streams if s.sources == (table,)):
        yield from ((range(len(schema.fields)), f) for f in stream.filters)
        yield from ((stream.columns, f) for o in job.operators for f in node_filters(o.plan, stream.name))
