"""Progress of long operations, on standard error: a spinner with a message, or a bar once the total is known, and the
elapsed time.

Law: nothing is written if standard error is not a terminal, or if the operation is short, and when it ends the screen
is as if nothing had been shown. Other output appears above it.
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

MOMENT = 0.3  # seconds before anything is shown

_shown: list[LongTask] = []  # the operation on the screen; operations within it only change its message


class LongTask:
    """A long operation. `say` can be called from any thread."""

    def __init__(self, what: str, of: int | None = None) -> None:
        self.what = what
        self.done = 0
        self.of = of
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
        """Sets the current message, and how much is done."""
        with self._lock:
            self.what = what
            self.done = done
            self.of = of
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], description=what, completed=done, total=of)

    def start(self) -> None:
        if sys.stderr.isatty():
            # Its own descriptor of the terminal: while Spark is started, standard error is redirected to Spark's log.
            self._terminal = os.dup(sys.stderr.fileno())
            self._timer.start()

    def _begin(self) -> None:
        assert self._terminal is not None
        bar = _bar(self._terminal)
        with self._lock:
            if bar is not None and not self._ended:
                bar.add_task(self.what, completed=self.done, total=self.of)
                bar.start()
                bar.console.show_cursor(True)  # a process that is killed leaves the cursor hidden
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
        """A bar, if the total is known."""

        def render(self, task: Task) -> Any:
            return Text("") if task.total is None else super().render(task)

    console = Console(file=os.fdopen(terminal, "w", encoding="utf-8", closefd=False))
    return Progress(
        SpinnerColumn(), TextColumn("{task.description}", markup=False), Extent(), TimeElapsedColumn(),
        console=console, transient=True, redirect_stdout=sys.stdout.isatty(),
    )  # fmt: skip


@contextmanager
def working(what: str, of: int | None = None) -> Iterator[LongTask]:
    """Shows a message for the duration of the block; within another operation, replaces its message."""
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
    """Compiles the kernels if necessary, which happens once per installation; returns the seconds it took. Because it
    takes long, one line is printed even without a terminal."""
    import freshet.database.db  # noqa: F401  (its imports register them)
    from freshet.state.kernel_cache import compile_kernels

    if not sys.stderr.isatty():
        return compile_kernels()
    with working("compiling kernels") as work:
        return compile_kernels(lambda line: work.say(line.removeprefix("freshet: ")))
