"""Who may access the page: only loopback, or clients that know the token; and never the pages of other sites.

Any page in a user's browser can send requests to loopback, too. So the Host header must be one of our own names
(otherwise a DNS name rebound to this address could read answers), and requests that change something or open the live
connection must come from our own pages (Origin).
"""

from __future__ import annotations

import hmac
import ipaddress
import re

from starlette.datastructures import Headers, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from freshet.errors import StateError

COOKIE = "freshet_token"
LOOPBACK = "localhost"
MOST_BODY = 300_000
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:/?#@\[\]\\]+))(?::\d{1,5})?")
_POLICY = (
    b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    b"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def bare_host(host: str) -> str:
    """An address as sockets expect it: brackets as in [::1] are used only in URLs."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def is_loopback(host: str) -> bool:
    if host.lower() == LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def named_host(header: str) -> str | None:
    """The name or address in a Host header, without its port; None if it is not valid."""
    found = _HOST.fullmatch(header)
    return None if found is None else (found[1] or found[2]).lower()


def check_binding(host: str, token: str | None) -> None:
    if not is_loopback(host) and not token:
        raise StateError(
            f"{host} can be reached by others, and there is no token; give --token and a secret, or stay on 127.0.0.1"
        )
    if token is not None and len(token) < 8:
        raise StateError("the token has fewer than 8 characters; give a longer one")


class Guard:
    """ASGI middleware that checks every request, including those for static files."""

    def __init__(self, app: ASGIApp, host: str, token: str | None) -> None:
        self.app, self.token = app, token
        self.loopback = is_loopback(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        refused = self._refused(scope)
        if refused is None:
            await self.app(scope, _bounded(receive) if scope["type"] == "http" else receive, _headed(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await refused(scope, receive, _headed(send))

    def _refused(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        name = named_host(host)
        if name is None:
            return PlainTextResponse("the request names no host; send a Host header\n", 400)
        if self.loopback and not is_loopback(name):
            return PlainTextResponse("this page answers to localhost only\n", 421)
        origin = headers.get("origin")
        changing = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        ours = (f"http://{host}".lower(), f"https://{host}".lower())
        if (changing or origin is not None) and (origin or "").lower() not in ours:
            return PlainTextResponse("requests from other pages are refused\n", 403)
        length = headers.get("content-length", "0")
        if not length.isdigit() or len(length) > 18 or int(length) > MOST_BODY:
            return JSONResponse({"error": "the request is too large"}, 413, {"connection": "close"})
        if self.token is None:
            return None
        given = QueryParams(scope.get("query_string", b"")).get("token")
        known = given or _bearer(headers) or cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        if not hmac.compare_digest(known.encode(), self.token.encode()):
            return PlainTextResponse("this page needs its token: open it as /?token=...\n", 401)
        if given and scope["type"] == "http" and scope["path"] == "/":
            response = RedirectResponse("/", 303)  # removes the token from the address
            response.set_cookie(COOKIE, given, httponly=True, samesite="strict")
            return response
        return None


def _bearer(headers: Headers) -> str:
    kind, _, value = headers.get("authorization", "").partition(" ")
    return value if kind.lower() == "bearer" else ""


def _headed(send: Send) -> Send:
    async def headed(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
        await send(message)

    return headed


class TooLargeError(Exception):
    """A request with more than MOST_BODY bytes."""


def _bounded(receive: Receive) -> Receive:
    size = 0

    async def bounded() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MOST_BODY:
            raise TooLargeError
        return message

    return bounded
