"""What keeping a view fresh has really cost: counters changed for each change of its tables.

Theory bounds that figure by λ; this is the one that was paid. The engine counts anyway, so nothing is added to a
transaction but the time of day: once a second, before a transaction, the totals are noted down, and the last minute is
the difference between now and the first note in it. Totals go on when a view is rebuilt, without what building took.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from freshet.engine.core import changes_of
from freshet.engine.maintained import Maintained
from freshet.state.arena import Scope

MINUTE = 60.0
_APART = 1.0  # seconds between two notes


@dataclass(frozen=True, slots=True)
class Spent:
    """Changes of a view's tables, and counters changed for them."""

    changes: int
    counters: int

    def since(self, earlier: Spent) -> Spent:
        return Spent(self.changes - earlier.changes, self.counters - earlier.counters)

    def as_dict(self) -> dict[str, Any]:
        per = round(self.counters / self.changes, 3) if self.changes else None
        return {"changes": self.changes, "counters_changed": self.counters, "counters_per_change": per}


class Paid:
    """One view's account. `begun` keeps, beside the view's state, the totals at which it began."""

    def __init__(self, scope: Scope, tables: Mapping[str, Scope]) -> None:
        self.scope = scope
        self._changes = {name: changes_of(table) for name, table in tables.items()}
        self._begun = scope.array("begun", np.int64)
        self._notes: deque[tuple[float, Spent]] = deque()

    def begin(self, kept: Maintained) -> None:
        """The account of a view just made starts at zero."""
        total = self.total(kept)
        self._begun.data[:2] += (total.changes, total.counters)

    def carry(self, before: int, kept: Maintained) -> None:
        """Goes on with a view rebuilt, when its counters had changed `before` times."""
        self._begun.data[1] += kept.work()[0] - before

    def counts(self) -> dict[str, int]:
        """Rows changed in each of the view's tables, since they were made."""
        return {name: int(changes.data[0]) for name, changes in self._changes.items()}

    def total(self, kept: Maintained) -> Spent:
        changes = sum(self.counts().values())
        return Spent(changes - int(self._begun.data[0]), kept.work()[0] - int(self._begun.data[1]))

    def note(self, now: float, kept: Maintained) -> None:
        self._notes.append((now, self.total(kept)))
        while now - self._notes[0][0] > MINUTE:
            self._notes.popleft()

    def last_minute(self, now: float, kept: Maintained) -> Spent:
        """Since the first note of the last minute; without one nothing has happened in it."""
        total = self.total(kept)
        return total.since(next((spent for at, spent in self._notes if now - at <= MINUTE), total))


class Clock:
    """When totals are noted: before a transaction, once a second at most."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self._next = now()

    def due(self) -> float | None:
        """The time, if totals are to be noted now."""
        now = self.now()
        if now < self._next:
            return None
        self._next = now + _APART
        return now
