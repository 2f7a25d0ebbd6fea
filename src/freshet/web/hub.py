"""What the page shows, kept on the server: the stream, the views, their histories and deltas.

Everything a reload needs is here and not in the browser. Transactions come on the feed's thread; pages ask from
others. The answer of a view is read at most once a version, and only when a page looks or a sample is due.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from freshet.adapt import adapting
from freshet.demo.scenario import Transaction
from freshet.demo.scenarios import make_scenario
from freshet.errors import FreshetError, PlanError, SqlError
from freshet.plans import Plan
from freshet.plans import plan as make_plan
from freshet.plans.explain import as_dict
from freshet.sql.catalog import Catalog
from freshet.web.answer import Window, delta_rows, groups_of, keys_of, measures_of, show
from freshet.web.engine import Engine, InProcess
from freshet.web.feed import SOURCES, Feed, Settings
from freshet.web.history import ROWS, History

MOST_VIEWS = 12
MOST_TEXT = 200_000
MOST_SQL = 20_000
FEED = 100  # changes of the raw delta feed that are kept
ROW_COUNT = "rows of the answer"  # what a chart can show of any view
SAMPLE = 0.25  # seconds between samples, at least
DEFAULTS = {"tpch": ("Q4",), "graph": ("hubs",), "market": ("bids that meet an ask",)}

logger = logging.getLogger("freshet.web")


class Stream(Protocol):
    """Where changes come from: a scenario, or the files of a job."""

    @property
    def ddl(self) -> str: ...

    @property
    def queries(self) -> Mapping[str, str]: ...

    @property
    def fixed(self) -> Mapping[str, pa.Table]: ...

    def rounds(self, mode: str, window: float, size: int) -> Iterator[Transaction]: ...


@dataclass(slots=True)
class Watched:
    """A view on the page."""

    name: str
    sql: str
    plan: Plan
    history: History
    rows: int = 0
    version: int = 0
    appeared: int = 0
    vanished: int = 0
    recent: deque[tuple[int, int, list[str | None]]] = field(default_factory=lambda: deque(maxlen=FEED))
    cached: tuple[int, pa.Table, bool] | None = None

    @property
    def columns(self) -> list[dict[str, Any]]:
        keys = keys_of(self.plan.root)
        return [
            {"name": f.name, "type": str(f.type), "number": f.type.is_numeric, "key": i in keys}
            for i, f in enumerate(self.plan.root.fields)
        ]


class Hub:
    def __init__(self, settings: Settings, files: Stream | None = None) -> None:
        self.settings, self.files = settings, files
        self.lock = threading.RLock()
        self.views: dict[str, Watched] = {}
        self.listeners: list[Callable[[], None]] = []
        self.message = ""
        self.engine: Engine
        self.stream: Stream
        self.feed: Feed | None = None
        self.fixed_views = False  # a page beside a job shows the job's views, no others
        self._sampled = 0.0
        self._closed = threading.Event()
        self._sampler = threading.Thread(target=self._sample_on, name="freshet samples", daemon=True)

    # The stream -----------------------------------------------------------------------------------------------

    @property
    def sources(self) -> tuple[str, ...]:
        return (*SOURCES, "files") if self.files is not None else SOURCES

    def start(self, views: Mapping[str, str | Plan] | None = None, paused: bool = False) -> None:
        """Makes the engine and sets the stream going, with the given views or the source's first examples."""
        chosen = self.settings
        stream: Stream = make_scenario(chosen.source, chosen.scale) if chosen.source != "files" else self._files()
        engine = self._engine(stream)
        with self.lock:
            self.engine, self.stream, self.views, self.message = engine, stream, {}, ""
        if views is None:
            wanted = DEFAULTS.get(chosen.source, tuple(stream.queries)[:MOST_VIEWS])
            views = {_name(title): stream.queries[title] for title in wanted}
        for name, query in views.items():
            try:
                self.create(name, query)
            except FreshetError as e:
                self.message = f"view {name} was left out: {e}"
        feed = Feed(self._round, self._apply, chosen.speed, chosen.repeat and chosen.source != "files", self._failed)
        self.feed = feed
        feed.start(paused)
        self.begin_sampling()

    def begin_sampling(self) -> None:
        if not self._sampler.is_alive():
            self._sampler.start()

    def _files(self) -> Stream:
        if self.files is None:
            raise PlanError("no files were registered; start with freshet serve job.sql")
        return self.files

    def _engine(self, stream: Stream) -> Engine:
        if self.settings.engine == "spark":
            from freshet.web.spark_engine import SparkEngine

            return SparkEngine(stream.ddl, stream.fixed, self.changed, self.settings.shards)
        return InProcess(stream.ddl, stream.fixed, self.changed, adapting(self.settings.adapt))

    def _round(self) -> Iterator[Transaction]:
        assert self.feed is not None
        return self.stream.rounds(self.settings.mode, self.settings.window, self.feed.size)

    def _apply(self, changes: Transaction) -> int:
        return self.engine.apply(changes)

    def _failed(self, message: str) -> None:
        self.message = message
        self._notify()

    def restart(self, given: dict[str, Any]) -> None:
        """Other settings; the views stay where their tables do."""
        if self.fixed_views:
            raise PlanError("this page shows a running job; change its file and start it again")
        settings = self.settings.changed(given, self.sources)
        if settings == self.settings and self.feed is not None and self.feed.state == "running":
            return
        only_speed = asdict(settings) | {"speed": 0} == asdict(self.settings) | {"speed": 0}
        if only_speed and self.feed is not None and self.feed.state != "finished":
            self.settings, self.feed.speed = settings, settings.speed
            self._notify()
            return
        kept = {v.name: v.sql for v in self.views.values()}
        paused, old, before = self.feed is not None and self.feed.state == "paused", self.engine, self.settings
        self._end_feed()
        self.settings = settings
        if not isinstance(old, InProcess):
            old.close()  # a process has one Spark session at a time
        try:
            self.start(kept if settings.source == before.source else None, paused)
        except FreshetError:  # it goes on, from the start, as it was
            self.settings = before
            self.start(kept, paused)
            raise
        finally:
            if isinstance(old, InProcess):
                old.close()  # pages looked at it until now
            self._notify()

    def _end_feed(self) -> None:
        if self.feed is not None:
            self.feed.close()

    def pause(self, paused: bool) -> None:
        if self.feed is None:
            raise PlanError("the job's own sources feed this page; stop the job to stop them")
        (self.feed.pause if paused else self.feed.resume)()
        self._notify()

    def close(self) -> None:
        self._closed.set()
        self._end_feed()
        self.engine.close()

    # Views ----------------------------------------------------------------------------------------------------

    def read(self, text: str) -> Plan:
        """A query or a plan as JSON, as the page sends it."""
        if len(text) > MOST_TEXT or (len(text) > MOST_SQL and not text.lstrip().startswith("{")):
            raise PlanError(
                f"the text has {len(text):,} characters; a query may have {MOST_SQL:,}, a plan {MOST_TEXT:,}"
            )
        if text.lstrip().startswith("{"):
            return Plan.from_json(text, self.engine.catalog)
        return make_plan(_bare(text), self.engine.catalog)

    def create(self, name: str, query: str | Plan) -> Watched:
        if not re.fullmatch(r"[A-Za-z_]\w{0,40}", name):
            raise SqlError(f"{name!r} is no name for a view; use letters, digits and _, at most 41")
        if self.fixed_views:
            raise PlanError("this page shows a running job; add the view to its file and start it again")
        if len(self.views) >= MOST_VIEWS:
            raise PlanError(f"there are {MOST_VIEWS} views, which is the most; close one first")
        # Not under the lock: an engine that tells of changes while it makes the view would wait for it.
        plan = self.engine.create(name, query if isinstance(query, Plan) else _bare(query))
        watched = self.watch(name, plan)
        self._notify()
        return watched

    def watch(self, name: str, plan: Plan) -> Watched:
        root = plan.root
        made = Watched(name, plan.sql, plan, History(groups_of(root), measures_of(root)))
        with self.lock:
            self.views[name.lower()] = made
            version, table, whole = self._answer(made)
            made.rows, made.version = table.num_rows if whole else self.engine.count(name), version
        return made

    def drop(self, name: str) -> None:
        view = self.view(name)
        if self.fixed_views:
            raise PlanError("this page shows a running job; take the view out of its file and start it again")
        with self.lock:
            del self.views[name.lower()]
        self.engine.drop(view.name)
        self._notify()

    def view(self, name: str) -> Watched:
        found = self.views.get(name.lower())
        if found is None:
            raise PlanError(f"no view {name}; the views are {', '.join(v.name for v in self.views.values()) or 'none'}")
        return found

    def explain(self, text: str) -> dict[str, Any]:
        plan = self.read(text)
        return {"explain": as_dict(plan.root), "text": plan.explain(), "plan": plan.to_json()}

    # Changes --------------------------------------------------------------------------------------------------

    def changed(self, version: int, deltas: Mapping[str, pa.Table]) -> None:
        with self.lock:
            for name, delta in deltas.items():
                view = self.views.get(name.lower())
                # A view that was made since has this version in its first answer already.
                if view is not None and version > view.version:
                    self._count(view, version, delta)
        self._notify()

    def _count(self, view: Watched, version: int, delta: pa.Table) -> None:
        weights = delta.column("_weight").to_numpy()
        up, down = int(weights[weights > 0].sum()), -int(weights[weights < 0].sum())
        view.appeared, view.vanished = view.appeared + up, view.vanished + down
        view.rows, view.version = view.rows + up - down, version
        view.recent.extend((version, w, row) for w, row in delta_rows(delta, FEED // 2))

    def _answer(self, view: Watched) -> tuple[int, pa.Table, bool]:
        cached = view.cached
        if cached is None or cached[0] != self.engine.version:
            cached = view.cached = self.engine.answer(view.name)
        return cached

    def answer(self, name: str) -> tuple[int, pa.Table, bool]:
        return self._answer(self.view(name))

    def _sample_on(self) -> None:
        """Samples every view, no more often than takes a tenth of the time."""
        rest, seen = SAMPLE, dict[str, int]()
        while not self._closed.wait(rest):
            start = time.monotonic()
            for view in list(self.views.values()):
                if seen.get(view.name) == (stamp := id(view.history) + view.version):
                    continue
                try:
                    view.history.take(time.time(), self._answer(view)[1], view.rows)
                    seen[view.name] = stamp
                except FreshetError:  # it was dropped, or the engine was changed, in between
                    continue
                except Exception:
                    logger.exception("view %s could not be sampled", view.name)
            rest = max(SAMPLE, 9 * (time.monotonic() - start))

    def _notify(self) -> None:
        for told in list(self.listeners):
            told()

    # What pages ask -------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that a page needs when it opens."""
        catalog: Catalog = self.engine.catalog
        return {
            "settings": asdict(self.settings),
            "sources": list(self.sources),
            "fixed_views": self.fixed_views,
            "examples": dict(self.stream.queries),
            "tables": {t.name: [f.name for f in t.fields] for t in catalog.tables.values()},
            "views": [{"name": v.name, "sql": v.sql, "columns": v.columns} for v in self.views.values()],
            **self.status(),
        }

    def status(self) -> dict[str, Any]:
        return {
            "stream": "job" if self.feed is None else self.feed.state,
            "engine": self.engine.kind,
            "message": self.message,
            "health": self.engine.health(),
            "sizes": {v.name: v.rows for v in list(self.views.values())},
        }

    def _counted(self, described: dict[str, Any]) -> dict[str, Any]:
        """The plan in words, with the changes that each node's table has seen."""
        for node in described.get("tree", ()):
            if node["table"] is not None:
                node["changes"] = self.engine.meter.tables[node["table"].lower()]
        for below in described["inputs"].values():
            self._counted(below)
        return described

    def looked_at(self, name: str, window: Window, chart: dict[str, Any]) -> dict[str, Any]:
        """A view as somebody looks at it."""
        view = self.view(name)
        version, table, whole = self._answer(view)
        shown = show(table, window)
        measures = measures_of(view.plan.root)
        wanted = str(chart.get("measure") or "")
        names = [f.name for f in view.plan.root.fields]
        measure = (
            names.index(wanted) if wanted in names else ROWS if wanted == ROW_COUNT or not measures else measures[0]
        )
        k = chart.get("k")
        count = min(max(1, k), 20) if isinstance(k, int) else 10
        return {
            "view": view.name,
            "version": version,
            "total": view.rows,
            "whole": whole,
            "matching": shown.matching,
            "page": shown.page,
            "rows": shown.rows,
            "columns": view.columns,
            "measures": [*(names[m] for m in measures), ROW_COUNT],
            "measure": ROW_COUNT if measure == ROWS else names[measure],
            "samples": view.history.taken,
            "chart": view.history.chart(measure, count, chart.get("largest") is not False),
            "appeared": view.appeared,
            "vanished": view.vanished,
            "recent": list(view.recent)[-FEED:],
            "plan": self._counted(self.engine.explain(view.name)),
        }


def _name(title: str) -> str:
    return re.sub(r"\W+", "_", title).strip("_")


def _bare(sql: str) -> str:
    return sql.strip().rstrip(";")


def to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
