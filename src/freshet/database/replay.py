"""From the records of a log to the state of a database.

Consecutive transactions are combined and applied as one change to each table, at a boundary between two of them: the
resulting table is the same, and views only see states that were once published. Views that are defined along the way
are built when all rows are loaded. Nothing is logged or published.
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.database.state import State
from freshet.database.views import Views
from freshet.durable.gather import gather_rows, measure_rows
from freshet.durable.log import Log, Record, Run
from freshet.durable.record import CATALOG, ROWS, SNAPSHOT, TRANSACTION, json_of, number_of
from freshet.engine.table import MissingRowError, RowChange, Table
from freshet.errors import EvaluationError, StateError
from freshet.logical.query import TableSchema
from freshet.plans import codec
from freshet.state.arrays import Int64s
from freshet.state.heap import read_texts
from freshet.state.rows import Rows

logger = logging.getLogger("freshet")

_TOGETHER = 1 << 18  # rows applied at once
_FIRST = np.zeros(1, np.int64)
_REPORT_INTERVAL = 0.25  # seconds between two messages on the terminal


class Replay:
    """Follows a log from the current version of the database. `catalog` has the log's definitions so far. `only`: the
    one view to maintain."""

    def __init__(self, state: State, views: Views, log: Log, catalog: dict[str, Any], only: str | None = None) -> None:
        self.state = state
        self.views = views
        self.log = log
        self.catalog = catalog
        self._only = only
        self.transactions, self.rows = 0, 0
        self._undone: set[str] = set()  # views to be built at the end
        self._last_report = self._started = time.monotonic()

    def run(self, until: int | None = None) -> bool:
        """Replays all records, or those up to version `until`; whether there were any."""
        start, size = self.log.end, self.log.size
        last = sys.maxsize if until is None else until
        while True:
            run = self.log.run(_TOGETHER, last)
            if run is not None:
                self._take_rows(run)
            else:
                record = next(self.log.records(self.log.end), None)
                if record is None:
                    break
                if record.version > last:
                    self.log.end = record.start
                    break
                self.take(record)
            self._report(self.log.end - start, size - start)
        self.finish()
        return self.log.end > start

    def take(self, record: Record) -> dict[str, Rows]:
        """Replays one record; returns the views' deltas if it is a transaction."""
        if record.kind in (TRANSACTION, ROWS):
            words = np.frombuffer(bytearray(record.payload), np.int64)
            return self._take_rows(Run(words, _FIRST, record.rows, 1, record.version), True)
        if record.kind == CATALOG:
            self._define(json_of(record.payload))
        elif record.kind == SNAPSHOT:
            self._standing(record.version, json_of(record.payload))
        else:
            raise StateError(f"{self.log.path} has a record of unknown kind {record.kind}; use a newer version")
        return {}

    def _take_rows(self, run: Run, deltas: bool = False) -> dict[str, Rows]:
        resolved: dict[str, RowChange] = {}
        given: dict[str, Int64s] = {}
        for name, table in self.state.core.tables.items():
            rows, weights, bases, _held = _gathered(run, table, self.log.path)
            if not len(rows):
                continue
            given[name] = rows
            try:
                resolved[name] = table.resolve(rows, weights, bases)
            except MissingRowError:
                raise StateError(f"{self.log.path} contradicts its own rows; restore it from a copy") from None
        if sum(len(rows) for rows in given.values()) != run.rows:
            raise StateError(f"{self.log.path} changes a table it does not define; restore it from a copy")
        try:
            effects = self.state.core.apply(resolved, deltas=deltas)
        except EvaluationError as e:
            raise StateError(f"{self.log.path}: a view has no answer: {e.reason}; restore it from a copy") from e
        for name, change in resolved.items():
            self.state.core.tables[name].tidy(len(change.removed))
        self.state.count(given, run.version)
        self.rows += run.rows
        self.transactions += run.transactions
        return effects

    def finish(self) -> None:
        """Builds the views that were defined."""
        for key in [k for k in self.catalog["views"] if k in self._undone]:
            self.views.restore(self.catalog["views"][key])
        self._undone.clear()
        self.views.in_order(list(self.catalog["views"]))
        if self.rows and self._only is None:
            self._ended()

    # Definitions ----------------------------------------------------------------------------------------------

    def _define(self, changed: dict[str, Any]) -> None:
        state, views = self.state, self.views
        self.catalog["numbers"] = state.numbers = int(changed["numbers"])
        for key, definition in changed["views"].items():
            if key in views.named:
                views.forget(key)
            self._undone.discard(key)
            state.catalog.views.pop(key, None)
            _set(self.catalog["views"], key, definition)
            if definition is not None and self._only in (None, key):
                self._undone.add(key)
        for key, described in changed["tables"].items():
            _set(self.catalog["tables"], key, described)
            if described is not None and key in state.core.tables:
                self._redefine(key, codec.decode(described["schema"]), int(described["number"]))
                continue
            if key in state.core.tables:
                state.remove_table(key)
            if described is not None:
                state.add_table(codec.decode(described["schema"]), int(described["number"]))

    def _redefine(self, key: str, schema: TableSchema, number: int) -> None:
        """A table that is there is defined again: with other names, with other columns, or as another table."""
        state, current = self.state, number_of(self.state.core.tables[key])
        if number == current:
            state.catalog.add(schema)
        elif schema.altered is not None and schema.altered.number == current:
            for view in self.views.reading({key}):
                self.views.forget(view)
                self._undone.add(view)
            state.alter_table(schema, number).scope.drop()
        else:
            state.remove_table(key)
            state.add_table(schema, number)

    def _standing(self, version: int, facts: dict[str, Any]) -> None:
        """What a snapshot says about its origin."""
        self.state.restore_counts(version, int(facts["changes"]), facts["changed"])

    # Progress ----------------------------------------------------------------------------------------------------

    def _report(self, done: int, of: int) -> None:
        now = time.monotonic()
        if now - self._last_report > _REPORT_INTERVAL and sys.stderr.isatty():
            self._last_report = now
            text = f"freshet: recovering {self.log.path.parent}: {self.rows:,} rows, {done / max(of, 1):.0%}"
            print(text, file=sys.stderr, end="\r", flush=True)

    def _ended(self) -> None:
        spent = time.monotonic() - self._started
        said = f"freshet: recovered {self.log.path.parent} from its log: {self.rows:,} rows in {spent:.1f} s"
        if self._last_report != self._started:
            print(said, file=sys.stderr)
        logger.info("%s, up to version %d", said, self.state.version)


def _gathered(run: Run, table: Table, path: Path) -> tuple[Int64s, Int64s, Int64s | None, pa.Array | None]:
    """All signed rows of a table in a sequence of records, with their texts in the table's pool; plain texts are in the
    last array, from a base on."""
    number = number_of(table)
    n, texts, size = measure_rows(run.words, run.payloads, number, table.width)
    if n < 0:
        raise StateError(f"{path} has rows that do not match their table; open it with the version that wrote it")
    rows, weights = np.empty((n, table.width), np.int64), np.empty(n, np.int64)
    offsets, text = np.zeros(texts + 1, np.int64), np.empty(size, np.uint8)
    lanes = np.array(table.pooled_lanes, np.int64)
    gather_rows(run.words, run.words.view(np.uint8), run.payloads, number, lanes, rows, weights, offsets[1:], text)
    if not texts:
        return rows, weights, None, None
    array = pa.Array.from_buffers(pa.large_string(), texts, [None, pa.py_buffer(offsets), pa.py_buffer(text)])
    plain, bases = _plain(table, array), None
    if plain is not None:
        bases = np.zeros(table.width, np.int64)
        bases[table.plain_lanes] = plain[1]
        rows[:, table.plain_lanes] = plain[0][rows[:, table.plain_lanes], 0]
    if table.text_lanes:
        ids = _interned(table, array, rows)
        for lane in table.text_lanes:
            rows[:, lane] = ids[rows[:, lane]]
    return rows, weights, bases, array


def _plain(table: Table, texts: pa.Array) -> tuple[Int64s, int] | None:
    """The lanes of plain texts, and their base; None if the table has none."""
    if not len(table.plain_lanes):
        return None
    lanes = np.empty((len(texts), 1), np.int64)
    base = read_texts(texts, lanes, 0)
    if base is None:
        table.intern(range(len(table.fields)))
        return None
    return lanes, base


def _interned(table: Table, texts: pa.Array, rows: Int64s) -> Int64s:
    """The ids of the texts that lanes of the pool have."""
    if not len(table.plain_lanes):
        return table.pool.intern(texts)
    used = np.unique(rows[:, table.text_lanes])
    ids = np.zeros(len(texts), np.int64)
    ids[used] = table.pool.intern(texts.take(pa.array(used)))
    return ids


def _set(entries: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        entries.pop(key, None)
    else:
        entries[key] = value
