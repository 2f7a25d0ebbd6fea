"""What an evaluation may cost, and what a database may hold.

A `Budget` limits one evaluation: whoever starts it enters a budget, and the engine looks at it between chunks. A
`Memory` limits what a database holds: arrays count their bytes when they grow, and rows that are kept while something
is under way are held on top (`hold`), until it is over.

Law: `look` and `hold` are called, and arrays grow, only where an EvaluationError could be raised as well, so an
evaluation that is stopped is undone exactly as one that has no value. Between two looks lies one call of a kernel or of
Arrow over one chunk, which is short. Without a budget nothing is limited.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from pathlib import Path

from freshet.errors import BudgetError

_PAGE = os.sysconf("SC_PAGE_SIZE")
_OFTEN = 0.02  # seconds of processor time between two readings of the process's memory

_current: ContextVar[Budget | None] = ContextVar("budget", default=None)


class Budget:
    """Processor time of this thread, rows of an answer, and memory by which the process may grow, while it is entered;
    entered again, what was spent before counts. One that is entered within another limits on top of it. `remedy`: what
    whoever exceeds it can do. Any thread may cancel it."""

    def __init__(
        self, seconds: float | None = None, memory: int | None = None, remedy: str = "ask for less",
        rows: int | None = None,
    ) -> None:  # fmt: skip
        self.seconds, self.memory, self.rows, self.remedy = seconds, memory, rows, remedy
        self.spent = 0.0
        self.given = 0
        self._begun = self._read = self._before = 0.0
        self._cancelled: str | None = None
        self._stop: Callable[[], None] | None = None
        self._token: Token[Budget | None] | None = None
        self._around: Budget | None = None

    def cancel(self, reason: str) -> None:
        self._cancelled = reason
        stop = self._stop
        if stop is not None:
            stop()

    @property
    def metered(self) -> bool:
        limited = self.seconds is not None or self.memory is not None
        return limited or (self._around is not None and self._around.metered)

    @contextmanager
    def stopped_by(self, stop: Callable[[], None]) -> Iterator[None]:
        """Whoever cancels it, or one that it is entered within, calls `stop` as well."""
        self._stop = stop
        try:
            if self._around is None:
                yield
            else:
                with self._around.stopped_by(stop):
                    yield
        finally:
            self._stop = None

    def renew(self) -> None:
        """The next evaluation begins with nothing spent."""
        self.spent = 0.0

    def __enter__(self) -> Budget:
        self._begun = self._read = time.thread_time()
        if self.memory is not None:
            self._before = resident()
        self._around = _current.get()
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        _current.reset(self._token)
        self._around = None
        self.spent += time.thread_time() - self._begun

    def look(self) -> None:
        if self._around is not None:
            self._around.look()
        if self._cancelled is not None:
            raise BudgetError(self._cancelled)
        if self.seconds is None and self.memory is None:
            return
        now = time.thread_time()
        if self.seconds is not None and self.spent + now - self._begun > self.seconds:
            raise BudgetError(f"it takes more than {self.seconds:g} s of processor time; {self.remedy}")
        if self.memory is not None and now - self._read > _OFTEN:
            self._read = now
            if resident() - self._before > self.memory:
                raise BudgetError(f"it takes more than {self.memory >> 20:,} MB of memory; {self.remedy}")

    def give(self, rows: int) -> None:
        """So many rows of the answer more, or fewer where it is begun again."""
        if self._around is not None:
            self._around.give(rows)
        self.given += rows
        if self.rows is not None and self.given > self.rows:
            raise BudgetError(f"the answer has more than {self.rows:,} rows; {self.remedy}")


def look() -> None:
    """Raises BudgetError if the evaluation under way in this thread has used up its budget or was cancelled."""
    budget = _current.get()
    if budget is not None:
        budget.look()


def given(rows: int) -> None:
    """So many rows more are given out as the answer of what is under way in this thread."""
    budget = _current.get()
    if budget is not None:
        budget.give(rows)


def metered() -> bool:
    """Whether what is under way in this thread may take only so much time or memory, and must look again and again."""
    budget = _current.get()
    return budget is not None and budget.metered


@contextmanager
def stopped_by(stop: Callable[[], None]) -> Iterator[None]:
    """What runs now does not look; it ends early where `stop` is called, which another thread does to cancel it."""
    budget = _current.get()
    if budget is None:
        yield
        return
    with budget.stopped_by(stop):
        look()  # from here on whoever cancels it finds `stop`
        yield
    look()


class _Unbudgeted:
    __slots__ = ("_token",)

    def __enter__(self) -> None:
        self._token = _current.set(None)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def unbudgeted() -> _Unbudgeted:
    """No budget counts: what runs now is somebody else's."""
    return _Unbudgeted()


@contextmanager
def unlimited() -> Iterator[None]:
    """Neither a budget nor a limit counts: what was begun must be put back, whatever it costs."""
    token = _exempt.set(True)
    try:
        with unbudgeted():
            yield
    finally:
        _exempt.reset(token)


class Memory:
    """The bytes that a database holds, and the most it may. Any thread may take and give."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit, self.held = limit, 0
        self._lock = threading.Lock()

    def take(self, nbytes: int) -> None:
        """Counts so many bytes more, or raises BudgetError and counts nothing."""
        with self._lock:
            if self.limit is not None and self.held + nbytes > self.limit and not _exempt.get():
                raise BudgetError(
                    f"memory_limit is {_size(self.limit)}: {_size(self.held)} are in use and {_size(nbytes)} more are "
                    "needed; change or select less at a time, drop what is not needed, or connect with a larger limit"
                )
            self.held += nbytes

    def give(self, nbytes: int) -> None:
        with self._lock:
            self.held -= nbytes

    def lend(self) -> _Lent:
        """What is held while it is entered is counted until it is left."""
        return _Lent(self)


class _Lent:
    __slots__ = ("_memory", "_taken", "_token")

    def __init__(self, memory: Memory) -> None:
        self._memory, self._taken = memory, 0
        self._token: Token[_Lent | None] | None = None

    def __enter__(self) -> None:
        if self._memory.limit is not None:
            self._token = _lent.set(self)

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _lent.reset(self._token)
            self._memory.give(self._taken)

    def hold(self, nbytes: int) -> None:
        self._memory.take(nbytes)
        self._taken += nbytes


_lent: ContextVar[_Lent | None] = ContextVar("lent", default=None)
_exempt: ContextVar[bool] = ContextVar("exempt", default=False)


def hold(nbytes: int) -> None:
    """What is under way in this thread keeps so many bytes more, outside of all arrays; or fewer, if negative."""
    lent = _lent.get()
    if lent is not None:
        lent.hold(nbytes)


_UNITS = {"": 1, "b": 1} | {
    f"{letter}{middle}b": base ** (power + 1)
    for middle, base in (("", 1000), ("i", 1024))
    for power, letter in enumerate("kmgt")
}


def parse_size(given: object) -> int | None:
    """Bytes, as a number or as a text such as "2GB" (a thousand million) or "512MiB" (of 1024 each)."""
    if given is None:
        return None
    size = -1
    if isinstance(given, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", given)
        if found is not None and found[2].lower() in _UNITS:
            size = int(float(found[1]) * _UNITS[found[2].lower()])
    elif isinstance(given, int) and not isinstance(given, bool):
        size = given
    if size <= 0:
        raise ValueError(f'memory_limit is {given!r}; give bytes as a number, or a text such as "2GB" or "512MiB"')
    return size


def _size(nbytes: int) -> str:
    """Bytes as people read them."""
    for unit, letters in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if nbytes >= unit:
            return f"{nbytes / unit:,.1f} {letters}".replace(".0 ", " ")
    return f"{nbytes:,} bytes"


def resident() -> int:
    """Bytes of memory this process holds; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def available() -> int:
    """Bytes of memory that the machine could still give; no bound where the system does not say."""
    try:
        found = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text())
        return sys.maxsize if found is None else int(found[1]) << 10
    except (OSError, ValueError):
        return sys.maxsize
