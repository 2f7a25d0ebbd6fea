"""The lock of whoever touches state.

Law: state is as the thread that holds the lock may see it. A transaction that is open has changes of its own
(session.py): `shown`, called whenever the lock is taken, puts them into the state for the transaction's thread and
takes them out for any other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class StateLock:
    """`moves`: how often state was changed for its reader's sake; a reading that spans such a change cannot go on."""

    __slots__ = ("_lock", "moves", "shown")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.shown: Callable[[], None] | None = None  # while a transaction is open that has changed something
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
