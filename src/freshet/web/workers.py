"""Threads that do the work of a page outside of the event loop.

Law: they are daemons, so no work keeps the process alive; and at most `room` tasks wait, so requests that arrive faster
than they are handled are refused instead of piling up.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from freshet.web.turn import BusyError

T = TypeVar("T")
_Work = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]


class Workers:
    def __init__(self, name: str, threads: int, room: int) -> None:
        self._name = name
        self._threads = threads
        self._room = room
        self._queue: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self._pending: set[asyncio.Future[Any]] = set()  # touched by the event loop only
        self._started = 0
        self._closed = False

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """The result of the work; BusyError if too many tasks are waiting, or the page is closing."""
        if self._closed:
            raise BusyError("the page is closing; start it again")
        if len(self._pending) >= self._room:
            raise BusyError(f"{self._room} requests are waiting already; try again in a moment")
        if self._started < self._threads:
            self._started += 1
            threading.Thread(target=self._work, name=f"freshet {self._name}", daemon=True).start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._pending.add(future)
        self._queue.put((loop, future, lambda: work(*arguments)))
        try:
            return await future
        finally:
            self._pending.discard(future)

    def close(self) -> None:
        """Refuses all waiting tasks. Called on the event loop."""
        self._closed = True
        for future in self._pending:
            if not future.done():
                future.set_exception(BusyError("the page is closing; start it again"))

    def _work(self) -> None:
        while True:
            loop, future, work = self._queue.get()
            if future.done():
                continue
            try:
                result, failure = work(), None
            except BaseException as e:
                result, failure = None, e
            with contextlib.suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(_settle, future, result, failure)
            del loop, future, work, result, failure


def _settle(future: asyncio.Future[Any], result: Any, failure: BaseException | None) -> None:
    if future.done():
        return
    if failure is not None:
        future.set_exception(failure)
    else:
        future.set_result(result)
