"""The measured cost of keeping a view fresh, in steps for each change of its tables (engine/work.py lists them).

`explain` states a bound on these figures; here they are measured. The engine counts steps anyway, so a transaction only
has to read the clock in addition: once a second, before a transaction, the totals are recorded, and the last minute is
the difference between now and the first record in it. Totals continue when a view is rebuilt, without the steps of the
rebuild.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

import numpy as np

from freshet.engine.core import changes_of
from freshet.engine.maintained import Maintained
from freshet.engine.work import FIGURES, Work
from freshet.state.arena import Scope

MINUTE = 60.0
_NOTE_INTERVAL = 1.0  # seconds between two records


@dataclass(frozen=True, slots=True)
class MeasuredWork:
    """The changes of a view's tables, and the steps taken for them."""

    changes: int
    work: Work = field(default_factory=Work)

    @property
    def counters(self) -> int:
        return self.work.counters

    def since(self, earlier: MeasuredWork) -> MeasuredWork:
        return MeasuredWork(self.changes - earlier.changes, self.work - earlier.work)

    def as_dict(self) -> dict[str, Any]:
        paid: dict[str, int | float | None] = {}
        for name, figure in figures(self.work).items():
            paid[name] = figure
            each = name.removesuffix("_changed")
            paid[f"{each}_per_change"] = round(figure / self.changes, 3) if self.changes else None
        return {"changes": self.changes, **paid}


def figures(work: Work) -> dict[str, int]:
    """Steps by kind, and their sum."""
    return {
        "counters_changed": work.counters,
        "joined_rows": work.joined,
        "residual_checks": work.checked,
        "grouped_rows": work.grouped,
        "distinct_rows": work.distinct,
        "ordered_places": work.placed,
        "nested_rows": work.fed,
        "steps": work.steps,
    }


class CostMeter:
    """The measured cost of one view. `begun` stores, next to the view's state, the totals at its start."""

    def __init__(self, scope: Scope, tables: Mapping[str, Scope]) -> None:
        self.scope = scope
        self._changes = {name: changes_of(table) for name, table in tables.items()}
        self._begun = scope.array("begun", np.int64)
        self._notes: deque[tuple[float, MeasuredWork]] = deque()

    def follow(self, name: str, table: Scope) -> None:
        """Called when one of the view's tables has moved."""
        self._changes[name] = changes_of(table)

    def begin(self, kept: Maintained) -> None:
        """The totals of a new view start at zero."""
        total = self.total(kept)
        self._begun.data[0] += total.changes
        self._begin_work(total.work)

    def carry(self, before: Work, kept: Maintained) -> None:
        """Continues the totals of a rebuilt view, which had taken the steps `before`."""
        self._begin_work(kept.work() - before)

    def _begin_work(self, work: Work) -> None:
        self._begun.data[1 : 1 + FIGURES] += astuple(work)

    def counts(self) -> dict[str, int]:
        """Rows changed in each of the view's tables, since the tables were created."""
        return {name: int(changes.data[0]) for name, changes in self._changes.items()}

    def total(self, kept: Maintained) -> MeasuredWork:
        changes = sum(self.counts().values())
        return MeasuredWork(changes - int(self._begun.data[0]), kept.work() - Work.kept(self._begun.data[1:]))

    def note(self, now: float, kept: Maintained) -> None:
        self._notes.append((now, self.total(kept)))
        while now - self._notes[0][0] > MINUTE:
            self._notes.popleft()

    def last_minute(self, now: float, kept: Maintained) -> MeasuredWork:
        """Steps since the first record of the last minute; without a record nothing has happened in it."""
        total = self.total(kept)
        return total.since(next((spent for at, spent in self._notes if now - at <= MINUTE), total))


class Clock:
    """When totals are recorded: before a transaction, at most once a second."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self._next = now()

    def due(self) -> float | None:
        """The time, if totals must be recorded now."""
        now = self.now()
        if now < self._next:
            return None
        self._next = now + _NOTE_INTERVAL
        return now
