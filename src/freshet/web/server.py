"""The page's server: files of the page, a few requests that change things, and a live connection for what is seen.

A live connection sends at most one message a BEAT, whatever happens in between, and that message holds a window of
rows: a page costs the same at ten changes a second and at ten thousand.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket, WebSocketDisconnect

from freshet.errors import FreshetError, PlanError, SqlError, StateError
from freshet.web.answer import Window, download
from freshet.web.hub import Hub, to_json
from freshet.web.security import Guard, TooLargeError, check_binding

BEAT = 0.1  # seconds between two messages to a page, at least
PULSE = 1.0  # and at most: figures age also when nothing changes
MOST_PAGES = 50

logger = logging.getLogger("freshet.web")
STATIC = Path(str(files("freshet.web"))) / "static"


def make_app(hub: Hub, host: str, token: str | None) -> Guard:
    pages = _Pages(hub)
    routes = [
        Route("/", lambda request: FileResponse(STATIC / "index.html")),
        Route("/api/state", _answering(lambda r, given: hub.state())),
        Route("/api/explain", _answering(lambda r, given: hub.explain(_text(given, "text"))), methods=["POST"]),
        Route("/api/views", _answering(lambda r, given: _create(hub, given)), methods=["POST"]),
        Route("/api/views/{name}", _answering(lambda r, given: hub.drop(r.path_params["name"])), methods=["DELETE"]),
        Route("/api/stream", _answering(lambda r, given: _steer(hub, given)), methods=["POST"]),
        Route("/api/download/{name}.{form}", _downloading(hub)),
        WebSocketRoute("/api/live", pages.live),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={404: _not_found, 405: _not_found, TooLargeError: _too_large, Exception: _broken},
    )
    return Guard(app, host, token)


def _text(given: dict[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value.strip():
        raise PlanError(f"{name} is missing; give a text")
    try:
        value.encode()
    except UnicodeEncodeError as e:  # half of a surrogate pair: JSON can say it, and no answer could repeat it
        raise PlanError(f"{name} has half of a character at place {e.start + 1}; remove it") from None
    return value


def _create(hub: Hub, given: dict[str, Any]) -> dict[str, Any]:
    text = _text(given, "text")
    plan = hub.read(text)
    view = hub.create(_text(given, "name"), plan if text.lstrip().startswith("{") else plan.sql)
    return {"name": view.name}


def _steer(hub: Hub, given: dict[str, Any]) -> dict[str, Any]:
    action = given.get("action")
    if action in ("pause", "resume"):
        hub.pause(action == "pause")
    elif action == "restart":
        wanted = given.get("settings", {})
        if not isinstance(wanted, dict):
            raise PlanError("settings is no object; give names with their values")
        hub.restart(wanted)
    else:
        raise PlanError(f"no action {action!r}; there are pause, resume and restart")
    return hub.status()


# Requests ---------------------------------------------------------------------------------------------------------


def _answering(
    work: Callable[[Request, dict[str, Any]], dict[str, Any] | None],
) -> Callable[[Request], Awaitable[Response]]:
    """A request answered with JSON, its work done beside the event loop."""

    async def answer(request: Request) -> Response:
        try:
            given: Any = {}
            if request.method == "POST":
                if not request.headers.get("content-type", "").startswith("application/json"):
                    raise PlanError("the request is no JSON; send it as application/json")
                given = _parsed(await request.body())
            if not isinstance(given, dict):
                raise PlanError("the request is no JSON object; send one")
            found = await asyncio.to_thread(work, request, given)
            return Response(to_json(found or {}), media_type="application/json")
        except FreshetError as e:
            return _refusal(e)

    return answer


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise PlanError("the request is not JSON; correct it") from None


def _downloading(hub: Hub) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        name, form = request.path_params["name"], request.path_params["form"]
        try:
            _, table, whole = await asyncio.to_thread(hub.answer, name)
            body, media = await asyncio.to_thread(download, table, form)
        except FreshetError as e:
            return _refusal(e)
        headers = {"content-disposition": f'attachment; filename="{hub.view(name).name}.{form}"'}
        if not whole:
            headers["x-freshet-first-rows"] = str(table.num_rows)
        return Response(body, media_type=media, headers=headers)

    return answer


def _refusal(error: FreshetError) -> JSONResponse:
    placed = isinstance(error, SqlError) and error.line is not None
    reason = error.reason if isinstance(error, SqlError) and placed else str(error)
    place = {"line": error.line, "column": error.column} if isinstance(error, SqlError) and placed else {}
    return JSONResponse({"error": reason, **place}, 400)


async def _not_found(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "there is nothing here"}, 404)


async def _too_large(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "the request is too large"}, 413)


async def _broken(request: Request, error: Exception) -> Response:
    logger.error("a request failed", exc_info=error)
    return JSONResponse({"error": "something broke inside; the server's log says what"}, 500)


# The live connection ----------------------------------------------------------------------------------------------


class _Pages:
    def __init__(self, hub: Hub) -> None:
        self.hub, self.open = hub, 0

    async def live(self, socket: WebSocket) -> None:
        if self.open >= MOST_PAGES:
            await socket.close(1013)
            return
        await socket.accept()
        self.open += 1
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop may be closing
                loop.call_soon_threadsafe(woken.set)

        self.hub.listeners.append(wake)
        looking: dict[str, Any] = {}
        listening = asyncio.create_task(self._listen(socket, looking, woken))
        try:
            await self._tell(socket, looking, woken, listening)
        except (WebSocketDisconnect, RuntimeError):
            pass
        finally:
            self.hub.listeners.remove(wake)
            listening.cancel()
            self.open -= 1

    async def _listen(self, socket: WebSocket, looking: dict[str, Any], woken: asyncio.Event) -> None:
        """What the page looks at, whenever it says so."""
        while True:
            text = await socket.receive_text()
            with contextlib.suppress(ValueError, RecursionError):
                given = json.loads(text) if len(text) < 10_000 else None
                if isinstance(given, dict):
                    looking.clear()
                    looking.update(given)
                    woken.set()

    async def _tell(
        self, socket: WebSocket, looking: dict[str, Any], woken: asyncio.Event, listening: asyncio.Task[None]
    ) -> None:
        charted: object = None
        while not listening.done():
            started = time.monotonic()
            woken.clear()
            message = await asyncio.to_thread(self._message, dict(looking))
            seen = message.get("seen")
            if seen is not None:  # a chart travels when it has grown, not with every row
                chart = (seen["view"], seen["measure"], seen["samples"], json.dumps(looking.get("chart")))
                if chart == charted:
                    seen.pop("chart")
                charted = chart
            await socket.send_text(to_json(message))
            await asyncio.sleep(max(0.0, BEAT - (time.monotonic() - started)))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), PULSE)

    def _message(self, looking: dict[str, Any]) -> dict[str, Any]:
        try:
            found: dict[str, Any] = {
                "status": self.hub.status(),
                "views": [v.name for v in list(self.hub.views.values())],
            }
            name, chart = looking.get("view"), looking.get("chart")
            if isinstance(name, str) and name.lower() in self.hub.views:
                found["seen"] = self.hub.looked_at(name, Window.of(looking), chart if isinstance(chart, dict) else {})
            return found
        except FreshetError as e:
            return {"error": str(e)}
        except Exception:
            logger.exception("a page could not be told")
            return {"error": "something broke inside; the server's log says what"}


# Running ----------------------------------------------------------------------------------------------------------


class Server:
    """The page on a thread of its own, until it is closed."""

    def __init__(self, hub: Hub, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> None:
        check_binding(host, token)
        self.hub, self.token = hub, token
        if not 0 <= port <= 65_535:
            raise StateError(f"the page cannot be at port {port}; give 1 to 65535, or 0 for a free one")
        try:
            socket.getaddrinfo(host, port)
            self._socket = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except socket.gaierror:
            raise StateError(f"the page cannot be at {host}, which is no address; give another --host") from None
        except OSError as e:
            said = os.strerror(e.errno) if e.errno else str(e)
            other = "--host" if e.errno == errno.EADDRNOTAVAIL else "--port"
            raise StateError(f"the page cannot be at {host}:{port}: {said}; give another {other}") from None
        self.port = int(self._socket.getsockname()[1])
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{self.port}/" + (f"?token={token}" if token else "")
        config = uvicorn.Config(
            make_app(hub, host, token), log_level="warning", access_log=False, ws_max_size=65_536, server_header=False,
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="freshet page", daemon=True)

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def start(self) -> None:
        self._thread.start()
        for _ in range(200):
            if self._server.started:
                return
            time.sleep(0.02)
        raise StateError("the page's server does not start; the log says why")

    def close(self) -> None:
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(timeout=5)
