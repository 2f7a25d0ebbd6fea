"""The live connection of a page: sends what the page shows whenever it changes.

A connection sends at most one message every BEAT, which contains a window of rows: a page costs the same at ten changes
a second as at ten thousand.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from freshet.web.answer import Window
from freshet.web.hub import Hub, to_json
from freshet.web.turn import BusyError
from freshet.web.workers import Workers

BEAT = 0.1  # seconds between two messages to a page, at least
PULSE = 1.0  # and at most: figures change over time even if no data does
MOST_PAGES = 50
MOST_MESSAGE = 10_000  # characters of a message from a page

logger = logging.getLogger("freshet.web")


class Pages:
    """The open pages."""

    def __init__(self, hub: Hub, workers: Workers) -> None:
        self.hub = hub
        self.workers = workers
        self.open = 0
        self._closing = False
        self._woken: set[asyncio.Event] = set()

    async def live(self, socket: WebSocket) -> None:
        if self.open >= MOST_PAGES or self._closing:
            await socket.close(1013)
            return
        self.open += 1  # before waiting for anything: others are counted meanwhile
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop may be closing
                loop.call_soon_threadsafe(woken.set)

        self.hub.listeners.append(wake)
        self._woken.add(woken)
        try:
            await socket.accept()
            await self._converse(socket, woken)
            await socket.close(1001)
        except (WebSocketDisconnect, RuntimeError):  # the page has gone
            pass
        finally:
            self.hub.listeners.remove(wake)
            self._woken.discard(woken)
            self.open -= 1

    async def _converse(self, socket: WebSocket, woken: asyncio.Event) -> None:
        looking: dict[str, Any] = {}
        listening = asyncio.create_task(self._listen(socket, looking, woken))
        try:
            await self._send(socket, looking, woken, listening)
        except BusyError:  # the page's server is closing
            pass
        finally:
            listening.cancel()

    def close(self) -> None:
        """Every connection ends after the message it is sending. Called on the event loop."""
        self._closing = True
        for woken in self._woken:
            woken.set()

    async def _listen(self, socket: WebSocket, looking: dict[str, Any], woken: asyncio.Event) -> None:
        """Receives what the page shows, until the page is closed."""
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                woken.set()
                return
            text = message.get("text") or ""
            with contextlib.suppress(ValueError, RecursionError):
                given = json.loads(text) if len(text) < MOST_MESSAGE else None
                if isinstance(given, dict):
                    looking.clear()
                    looking.update(given)
                    woken.set()

    async def _send(
        self, socket: WebSocket, looking: dict[str, Any], woken: asyncio.Event, listening: asyncio.Task[None]
    ) -> None:
        charted: object = None
        while not listening.done() and not self._closing:
            started = time.monotonic()
            woken.clear()
            text, charted = await self.workers.run(self._message, dict(looking), charted)
            await socket.send_text(text)
            await asyncio.sleep(max(0.0, BEAT - (time.monotonic() - started)))
            if not self._closing:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), PULSE)

    def _message(self, looking: dict[str, Any], charted: object) -> tuple[str, object]:
        """The message to send to the page now, and the version of the chart it will have."""
        message = self._found(looking)
        seen = message.get("seen")
        if seen is not None and "chart" in seen:  # a chart is sent when it has grown, not with every row
            chart = (seen["view"], seen["measure"], seen["samples"], json.dumps(looking.get("chart")))
            if chart == charted:
                seen.pop("chart")
            charted = chart
        return to_json(message), charted

    def _found(self, looking: dict[str, Any]) -> dict[str, Any]:
        try:
            message: dict[str, Any] = {
                "status": self.hub.status(),
                "views": [v.name for v in list(self.hub.views.values())],
            }
            name, chart = looking.get("view"), looking.get("chart")
            if isinstance(name, str) and name.lower() in self.hub.views:
                message["seen"] = self.hub.looked_at(name, Window.of(looking), chart if isinstance(chart, dict) else {})
            return message
        except Exception:
            logger.exception("a page could not be sent to")
            return {"error": "something broke inside; the server's log says what"}
