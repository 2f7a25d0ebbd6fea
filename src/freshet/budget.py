"""What an evaluation may cost: whoever starts one gives it a budget, and the engine looks at it between chunks.

Law: `look` is called only where an EvaluationError could be raised as well, so an evaluation that is stopped is undone
exactly as one that has no value. Between two looks lies one call of a kernel or of Arrow over one chunk, which is
short. Without a budget nothing is limited.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from pathlib import Path

from freshet.errors import BudgetError

_PAGE = os.sysconf("SC_PAGE_SIZE")
_OFTEN = 0.02  # seconds of processor time between two readings of the process's memory

_current: ContextVar[Budget | None] = ContextVar("budget", default=None)


class Budget:
    """Processor time of this thread, and memory by which the process may grow, while it is entered; entered again, what
    was spent before counts. `remedy`: what whoever exceeds it can do. Any thread may cancel it."""

    def __init__(self, seconds: float, memory: int | None = None, remedy: str = "ask for less") -> None:
        self.seconds, self.memory, self.remedy = seconds, memory, remedy
        self.spent = 0.0
        self._begun = self._read = self._before = 0.0
        self._cancelled: str | None = None
        self._token: Token[Budget | None] | None = None

    def cancel(self, reason: str) -> None:
        self._cancelled = reason

    def renew(self) -> None:
        """The next evaluation begins with nothing spent."""
        self.spent = 0.0

    def __enter__(self) -> Budget:
        self._begun = self._read = time.thread_time()
        if self.memory is not None:
            self._before = resident()
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        _current.reset(self._token)
        self.spent += time.thread_time() - self._begun

    def look(self) -> None:
        if self._cancelled is not None:
            raise BudgetError(self._cancelled)
        now = time.thread_time()
        if self.spent + now - self._begun > self.seconds:
            raise BudgetError(f"it takes more than {self.seconds:g} s of processor time; {self.remedy}")
        if self.memory is not None and now - self._read > _OFTEN:
            self._read = now
            if resident() - self._before > self.memory:
                raise BudgetError(f"it takes more than {self.memory >> 20:,} MB of memory; {self.remedy}")


def look() -> None:
    """Raises BudgetError if the evaluation under way in this thread has used up its budget or was cancelled."""
    budget = _current.get()
    if budget is not None:
        budget.look()


@contextmanager
def unlimited() -> Iterator[None]:
    """No budget counts: what was begun must be put back, whatever it costs."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


def resident() -> int:
    """Bytes of memory this process holds; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0
