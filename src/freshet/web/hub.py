"""What the page shows, kept on the server: the board of views, and the stream that changes them.

Everything a reload needs is here and not in the browser. Transactions are applied on the thread of the feed; pages send
requests from others. `state` and `status` take neither a lock nor a turn at the engine: they return the last known
state at once.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Protocol

import pyarrow as pa

from freshet.database.adapt import adapting
from freshet.demo.scenario import Transaction
from freshet.demo.scenarios import make_scenario
from freshet.errors import FreshetError, PlanError
from freshet.logical.query import TableSchema
from freshet.plans import Plan
from freshet.sql.catalog import Catalog
from freshet.web.board import MOST_VIEWS, Board
from freshet.web.engine import BUDGET, Engine, InProcess
from freshet.web.feed import LEAD, MASTERS, SOURCES, FeedState, Settings, StreamFeed
from freshet.web.turn import BusyError

SAMPLE = 0.25  # seconds between samples, at least
ENDING = 0.5  # seconds that a transaction may take to end when the page is closed
DEFAULTS = {"tpch": ("Q4",), "graph": ("hubs",), "market": ("bids that meet an ask",)}

logger = logging.getLogger("freshet.web")


class ChangeStream(Protocol):
    """Where changes come from: a scenario, or the files of a job."""

    @property
    def ddl(self) -> str: ...

    @property
    def queries(self) -> Mapping[str, str]: ...

    @property
    def fixed(self) -> Mapping[str, pa.Table]: ...

    def rounds(self, mode: str, window: float, size: int) -> Iterator[Transaction]: ...


class Hub(Board):
    """`budget`: seconds of processor time that a view may take for each operation."""

    def __init__(self, settings: Settings, files: ChangeStream | None = None, budget: float = BUDGET) -> None:
        super().__init__()
        self.settings = settings
        self.files = files
        self.budget = budget
        self._own_master = settings.master  # the settings chosen by the user who started the page
        self.message = ""
        self.stream: ChangeStream
        self.feed: StreamFeed | None = None
        self._steering = threading.Lock()  # one change of the settings at a time
        self._sampler = threading.Thread(target=self._sample_on, name="freshet samples", daemon=True)

    # The stream -----------------------------------------------------------------------------------------------

    @property
    def sources(self) -> tuple[str, ...]:
        return (*SOURCES, "files") if self.files is not None else SOURCES

    @property
    def masters(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*MASTERS, self._own_master)))

    def start(self, views: Mapping[str, str | Plan] | None = None, paused: bool = False) -> None:
        """Creates the engine and starts the stream, with the given views or the first examples of the source."""
        chosen = self.settings
        stream: ChangeStream = make_scenario(chosen.source, chosen.scale) if chosen.source != "files" else self._files()
        engine = self._engine(stream)
        with self.lock:
            self.engine = engine
            self.stream = stream
            self.views = {}
            self.message = ""
        if views is None:
            wanted = DEFAULTS.get(chosen.source, tuple(stream.queries)[:MOST_VIEWS])
            views = {_name(title): stream.queries[title] for title in wanted}
        for name, query in views.items():
            try:
                self.create(name, query)
            except FreshetError as e:
                self.message = f"view {name} was left out: {e}"
                self.note(self.message)
        repeat = chosen.repeat and chosen.source != "files"
        here = isinstance(engine, InProcess)  # Spark processes changes at its own pace and must not be flooded
        seen = self._something_to_see if here else lambda: True
        feed = StreamFeed(self._round, self._apply, chosen.speed, repeat, self._stopped, seen)
        self.feed = feed
        feed.start(paused)
        if here and not paused:
            feed.ahead.wait(5 * LEAD)  # so that a page that opens now shows an answer
        self.note(f"the stream begins: {chosen.source}, {chosen.mode}, {chosen.speed:,} a second, {engine.kind}")
        self.begin_sampling()

    def begin_sampling(self) -> None:
        if not self._sampler.is_alive():
            self._sampler.start()

    def _files(self) -> ChangeStream:
        if self.files is None:
            raise PlanError("no files were registered; start with freshet serve job.sql")
        return self.files

    def _engine(self, stream: ChangeStream) -> Engine:
        if self.settings.engine == "spark":
            from freshet.web.spark_engine import SparkEngine

            return SparkEngine(stream.ddl, stream.fixed, self.changed, self.settings.shards, self.settings.master)
        adapt = adapting(self.settings.adapt)
        return InProcess(stream.ddl, stream.fixed, self.changed, self.failed, adapt, self.budget)

    def _round(self) -> Iterator[Transaction]:
        assert self.feed is not None
        return self.stream.rounds(self.settings.mode, self.settings.window, self.feed.size)

    def _apply(self, changes: Transaction) -> int:
        return self.engine.apply(changes)

    def _something_to_see(self) -> bool:
        views = list(self.views.values())
        return not views or any(view.rows > 0 for view in views)

    def _stopped(self, message: str) -> None:
        self.message = message
        if message:
            self.note(message)
        self._notify()

    def restart(self, given: dict[str, Any]) -> None:
        """Applies other settings; views are kept if their tables stay the same."""
        if self.fixed_views:
            raise PlanError("this page shows a running job; change its file and start it again")
        if not self._steering.acquire(blocking=False):
            raise BusyError("the settings are being changed already; try again in a moment")
        try:
            self._restart(self.settings.changed(given, self.sources, self.masters))
        finally:
            self._steering.release()
            self._notify()

    def _restart(self, settings: Settings) -> None:
        if settings == self.settings and self.feed is not None and self.feed.state is FeedState.RUNNING:
            return
        only_speed = asdict(settings) | {"speed": 0} == asdict(self.settings) | {"speed": 0}
        if only_speed and self.feed is not None and self.feed.state is not FeedState.FINISHED:
            self.settings, self.feed.speed = settings, settings.speed
            return
        kept = {v.name: v.sql for v in list(self.views.values())}
        paused, old, before = self.feed is not None and self.feed.state is FeedState.PAUSED, self.engine, self.settings
        old.cancel()
        if self.feed is not None:
            self.feed.close()
        self.settings = settings
        if not isinstance(old, InProcess):
            old.close()  # a process has one Spark session at a time
        try:
            self.start(kept if settings.source == before.source else None, paused)
        except FreshetError:  # it starts again with the previous settings
            self.settings = before
            self.start(kept, paused)
            raise
        finally:
            if isinstance(old, InProcess):
                old.close()  # pages looked at it until now

    def pause(self, paused: bool) -> None:
        if self.feed is None:
            raise PlanError("the job's own sources feed this page; stop the job to stop them")
        (self.feed.pause if paused else self.feed.resume)()
        self.note("the stream was paused" if paused else "the stream goes on")
        self._notify()

    def cancel(self) -> None:
        """Ends whatever is under way; `close` comes next."""
        self._closed.set()
        self.engine.cancel()
        if self.feed is not None:
            self.feed.close(0)

    def close(self) -> bool:
        """Whether everything ended; if not, only the end of the process will stop it."""
        self.cancel()
        ended = self.feed is None or self.feed.close(ENDING)
        return self.engine.close() and ended

    def _sample_on(self) -> None:
        """Samples every view, at most so often that sampling takes a tenth of the time, not counting waiting for the
        engine."""
        rest, seen, odd = SAMPLE, dict[str, int](), set[int]()
        while not self._closed.wait(rest):
            start = time.thread_time()
            try:
                self.engine.refresh()
            except Exception as e:
                logger.debug("the engine's figures are not known: %s", e)
            for view in list(self.views.values()):
                stamp = id(view.history) + view.version
                if view.error is not None or id(view.history) in odd or seen.get(view.name) == stamp:
                    continue
                try:
                    view.history.take(time.time(), self.look(view).table, view.rows)
                    seen[view.name] = stamp
                except FreshetError:  # it has ended, was dropped, or the engine was changed, in between
                    continue
                except Exception:  # then it has no chart
                    logger.exception("view %s could not be sampled", view.name)
                    odd.add(id(view.history))
            rest = max(SAMPLE, 9 * (time.thread_time() - start))

    # Requests of pages ----------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything that a page needs when it opens."""
        catalog: Catalog = self.engine.catalog
        return {
            "settings": asdict(self.settings),
            "sources": list(self.sources),
            "masters": list(self.masters),
            "fixed_views": self.fixed_views,
            "examples": dict(self.stream.queries),
            "tables": {t.name: [f.name for f in t.fields] for t in list(catalog.tables.values())},
            "schema": [_shape(t) for t in list(catalog.tables.values())],
            "log": list(self.log),
            "views": [{"name": v.name, "sql": v.sql, "columns": v.columns} for v in list(self.views.values())],
            **self.status(),
        }

    def status(self) -> dict[str, Any]:
        views = list(self.views.values())
        return {
            "stream": "job" if self.feed is None else self.feed.state,
            "engine": self.engine.kind,
            "message": self.message,
            "health": self.engine.health(),
            "sizes": {v.name: v.rows for v in views},
            "table_rows": self.engine.table_rows(),
            "logged": self.logged,
            "errors": {v.name: v.error for v in views if v.error is not None},
        }


def _shape(table: TableSchema) -> dict[str, Any]:
    columns = [{"name": f.name, "type": str(f.type), "key": i in table.primary_key} for i, f in enumerate(table.fields)]
    return {"name": table.name, "columns": columns}


def _name(title: str) -> str:
    return re.sub(r"\W+", "_", title).strip("_")


def to_json(value: Any) -> str:
    """JSON that browsers can parse: an unpaired surrogate could not be sent."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text if text.isascii() else text.encode(errors="replace").decode()
