"""Tables with `lateness`: rows that come too late are dropped, and the watermark rises.

Law: once the watermark of a table is W, none of its rows with a time before W is inserted or deleted. A late row is
dropped and counted; a transaction that would delete or update such a row is refused. Rows are judged by the watermark
before their transaction, and rows without a time are never late. The watermark never falls.
"""

from __future__ import annotations

import numpy as np

from freshet.database.advancing import shown
from freshet.engine.table import RowChange, Table
from freshet.errors import ChangeError
from freshet.logical.query import Lateness, TableSchema
from freshet.scalar.types import TIME_RANGE
from freshet.state.arrays import Bools, Int64s

FINAL = "rows before the watermark are final; delete and update later rows only"


def watermark(marks: Table) -> int | None:
    """The watermark in its table, if there is one."""
    slots = marks.tuples.slots()
    return int(marks.tuples.lanes.data[slots[0], 0]) if len(slots) else None


def watermark_at(greatest: int, lateness: Lateness) -> int:
    """The watermark when that is the greatest time that has come."""
    return max(greatest - lateness.size, TIME_RANGE["TIMESTAMP"][0])


def in_time(table: Table, schema: TableSchema, change: RowChange, mark: int | None) -> tuple[RowChange, int]:
    """The change without late rows, and how many copies of rows are dropped. ChangeError if it takes final rows."""
    if mark is None:
        return change, 0
    late_gone = _late(table, schema, table.tuples.lanes.data[change.removed], mark)
    late_changed = _late(table, schema, table.tuples.lanes.data[change.changed], mark)
    more = np.zeros(len(change.changed), np.int64)
    if table.weights is not None:
        more = change.changed_to - table.weights.data[change.changed]
    if late_gone.any() or (more[late_changed] < 0).any():
        raise ChangeError(f"deletes a row before the watermark, {shown(mark)}: {FINAL}", schema.name)
    late = _late(table, schema, change.added, mark)
    if not late.any() and not late_changed.any():
        return change, 0
    copies = change.weights[late].sum() if table.weights is not None else late.sum()
    weights = change.weights[~late] if table.weights is not None else change.weights
    kept = RowChange(
        change.removed, np.ascontiguousarray(change.added[~late]), weights, change.changed[~late_changed],
        change.changed_to[~late_changed],
    )  # fmt: skip
    return kept, int(copies + more[late_changed].sum())


def rise(table: Table, schema: TableSchema, change: RowChange, marks: Table) -> RowChange | None:
    """The change of the watermark by rows that come; None if it stays."""
    assert schema.lateness is not None
    times = _times(table, schema, change.added)[0]
    if not len(times):
        return None
    old, new = watermark(marks), watermark_at(int(times.max()), schema.lateness)
    if old is not None and new <= old:
        return None
    moved = [new] if old is None else [old, new]
    rows = np.zeros((len(moved), marks.width), np.int64)
    rows[:, 0] = moved
    return marks.resolve(rows, np.array([-1, 1])[2 - len(moved) :])


def _late(table: Table, schema: TableSchema, rows: Int64s, mark: int) -> Bools:
    times, known = _times(table, schema, rows)
    late = np.zeros(len(rows), np.bool_)
    late[known] = times < mark
    return late


def _times(table: Table, schema: TableSchema, rows: Int64s) -> tuple[Int64s, Bools]:
    """The times of packed rows that have one, and which these are."""
    assert schema.lateness is not None
    column = schema.lateness.column
    lane, null_lane, bit = table.lane_of(column)
    known = np.ones(len(rows), np.bool_) if null_lane < 0 else rows[:, null_lane] & (1 << bit) == 0
    values = np.ascontiguousarray(rows[known, lane])
    return schema.lateness.time.of(values, schema.fields[column].type), known
