"""What a shard is given by blocks, and what it emits in blocks: one transaction's way in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from freshet.database.change_type import WEIGHT
from freshet.database.changes import null_column
from freshet.database.lateness import FINAL
from freshet.errors import ChangeError, EvaluationError
from freshet.scalar.arrow import to_arrow
from freshet.scalar.types import BIGINT, TINYINT, Type
from freshet.spark.block import Signed, from_block, joined, summed, to_block
from freshet.spark.clock import clock_change, expiring, late, time_of, unexpired
from freshet.spark.dispatch import shard_keys
from freshet.spark.disputed import DisputedError
from freshet.spark.encode import BEGIN, Sent, send, send_table
from freshet.spark.job import Job, Stream
from freshet.spark.normalize import normalize
from freshet.spark.quarantine import QUARANTINE, Refused, refused_block, to_json
from freshet.spark.shard import Shard
from freshet.state.rows import Rows

_DELETES_FINAL = f"deletes a row before the watermark: {FINAL}"


def read_block(shard: Shard, stream: str, payload: bytes) -> Signed:
    return from_block(payload, [f.type for f in shard.streams[stream].schema.fields])


@dataclass(slots=True)
class Received:
    """The blocks of a transaction as whole-row changes by stream, which of them pass on as changes of a table, what of
    them belongs in the log, and what is set aside."""

    changes: dict[str, Signed] = field(default_factory=dict)
    passed: dict[str, Signed] = field(default_factory=dict)
    log: list[tuple[str, bytes]] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    late: int = 0  # rows that came too late, and were dropped

    def add(self, name: str, rows: Signed, blocks: Sequence[bytes] | None = None) -> None:
        self.changes[name] = rows
        if len(rows):
            self.log += [(name, b) for b in ([to_block(rows)] if blocks is None else blocks)]

    def remove(self, name: str, rows: Signed, types: Sequence[Type]) -> None:
        """Stored rows that leave besides."""
        there = self.changes.get(name)
        self.changes[name] = rows if there is None else joined([there, rows], types)
        self.log.append((name, to_block(rows)))

    @property
    def rows(self) -> int:
        return sum(map(len, self.changes.values()))


def take_in(shard: Shard, arrived: Mapping[str, Sequence[bytes]], quarantine: bool) -> Received:
    received = Received()
    now = _take_time(shard, received, arrived, shard.clock)
    marks = {table: time_of(shard.tables[name]) for table, name in shard.marks.items()}
    for name in shard.marks.values():
        _take_time(shard, received, arrived, name)
    expired = {name: rows for name, table in shard.tables.items() if (rows := expiring(table, now)) is not None}
    keyed = {name for name in expired if name in shard.keyed}  # which says itself what becomes of their keys
    for name, blocks in sorted({**dict.fromkeys(keyed, ()), **arrived}.items()):
        if name in (BEGIN, shard.clock, *shard.marks.values()):
            continue
        types = [f.type for f in shard.streams[name].schema.fields]
        known = shard.normalized.get(name)
        if known is None and not (quarantine and name in shard.judged):
            sent = joined([from_block(b, types) for b in blocks], types)
            rows = unexpired(shard.streams[name].schema, sent, now)
            rows, final = _in_time(shard, received, name, rows, marks)
            if len(final):
                gone = _shown(shard, name, rows, final[0])
                raise ChangeError(f"{_DELETES_FINAL} (the row is {gone})", shard.streams[name].sources[0])
            received.add(name, rows, blocks if rows is sent else None)
            continue
        if known is not None and known.ordered:
            types[-1:] = [TINYINT, BIGINT]
            given = joined([from_block(b, types) for b in blocks], types) if blocks else _nothing(types)
            whole = normalize(shard.keyed[name], given, now)
            received.add(name, whole.stored)
            received.add(known.gone, whole.gone)
            received.passed[name] = whole.passed
            continue
        table = shard.judged[name]
        rows, completed = joined([from_block(b, types) for b in blocks], types), False
        if known is not None and shard.tables[name].primary_key:
            flags = [from_block(b, [*types, TINYINT]).columns[-1].data for b in blocks]
            rows, completed = shard.completed(name, rows, np.concatenate(flags) != 0)
        given, rows = rows, unexpired(shard.streams[name].schema, rows, now)
        rows, final = _in_time(shard, received, name, rows, marks)
        completed = completed or rows is not given
        others = np.setdiff1d(np.arange(len(rows)), final)
        checked = rows.take(others) if len(final) else rows
        found = shard.check(name, joined([checked, expired[name]], types) if name in expired else checked)
        bad = {int(others[row]): reason for row, reason in found.items()} | dict.fromkeys(final, _DELETES_FINAL)
        if bad and quarantine and name in shard.disputed:
            chosen = sorted(bad)
            reasons = [bad[row] for row in chosen]
            raise DisputedError(table, name, rows.take(np.array(chosen)), reasons, _shown(shard, name, rows, chosen[0]))
        if bad and not quarantine:
            row = min(bad)
            raise ChangeError(f"{bad[row]} (the row is {_shown(shard, name, rows, row)})", table)
        good = rows.take(np.setdiff1d(np.arange(len(rows)), list(bad))) if bad else rows
        received.add(name, good, None if bad or completed else blocks)
        if known is not None:
            received.passed[name] = good
        own = shard.reports(name, rows) if bad else ()
        received.refused += [(table, _shown(shard, name, rows, row), bad[row]) for row in sorted(bad) if own[row]]
    for name, rows in expired.items():
        if name in keyed:
            continue
        received.remove(name, rows, [f.type for f in shard.streams[name].schema.fields])
    return received


def _take_time(
    shard: Shard, received: Received, arrived: Mapping[str, Sequence[bytes]], name: str | None
) -> int | None:
    """Takes in the times that have come; returns the time of that clock in this transaction."""
    if name is None:
        return None
    clock = shard.tables[name]
    moved = clock_change(clock, [from_block(b, clock.types) for b in arrived.get(name, ())])
    if len(moved):
        received.add(name, moved)
        return int(moved.columns[0].data[-1])
    return time_of(clock)


def _in_time(
    shard: Shard, received: Received, name: str, rows: Signed, marks: Mapping[str, int | None]
) -> tuple[Signed, list[int]]:
    """The rows without late ones, which are counted; and which of them would take final rows."""
    stream = shard.streams[name]
    known = shard.normalized.get(name)
    mark = marks.get(stream.sources[0] if known is None else known.table)
    is_late = late(stream.schema, rows, mark)
    if not is_late.any():
        return rows, []
    if (rows.weights[is_late] < 0).any():  # of equal rows only the sum counts
        rows = joined([rows.take(np.flatnonzero(~is_late)), summed(rows.take(np.flatnonzero(is_late)))], _types(stream))
        is_late = late(stream.schema, rows, mark)
    dropped = is_late & (rows.weights > 0)
    if name in shard.counted:
        received.late += int(rows.weights[dropped & shard.reports(name, rows)].sum())
    kept = rows.take(np.flatnonzero(~dropped))
    return kept, np.flatnonzero(is_late[~dropped]).tolist()


def _nothing(types: Sequence[Type]) -> Signed:
    return Signed([null_column(t, 0) for t in types], np.empty(0, np.int64))


def _types(stream: Stream) -> list[Type]:
    return [f.type for f in stream.schema.fields]


def _shown(shard: Shard, name: str, rows: Signed, row: int) -> str:
    """A change as JSON."""
    own = rows.take(np.array([row]))
    values = [to_arrow(c)[0].as_py() for c in own.columns]
    fields = shard.streams[name].schema.fields
    shown = {f.name: v for f, v in zip(fields, values, strict=True)}
    return to_json({**shown, WEIGHT: int(own.weights[0])})


def emit(
    job: Job, shard: Shard, number: int, received: Received, deltas: Mapping[str, Rows], first: bool
) -> list[Sent]:
    """What was normalized, and the operators' deltas, on their way to the streams that read them and to the views; and
    what was set aside, on its way out."""
    keys = shard_keys(job.shards)
    emitted: list[Sent] = []
    if received.refused:
        emitted.append((keys[number], job.levels, QUARANTINE, refused_block(received.refused)))
    for name, known in shard.normalized.items():
        if name in received.passed:
            schema = next(t for t in job.tables if t.name.lower() == known.table)
            whole = received.passed[name]
            by_place = dict(zip(shard.streams[name].columns, whole.columns, strict=True))
            try:
                emitted += send_table(job, schema, by_place, whole.weights)
            except EvaluationError as e:
                raise ChangeError(e.reason, known.table) from None
    for operator in shard.operators + (shard.constants if first else []):
        rows = shard.constant(operator) if operator.constant else deltas[operator.name]
        streams = [s for s in job.streams if operator.name in s.sources]
        if first and number == 0:
            emitted += [(keys[0], s.level, BEGIN, b"") for s in streams]
        if not len(rows):
            continue
        columns = shard.emitted(operator, rows)
        for s in streams:
            emitted += send(s, job.shards, Signed([columns.columns[c] for c in s.columns], columns.weights))
        if any(operator.name in v.operators for v in job.views):
            emitted.append((keys[number], job.levels, operator.name, to_block(columns)))
    return emitted
