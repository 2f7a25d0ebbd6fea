"""Reads a view's answer for its public class: batch by batch, as a whole, or counted.

Law: code that touches state holds the lock of the state, or reads a copy of it (state_copy.py). A read that spans
several batches raises StateError as soon as the view is no longer the one it began with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa

from freshet.database.access import Access
from freshet.database.kept_view import KeptView
from freshet.database.reading import as_schema, following, unchanging, whole
from freshet.database.state_copy import Reading, StateCopy, read
from freshet.engine.maintained import Maintained
from freshet.errors import StateError
from freshet.interrupts import Deferred, deliver
from freshet.scalar.column import Column

T = TypeVar("T")


class ViewReader:
    def __init__(self, access: Access, kept: KeptView) -> None:
        self._access = access
        self._state = access.state
        self._kept = kept

    def check_open(self) -> None:
        self._access.check_open()
        if self._kept.closed:
            raise StateError(f"view {self._kept.name} was dropped; create it again")

    def batches(self, rows: int, ordered: bool) -> Iterator[pa.RecordBatch]:
        """Batches of the current answer, as long as it does not change."""
        columns: Iterator[list[Column]] | None = None
        check = self.check_open
        while True:
            deliver()  # between two batches: a kernel must not return its result into a signal handler's exception
            with self._state.lock, Deferred():
                check()
                if columns is None:
                    columns, check = _columns(self._kept.operator, rows, ordered), self._unchanged()
                batches = following(columns, as_schema(self._kept.plan.root.fields))
            if batches is None:
                return
            yield from batches

    def copied(self, rows: int, ordered: bool) -> Iterator[pa.RecordBatch]:
        """Batches of a copy of the answer, which later transactions do not affect."""
        with self._state.lock, Deferred():
            self.check_open()
            plan, prefix = self._kept.plan.root, self._kept.operator.scope.prefix
            state_copy = StateCopy(self._state, self._kept.tables(), [prefix])
        try:
            with Deferred():
                columns = _columns(state_copy.view(prefix, plan), rows, ordered)
            while True:
                deliver()
                with Deferred():
                    batches = following(columns, as_schema(plan.fields))
                if batches is None:
                    return
                yield from batches
        finally:
            state_copy.release()

    def whole(self, version: int | None = None) -> pa.Table | None:
        """The whole answer; None if the view is not at that version."""

        def answer(operator: Maintained, check: Callable[[], None]) -> pa.Table:
            return whole(operator, self._kept.plan.root.fields, self._state.memory, check)

        return self._read(answer, version)

    def count(self) -> int:
        def counted(operator: Maintained, _: object) -> int:
            with Deferred():
                return operator.count()

        try:
            number = self._read(counted)
            assert number is not None
            return number
        finally:
            deliver()

    def _unchanged(self) -> Callable[[], None]:
        """A check that raises StateError once the view is no longer as it is now."""
        version, operator, moves = self._state.version, self._kept.operator, self._state.lock.moves

        def check() -> None:
            self.check_open()
            if self._state.version != version:
                raise StateError(
                    f"the view changed from version {version} to {self._state.version} while it was read; "
                    "read it again, take it at once with to_arrow(), or read a copy with batches(copy=True)"
                )
            if self._state.lock.moves != moves:
                raise StateError(
                    "a transaction has changed the view while it was read, or was undone for its readers; "
                    "read it again, take it at once with to_arrow(), or read a copy with batches(copy=True)"
                )
            if self._kept.operator is not operator:
                raise StateError("the view was rebuilt while it was read; read it again")

        return check

    def _read(self, use: Callable[[Maintained, Callable[[], None]], T], version: int | None = None) -> T | None:
        """The result of `use` on the view's state, or on a copy of it; `use` also receives a check to call meanwhile.
        None if the view is not at that version."""

        def begin() -> Reading[T | None]:
            self.check_open()
            kept, operator, plan, check = self._kept, self._kept.operator, self._kept.plan.root, self._unchanged()
            prefix = operator.scope.prefix
            if version not in (None, self._state.version):
                return Reading((), (), lambda: None, lambda _: None)
            return Reading(
                kept.tables(),
                [prefix],
                lambda: use(operator, check),
                lambda state_copy: use(state_copy.view(prefix, plan), unchanging),
            )

        return read(self._state, begin)


def _columns(operator: Maintained, rows: int, ordered: bool) -> Iterator[list[Column]]:
    return operator.batches(rows) if ordered else operator.unordered(rows)
