"""Copies of views that are maintained on Spark: a copy of each answer in this process, updated with deltas.

A copy is a bag: a table without key in a database of its own, to which every delta is a transaction.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

import freshet
from freshet.database.change_type import WEIGHT
from freshet.database.view import View
from freshet.errors import PlanError
from freshet.logical.query import Field, TableSchema
from freshet.plans import Plan
from freshet.plans.document import table_ddl
from freshet.plans.explain import as_dict
from freshet.spark.maintain import split
from freshet.sql.catalog import Catalog
from freshet.web.engine import Changed, Look, read_view
from freshet.web.health import Meter
from freshet.web.shard_notes import ShardNotes
from freshet.web.turn import PATIENCE, Turn

#: Steps of a micro-batch as Spark names them, in words.
STAGES = {
    "latestOffset": "look for changes",
    "getBatch": "take them",
    "queryPlanning": "plan the batch",
    "addBatch": "run it",
    "walCommit": "note its beginning",
    "commitOffsets": "note its end",
    "triggerExecution": "all together",
}
ON_DISK = "rocksdbSstFileSize"  # bytes of a state store's files


class Mirror:
    kind = "Spark"

    def __init__(self, catalog: Catalog, changed: Changed, notes: Path, master: str) -> None:
        """`notes`: the folder that `maintain` was given as `profile`; `master`: Spark's."""
        self.catalog = catalog
        self.meter = Meter()
        self._changed = changed
        self.master = master
        self.notes, self.reading = ShardNotes(notes), threading.Lock()
        self.db, self._turn = freshet.connect(), Turn()
        self.plans: dict[str, Plan] = {}
        self.copies: dict[str, str] = {}  # view in lower case to the table that is its copy
        self.made = 0
        self.shown = -1  # the last micro-batch whose progress was read
        self.known = self._figures({}, 0)

    @property
    def version(self) -> int:
        return self.db.version

    def add(self, name: str, plan: Plan) -> None:
        self.made += 1
        copy = f"copy{self.made}"
        self.plans[name], self.copies[name.lower()] = plan, copy
        columns = tuple(Field(f.name, f.type, True) for f in plan.root.fields)
        self.db.execute(table_ddl(TableSchema(copy, columns)))
        self.db.create_view(f"{copy}_rows", f"SELECT * FROM {copy}")

    def forget(self, name: str) -> None:
        copy = self.copies.pop(name.lower())
        self.plans.pop(name)
        self.db.execute(f"DROP VIEW {copy}_rows")
        self.db.execute(f"DROP TABLE {copy}")

    def create(self, name: str, query: str | Plan) -> Plan:
        raise PlanError("the views are those of the running job; add one to its file")

    def drop(self, name: str) -> None:
        raise PlanError("the views are those of the running job; take one out of its file")

    def apply(self, changes: Mapping[str, pa.Table]) -> int:
        raise PlanError("the changes are those of the running job's sources")

    def empty(self) -> None:
        """The answers as they are before any change."""
        with self._turn.taken(None):
            gone = {name: self._rows(name).to_arrow() for name in self.plans}
        self.move({n: t.append_column(WEIGHT, pa.array([-1] * t.num_rows, pa.int64())) for n, t in gone.items()})

    def take(self, changes: DataFrame) -> None:
        """Applies the changes of a micro-batch, as `maintain` returns them for several views."""
        self.move({name: split(changes, name).toArrow() for name in self.plans})

    def move(self, deltas: Mapping[str, pa.Table]) -> None:
        given = {self.copies[name.lower()]: delta for name, delta in deltas.items() if delta.num_rows}
        with self._turn.taken(None):
            tx = self.db.apply(given)
            changed = {name: tx.deltas[f"{self.copies[name.lower()]}_rows"] for name in deltas}
        self._changed(tx.version, {name: delta for name, delta in changed.items() if delta.num_rows})

    def look(self, name: str, patience: float = PATIENCE) -> Look:
        with self._turn.taken(patience):
            return Look(self.db.version, *read_view(self._rows(name)), self._explain(name))

    def count(self, name: str) -> tuple[int, int]:
        with self._turn.taken():
            return self.db.version, self._rows(name).count()

    def _rows(self, name: str) -> View:
        return self.db.view(f"{self.copies[name.lower()]}_rows")

    def _explain(self, name: str) -> dict[str, Any]:
        with self.reading:
            standings = self.notes.standings([p.root for p in self.plans.values()])
        for (view, plan), standing in zip(self.plans.items(), standings, strict=True):
            if view.lower() == name.lower():
                return as_dict(plan.root, standing)
        raise PlanError(f"no view {name}; the views are {', '.join(self.plans)}")

    def progress(self, query: Any) -> int:
        """Reads the progress of micro-batches finished since the last call; returns the number of rows they read."""
        with self.reading:
            news = [p for p in query.recentProgress if p.batchId > self.shown and p.numInputRows]
            if not news:
                return 0
            for p in news:
                self.meter.add(p.numInputRows, p.durationMs.get("triggerExecution", 0) / 1000)
            last = news[-1]
            self.shown = last.batchId
            self.notes.read()
            self.meter.tables = Counter(self.notes.tables)
            stages = {STAGES[k]: int(v) for k, v in last.durationMs.items() if k in STAGES}
            stages |= {f"{STAGES['addBatch']} · {step}": ms for step, ms in self.notes.spent(len(news)).items()}
            state_bytes = sum(int(o.customMetrics.get(ON_DISK, 0)) for o in last.stateOperators)
            self.known = self._figures(stages, state_bytes)
            return sum(p.numInputRows for p in news)

    def _figures(self, stages: dict[str, int], state_bytes: int) -> dict[str, Any]:
        flow = self.notes.dataflow()
        return {
            "stages": stages, "tuples": self.notes.tuples, **self.notes.paid(), "state_bytes": state_bytes or None,
            "dataflow": None if flow is None else {"master": self.master, **flow},
        }  # fmt: skip

    def table_rows(self) -> dict[str, int]:
        """Tables are in the shards, which count the tuples that views need."""
        return {}

    def health(self) -> dict[str, Any]:
        return {**self.meter.figures(), "version": self.version, **self.known}

    def refresh(self) -> None:
        """Does nothing: the job reports its own progress."""

    def cancel(self, name: str | None = None) -> None:
        """Does nothing: work under way belongs to Spark and ends with its query."""

    def close(self) -> bool:
        self.db.close()
        return True
