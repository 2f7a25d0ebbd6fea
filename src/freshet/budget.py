"""Limits for the cost of an evaluation, and for the memory of a database.

A `Budget` limits one evaluation: its caller enters a budget, and the engine checks it between chunks. A `Memory` limits
the memory of a database: arrays count their bytes when they grow, and rows that are kept during an operation are
counted in addition (`hold`), until it is over.

Law: `look` and `hold` are called, and arrays grow, only where an EvaluationError could be raised as well, so an
evaluation that is stopped is undone exactly like one that fails. Between two checks there is one call of a kernel or of
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
    """Limits the processor time of this thread, the rows of an answer, and the growth of the process's memory, while it
    is entered; if it is entered again, earlier spending counts. A budget entered within another adds its own limits.
    `remedy`: the advice in its errors. Any thread may cancel it."""

    def __init__(
        self, seconds: float | None = None, memory: int | None = None, remedy: str = "ask for less",
        rows: int | None = None,
    ) -> None:  # fmt: skip
        self.seconds = seconds
        self.memory = memory
        self.rows = rows
        self.remedy = remedy
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
        """Cancelling it, or a budget around it, also calls `stop`."""
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
        """The next evaluation starts with nothing spent."""
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
        """Counts more rows of the answer, or fewer if it is started again."""
        if self._around is not None:
            self._around.give(rows)
        self.given += rows
        if self.rows is not None and self.given > self.rows:
            raise BudgetError(f"the answer has more than {self.rows:,} rows; {self.remedy}")


def look() -> None:
    """Raises BudgetError if the current evaluation of this thread has used up its budget or was cancelled."""
    budget = _current.get()
    if budget is not None:
        budget.look()


def given(rows: int) -> None:
    """Counts rows that are returned as the answer of the current evaluation of this thread."""
    budget = _current.get()
    if budget is not None:
        budget.give(rows)


def metered() -> bool:
    """Whether the current evaluation of this thread has limits of time or memory, and must check them repeatedly."""
    budget = _current.get()
    return budget is not None and budget.metered


@contextmanager
def stopped_by(stop: Callable[[], None]) -> Iterator[None]:
    """A block that does not check its budget; another thread cancels it by calling `stop`."""
    budget = _current.get()
    if budget is None:
        yield
        return
    with budget.stopped_by(stop):
        look()  # from here on, cancelling calls `stop`
        yield
    look()


class _Unbudgeted:
    __slots__ = ("_token",)

    def __enter__(self) -> None:
        self._token = _current.set(None)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def unbudgeted() -> _Unbudgeted:
    """A block that is not charged to the current budgets, because it works for others."""
    return _Unbudgeted()


@contextmanager
def unlimited() -> Iterator[None]:
    """A block to which neither a budget nor a limit applies: changes must be undone, whatever it costs."""
    token = _exempt.set(True)
    try:
        with unbudgeted():
            yield
    finally:
        _exempt.reset(token)


class Memory:
    """The bytes that a database holds, and their limit. Any thread may allocate and free."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit, self.held = limit, 0
        self._lock = threading.Lock()

    def take(self, nbytes: int) -> None:
        """Counts more bytes, or raises BudgetError and counts nothing."""
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

    def temporary(self) -> _TemporaryMemory:
        """Memory that is held within this block is counted until its end."""
        return _TemporaryMemory(self)


class _TemporaryMemory:
    __slots__ = ("_memory", "_taken", "_token")

    def __init__(self, memory: Memory) -> None:
        self._memory, self._taken = memory, 0
        self._token: Token[_TemporaryMemory | None] | None = None

    def __enter__(self) -> None:
        if self._memory.limit is not None:
            self._token = _temporary.set(self)

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _temporary.reset(self._token)
            self._memory.give(self._taken)

    def hold(self, nbytes: int) -> None:
        self._memory.take(nbytes)
        self._taken += nbytes


_temporary: ContextVar[_TemporaryMemory | None] = ContextVar("lent", default=None)
_exempt: ContextVar[bool] = ContextVar("exempt", default=False)


def hold(nbytes: int) -> None:
    """Counts bytes that the current operation of this thread keeps outside of arrays; fewer, if negative."""
    lent = _temporary.get()
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
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", given)
        if match is not None and match[2].lower() in _UNITS:
            size = int(float(match[1]) * _UNITS[match[2].lower()])
    elif isinstance(given, int) and not isinstance(given, bool):
        size = given
    if size <= 0:
        raise ValueError(f'memory_limit is {given!r}; give bytes as a number, or a text such as "2GB" or "512MiB"')
    return size


def _size(nbytes: int) -> str:
    """Bytes in readable form."""
    for unit, letters in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if nbytes >= unit:
            return f"{nbytes / unit:,.1f} {letters}".replace(".0 ", " ")
    return f"{nbytes:,} bytes"


def resident() -> int:
    """Resident memory of this process in bytes; 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def available() -> int:
    """Available memory of the machine in bytes; unbounded if the system does not report it."""
    try:
        match = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text())
        return sys.maxsize if match is None else int(match[1]) << 10
    except (OSError, ValueError):
        return sys.maxsize
