"""Exclusive use of the engine: one evaluation at a time, others wait up to their `patience`.

A request of a page may occupy the engine for as long as its budget lasts. So requests that must be served at once (the
page's files, its state) never take a turn, and requests that do may be refused.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from freshet.errors import FreshetError

PATIENCE = 30.0  # seconds that a request waits


class BusyError(FreshetError):
    """The engine is busy with another request, or too many requests are waiting."""


class Turn:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    @contextmanager
    def taken(self, patience: float | None = PATIENCE) -> Iterator[None]:
        """`patience`: seconds to wait at most; None waits without limit."""
        if not self._lock.acquire(timeout=-1 if patience is None else patience):
            raise BusyError("the engine is busy with another query; try again in a moment")
        try:
            yield
        finally:
            self._lock.release()
