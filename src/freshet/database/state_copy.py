"""State copied for long reads, so that no thread waits for the whole duration of a read.

Law: state is arrays and nothing else. A copy of the arrays of a view, of its tables and of the text is therefore the
view at its current version, attached in the same way as from a checkpoint; no other thread uses it, so reading it needs
no lock. Copying takes far less time than enumerating, and no more memory than the state. So a read starts with the
state itself, under the lock, and usually ends before that matters. When it has taken about as long as a copy would, the
copy is made, the lock is released, and the read starts again over the copy, at the same version. A thread that waits
for a reader waits for about twice the time of copying its state. If there is no memory for a copy, the read continues
under the lock to its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from freshet.budget import Budget, available, given
from freshet.database.state import State
from freshet.engine.core import TEXT, Core
from freshet.engine.maintained import Maintained
from freshet.engine.shared import Shared
from freshet.errors import BudgetError
from freshet.interrupts import Deferred
from freshet.plans.model import AnyPlan

T = TypeVar("T")

_SHORT = 0.05  # seconds that a thread may wait in any case
_A_BYTE = 1e-9  # seconds to copy one byte


class _LongError(Exception):
    """A read under the lock has taken as long as a copy would."""


class _Patience(Budget):
    def look(self) -> None:
        if self._around is not None:
            self._around.look()
        if self.seconds is not None and time.thread_time() - self._begun > self.seconds:
            raise _LongError


class StateCopy:
    """A copy of tables and text, and of the states of views whose prefixes are given, at the current version. It is
    made under the state's lock, used by one thread without it, and released at the end."""

    def __init__(self, state: State, tables: Iterable[str], views: Iterable[str] = ()) -> None:
        shared = _shared(state, views)
        arena = state.core.arena.copied(_prefixes(state, tables, views), state.memory)
        try:
            self.core = Core(arena)
            for name in tables:
                scope = state.core.tables[name].scope.prefix
                self.core.tables[name] = self.core.table(scope, state.schema(name), plain=True)
            for query in shared:
                self.core.sharing.attach(query.number, query.plan, query.rows is not None)
        except BaseException:
            arena.release()
            raise

    def view(self, prefix: str, plan: AnyPlan) -> Maintained:
        return self.core.attach(prefix, plan)

    def release(self) -> None:
        self.core.arena.release()


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """A read: the tables and view states it needs, and how to read them from the state itself (`here`) or from a
    copy."""

    tables: Sequence[str]
    views: Sequence[str]
    here: Callable[[], T]
    there: Callable[[StateCopy], T]


def read(state: State, begin: Callable[[], Reading[T]]) -> T:
    """The result of a read, which `begin` prepares under the lock."""
    with state.lock:
        reading = begin()
        nbytes = sum(state.core.arena.nbytes(prefix) for prefix in _prefixes(state, reading.tables, reading.views))
        patience = _Patience(max(_SHORT, _A_BYTE * nbytes))
        try:
            with patience:
                return reading.here()
        except _LongError:
            given(-patience.given)
            state_copy = _room_permitting(state, reading, nbytes)
            if state_copy is None:
                return reading.here()
    try:
        return reading.there(state_copy)
    finally:
        with Deferred():
            state_copy.release()


def _room_permitting(state: State, reading: Reading[T], nbytes: int) -> StateCopy | None:
    if 2 * nbytes > available():
        return None
    try:
        with Deferred():
            return StateCopy(state, reading.tables, reading.views)
    except (BudgetError, MemoryError):
        return None


def _prefixes(state: State, tables: Iterable[str], views: Iterable[str]) -> tuple[str, ...]:
    scopes = [TEXT, *(state.core.tables[name].scope.prefix for name in tables), *views]
    scopes += [query.scope.prefix for query in _shared(state, views)]
    return tuple(f"{scope}/" for scope in scopes)


def _shared(state: State, views: Iterable[str]) -> list[Shared]:
    """The shared queries that views read, each after those that it reads."""
    sharing = state.core.sharing
    read = {id(query) for view in views for query in sharing.read_by(sharing.roots[view])}
    return [query for query in sharing.queries if id(query) in read]
