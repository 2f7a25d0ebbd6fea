"""The page of a running job: its views, updated by the micro-batches of the job."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from freshet.database.change_type import WEIGHT
from freshet.errors import StateError
from freshet.job.file import JobFile
from freshet.spark.snapshot import snapshot
from freshet.web.feed import Settings
from freshet.web.hub import Hub
from freshet.web.mirror import Mirror
from freshet.web.server import Server


class _JobStream:
    """The stream shown on the page of a job: its own queries, without changes."""

    def __init__(self, job: JobFile) -> None:
        self.ddl = ""
        self.queries = dict(job.views)
        self.fixed = dict[str, pa.Table]()

    def rounds(self, mode: str, window: float, size: int) -> Any:
        return iter(())


class JobPage:
    def __init__(self, job: JobFile, master: str, host: str, port: int, token: str | None) -> None:
        self.hub = Hub(Settings(source="files"), _JobStream(job))
        self.hub.fixed_views, self.hub.stream = True, _JobStream(job)
        self.notes = Path(tempfile.mkdtemp(prefix="freshet-page-"))
        self.mirror = Mirror(job.catalog, self.hub.changed, self.notes, master)
        self.hub.engine = self.mirror
        self.server = Server(self.hub, host, port, token)
        self.address = self.server.address
        self.run: Any = None

    def start(self, run: Any) -> None:
        """Before the job's query starts: its views, with the answers they had when it was stopped."""
        self.run = run
        for name, plan in run.plans.items():
            self.mirror.add(name, plan)
            self.hub.watch(name, plan)
        if run.resumed:
            self._recall(run)
        self.hub.begin_sampling()
        self.server.start()

    def _recall(self, run: Any) -> None:
        try:
            found = {name: snapshot(run.spark, run.checkpoint, name).toArrow() for name in run.plans}
        except StateError:  # it was stopped before its first micro-batch
            return
        self.mirror.move({n: t.append_column(WEIGHT, pa.array([1] * t.num_rows, pa.int64())) for n, t in found.items()})

    def take(self, changes: DataFrame, number: int) -> None:
        self.mirror.take(changes)

    def progressed(self) -> None:
        """A micro-batch has ended, and Spark has reported it."""
        self.mirror.progress(self.run.query)

    def close(self) -> None:
        self.hub.cancel()
        self.server.close()
        self.hub.close()
        shutil.rmtree(self.notes, ignore_errors=True)
