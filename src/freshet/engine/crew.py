"""Threads that run native steps side by side.

Law: steps that run at the same time belong to readers that share nothing that they change. Each view and each shared
query has arrays of its own; what several of them read (tables, rows of shared queries) does not change meanwhile, and
steps of readers that are native as a whole add no text to the pool. What they request of Python (answers.py) holds the
GIL and concerns one select. So the state afterwards is that of running them one after the other, in any order.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from freshet.budget import metered
from freshet.engine.steps import run_steps
from freshet.state.arrays import Int64s

_WORTHWHILE = 2048  # changed rows times readers from which on waking a thread costs less than it gains


class Crew:
    """`threads`: how many run at the same time, that of the caller included."""

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self._process = 0
        self._others: ThreadPoolExecutor | None = None

    def is_worthwhile(self, rows: int, readers: int) -> bool:
        """A budget limits the processor time of one thread, so metered work stays in it."""
        return self.threads > 1 and readers > 1 and rows * readers >= _WORTHWHILE and not metered()

    def run(self, tasks: Sequence[Int64s]) -> bool:
        """Runs the steps of each task, and returns whether all of them succeeded. All have ended then."""
        remaining, failed = iter(tasks), False

        def work() -> None:
            nonlocal failed
            for steps in remaining:  # each task goes to one thread, because the iterator advances under the GIL
                if run_steps(steps) >= 0:
                    failed = True

        helping = [self._helpers().submit(copy_context().run, work) for _ in range(min(self.threads, len(tasks)) - 1)]
        try:
            work()
        finally:
            for each in helping:
                each.result()
        return not failed

    def _helpers(self) -> ThreadPoolExecutor:
        """The other threads; a fork does not inherit them."""
        if self._others is None or self._process != os.getpid():
            self._others = ThreadPoolExecutor(self.threads - 1, thread_name_prefix="freshet-crew")
            self._process = os.getpid()
        return self._others

    def close(self) -> None:
        if self._others is not None and self._process == os.getpid():
            self._others.shutdown(wait=False)
        self._others = None
