"""The interface between the page and the engine that maintains its views, in this process or on Spark.

Law: `changed` is called once for each version, in order, with the deltas that lead to it; `look` reads a single
version. `health` and `catalog` answer at once, whatever the engine is doing; everything else may take as long as a
budget lasts.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

import freshet
from freshet.budget import Budget
from freshet.database.db import inside
from freshet.database.transaction import Transaction
from freshet.database.view import View
from freshet.errors import FreshetError
from freshet.plans import Plan
from freshet.plans.model import SortPlan
from freshet.sql.catalog import Catalog
from freshet.web.answer import MOST_BYTES, MOST_ROWS
from freshet.web.contained import Contained, reason_of
from freshet.web.health import Meter
from freshet.web.turn import PATIENCE, BusyError, Turn

#: Takes the version and the delta of each view that changed.
Changed = Callable[[int, Mapping[str, pa.Table]], None]

#: Takes the name of a view that has failed, and why.
Failed = Callable[[str, str], None]

BUDGET = 5.0  # seconds of processor time for a view: to create it, to read it, to maintain it in one transaction
_MEMORY = max(1 << 29, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4)
_CHUNK = 4_096  # rows read at a time: texts may be long
_REMEDY = "select less, or start the page with a larger --budget"


@dataclass(frozen=True, slots=True)
class Look:
    """A view as it was at one version: its answer, or the first rows of it, and its plan in words with counters."""

    version: int
    table: pa.Table
    whole: bool
    plan: dict[str, Any]


class Engine(Protocol):
    meter: Meter
    kind: str

    @property
    def catalog(self) -> Catalog:
        """The tables a query may read."""

    @property
    def version(self) -> int: ...

    def create(self, name: str, query: str | Plan) -> Plan: ...

    def drop(self, name: str) -> None: ...

    def apply(self, changes: Mapping[str, pa.Table]) -> int:
        """Applies one transaction; returns the number of rows changed."""

    def look(self, name: str, patience: float = PATIENCE) -> Look: ...

    def count(self, name: str) -> tuple[int, int]:
        """The version, and the number of rows in the answer."""

    def health(self) -> dict[str, Any]:
        """The last known figures, without waiting."""

    def table_rows(self) -> dict[str, int]:
        """The last known number of distinct rows of each table; unknown tables are left out."""

    def refresh(self) -> None:
        """Updates the figures that `health` returns."""

    def cancel(self, name: str | None = None) -> None:
        """Cancels the creation of a view; without a name, everything under way."""

    def close(self) -> bool:
        """Whether it ended; otherwise something is still running, and only the end of the process will stop it."""


class InProcess:
    kind = "in-process"

    def __init__(
        self, ddl: str, fixed: Mapping[str, pa.Table], changed: Changed, failed: Failed,
        adapt: bool | freshet.Adapt = True, seconds: float = BUDGET,
    ) -> None:  # fmt: skip
        self.db = freshet.connect(adapt=adapt)
        inside(self.db).state.core.sharing.enabled = False  # views fail, and spend their budgets, one by one
        self.meter = Meter()
        self.seconds = seconds
        self._changed, self._failed = changed, failed
        self._turn = Turn()
        self._making: dict[str, Budget] = {}
        self._reading: Budget | None = None
        self._keeping: list[Budget] = []  # one a view; stored here: the database may be busy when all are cancelled
        self._cancelled = False
        self.db.execute(ddl)
        if fixed:
            self.db.apply(fixed)
        self._metrics: dict[str, Any] = {}
        self._rows: dict[str, int] = {}
        self._find_out()

    @property
    def catalog(self) -> Catalog:
        return self.db.catalog

    @property
    def version(self) -> int:
        return self.db.version

    def _budget(self) -> Budget:
        made = Budget(self.seconds, _MEMORY, _REMEDY)
        if self._cancelled:
            made.cancel("it was cancelled")
        return made

    # Views ----------------------------------------------------------------------------------------------------

    def create(self, name: str, query: str | Plan) -> Plan:
        budget = self._making[name.lower()] = self._budget()
        try:
            with self._turn.taken(), budget:
                view = self.db.create_view(name, query)
                self._contain()
                self._find_out()
                return view.plan
        finally:
            del self._making[name.lower()]

    def _contain(self) -> None:
        """Contains the failures of every view, also of one that has switched to another join tree since."""
        operators = inside(self.db).state.core.operators
        for name, operator in operators.items():
            if not isinstance(operator, Contained):
                operators[name] = Contained(operator, self._budget())
        self._keeping = [each.budget for each in operators.values() if isinstance(each, Contained)]

    def drop(self, name: str) -> None:
        with self._turn.taken():
            self._drop(name)
            self._find_out()

    def _drop(self, name: str) -> None:
        quoted = name.replace("`", "``")
        self.db.execute(f"DROP VIEW IF EXISTS `{quoted}`")

    def look(self, name: str, patience: float = PATIENCE) -> Look:
        with self._turn.taken(patience), self._budget() as self._reading:
            view = self.db.view(name)
            plan: dict[str, Any] = json.loads(view.explain("json"))
            return Look(self.db.version, *read_view(view), plan)

    def count(self, name: str) -> tuple[int, int]:
        with self._turn.taken(), self._budget() as self._reading:
            return self.db.version, self.db.view(name).count()

    # Transactions ---------------------------------------------------------------------------------------------

    def apply(self, changes: Mapping[str, pa.Table]) -> int:
        rows = sum(int(t.num_rows) for t in changes.values())
        with self._turn.taken(None):
            self._contain()
            start = time.perf_counter()
            with self._budget():  # for work outside of views: switching to another join tree
                tx = self.db.apply(changes)
            self.meter.add(rows, time.perf_counter() - start)
            deltas, failures = self._outcome(tx)
            self._find_out()
        self.meter.tables.update({name.lower(): int(t.num_rows) for name, t in changes.items()})
        for name, reason in failures.items():
            self._failed(name, reason)
        self._changed(tx.version, deltas)
        return rows

    def _outcome(self, tx: Transaction) -> tuple[dict[str, pa.Table], dict[str, str]]:
        """The deltas that are not empty; and the views that have failed, which end here, with the reason."""
        deltas, failures = dict[str, pa.Table](), dict[str, str]()
        for name, kept in list(inside(self.db).state.core.operators.items()):
            try:
                delta = tx.deltas[name]
            except Exception as e:
                failures[name] = reason_of(e)
                continue
            if isinstance(kept, Contained) and kept.failure is not None:
                failures[name] = kept.failure
            elif delta.num_rows:
                deltas[name] = delta
        for name in failures:
            with suppress(FreshetError):  # another view may read it, and ends when it is next read
                self._drop(name)
        return deltas, failures

    # Health ---------------------------------------------------------------------------------------------------

    def table_rows(self) -> dict[str, int]:
        return self._rows

    def _find_out(self) -> None:
        """Called while holding the turn: nobody else uses the database meanwhile."""
        self._metrics = self.db.metrics()
        self._rows = {name: int(table.tuples.live) for name, table in inside(self.db).state.core.tables.items()}

    def health(self) -> dict[str, Any]:
        """The database's metrics, with what all views paid together, and the time transactions take."""
        views = list(self._metrics["views"].values())
        paid = {
            "counters_per_change": _per_change(views),
            "counters_per_change_minute": _per_change([v["last_minute"] for v in views]),
        }
        return {**self._metrics, **self.meter.figures(), **paid}

    def refresh(self) -> None:
        with self._turn.taken():
            self._find_out()

    # The end --------------------------------------------------------------------------------------------------

    def cancel(self, name: str | None = None) -> None:
        if name is not None:
            making = self._making.get(name.lower())
            if making is not None:
                making.cancel("it was cancelled")
            return
        self._cancelled = True
        for budget in (*self._making.values(), *self._keeping, self._reading):
            if budget is not None:
                budget.cancel("it was cancelled")

    def close(self) -> bool:
        """Nothing is stored, so work that does not end soon is abandoned."""
        self.cancel()
        try:
            with self._turn.taken(0.5):
                self.db.close()
            return True
        except BusyError:
            return False


def _per_change(spent: list[dict[str, Any]]) -> float | None:
    changes = sum(each["changes"] for each in spent)
    return round(sum(each["counters_changed"] for each in spent) / changes, 3) if changes else None


def read_view(view: View) -> tuple[pa.Table, bool]:
    """The answer, or its first rows, and whether these are all. The view does not change meanwhile. An answer that is
    too large to be shown whole is not sorted."""
    batches, rows, size = [], 0, 0
    ordered = not isinstance(view.plan.root, SortPlan) or view.count() <= MOST_ROWS
    for batch in view.batches(_CHUNK, ordered=ordered):
        batches.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= MOST_ROWS or size >= MOST_BYTES:
            return pa.Table.from_batches(batches, view.schema).slice(0, MOST_ROWS), False
    return pa.Table.from_batches(batches, view.schema), True
