"""How long a connection may take, and how many there may be.

Whoever opens connections and says nothing, says it a byte at a time, or does not read what is sent, would otherwise
hold them indefinitely. Each must have sent a request within HEAD, its body within BODY, and take what is sent to it
without a pause of STALL; what is not done by then is ended, without another word.
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
HEAD = 10.0  # seconds to send a request, from the connection's or the last answer's end on
BODY = 20.0  # seconds to send its body
STALL = 15.0  # seconds in which something of what waits must have been taken
ENDING = 5.0  # seconds that a connection which is closing may take

logger = logging.getLogger("freshet.web")


class Http(H11Protocol):
    """Refuses connections beyond MOST."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST:
            transport.abort()


class Uvicorn(uvicorn.Server):
    """Ends connections that take too long; and when it stops, lets `ending` say good-bye to those that are open."""

    def __init__(self, config: uvicorn.Config, ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._ending = ending
        self._since: dict[Any, tuple[object, float]] = {}  # by connection: what it is at, and since when

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
        for _ in range(10):  # open pages are notified; one that does not read is not waited for
            if not self.server_state.tasks:
                break
            await asyncio.sleep(0.05)
        for connection in list(self.server_state.connections):
            if connection.transport.get_write_buffer_size():
                connection.transport.abort()
        await super().shutdown(sockets)


def _doing(connection: Any) -> tuple[object, float | None]:
    """What a connection is at, equal as long as it makes no progress, and how long that may last."""
    transport = connection.transport
    waiting = transport.get_write_buffer_size()
    if transport.is_closing():
        return "closing", ENDING
    if waiting:
        return ("sending", waiting), STALL
    if not isinstance(connection, H11Protocol):
        return "open page", None  # its own pings find out whether it is still there
    cycle: Any = connection.cycle  # None before the first request
    if cycle is None or cycle.response_complete:
        return ("waiting for a request", cycle), HEAD
    return (("waiting for its body", cycle), BODY) if cycle.more_body else ("at work", None)
