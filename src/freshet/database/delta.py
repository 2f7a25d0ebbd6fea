"""The deltas of a transaction.

Law: a delta never changes once it is returned, whatever happens to its view and its database, and any thread may read
it at any time. It owns its rows from the start. Its text consists of ids of the database's pool until it is first read,
and an id stands for the same text until the pool is swept: before that, and before the database closes, every delta
that is still unread is converted (`Unread.settle`). A lock of the delta prevents a race between reader and sweep. It is
held only while one delta is converted to Arrow, and nothing waits for another lock under it, so reading a delta never
waits for a transaction.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from freshet.engine.maintained import Maintained
from freshet.errors import StateError, TooMuchTextError
from freshet.scalar.arrow import to_arrow, to_batches
from freshet.scalar.column import Column
from freshet.scalar.lanes import unpack
from freshet.scalar.types import BIGINT
from freshet.state.arrays import whole_numbers
from freshet.state.rows import Rows


class Delta:
    """One view's change, converted to Arrow when it is first read."""

    __slots__ = ("__weakref__", "_failure", "_lock", "_rows", "_table", "_view")

    def __init__(self, view: Maintained, rows: Rows) -> None:
        self._lock = threading.RLock()  # a signal handler may read it, too
        self._view: Maintained | None = view  # set until they are converted to a table
        self._rows: Rows | None = rows
        self._table: pa.Table | None = None
        self._failure: Exception | None = None
        if not len(rows):
            self._become(view.no_delta)

    def is_empty_of(self, view: Maintained) -> bool:
        return self._table is view.no_delta

    @property
    def borrows(self) -> bool:
        """Whether it still needs the text of the pool."""
        view = self._view
        return view is not None and view.has_text

    def table(self) -> pa.Table:
        with self._lock:
            if self._failure is not None:
                raise StateError(f"the delta was too large to keep: {self._failure}; read deltas as they arrive")
            if self._table is None:
                self._become(self._converted())
            return self._table

    def settle(self) -> None:
        """Converts it to a table now. A failure is not the fault of the current transaction: it is raised to the
        reader."""
        with self._lock:
            if self._table is None and self._failure is None:
                try:
                    self._become(self._converted())
                except (MemoryError, pa.ArrowException) as e:
                    self._failure = e
                    self._view = None
                    self._rows = None

    def _converted(self) -> pa.Table:
        view, rows = self._view, self._rows
        assert view is not None and rows is not None
        schema = view.delta_schema
        if view.written is not None:
            table = view.written.table(np.ascontiguousarray(rows.lanes), rows.weights)
            if table is not None:
                return table
        columns = unpack(rows.lanes, view.types, view.pool)
        try:
            return pa.Table.from_arrays([*map(to_arrow, columns), whole_numbers(rows.weights)], schema=schema)
        except TooMuchTextError:
            read = [*columns, Column(BIGINT, rows.weights)]
            return pa.Table.from_batches(to_batches(read, schema), schema)

    def _become(self, table: pa.Table) -> None:
        self._table = table
        self._view = None
        self._rows = None


class Unread:
    """The deltas that still refer to text, held weakly: most are never read, and are freed before the next sweep."""

    def __init__(self) -> None:
        self._deltas: list[weakref.ref[Delta]] = []
        self._room = 64

    def add(self, delta: Delta) -> None:
        self._deltas.append(weakref.ref(delta))
        if len(self._deltas) > self._room:
            self._deltas = [ref for ref in self._deltas if (known := ref()) is not None and known.borrows]
            self._room = max(64, 2 * len(self._deltas))

    def settle(self) -> None:
        """After this, nothing outside the database refers to its pool."""
        for ref in self._deltas:
            delta = ref()
            if delta is not None:
                delta.settle()
        self._deltas = []


class Deltas(Mapping[str, pa.Table]):
    """The delta of each view by name, ignoring case."""

    __slots__ = ("_deltas",)

    def __init__(self, deltas: dict[str, Delta]) -> None:
        self._deltas = deltas

    def __getitem__(self, name: str) -> pa.Table:
        return self._deltas[name.lower()].table()

    def __iter__(self) -> Iterator[str]:
        return iter(self._deltas)

    def __len__(self) -> int:
        return len(self._deltas)
