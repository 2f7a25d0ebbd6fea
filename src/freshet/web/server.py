"""The page's server: static files, a few requests that change something, and the live connection.

Law: the event loop never runs the engine and never waits for it. Requests that need the engine are handled by
`Workers`; the page's files and its state need no worker, so they are served whatever the engine is doing.
"""

from __future__ import annotations

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
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles

from freshet.budget import Budget
from freshet.errors import FreshetError, PlanError, SqlError, StateError
from freshet.web.answer import Window, chosen
from freshet.web.board import WINDOW
from freshet.web.connections import Http, Uvicorn
from freshet.web.download import disposition, download
from freshet.web.hub import Hub, to_json
from freshet.web.live import MOST_PAGES, Pages
from freshet.web.security import Guard, TooLargeError, bare_host, check_binding
from freshet.web.turn import BusyError
from freshet.web.workers import Workers

logger = logging.getLogger("freshet.web")
STATIC = Path(str(files("freshet.web"))) / "static"
MOST_REASON = 2_000  # characters of a refusal
STARTING = 10.0  # seconds

#: Handles a request: takes the request and its JSON object, returns the JSON object to respond with.
Work = Callable[[Request, dict[str, Any]], dict[str, Any] | None]


def make_app(hub: Hub, requests: Workers, pages: Pages, host: str, token: str | None) -> Guard:
    def answered(work: Work, *methods: str) -> dict[str, Any]:
        return {"endpoint": _answering(work, requests), "methods": list(methods)}

    routes = [
        Route("/", lambda request: FileResponse(STATIC / "index.html")),
        Route("/api/state", _state(hub)),
        Route("/api/explain", **answered(lambda r, given: hub.explain(_text(given, "text")), "POST")),
        Route("/api/views", **answered(lambda r, given: _create(hub, given), "POST")),
        Route("/api/views/{name:path}", **answered(lambda r, given: hub.drop(r.path_params["name"]), "DELETE")),
        Route("/api/stream", **answered(lambda r, given: _steer(hub, given), "POST")),
        Route("/api/download/{name:path}.{form}", _downloading(hub, requests)),
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
    except UnicodeEncodeError as e:  # an unpaired surrogate, which a response could not repeat
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
            raise PlanError("settings is not an object; give names with their values")
        hub.restart(wanted)
    else:
        raise PlanError(f"no action {action!r}; there are pause, resume and restart")
    return hub.status()


# Requests ---------------------------------------------------------------------------------------------------------


def _state(hub: Hub) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return Response(to_json(hub.state()), media_type="application/json")

    return answer


def _answering(work: Work, workers: Workers) -> Callable[[Request], Awaitable[Response]]:
    """Handles a request and responds with JSON."""

    async def answer(request: Request) -> Response:
        try:
            given: Any = {}
            if request.method == "POST":
                if not request.headers.get("content-type", "").startswith("application/json"):
                    raise PlanError("the request is not JSON; send it as application/json")
                given = _parsed(await request.body())
            if not isinstance(given, dict):
                raise PlanError("the request is not a JSON object; send one")
            found = await workers.run(work, request, given)
            return Response(to_json(found or {}), media_type="application/json")
        except FreshetError as e:
            return _refusal(e)
        except ClientDisconnect:  # the client has disconnected
            return Response(status_code=400)

    return answer


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise PlanError("the request is not JSON; correct it") from None


def _downloading(hub: Hub, workers: Workers) -> Callable[[Request], Awaitable[Response]]:
    def made(name: str, form: str, window: Window) -> Response:
        """The answer that the page shows, filtered and sorted in the same way, but all of it."""
        view = hub.view(name)
        look = hub.look(view)
        with Budget(WINDOW, remedy="leave out the filter and the order"):
            body, media = download(chosen(look.table, window), form)
        headers = {"content-disposition": disposition(view.name, form)}
        if not look.whole:
            headers["x-freshet-first-rows"] = str(look.table.num_rows)
        return Response(body, media_type=media, headers=headers)

    async def answer(request: Request) -> Response:
        try:
            window = Window.of(dict(request.query_params))
            return await workers.run(made, request.path_params["name"], request.path_params["form"], window)
        except FreshetError as e:
            return _refusal(e)

    return answer


def _refusal(error: FreshetError) -> JSONResponse:
    placed = isinstance(error, SqlError) and error.line is not None
    reason = error.reason if isinstance(error, SqlError) and placed else str(error)
    place = {"line": error.line, "column": error.column} if isinstance(error, SqlError) and placed else {}
    shown = reason if len(reason) <= MOST_REASON else reason[:MOST_REASON] + "…"
    shown = shown.encode(errors="replace").decode()
    return JSONResponse({"error": shown, **place}, 503 if isinstance(error, BusyError) else 400)


async def _not_found(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "there is nothing here"}, 404)


async def _too_large(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "the request is too large"}, 413)


async def _broken(request: Request, error: Exception) -> Response:
    logger.error("a request failed", exc_info=error)
    return JSONResponse({"error": "something broke inside; the server's log says what"}, 500)


# Running ----------------------------------------------------------------------------------------------------------


class Server:
    """The page on a thread of its own, until it is closed."""

    def __init__(self, hub: Hub, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> None:
        self.hub, self.token = hub, token
        host = bare_host(host)
        if not 0 <= port <= 65_535:
            raise StateError(f"the page cannot be at port {port}; give 1 to 65535, or 0 for a free one")
        check_binding(host, token)
        self._socket = _listening(host, port)
        self.port = int(self._socket.getsockname()[1])
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{self.port}/" + (f"?token={token}" if token else "")
        self._requests = Workers("requests", threads=8, room=32)
        self._messages = Workers("messages", threads=4, room=MOST_PAGES)
        self._pages = Pages(hub, self._messages)
        config = uvicorn.Config(
            make_app(hub, self._requests, self._pages, host, token), log_level="error", access_log=False, http=Http,
            loop="asyncio", ws="websockets-sansio", ws_max_size=65_536, proxy_headers=False, server_header=False,
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._server = Uvicorn(config, self._end)
        self._thread = threading.Thread(target=self._serve, name="freshet page", daemon=True)

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def _end(self) -> None:
        self._pages.close()
        self._requests.close()
        self._messages.close()

    def start(self) -> None:
        self._thread.start()
        end = time.monotonic() + STARTING
        while not self._server.started:
            if time.monotonic() > end:
                raise StateError("the page's server does not start; the log says why")
            time.sleep(0.02)

    def close(self) -> None:
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        self._socket.close()


def _listening(host: str, port: int) -> socket.socket:
    try:
        socket.getaddrinfo(host, port)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except (socket.gaierror, ValueError):
        raise StateError(f"the page cannot be at {host}; that is not an address; give another --host") from None
    except OSError as e:
        said = os.strerror(e.errno) if e.errno else str(e)
        other = "--host" if e.errno == errno.EADDRNOTAVAIL else "--port"
        raise StateError(f"the page cannot be at {host}:{port}: {said}; give another {other}") from None
