"""Who may speak to the page: loopback only, or whoever knows the token; and never another site's page.

A page in somebody's browser can send requests to loopback, too. So the Host must be one we are known by (else a name
that was pointed at us could read answers), and whatever changes something or opens the live connection must come from
our own pages (Origin).
"""

from __future__ import annotations

import hmac
import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from freshet.errors import StateError

COOKIE = "freshet_token"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
MOST_BODY = 300_000
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


def is_loopback(host: str) -> bool:
    if host in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_binding(host: str, token: str | None) -> None:
    if not is_loopback(host) and not token:
        raise StateError(
            f"{host} can be reached by others, and there is no token; give --token and a secret, or stay on 127.0.0.1"
        )
    if token is not None and len(token) < 8:
        raise StateError("the token has fewer than 8 characters; give a longer one")


class Guard:
    """ASGI middleware; everything passes it, the static files too."""

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
        if self.loopback and urlsplit(f"//{host}").hostname not in LOOPBACK:
            return PlainTextResponse("this page answers to localhost only\n", 421)
        origin = headers.get("origin")
        changing = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        if (changing or origin is not None) and (origin is None or urlsplit(origin).netloc != host):
            return PlainTextResponse("requests from other pages are refused\n", 403)
        if self.token is None:
            return None
        given = QueryParams(scope.get("query_string", b"")).get("token")
        known = given or _bearer(headers) or cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        if not hmac.compare_digest(known.encode(), self.token.encode()):
            return PlainTextResponse("this page needs its token: open it as /?token=...\n", 401)
        if given and scope["type"] == "http" and scope["path"] == "/":
            response = RedirectResponse("/", 303)  # so that the token does not stay in the address
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
