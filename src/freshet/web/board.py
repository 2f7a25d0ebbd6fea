"""The views on the page: each is created, watched, read and closed independently.

Law: an error of one view is shown in that view's place only. The answer of a view is read at most once a version, and
only if a page shows it or a sample is due; while the engine is busy, pages show the last answer read.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

import pyarrow as pa

from freshet.budget import Budget
from freshet.errors import BudgetError, EvaluationError, FreshetError, PlanError, SqlError
from freshet.plans import Plan
from freshet.plans import plan as make_plan
from freshet.plans.explain import as_dict
from freshet.web.answer import Window
from freshet.web.contained import reason_of
from freshet.web.engine import Engine, Look
from freshet.web.turn import PATIENCE, BusyError
from freshet.web.watched import Watched

MOST_VIEWS = 12
MOST_LOGGED = 200
MOST_TEXT = 200_000
MOST_SQL = 20_000
GLANCE = 0.2  # seconds that a page waits for the engine before it shows the last answer read
WINDOW = 5.0  # seconds of processor time to sort and filter


class Board:
    """`fixed_views`: a page next to a job shows the job's views, no others."""

    engine: Engine
    fixed_views = False

    def __init__(self) -> None:
        self.lock = threading.RLock()  # protects `views`, `_making` and the counts of views
        self.views: dict[str, Watched] = {}
        self._making: set[str] = set()
        self.listeners: list[Callable[[], None]] = []
        self.log: deque[tuple[float, str]] = deque(maxlen=MOST_LOGGED)
        self.logged = 0
        self._closed = threading.Event()

    def note(self, text: str) -> None:
        """Adds a line to the page's log."""
        with self.lock:
            self.log.append((round(time.time(), 3), text))
            self.logged += 1

    def read(self, text: str) -> Plan:
        """A query or a plan as JSON, as the page sends it."""
        if len(text) > MOST_TEXT or (len(text) > MOST_SQL and not text.lstrip().startswith("{")):
            raise PlanError(
                f"the text has {len(text):,} characters; a query may have {MOST_SQL:,}, a plan {MOST_TEXT:,}"
            )
        catalog = self.engine.catalog.copy()  # views may be created and dropped meanwhile
        if text.lstrip().startswith("{"):
            return Plan.from_json(text, catalog)
        return make_plan(_bare(text), catalog)

    def create(self, name: str, query: str | Plan) -> Watched:
        if not re.fullmatch(r"[A-Za-z_]\w{0,40}", name):
            raise SqlError(f"{name!r} is not a valid view name; use letters, digits and _, at most 41")
        if self.fixed_views:
            raise PlanError("this page shows a running job; add the view to its file and start it again")
        key, engine = name.lower(), self.engine
        with self.lock:  # the name and the slot are reserved together
            if key in self.views or key in self._making:
                raise PlanError(f"view {name} already exists; close it first, or choose another name")
            if len(self.views) + len(self._making) >= MOST_VIEWS:
                raise PlanError(f"there are already {MOST_VIEWS} views, the maximum; close one first")
            self._making.add(key)
        try:
            # Not under the lock: an engine that reports changes while it creates the view would wait for it.
            plan = engine.create(name, query if isinstance(query, Plan) else _bare(query))
            try:
                return self.watch(name, plan, engine)
            except BaseException:
                engine.drop(name)
                raise
        finally:
            with self.lock:
                self._making.discard(key)
            self._notify()

    def watch(self, name: str, plan: Plan, engine: Engine | None = None) -> Watched:
        """Shows a view that the engine maintains. Changes that arrive meanwhile are buffered, and counted if they are
        newer."""
        made = Watched.of(name, plan)
        with self.lock:
            if engine is not None and engine is not self.engine:
                raise PlanError("the settings have changed meanwhile; create the view again")
            made.version, made.rows = self.engine.count(name)
            self.views[name.lower()] = made
            self.note(f"view {name} is kept from version {made.version} on")
        return made

    def drop(self, name: str) -> None:
        if self.fixed_views:
            raise PlanError("this page shows a running job; take the view out of its file and start it again")
        if name.lower() in self._making:
            self.engine.cancel(name)
            return
        self.engine.drop(self.view(name).name)
        with self.lock:
            self.views.pop(name.lower(), None)
            self.note(f"view {name} was closed")
        self._notify()

    def view(self, name: str) -> Watched:
        found = self.views.get(name.lower())
        if found is None:
            names = ", ".join(v.name for v in list(self.views.values()))
            raise PlanError(f"no view {name}; the views are {names or 'none'}")
        return found

    def explain(self, text: str) -> dict[str, Any]:
        plan = self.read(text)
        return {"explain": as_dict(plan.root), "text": plan.explain(), "plan": plan.to_json()}

    # Changes --------------------------------------------------------------------------------------------------

    def changed(self, version: int, deltas: Mapping[str, pa.Table]) -> None:
        with self.lock:
            for name, delta in deltas.items():
                view = self.views.get(name.lower())
                # The first answer of a view created since already includes this version.
                if view is not None and version > view.version:
                    try:
                        view.count(version, delta)
                    except Exception as e:
                        self._fail(view, reason_of(e))
        self._notify()

    def failed(self, name: str, reason: str) -> None:
        """The engine has stopped maintaining a view."""
        with self.lock:  # a view that is being created is registered when that is done
            view = self.views.get(name.lower())
            if view is not None:
                self._fail(view, reason)
        self._notify()

    def _fail(self, view: Watched, reason: str) -> None:
        view.error, view.last = reason, None
        self.note(f"view {view.name} has ended: {reason}")

    def look(self, view: Watched, patience: float = PATIENCE) -> Look:
        """The current state of the view, or its last known state if the engine is busy for longer than `patience`."""
        last = view.last
        if view.error is not None:
            raise PlanError(view.error)
        if last is not None and last.version == self.engine.version:
            return last
        try:
            view.last = last = self.engine.look(view.name, patience)
        except BusyError:
            if last is None:
                raise
        except (BudgetError, EvaluationError) as e:
            self._give_up(view, e)
        except FreshetError:  # it was dropped, or the engine was replaced, in between
            raise
        except Exception as e:
            self._give_up(view, e)
        return last

    def _give_up(self, view: Watched, error: Exception) -> NoReturn:
        """A view that cannot be read ends, so that it does not occupy the engine again and again."""
        self._fail(view, reason_of(error))
        if not self._closed.is_set() and not self.fixed_views:
            with suppress(FreshetError):  # another view may read it
                self.engine.drop(view.name)
        raise PlanError(str(view.error)) from error

    def _notify(self) -> None:
        for wake in list(self.listeners):
            wake()

    def looked_at(self, name: str, window: Window, chart: dict[str, Any]) -> dict[str, Any]:
        """A view as a page shows it; if it cannot be shown, the reason."""
        view = self.view(name)
        try:
            look = self.look(view, GLANCE)
            with Budget(WINDOW, remedy="look at a view with fewer rows"):
                return view.seen(look, window, chart, self.engine.meter.tables)
        except BusyError as e:
            return {"view": view.name, "error": str(e)}
        except Exception as e:
            return {"view": view.name, "error": view.error or reason_of(e)}


def _bare(sql: str) -> str:
    return sql.strip().rstrip(";")
