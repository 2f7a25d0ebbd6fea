"""Progress of what takes a while, on standard error: a spinner with what is being done, or a bar once its extent is
known, and the time it has taken.

Law: nothing is written where standard error is not a terminal, nothing for what is done in a moment, and when the work
ends the screen is as if nothing had been shown. What is printed meanwhile stands above it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

MOMENT = 0.3  # seconds before anything shows

_shown: list[LongTask] = []  # the work that is on the screen; work within it only changes its words


class LongTask:
    """Something that takes a while. `say` it from any thread."""

    def __init__(self, what: str, of: int | None = None) -> None:
        self.what, self.done, self.of = what, 0, of
        self._lock = threading.RLock()
        self._bar: Progress | None = None
        self._ended = False
        self._terminal: int | None = None
        self._timer = threading.Timer(MOMENT, self._begin)
        self._timer.daemon = True

    @property
    def visible(self) -> bool:
        return self._bar is not None

    def say(self, what: str, done: int = 0, of: int | None = None) -> None:
        """What is being done now, and how much of it is done."""
        with self._lock:
            self.what, self.done, self.of = what, done, of
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], description=what, completed=done, total=of)

    def start(self) -> None:
        if sys.stderr.isatty():
            # Its own way to the terminal, from here on: while Spark is started standard error leads to Spark's log.
            self._terminal = os.dup(sys.stderr.fileno())
            self._timer.start()

    def _begin(self) -> None:
        assert self._terminal is not None
        bar = _bar(self._terminal)
        with self._lock:
            if bar is not None and not self._ended:
                bar.add_task(self.what, completed=self.done, total=self.of)
                bar.start()
                bar.console.show_cursor(True)  # a process that is killed leaves it as it is
                self._bar = bar

    def end(self) -> None:
        if self._terminal is None:
            return
        self._timer.cancel()
        with self._lock:
            self._ended = True
            if self._bar is not None:
                self._bar.stop()
                self._bar = None
        self._timer.join()
        os.close(self._terminal)


def _bar(terminal: int) -> Progress | None:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
        from rich.text import Text
    except ImportError:
        return None

    class Extent(BarColumn):
        """A bar, where it is known how much there is."""

        def render(self, task: Task) -> Any:
            return Text("") if task.total is None else super().render(task)

    console = Console(file=os.fdopen(terminal, "w", encoding="utf-8", closefd=False))
    return Progress(
        SpinnerColumn(), TextColumn("{task.description}", markup=False), Extent(), TimeElapsedColumn(),
        console=console, transient=True, redirect_stdout=sys.stdout.isatty(),
    )  # fmt: skip


@contextmanager
def working(what: str, of: int | None = None) -> Iterator[LongTask]:
    """Shows what is being done as long as it is; within other work, instead of that."""
    if _shown:
        work = _shown[-1]
        before = work.what, work.done, work.of
        work.say(what, 0, of)
        try:
            yield work
        finally:
            work.say(*before)
        return
    work = LongTask(what, of)
    _shown.append(work)
    work.start()
    try:
        yield work
    finally:
        _shown.remove(work)
        work.end()


def ready_kernels() -> float:
    """Compiles the kernels if that was not done before, once per installation; the seconds it took. It is so long that
    it is said, in one line, also where nobody watches."""
    import freshet.database.db  # noqa: F401  (its imports register them)
    from freshet.state.kernel_cache import compile_kernels

    if not sys.stderr.isatty():
        return compile_kernels()
    with working("compiling kernels") as work:
        return compile_kernels(lambda line: work.say(line.removeprefix("freshet: ")))
