"""What the page needs of whatever keeps its views: in this process, or on Spark.

Law: `changed` is called once for each version, in order, with the deltas that lead to it; `answer` is of one version.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import pyarrow as pa

import freshet
from freshet.plans import Plan
from freshet.plans.model import SortPlan
from freshet.sql import Catalog
from freshet.view import Transaction, View
from freshet.web.answer import MOST_ROWS
from freshet.web.health import Meter

#: Takes the version and the delta of each view that changed.
Changed = Callable[[int, Mapping[str, pa.Table]], None]


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
        """One transaction; how many rows it changes."""

    def answer(self, name: str) -> tuple[int, pa.Table, bool]:
        """Version, rows, and whether these are all."""

    def count(self, name: str) -> int: ...

    def explain(self, name: str) -> dict[str, Any]:
        """The plan in words, with counters where the engine has them."""

    def health(self) -> dict[str, Any]: ...

    def close(self) -> None: ...


class InProcess:
    kind = "in-process"

    def __init__(
        self, ddl: str, fixed: Mapping[str, pa.Table], changed: Changed, adapt: bool | freshet.Adapt = True
    ) -> None:
        self.db, self.meter, self._changed = freshet.connect(adapt=adapt), Meter(), changed
        self.db.execute(ddl)
        if fixed:
            self.db.apply(fixed)

    @property
    def catalog(self) -> Catalog:
        return self.db.catalog

    @property
    def version(self) -> int:
        return self.db.version

    def create(self, name: str, query: str | Plan) -> Plan:
        return self.db.create_view(name, query).plan

    def drop(self, name: str) -> None:
        with self.db.lock:
            quoted = name.replace("`", "``")
            self.db.execute(f"DROP VIEW `{quoted}`")

    def apply(self, changes: Mapping[str, pa.Table]) -> int:
        rows = sum(int(t.num_rows) for t in changes.values())
        start = time.perf_counter()
        tx = self.db.apply(changes)
        self.meter.add(rows, time.perf_counter() - start)
        self.meter.tables.update({name.lower(): int(t.num_rows) for name, t in changes.items()})
        self._changed(tx.version, _told(tx))
        return rows

    def answer(self, name: str) -> tuple[int, pa.Table, bool]:
        with self.db.lock:
            view = self.db.view(name)
            return self.db.version, *read_view(view)

    def count(self, name: str) -> int:
        return self.db.view(name).count()

    def explain(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.db.view(name).explain("json"))
        return found

    def health(self) -> dict[str, Any]:
        """The database's metrics, with what all views paid together, and the time transactions take."""
        found = self.db.metrics()
        views = list(found["views"].values())
        paid = {
            "counters_per_change": _per_change(views),
            "counters_per_change_minute": _per_change([v["last_minute"] for v in views]),
        }
        return {**found, **self.meter.figures(), **paid}

    def close(self) -> None:
        self.db.close()


def _per_change(spent: list[dict[str, Any]]) -> float | None:
    changes = sum(each["changes"] for each in spent)
    return round(sum(each["counters_changed"] for each in spent) / changes, 3) if changes else None


def read_view(view: View) -> tuple[pa.Table, bool]:
    """The answer, or its first rows, and whether these are all. The database's lock is held. What is too large to be
    shown whole is not sorted either."""
    batches, rows = [], 0
    ordered = not isinstance(view.plan.root, SortPlan) or view.count() <= MOST_ROWS
    for batch in view.batches(ordered=ordered):
        batches.append(batch)
        rows += batch.num_rows
        if rows >= MOST_ROWS:
            return pa.Table.from_batches(batches, view.schema).slice(0, MOST_ROWS), False
    return pa.Table.from_batches(batches, view.schema), True


def _told(tx: Transaction) -> dict[str, pa.Table]:
    found = {name: tx.deltas[name] for name in tx.deltas}
    return {name: delta for name, delta in found.items() if delta.num_rows}
