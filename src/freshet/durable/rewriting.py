"""Rewriting a log from the current rows, a piece with each transaction, while changes continue.

Law: the records written so far add up to the current rows in the slots before the cursor of each table. A transaction
appends, with signs, the rows that it removes from those slots and adds to them, and then another piece; its changes
beyond the cursor are found when the cursor gets there. When every cursor is at the end, the new log equals the current
database and replaces the old one, to which every transaction was written as well. Any other operation that moves rows
or changes definitions ends the rewrite, which begins again later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from freshet.durable import log
from freshet.durable.log import Durability
from freshet.durable.record import CATALOG, ROWS, SNAPSHOT, json_payload, rows_payload, stored
from freshet.durable.snapshot import NOTHING, differences, noted
from freshet.engine.table import RowChange, Table
from freshet.state.arrays import Int64s

_SYNCED = 8 << 20  # bytes written between two syncs, so that the last sync is short

Signed = tuple[Table, Int64s, Int64s]


class Rewriting:
    """`path`: of the log that is replaced at the end."""

    def __init__(self, path: Path, level: Durability, catalog: Mapping[str, Any], tables: Iterable[Table]) -> None:
        self._path, self._level = path, level
        self._catalog = json_payload(differences(noted(NOTHING), catalog))
        self._cursors = {id(table): 0 for table in tables}
        self._leaving: list[Signed] = []
        self._synced = 0
        self.log = log.begin(path, level)
        try:
            self._append(CATALOG, 0, 0, self._catalog)
        except BaseException:
            self.abandon()
            raise

    def before(self, changes: Iterable[tuple[Table, RowChange]]) -> None:
        """Called before a transaction: the rows it removes from slots before the cursors."""
        self._leaving = []
        for table, change in changes:
            cursor, lanes = self._cursors[id(table)], table.tuples.lanes.data
            removed = change.removed[change.removed < cursor]
            if len(removed):
                self._leaving.append((table, lanes[removed], -stored(table, removed)[1]))
            if len(change.changed) and table.weights is not None:
                moved = change.changed < cursor
                slots = change.changed[moved]
                if len(slots):
                    self._leaving.append((table, lanes[slots], change.changed_to[moved] - table.weights.data[slots]))

    def after(self, changes: Iterable[tuple[Table, RowChange]], version: int) -> None:
        """Called after the same transaction: the rows it has added to those slots."""
        parts, self._leaving = self._leaving, []
        for table, change in changes:
            if len(change.added):
                slots = table.tuples.find(change.added)
                slots = slots[slots < self._cursors[id(table)]]
                if len(slots):
                    parts.append((table, *stored(table, slots)))
        self._write(parts, version)

    def advance(self, tables: Iterable[Table], slots: int, version: int) -> bool:
        """Advances the cursors over a number of slots in total; whether they are at the end."""
        parts: list[Signed] = []
        for table in tables:
            cursor, used = self._cursors[id(table)], table.tuples.used
            end = min(cursor + slots, used)
            slots -= max(end - cursor, 0)
            if end > cursor:
                held = (np.flatnonzero(table.tuples.occupancy.data[cursor:end]) + cursor).astype(np.int32)
                if len(held):
                    parts.append((table, *stored(table, held)))
                self._cursors[id(table)] = end
            if end < used:
                break
        self._write(parts, version)
        return all(self._cursors[id(table)] >= table.tuples.used for table in tables)

    def finish(self, version: int, changes: int, changed: Mapping[str, int]) -> log.Log:
        """Puts the new log in place of the old one."""
        self._append(SNAPSHOT, 0, version, json_payload({"changes": changes, "changed": dict(changed)}))
        self.log.first_record(self.log.record(CATALOG, 0, version, self._catalog))
        return log.put_in_place(self.log, self._path, self._level)

    def _write(self, parts: list[Signed], version: int) -> None:
        if parts:
            self._append(ROWS, sum(len(rows) for _, rows, _ in parts), version, rows_payload(parts))

    def _append(self, kind: int, rows: int, version: int, payload: bytes) -> None:
        self.log.append(self.log.record(kind, rows, version, payload))
        if self._level is not Durability.NONE and self.log.end - self._synced > _SYNCED:
            self._synced = self.log.end
            self.log.sync()

    def abandon(self) -> None:
        """Abandons the rewrite and leaves the old log unchanged."""
        log.discard(self.log, self._path)
