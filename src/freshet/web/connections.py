"""How long a connection may take, and how many there may be.

Otherwise a client that opens connections and sends nothing, sends one byte at a time, or does not read the response
could hold them indefinitely. A client must send its request within HEAD and its body within BODY, and must not stop
reading for STALL; otherwise the connection is closed without a response.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 200  # connections, open pages among them
HEAD = 10.0  # seconds to send a request, from the start of the connection or the last response
BODY = 20.0  # seconds to send its body
STALL = 15.0  # seconds within which some pending data must have been read
ENDING = 5.0  # seconds that a connection which is closing may take

logger = logging.getLogger("freshet.web")


class Http(H11Protocol):
    """Refuses connections beyond MOST."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST:
            transport.abort()


class Uvicorn(uvicorn.Server):
    """Closes connections that take too long; when it stops, calls `ending` to close the open pages."""

    def __init__(self, config: uvicorn.Config, ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._ending = ending
        self._since: dict[Any, tuple[object, float]] = {}  # by connection: its current phase, and since when

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self.end_slow(time.monotonic())
        return await super().on_tick(counter)

    def end_slow(self, now: float) -> None:
        since = {}
        for connection in list(self.server_state.connections):
            doing, patience = _doing(connection)
            before = self._since.get(connection, (None, now))
            since[connection] = before if before[0] == doing else (doing, now)
            if patience is not None and now - since[connection][1] > patience:
                connection.transport.abort()
        self._since = since

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending()
        for server in self.servers:
            server.close()
        for _ in range(10):  # open pages are notified; those that do not read are not waited for
            if not self.server_state.tasks:
                break
            await asyncio.sleep(0.05)
        for connection in list(self.server_state.connections):
            if connection.transport.get_write_buffer_size():
                connection.transport.abort()
        await super().shutdown(sockets)


def _doing(connection: Any) -> tuple[object, float | None]:
    """The current phase of a connection, which stays equal while it makes no progress, and how long it may last."""
    transport = connection.transport
    waiting = transport.get_write_buffer_size()
    if transport.is_closing():
        return "closing", ENDING
    if waiting:
        return ("sending", waiting), STALL
    if not isinstance(connection, H11Protocol):
        return "open page", None  # its own pings detect whether it is still there
    cycle: Any = connection.cycle  # None before the first request
    if cycle is None or cycle.response_complete:
        return ("waiting for a request", cycle), HEAD
    return (("waiting for its body", cycle), BODY) if cycle.more_body else ("at work", None)
