"""The lock for access to state.

Law: the state is always the version that the thread holding the lock may see. An open transaction has its own changes
(session.py): `shown`, which is called whenever the lock is taken, applies them to the state for the transaction's
thread and undoes them for any other. A function in Python, which is called while its thread holds the lock, may not use
the database: it would find the state half changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from freshet.errors import StateError
from freshet.scalar.functions.python import RunningCall, running


class StateLock:
    """`moves`: how often state was changed for a reader; a read that spans such a change cannot continue."""

    __slots__ = ("_call", "_held", "_lock", "_owner", "moves", "shown")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._held, self._owner = 0, 0
        self._call: RunningCall | None = None  # during which the owner took the lock
        self.shown: Callable[[], None] | None = None  # while an open transaction has changes
        self.moves = 0

    def __enter__(self) -> None:
        self.check()
        self._lock.acquire()
        self._held += 1
        if self._held == 1:
            self._owner, self._call = threading.get_ident(), running.call
        if self.shown is not None:
            try:
                self.shown()
            except BaseException:
                self.__exit__()
                raise

    def __exit__(self, *_: object) -> None:
        self._held -= 1
        self._lock.release()

    def check(self) -> None:
        """Raises StateError in a function that is called while its thread holds the lock."""
        call = running.call
        if call is not None and call is not self._call and self._held and self._owner == threading.get_ident():
            raise StateError(f"function {call.function} uses the database that calls it; pass it what it needs")
