"""The lock for access to state.

Law: the state is always the version that the thread holding the lock may see. An open transaction has its own changes
(session.py): `shown`, which is called whenever the lock is taken, applies them to the state for the transaction's
thread and undoes them for any other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class StateLock:
    """`moves`: how often state was changed for a reader; a read that spans such a change cannot continue."""

    __slots__ = ("_lock", "moves", "shown")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.shown: Callable[[], None] | None = None  # while an open transaction has changes
        self.moves = 0

    def __enter__(self) -> None:
        self._lock.acquire()
        if self.shown is not None:
            try:
                self.shown()
            except BaseException:
                self._lock.release()
                raise

    def __exit__(self, *_: object) -> None:
        self._lock.release()
