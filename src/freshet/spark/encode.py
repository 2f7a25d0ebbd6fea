"""Encode: rows of a source, a partition at a time, to blocks for the cells that need them.

Runs before the shuffle, inside mapInArrow. Values are checked against the declared types, rows no operator asks for are
left out, and only columns some operator reads go on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from freshet.arrow import from_arrow
from freshet.changes import CHANGE_TYPE, SIGNS, WEIGHT, null_column
from freshet.column import Column, Int64s
from freshet.errors import ChangeError, EvaluationError
from freshet.spark import profile
from freshet.spark.block import Signed, to_block
from freshet.spark.dispatch import cells, shard_keys
from freshet.spark.job import Job, Stream
from freshet.sql.bound import TableSchema
from freshet.sql.evaluate import evaluate_filter
from freshet.sql.expression import ColumnRef, walk

#: The rows of every step: which shard (by its key), which level, which stream, and a block.
BLOCKS = "key BIGINT, level INT, stream STRING, payload BINARY"
_ARROW = pa.schema([("key", pa.int64()), ("level", pa.int32()), ("stream", pa.string()), ("payload", pa.binary())])

_CHUNK = 1 << 20  # rows packed at a time

Sent = tuple[int, int, str, bytes]


def blocks_batch(sent: Sequence[Sent]) -> pa.RecordBatch:
    columns = list(zip(*sent, strict=True)) if sent else [[], [], [], []]
    return pa.RecordBatch.from_arrays([pa.array(c, t.type) for c, t in zip(columns, _ARROW, strict=True)], schema=_ARROW)


def send(stream: Stream, shards: int, rows: Signed) -> Iterator[Sent]:
    """Rows of a stream's source, its columns already chosen by `Stream.columns`, on their way to the cells."""
    keys = shard_keys(shards)
    place = {c: i for i, c in enumerate(stream.columns)}
    for where, chosen in cells(stream.grid, lambda c: rows.columns[place[c.column]], len(rows)):
        payload = to_block(rows if chosen is None else rows.take(chosen))
        for cell in where:
            yield keys[cell], stream.level, stream.name, payload


def needed_columns(job: Job, table: str) -> list[int]:
    """Positions of the columns of a table that its streams, their filters and their grids read."""
    found: set[int] = set()
    for s in (s for s in job.streams if s.source == table):
        read = [e for f in s.filters for e in f] + [e for d in s.grid for e in d.hashed]
        found |= {*s.columns, *(c.column for e in read for c in walk(e) if isinstance(c, ColumnRef))}
    return sorted(found)


class Encoder:
    """A function for mapInArrow: record batches of a source's columns in, batches of blocks out."""

    def __init__(self, job_json: str, table: str, profile_to: str | None = None) -> None:
        self.job_json, self.table, self.profile_to = job_json, table, profile_to

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        job = read_job(self.job_json)
        schema = next(t for t in job.tables if t.name.lower() == self.table)
        streams = [s for s in job.streams if s.source == self.table]
        waiting: list[pa.RecordBatch] = []
        seen, first = 0, 0
        spent = 0.0
        for batch in batches:
            waiting.append(batch)
            seen += batch.num_rows
            if seen - first >= _CHUNK:
                start = time.perf_counter()
                made = blocks_batch(list(self._encode(job, schema, streams, waiting, first)))
                spent += time.perf_counter() - start
                yield made
                waiting, first = [], seen
        if seen > first:
            start = time.perf_counter()
            made = blocks_batch(list(self._encode(job, schema, streams, waiting, first)))
            spent += time.perf_counter() - start
            yield made
        if seen:
            profile.note(self.profile_to, "encode", seconds=spent, rows=seen, table=self.table)

    def _encode(
        self, job: Job, schema: TableSchema, streams: Sequence[Stream], batches: list[pa.RecordBatch], first: int
    ) -> Iterator[Sent]:
        given = pa.Table.from_batches(batches)
        n = given.num_rows
        weights = _weights(schema, given, first)
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
            _check_nulls(schema, i, columns[i], given, first)
        sent = False
        for stream in streams:
            rows = Signed([columns[c] for c in stream.columns], weights)
            if stream.filters:
                keep = np.zeros(n, np.bool_)
                for conjunction in stream.filters:
                    try:
                        keep |= evaluate_filter(conjunction, lambda c: columns[c.column], n)
                    except EvaluationError as e:
                        raise ChangeError(e.reason, schema.name, None if e.row is None else first + e.row) from None
                if not keep.all():
                    rows = rows.take(np.flatnonzero(keep))
            if len(rows):
                sent = True
                yield from send(stream, job.shards, rows)
        if not sent:  # the transaction is there even if no row of it counts
            empty = np.empty(0, np.int64)
            nothing = Signed([columns[c].take(empty) for c in streams[0].columns], weights[:0])
            yield shard_keys(job.shards)[0], streams[0].level, streams[0].name, to_block(nothing)


_jobs: dict[str, Job] = {}


def read_job(text: str) -> Job:
    """Read once a process."""
    if text not in _jobs:
        if len(_jobs) > 8:
            _jobs.clear()
        _jobs[text] = Job.from_json(text)
    return _jobs[text]


def _weights(schema: TableSchema, given: pa.Table, first: int) -> Int64s:
    if WEIGHT in given.column_names:
        array = given.column(WEIGHT).combine_chunks()
        if array.null_count:
            row = int(np.argmax(np.asarray(array.is_null())))
            raise ChangeError(f"{WEIGHT} is NULL; +n adds n copies, -n removes n", schema.name, first + row)
        return np.array(array.cast(pa.int64()), np.int64)
    if CHANGE_TYPE not in given.column_names:
        return np.ones(given.num_rows, np.int64)
    kinds = given.column(CHANGE_TYPE).combine_chunks().cast(pa.string())
    found = np.array(pa.compute.index_in(kinds, value_set=pa.array(list(SIGNS))).fill_null(-1), np.int64)
    bad = (found < 0) | (found == list(SIGNS).index("upsert"))
    if bad.any():
        row = int(np.argmax(bad))
        kind = kinds[row].as_py()
        if kind == "upsert":
            raise ChangeError(
                "an upsert replaces a row, so order matters; name the column that orders changes (sequence=...)",
                schema.name, first + row,
            )  # fmt: skip
        raise ChangeError(f"{CHANGE_TYPE} is {kind!r}; give one of {', '.join(SIGNS)}", schema.name, first + row)
    return np.array(list(SIGNS.values()), np.int64)[found]


def _check_nulls(schema: TableSchema, column: int, values: Column, given: pa.Table, first: int) -> None:
    field = schema.fields[column]
    if field.nullable or values.valid is None or values.valid.all():
        return
    row = int(np.argmax(~values.valid))
    remedy = "give a value"
    if CHANGE_TYPE in given.column_names and schema.primary_key and column not in schema.primary_key:
        remedy = "give a value, or name the column that orders changes (sequence=...) to delete by key alone"
    what = "the primary key" if column in schema.primary_key else "NOT NULL"
    raise ChangeError(f"{field.name} is NULL or missing, and it is {what}; {remedy}", schema.name, first + row)
