"""The deltas of a transaction.

Law: a delta never changes once it is handed out, whatever becomes of its view and its database, and any thread may read
it at any time. Its rows are its own from the start. Its text is ids of the database's pool until somebody looks, and an
id stands for the same text until the pool is swept: before that, and before the database closes, every delta that is
still unread is read (`Unread.settle`). A delta's lock keeps the two apart. It is held while one delta becomes Arrow and
nothing else is waited for under it, so reading a delta never waits for a transaction.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping

import pyarrow as pa

from freshet.engine.maintained import Maintained
from freshet.errors import StateError, TooMuchTextError
from freshet.scalar.arrow import to_batches
from freshet.scalar.column import Column
from freshet.scalar.lanes import packed_to_arrow, unpack
from freshet.scalar.types import BIGINT
from freshet.state.rows import Rows


class Delta:
    """One view's change, turned into Arrow when somebody looks."""

    __slots__ = ("__weakref__", "_failure", "_lock", "_rows", "_table", "_view")

    def __init__(self, view: Maintained, rows: Rows) -> None:
        self._lock = threading.RLock()  # a signal handler may look, too
        self._view: Maintained | None = view  # these two until they are a table
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
                raise StateError(f"the delta was too large to be kept: {self._failure}; read deltas as they come")
            if self._table is None:
                self._become(self._converted())
            return self._table

    def settle(self) -> None:
        """Makes the table now. What cannot be made is not the present transaction's fault: whoever looks is told."""
        with self._lock:
            if self._table is None and self._failure is None:
                try:
                    self._become(self._converted())
                except (MemoryError, pa.ArrowException) as e:
                    self._failure, self._view, self._rows = e, None, None

    def _converted(self) -> pa.Table:
        view, rows = self._view, self._rows
        assert view is not None and rows is not None
        schema = view.delta_schema
        try:
            columns = packed_to_arrow(rows.lanes, view.types, view.pool)
        except TooMuchTextError:
            read = [*unpack(rows.lanes, view.types, view.pool), Column(BIGINT, rows.weights)]
            return pa.Table.from_batches(to_batches(read, schema), schema)
        return pa.Table.from_arrays([*columns, pa.array(rows.weights)], schema=schema)

    def _become(self, table: pa.Table) -> None:
        self._table, self._view, self._rows = table, None, None


class Unread:
    """The deltas that still borrow text, held weakly: most are never looked at, and are gone before the next sweep."""

    def __init__(self) -> None:
        self._found: list[weakref.ref[Delta]] = []
        self._room = 64

    def add(self, delta: Delta) -> None:
        self._found.append(weakref.ref(delta))
        if len(self._found) > self._room:
            self._found = [ref for ref in self._found if (known := ref()) is not None and known.borrows]
            self._room = max(64, 2 * len(self._found))

    def settle(self) -> None:
        """From here on nobody outside the database refers to its pool."""
        for ref in self._found:
            delta = ref()
            if delta is not None:
                delta.settle()
        self._found = []


class Deltas(Mapping[str, pa.Table]):
    """The delta of each view by name; names ignore case."""

    __slots__ = ("_found",)

    def __init__(self, found: dict[str, Delta]) -> None:
        self._found = found

    def __getitem__(self, name: str) -> pa.Table:
        return self._found[name.lower()].table()

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)
