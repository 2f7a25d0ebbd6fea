"""The clock of a stream: which time NOW() is in a micro-batch, what expires by it, and which rows are late.

Law: the clock is a table of one row that every shard has. Its changes are a stream of times, and the clock of a
micro-batch is the greatest time that has come until its end. So it never goes back, and follows from the offsets that
Spark wrote down before the batch began: a batch that is run again has the same clock. A table with `retain` holds,
after each micro-batch, the rows that were sent until then and have not expired by its clock.

A watermark is a table of one row like the clock: the encoder of a table sends what its rows raise it to to every shard.
Rows are judged by the watermark before their micro-batch (database/lateness.py), so all shards judge a row alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshet.engine.table import Table
from freshet.logical.query import CLOCK, Retention, TableSchema
from freshet.scalar.column import Column
from freshet.scalar.types import TIMESTAMP
from freshet.spark.block import Signed
from freshet.state.arrays import Bools


def last_time(given: pa.Table) -> pa.Table:
    """The row with the greatest time."""
    return given.take(pc.select_k_unstable(given, 1, [(CLOCK.fields[0].name, "descending")]))


def time_of(clock: Table) -> int | None:
    """The clock's time in microseconds, once it has one."""
    slots = clock.tuples.slots()
    return int(clock.tuples.lanes.data[slots[0], 0]) if len(slots) else None


def clock_change(clock: Table, times: Sequence[Signed]) -> Signed:
    """The change of the clock by times that have come: nothing if none is later."""
    old = time_of(clock)
    new = max((int(t.columns[0].data.max()) for t in times), default=None)
    moved = [] if new is None or (old is not None and new <= old) else [new] if old is None else [old, new]
    return Signed([Column(TIMESTAMP, np.array(moved, np.int64))], np.array([-1, 1])[2 - len(moved) :])


def unexpired(schema: TableSchema, rows: Signed, now: int | None) -> Signed:
    """The rows without those that have expired: they are gone, whatever is done to them."""
    over = expired(schema.retention, rows, now)
    return rows.take(np.flatnonzero(~over)) if over.any() else rows


def expired(retention: Retention | None, rows: Signed, now: int | None) -> Bools:
    """Which rows have expired."""
    if retention is None or now is None:
        return np.zeros(len(rows), np.bool_)
    column = rows.columns[retention.column]
    over: Bools = retention.moment.of(column.data, column.type) <= now
    return over if column.valid is None else over & column.valid


def late(schema: TableSchema, rows: Signed, mark: int | None) -> Bools:
    """Which rows are before the watermark."""
    found = np.zeros(len(rows), np.bool_)
    if schema.lateness is None or mark is None:
        return found
    column = rows.columns[schema.lateness.column]
    found = schema.lateness.time.of(column.data, column.type) < mark
    return found if column.valid is None else found & column.valid


def expiring(table: Table, now: int | None) -> Signed | None:
    """The removal of the stored rows that have expired."""
    if now is None or not len(slots := table.overdue(now)):
        return None
    weights = np.ones(len(slots), np.int64) if table.weights is None else table.weights.data[slots]
    return Signed(table.columns(slots), -weights)
