"""The state of a database: its tables and operators, its catalog, and its version.

Law: state is what the log says, and nothing else (durable/). A thread that reads or changes it holds `lock`. What
several threads see (catalog, tables, views) changes only while the writer's lock (access.py) is held too, so holding
either lock is enough to rely on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Any

import numpy as np

from freshet.budget import Memory
from freshet.database.state_lock import StateLock
from freshet.durable.record import number_of
from freshet.engine.core import Core, changes_of
from freshet.engine.crew import Crew
from freshet.engine.table import Table
from freshet.logical.query import CLOCK, AnyQuery, TableSchema, is_internal
from freshet.plans import Plan, codec
from freshet.sql.catalog import Catalog
from freshet.state.arena import Arena, Growable

#: Prepares the process for tables, or for a view over them (rehearsal.py).
Rehearse = Callable[[Iterable[TableSchema], tuple[AnyQuery, Plan] | None], None]


def unrehearsed(tables: Iterable[TableSchema], view: tuple[AnyQuery, Plan] | None) -> None:
    """A rehearsal that does nothing."""


class State:
    """`on_disk`: whether definitions are stored on disk."""

    def __init__(
        self, arena: Arena, memory: Memory, on_disk: bool = False, rehearse: Rehearse = unrehearsed,
        crew: Crew | None = None,
    ) -> None:  # fmt: skip
        self.lock = StateLock()
        self.core, self.catalog = Core(arena, crew), Catalog()
        self.memory = memory
        self.on_disk = on_disk
        self.rehearse = rehearse
        self.definitions: dict[str, dict[str, Any]] = {}  # of views, in order of creation, as stored on disk
        self.numbers = 0  # every table and view has its own name in the arena, also after a drop
        self.internal: dict[str, TableSchema] = {}  # tables that are not in the catalog: the clock, and watermarks
        self._changed: dict[str, Growable] = {}  # rows changed in each table
        self.late: dict[str, int] = {}  # late rows of each table that were dropped since the database was opened
        self._meta = arena.array("database", np.int64)
        self.catalog.clock = self.now
        self.given: dict[str, Callable[..., Any]] = {}  # Python functions that views on disk may call, by name
        self.system: Callable[[], int] | None = None  # the time that the clock follows
        self.version, self.changes = int(self._meta.data[0]), int(self._meta.data[1])

    # Version --------------------------------------------------------------------------------------------------

    def restore_counts(self, version: int, changes: int, changed: Mapping[str, int]) -> None:
        """Restores from a log the number of rows changed so far, in total and per table."""
        for name, rows in changed.items():
            self._changed[name].data[0] = rows
        self._move_to(version, changes)

    def count(self, changes: Mapping[str, Sized], version: int) -> None:
        """Called when a transaction has led to this version."""
        total = self.changes
        for name, change in changes.items():
            n = len(change)
            self._changed[name].data[0] += n
            total += n
        self._move_to(version, total)

    def _move_to(self, version: int, changes: int) -> None:
        self.version, self.changes = version, changes
        self._meta.data[0], self._meta.data[1] = version, changes

    def row_counts(self) -> dict[str, float]:
        """Row counts of the tables as an estimate of their updates until more is known; none for an empty database."""
        with self.lock:
            counts = {name: float(t.tuples.live) for name, t in self.core.tables.items()}
            return counts if any(counts.values()) else {}

    # Tables ---------------------------------------------------------------------------------------------------

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def add_table(self, schema: TableSchema, number: int) -> None:
        """A table with the rows in its part of the arena: none if it is new."""
        self.rehearse([schema], None)
        name, table = schema.name.lower(), self.core.table(f"table{number}", schema, plain=True)
        if is_internal(schema):
            self.internal[name] = schema
        else:
            self.catalog.add(schema)
        self.core.tables[name] = table
        self._changed[name] = changes_of(table.scope)

    def alter_table(self, schema: TableSchema, number: int) -> Table:
        """Copies the rows of a table to a new set of columns, as `schema.altered` says; returns the old table, which is
        left unchanged."""
        assert schema.altered is not None
        name, changed = schema.name.lower(), int(self._changed[schema.name.lower()].data[0])
        old = self.core.tables[name]
        table = self.core.table(f"table{number}", schema, plain=True)
        table.fill(old, schema.altered.columns)
        self.catalog.add(schema)
        self.core.tables[name] = table
        self._changed[name] = changes_of(table.scope)
        self._changed[name].data[0] = changed
        return old

    def schema(self, name: str) -> TableSchema:
        """The schema of a table by its name in lower case."""
        return self.internal.get(name) or self.catalog.tables[name]

    def now(self) -> int:
        """The value of NOW() in a statement that runs once: the time of the clock, or of the system if the clock
        follows it."""
        time = self.clock_time()
        return time if self.system is None else max(time, self.system())

    def clock_time(self) -> int:
        """The value of NOW() in views: the time of the clock, 0 until it is set."""
        table = self.core.tables.get(CLOCK.name)
        with self.lock:
            return int(table.tuples.lanes.data[table.tuples.slots()[0], 0]) if table and table.tuples.live else 0

    def take_table(self, name: str) -> None:
        """Removes a table from the catalog; its rows still exist."""
        del self.core.tables[name], self._changed[name]
        self.internal.pop(name, None)
        self.catalog.drop(name)

    def remove_table(self, name: str) -> None:
        table = self.core.tables[name]
        self.take_table(name)
        table.scope.drop()

    # For the disk ---------------------------------------------------------------------------------------------

    def described(self) -> dict[str, Any]:
        """The catalog, as it is stored on disk."""
        tables = {
            name: {"number": number_of(table), "schema": codec.encode(self.schema(name))}
            for name, table in self.core.tables.items()
        }
        return {"numbers": self.numbers, "tables": tables, "views": self.definitions}

    def shared(self) -> dict[str, Any]:
        """The shared queries whose state the arena holds, and which of them each view reads."""
        sharing = self.core.sharing
        queries = [
            {"number": q.number, "plan": codec.encode(q.plan), "joined": q.rows is not None} for q in sharing.queries
        ]
        read = {name: [q.number for q in sharing.read_by(operator)] for name, operator in self.core.operators.items()}
        return {"queries": queries, "read": read}

    def changed_rows(self) -> dict[str, int]:
        return {name: int(rows.data[0]) for name, rows in self._changed.items()}

    def entries(self) -> list[dict[str, Any]]:
        """Everything that a definition changes, except for the arena."""
        catalog = self.catalog
        return [
            self.core.tables, self.core.operators, self._changed, self.definitions, self.internal, catalog.tables,
            catalog.views, catalog.reads,
        ]  # fmt: skip
