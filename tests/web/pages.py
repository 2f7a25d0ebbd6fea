"""A page to test against: a hub over a small scenario, and its server on a free port."""

from __future__ import annotations

import json
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from freshet.web.engine import BUDGET
from freshet.web.feed import Settings
from freshet.web.hub import Hub
from freshet.web.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


@contextmanager
def served(
    settings: Settings, token: str | None = None, paused: bool = False, budget: float = BUDGET
) -> Iterator[Server]:
    hub = Hub(settings, budget=budget)
    server = Server(hub, token=token)
    hub.start(paused=paused)
    server.start()
    try:
        yield server
    finally:
        server.close()
        hub.close()


def ask(
    server: Server, path: str, body: Any = None, method: str | None = None, seconds: float = 60, **headers: str
) -> tuple[int, Any]:
    """Status and answer; with our own Origin unless another is given."""
    address = f"http://127.0.0.1:{server.port}"
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Origin": address, **({"Content-Type": "application/json"} if data else {})}
    sent |= {k.replace("_", "-"): v for k, v in headers.items()}
    request = urllib.request.Request(address + path, data, {k: v for k, v in sent.items() if v}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            content = answer.read()
            status = answer.status
    except urllib.error.HTTPError as refused:
        content, status = refused.read(), refused.code
    try:
        return status, json.loads(content)
    except ValueError:
        return status, content


def said_to(server: Server, request: bytes) -> bytes:
    """The server's response to some bytes, until it has sent a status or closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(request)
        response = b""
        while b"\r\n" not in response and (part := connection.recv(65_536)):
            response += part
        return response


def deaf_page(port: int) -> socket.socket:
    """A live connection that does not read."""
    made = socket.create_connection(("127.0.0.1", port))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    made.sendall(
        f"GET /api/live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
    )
    return made


def wait_until(holds: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to hold"
        time.sleep(0.02)


def picture(page: Page | Locator, name: str) -> None:
    """For the README and the docs, when FRESHET_SCREENSHOTS names a folder."""
    folder = os.environ.get("FRESHET_SCREENSHOTS")
    if folder:
        page.screenshot(path=str(Path(folder) / f"{name}.png"))
