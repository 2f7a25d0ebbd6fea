"""Lets the clock follow the system's clock: a thread advances it when a row is due.

While no row is due nothing happens: a tick reads the first row of each order of time. So views are at most one tick
behind, and there are no empty transactions. A failure (a view without an answer at that time) is logged and retried at
the next tick; until then the clock does not advance.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref

from freshet.database.instance import Instance
from freshet.engine.core import Core
from freshet.engine.maintained import Maintained
from freshet.engine.timed import TimedOperator
from freshet.errors import FreshetError

logger = logging.getLogger("freshet")

TICK = 0.2  # seconds
_MICROSECONDS = 1_000


def system_time() -> int:
    return time.time_ns() // _MICROSECONDS


class Ticking:
    """Ends with `stop`, or when the database is no longer referenced."""

    def __init__(self, inner: Instance, seconds: float = TICK) -> None:
        self._inner, self._seconds = weakref.ref(inner), seconds
        self._over, self._failed = threading.Event(), ""
        inner.clock_follows(system_time, self.stop)
        self._thread = threading.Thread(target=self._run, name="freshet clock", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._seconds):
            inner = self._inner()
            if inner is None:
                return
            self._tick(inner)
            del inner

    def _tick(self, inner: Instance) -> None:
        now = system_time()
        try:
            with inner.state.lock:
                first = _first_due(inner.state.core)
            if first is not None and first <= now and not self._over.is_set():
                inner.transactions.follow_clock()
            self._failed = ""
        except FreshetError as e:
            if str(e) != self._failed:
                self._failed = str(e)
                logger.warning("freshet: the clock was not advanced: %s", e)


def _first_due(core: Core) -> int | None:
    """The earliest time at which some row changes or expires."""
    agendas = [t.agenda for t in core.tables.values() if t.agenda is not None]
    agendas += [o.agenda for root in core.sharing.roots.values() for o in _timed(root)]
    return min((first for agenda in agendas if (first := agenda.first) is not None), default=None)


def _timed(operator: Maintained) -> list[TimedOperator]:
    own = [operator] if isinstance(operator, TimedOperator) and not operator.plan.final else []
    return own + [found for below in operator.below for found in _timed(below)]
