"""Runs a job on Spark: one streaming query that maintains all views and writes to all sinks, until it is stopped.

A job whose number of shards follows its rows is moved to more of them while it runs: it finishes what is available,
ends, is rebuilt, and goes on with the next micro-batch of the same query. So sinks see each change once.

After a signal the current micro-batch finishes; a second signal ends the process at once. However the process ends, the
next run with the same checkpoint continues after the last finished micro-batch.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from freshet.errors import FreshetError, StateError
from freshet.job.checkpoint import RECORD, continued, must_rebuild, record
from freshet.job.file import JobFile
from freshet.job.packages import settings_needed
from freshet.job.session import start_spark
from freshet.job.spark_sink import Sinks, Write
from freshet.job.spark_source import source_stream
from freshet.plans import Plan
from freshet.plans import plan as make_plan
from freshet.spark.disputed import AGAIN
from freshet.spark.failure import reason
from freshet.spark.growth import Growing
from freshet.spark.maintain import maintain
from freshet.spark.rebuild import complete
from freshet.spark.record import kept_shards
from freshet.spark.sink.folder import LocalFolder, open_folder

POLL = 0.1
PATIENCE = 30.0  # seconds a batch gets to finish after the first signal
_AVAILABLE = {"availableNow": True}

logger = logging.getLogger("freshet.spark")

#: Called with the progress of a finished micro-batch.
OnProgress = Callable[[Any, Sinks], None]

#: Called with the running query, several times a second.
Beat = Callable[[Any], None]


class JobRun:
    """A running job. `watchers`: functions that are called with all changes of each micro-batch; `notes`: a folder in
    which shards write their sizes and timings; `shards`: None for as many as the rows need."""

    def __init__(
        self, spark: SparkSession, job: JobFile, *, shards: int | None, checkpoint: str,
        plans: Mapping[str, Plan] | None = None, watchers: list[Write] | None = None, arena: str | None = "",
        notes: str | None = None, ready: Callable[[JobRun], None] | None = None, rebuild: bool = False,
    ) -> None:  # fmt: skip
        self.spark = spark
        self.job = job
        self.checkpoint = checkpoint
        self.rebuild = rebuild
        self.arena, self.notes = arena, notes
        self.trigger = _trigger(job.settings.get("trigger", "0 seconds"))
        given = dict(plans or {})
        self.plans, self.resumed, changed = self._claim(_chosen(job, given), set(given), shards)
        self.changes = self._changes(shards, rebuild)
        if changed:
            self._note(shards)
        self.sinks = Sinks(spark, job, self.changes, watchers or [])
        if ready is not None:
            ready(self)
        follows = shards is None and self.trigger != _AVAILABLE
        self.growing = Growing() if follows and isinstance(open_folder(spark, checkpoint), LocalFolder) else None
        self.moving = False
        self.query = self._start(self.trigger)

    def _start(self, trigger: dict[str, Any]) -> StreamingQuery:
        writer = self.sinks.stream(self.changes).writeStream.foreachBatch(self.sinks)
        writer = writer.option("checkpointLocation", self.checkpoint)
        return writer.trigger(**trigger).start()

    def _claim(self, plans: dict[str, Plan], given: set[str], shards: int | None) -> tuple[dict[str, Plan], bool, bool]:
        """Claims the checkpoint for this job, or checks that it already belongs to it or can be rebuilt for it. Returns
        the plans to continue with, whether the checkpoint existed, and whether it belonged to another job."""
        complete(self.spark, self.checkpoint)
        folder = open_folder(self.spark, self.checkpoint)
        now = record(self.job, plans, shards)
        if "://" not in self.checkpoint and str(self.spark.sparkContext.master).startswith("local"):
            os.makedirs(self.checkpoint, 0o700, exist_ok=True)  # workers of a cluster may be other users
        if folder.create(RECORD, now, private=True):
            if "offsets" in folder.names():
                folder.remove(RECORD)
                raise StateError(
                    f"{self.checkpoint} is the checkpoint of a stream that is not a job; give another folder"
                )
            return plans, False, False
        kept = folder.read(RECORD)
        if self.rebuild and must_rebuild(kept, now, self.checkpoint, given):
            return plans, True, True
        return continued(kept, now, self.checkpoint, given), True, False

    def _note(self, shards: int | None) -> None:
        """The checkpoint was rebuilt, and is this job's from now on."""
        folder = open_folder(self.spark, self.checkpoint)
        folder.remove(RECORD)
        folder.create(RECORD, record(self.job, self.plans, shards), private=True)

    def _changes(self, shards: int | None, rebuild: bool) -> DataFrame:
        job = self.job
        streams = {s.schema.name: source_stream(self.spark, job, s) for s in job.sources.values()}
        ordered = {name: found[0] for name, s in job.sources.items() if (found := s.sequence) is not None}
        return maintain(
            self.spark, self.plans, streams, shards=shards, sequence=ordered or None, arena=self.arena,
            on_error=job.settings.get("on_error", "stop"), checkpoint=self.checkpoint, profile=self.notes,
            sizes=None if shards is None else {}, rebuild=rebuild,
        )  # fmt: skip

    def wait(self, stop: threading.Event, on_progress: OnProgress, beat: Beat | None = None) -> None:
        """Waits until the stream ends by itself or is stopped; errors of the stream are raised here. A change that
        can be set aside only by running its batch again does not end the job."""
        shown, noted = -1, set[str]()

        def report() -> None:
            nonlocal shown
            for progress in self.query.recentProgress:
                if progress.batchId > shown and progress.numInputRows:
                    shown = progress.batchId
                    on_progress(progress, self.sinks)
                    if self.growing is not None:
                        self.growing.note(progress)

        while True:
            active = self.query.isActive
            report()
            if not active:
                failure = self.query.exception()
                why = None if failure is None else failure_of(failure)
                if why is None and self.moving:
                    self._move()
                    continue
                if why is None:
                    return
                if AGAIN not in str(why) or str(why) in noted:
                    raise why
                noted.add(str(why))
                self.query, self.moving = self._start(self.trigger), False
                continue
            if not stop.is_set() and self._outgrown():
                self.stop()
                report()
                self.query, self.moving = self._start(_AVAILABLE), True
            stopped = stop.wait(POLL)
            if beat is not None:
                beat(self.query)
            if stopped:
                self.stop()
                return

    def _outgrown(self) -> bool:
        """Whether the query is to end because its rows may need more shards. A query with a last micro-batch that is
        not finished cannot be rebuilt, and one that is stopped may have just begun one, so it is started again to end
        by itself."""
        if self.growing is None or self.moving:
            return False
        shards = kept_shards(self.spark, self.checkpoint)
        most = int(str(self.spark.conf.get("spark.sql.shuffle.partitions")))
        return shards is not None and shards < most and self.growing.may_have_outgrown(shards)

    def _move(self) -> None:
        """Continues the query, which has ended, on as many shards as its rows need."""
        assert self.growing is not None
        before = kept_shards(self.spark, self.checkpoint)
        try:
            self.changes = self._changes(None, rebuild=True)
        except FreshetError as e:
            logger.warning("freshet: the state stays on its shards: %s", e)
            self.changes = self._changes(None, rebuild=False)
        if kept_shards(self.spark, self.checkpoint) == before:
            self.growing.fits()
        else:
            self.growing.moved()
        self.query, self.moving = self._start(self.trigger), False

    def stop(self, patience: float = PATIENCE) -> None:
        """Lets the current micro-batch finish, for at most `patience` seconds."""
        begun, end = self._finished(), time.monotonic() + patience
        while self.query.isActive and self.query.status["isTriggerActive"] and time.monotonic() < end:
            if self._finished() != begun:
                break
            time.sleep(POLL)
        self.query.stop()

    def _finished(self) -> int:
        last = self.query.lastProgress
        return -1 if last is None else int(last.batchId)


def run_job(
    job: JobFile, *, on_progress: OnProgress, plans: Mapping[str, Plan] | None = None, master: str, shards: int | None,
    checkpoint: str, watch: list[Write] | None = None, notes: str | None = None,
    ready: Callable[[JobRun], None] | None = None, stop: threading.Event | None = None, beat: Beat | None = None,
    rebuild: bool = False, partitions: int = 1,
) -> bool:  # fmt: skip
    """Runs a job until it ends or is stopped. Returns whether it continued an earlier run. `shards`: None for as many
    as the rows need, and at most `partitions`."""
    try:
        if not rebuild:
            _check_before(job, dict(plans or {}), shards, checkpoint)
        most = shards or partitions
        with tempfile.TemporaryDirectory(prefix="freshet-") as folder, _session(job, master, most, folder) as spark:
            run = JobRun(
                spark, job, shards=shards, checkpoint=checkpoint, plans=plans, watchers=watch, notes=notes, ready=ready,
                rebuild=rebuild,
            )  # fmt: skip
            run.wait(stop or threading.Event(), on_progress, beat)
            return run.resumed
    except Exception as e:
        shown = job.secrets.redacted(str(e))
        if shown == str(e):
            raise
        raise StateError(shown) from None  # its cause contains the secret, too


@contextmanager
def _session(job: JobFile, master: str, shards: int, folder: str) -> Iterator[SparkSession]:
    """A Spark session for a job. Errors of Spark, and its end, are reported in one sentence."""
    log = Path(folder) / "spark.log"
    own = settings_needed(job) | {k: v for k, v in job.settings.items() if k.startswith("spark.")}
    spark = start_spark(master, shards, log, own, job.settings.get("packages", ""))
    try:
        yield spark
    except (Py4JJavaError, PySparkException) as e:  # its process is alive, and its error has a message
        raise failure_of(e) from e
    except (Py4JError, ConnectionError) as e:
        last = log.read_text(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise StateError(
            f"Spark's own process has ended ({last[0]}); run the job again to continue from its checkpoint"
        ) from e
    finally:
        with suppress(Py4JError, ConnectionError):
            spark.stop()


def _chosen(job: JobFile, given: Mapping[str, Plan]) -> dict[str, Plan]:
    return {name: given.get(name) or make_plan(sql, job.catalog) for name, sql in job.views.items()}


def _check_before(job: JobFile, given: Mapping[str, Plan], shards: int | None, checkpoint: str) -> None:
    """Refuses the checkpoint of another job: before Spark is started if it is on this machine, otherwise afterwards."""
    kept = Path(checkpoint) / RECORD
    if "://" not in checkpoint and kept.is_file():
        continued(kept.read_text(), record(job, _chosen(job, given), shards), checkpoint, set(given))


def on_signals(stop: threading.Event) -> None:
    """SIGINT and SIGTERM request a stop; the second signal ends the process as usual."""

    def asked(number: int, frame: object) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, asked)


def _trigger(text: str) -> dict[str, Any]:
    return _AVAILABLE if text.lower().split() == ["available", "now"] else {"processingTime": text}


def failure_of(error: Exception) -> FreshetError:
    """The message of a failed stream: that of Freshet if there is one, otherwise Spark's first line."""
    text, ours = str(error), reason(error)
    if ours is not None:
        return StateError(ours)
    # Spark's errors have a class in brackets; the innermost one says what happened.
    classed = re.findall(r"\[[A-Z_]+(?:\.[A-Z_]+)?\] [^\n]+", text)
    causes = re.findall(r"Caused by: [\w.$]+: ([^\n]+)", text)
    reasons = [*classed[-1:], *(c for c in causes[-1:] if c not in classed)]
    return StateError("the stream failed: " + (" ".join(reasons) or text.split("\n")[0] or type(error).__name__))


def described(progress: Any, sinks: Sinks) -> dict[str, Any]:
    """A finished micro-batch as JSON data."""
    counts = sinks.counts
    return {
        "version": progress.batchId,
        "changes": progress.numInputRows,
        "milliseconds": dict(progress.durationMs),
        "views": {
            view: {"appeared": counts.appeared.get(view, 0), "vanished": counts.vanished.get(view, 0)}
            for view in counts.rows
        },
    }
