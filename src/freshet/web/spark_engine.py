"""The page's views on Spark: transactions become files, one streaming query keeps all views, a mirror shows them.

Adding a view starts a new query, from the first file, with a checkpoint of its own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from freshet.database.change_type import WEIGHT
from freshet.errors import PlanError, StateError
from freshet.job.run import failure_of
from freshet.job.session import start_spark
from freshet.plans import Plan
from freshet.plans import plan as make_plan
from freshet.spark.decode import fields_ddl
from freshet.spark.maintain import maintain
from freshet.sql.catalog import Catalog
from freshet.web.engine import Changed
from freshet.web.mirror import Mirror

AHEAD = 50_000  # changed rows that may be pending for Spark
LOOK = 0.5  # minimal seconds between two reads of Spark's progress


class SparkEngine(Mirror):
    """`spark`: a session to use; without one it has its own, on `master`, which it stops when it is closed."""

    def __init__(
        self, ddl: str, fixed: Mapping[str, pa.Table], changed: Changed, shards: int, master: str = "local[2]",
        spark: SparkSession | None = None,
    ) -> None:  # fmt: skip
        self.folder, self.shards = Path(tempfile.mkdtemp(prefix="freshet-page-")), shards
        super().__init__(Catalog.from_ddl(ddl), changed, self.folder / "notes", master)
        self.owns = spark is None
        try:
            self.spark = spark or start_spark(master, shards, self.folder / "spark.log", {})
        except StateError:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self.query: Any = None
        self.stale = threading.Event()  # the views are not those of the running query
        self.guard = threading.RLock()  # protects the files and the query
        self.moving = threading.Lock()  # protects the copies
        self.files = self.waiting = self.queries = 0
        self.looked = 0.0
        for table in self.catalog.tables.values():
            (self.folder / "in" / table.name.lower()).mkdir(parents=True)
        if fixed:
            self._write(fixed)

    def create(self, name: str, query: str | Plan) -> Plan:
        plan = query if isinstance(query, Plan) else make_plan(query, self.catalog)
        with self.guard:
            if name.lower() in self.copies:
                raise PlanError(f"view {name} already exists; close it first, or choose another name")
            self.stale.set()
            with self.moving:
                self.add(name, plan)
        return plan

    def drop(self, name: str) -> None:
        with self.guard:
            if name.lower() in self.copies:
                self.stale.set()
                with self.moving:
                    self.forget(name)

    def apply(self, changes: Mapping[str, pa.Table]) -> int:
        with self.guard:
            if self.stale.is_set():
                self._begin()
            rows = self._write(changes)
        while self.query is not None and self.query.isActive and self.waiting > AHEAD and not self.stale.is_set():
            time.sleep(0.05)
            self.waiting -= self.progress(self.query)
        if self.query is not None:
            self.waiting -= self.progress(self.query)
            failure = self.query.exception()
            if failure is not None:
                raise failure_of(failure)
        return rows

    def _write(self, changes: Mapping[str, pa.Table]) -> int:
        self.files += 1
        rows = 0
        for name, table in changes.items():
            if WEIGHT not in table.column_names:
                table = table.append_column(WEIGHT, pa.array([1] * table.num_rows, pa.int64()))
            place = self.folder / "in" / name.lower()
            draft = place / f".{self.files:08}"
            pq.write_table(table, draft)
            os.rename(draft, place / f"{self.files:08}.parquet")
            rows += table.num_rows
        self.waiting += rows
        return rows

    def _begin(self) -> None:
        """Starts a query over the current views, from the first file on."""
        if self.query is not None:
            self.query.stop()
        with self.moving:  # later results of the old query are ignored
            self.queries += 1
            self.stale.clear()
            self.empty()
            self.notes.forget()
        self.shown, self.waiting = -1, 0
        if not self.plans:
            self.query = None
            return
        streams = {}
        for table in self.catalog.tables.values():
            reader = self.spark.readStream.schema(f"{fields_ddl(table.fields)}, {WEIGHT} BIGINT")
            streams[table.name] = reader.parquet(str(self.folder / "in" / table.name.lower()))
        place = str(self.folder / f"checkpoint{self.queries}")
        changes = maintain(
            self.spark, dict(self.plans), streams, shards=self.shards, sizes={}, arena=str(self.folder / "arena"),
            checkpoint=place, profile=str(self.notes.folder),
        )  # fmt: skip
        number = self.queries

        def take(batch: DataFrame, _: int) -> None:
            with self.moving:
                if number == self.queries and not self.stale.is_set():
                    self.take(batch)

        self.query = changes.writeStream.foreachBatch(take).option("checkpointLocation", place).start()

    def refresh(self) -> None:
        query = self.query
        if query is not None and time.monotonic() - self.looked > LOOK:  # even if nothing is applied
            self.looked = time.monotonic()
            self.waiting -= self.progress(query)

    def close(self) -> bool:
        with self.guard:
            if self.query is not None:
                self.query.stop()
            if self.owns:
                self.spark.stop()
            ended = super().close()
            shutil.rmtree(self.folder, ignore_errors=True)
            return ended
