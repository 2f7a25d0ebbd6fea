"""Random requests, messages and views against the page's server: nothing breaks inside, nothing hangs, and the page's
state is answered throughout.

    python -m tests.web.fuzz --seed 7 --cases 2000
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import decimal
import json
import logging
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect
from websockets.typing import Origin

from freshet.web import connections
from freshet.web.board import MOST_VIEWS
from freshet.web.feed import Settings
from freshet.web.hub import Hub
from freshet.web.server import Server

PATIENCE = 120.0  # seconds a request may take, on machines that are busy
AT_ONCE = 1.0  # seconds of this process's time in which the state is answered
FIELDS: dict[str, tuple[str, pa.DataType]] = {
    "i": ("INT", pa.int32()), "b": ("BIGINT", pa.int64()), "y": ("TINYINT", pa.int8()), "h": ("SMALLINT", pa.int16()),
    "t": ("BOOLEAN", pa.bool_()), "f": ("FLOAT", pa.float32()), "d": ("DOUBLE", pa.float64()),
    "s": ("STRING", pa.string()), "a": ("DATE", pa.date32()), "m": ("TIMESTAMP", pa.timestamp("us")),
    "n": ("DECIMAL(10,2)", pa.decimal128(10, 2)), "w": ("DECIMAL(38,10)", pa.decimal128(38, 10)),
}  # fmt: skip
TEXTS = [
    "", "a", "=1+1", "-7", "@x", "\t", "NULL", "漢字 🙂", "x" * 5_000, "[1, 2]", "<script>", '"', "'", "\\", "%_",
    "e\u0301", "\x1f", "\x00", "\u202e", "nan", "true", "2020-01-01",
]  # fmt: skip
NAMES = ["v", "V", "mine", "a漢字", "_", "x" * 41, "x" * 42, "1a", "a b", "", "../x", "t", "edge.csv", "é", "select"]
HOSTS = ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST", "[", "]", "[::1]:{port}", "[::1", "", "elsewhere.example",
         "127.0.0.1:99999999", "a\x80", "127.0.0.1:{port}, x", "@", "//", "127.0.0.1:{port}/"]  # fmt: skip
PATHS = ["/", "/api/state", "/api/explain", "/api/views", "/api/stream", "/api/live", "/static/app.js", "/static/",
         "/static/../server.py", "/static/%00", "/static/" + "a" * 300, "/%ff", "/api/views/{view}", "/nothing", "//",
         "/api/download/{view}.csv", "/api/download/{view}.parquet", "/api/download/{view}.xls", "/api/download/.csv",
         "/api/download/{view}", "/api/download/a/b.csv", "*", "http://127.0.0.1/", "/api/state?token=%ff"]  # fmt: skip
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get", "CONNECT", "X" * 50]


# The tables ---------------------------------------------------------------------------------------------------------


class AllTypes:
    """A stream of rows with a column of every type, with its extreme values."""

    queries: Mapping[str, str] = {"all": "SELECT * FROM one"}
    fixed: Mapping[str, pa.Table] = {}

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    @property
    def ddl(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, (kind, _) in FIELDS.items())
        return f"CREATE TABLE one (id BIGINT PRIMARY KEY, {columns}); CREATE TABLE two ({columns})"

    def rounds(self, mode: str, window: float, size: int) -> Iterator[dict[str, pa.Table]]:
        number = 0
        while True:
            rows = self.draw.choice((1, 3, size))
            one = self._rows(rows).add_column(0, "id", pa.array(range(number, number + rows), pa.int64()))
            number += rows
            yield {"one": one, "two": self._rows(self.draw.choice((0, 2)))}

    def _rows(self, rows: int) -> pa.Table:
        return pa.table({name: pa.array([self._value(name) for _ in range(rows)], FIELDS[name][1]) for name in FIELDS})

    def _value(self, name: str) -> Any:
        draw = self.draw
        if draw.random() < 0.2:
            return None
        bits = {"y": 7, "h": 15, "i": 31, "b": 63}.get(name)
        if bits is not None:
            return draw.choice([0, 1, -1, 7, (1 << bits) - 1, -(1 << bits)])
        made: dict[str, Callable[[], Any]] = {
            "t": lambda: draw.random() < 0.5,
            "f": lambda: draw.choice([0.0, -0.0, 1.5, float("nan"), float("inf"), -float("inf"), 3e38]),
            "d": lambda: draw.choice([0.0, 0.1, float("nan"), float("inf"), -float("inf"), 5e-324, 1.7e308]),
            "s": lambda: draw.choice(TEXTS),
            "a": lambda: draw.choice([datetime.date(1, 1, 1), datetime.date(2024, 2, 29), datetime.date(9999, 12, 31)]),
            "m": lambda: draw.choice([datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 9)]),
            "n": lambda: draw.choice([decimal.Decimal("0.00"), decimal.Decimal("-99999999.99")]),
            "w": lambda: draw.choice([decimal.Decimal("0E-10"), decimal.Decimal(10**28 - 1)]),
        }
        return made[name]()


# Queries ------------------------------------------------------------------------------------------------------------


def query(draw: random.Random) -> str:
    """SQL that may be right, wrong, or endless."""
    one = draw.choice(list(FIELDS))
    two = draw.choice(list(FIELDS))
    alias = draw.choice(["x", "`=x`", "`a b`", "`漢`", '`"`', "`x,y`", "_weight", "X", "`<b>`"])
    texts = [
        f"SELECT {one}, {two} AS {alias} FROM one",
        "SELECT * FROM one", "SELECT * FROM one JOIN two ON one.i = two.i", "SELECT one.i, two.i FROM one, two",
        f"SELECT {one}, COUNT(*) AS n, MIN({two}) AS {alias} FROM one GROUP BY {one}",
        f"SELECT {one}, ARRAY_AGG({two}) AS {alias} FROM two GROUP BY {one}",
        f"SELECT COLLECT_LIST({one}) AS {alias} FROM two",
        f"SELECT ARRAY_AGG({one}) AS q, ARRAY_AGG(DISTINCT {two}) AS {alias} FROM one GROUP BY id % 7",
        f"SELECT SUM({one}) AS {alias}, AVG({two}) AS y FROM one",
        f"SELECT {one}, ROW_NUMBER() OVER (PARTITION BY {one} ORDER BY {two}) AS {alias} FROM one",
        f"SELECT {one} FROM one ORDER BY {two} LIMIT 5",
        f"SELECT {one} AS {alias} FROM one UNION ALL SELECT {one} FROM two",
        f"SELECT DISTINCT {one} FROM one EXCEPT SELECT {one} FROM two",
        f"SELECT NULL AS {alias}, {one} FROM one", f"SELECT {one} + {two} AS {alias} FROM one",
        f"SELECT 1 / i AS {alias} FROM one", f"SELECT CAST({one} AS STRING) AS {alias} FROM one",
        f"SELECT CAST(s AS {FIELDS[one][0]}) AS {alias} FROM one",
        f"SELECT EXISTS (SELECT 1 FROM two) AS {alias} FROM one",
        f"SELECT COUNT(*) AS {alias} FROM one a, one b, one c, two d WHERE CONCAT(a.i, b.i, c.i, d.i) = 'x'",
        "SELECT a.s FROM one a, one b, one c, one d WHERE CONCAT(a.s, b.s, c.s, d.s) = 'y'",
        f"SELECT DISTINCT CONCAT(a.id, b.id, c.id) AS {alias} FROM one a, one b, one c",
        "SELECT v.* FROM v", "SELECT 1 AS one; DROP TABLE one", "", "{", '{"format": 2}', "(" * 500, "SELECT " * 50,
        f"SELECT {one} FROM one WHERE s LIKE '%{draw.choice(TEXTS[:4])}%'", "\ufeffSELECT 1 AS a", "-- nothing",
    ]  # fmt: skip
    text = draw.choice(texts)
    if draw.random() < 0.15 and text:  # one character gone or another
        at = draw.randrange(len(text))
        text = text[:at] + draw.choice(["", "'", ")", "\x00", "漢", ";", "`"]) + text[at + 1 :]
    return text


def body(draw: random.Random) -> bytes:
    choice = draw.random()
    if choice < 0.7:
        given: Any = draw.choice(
            [
                {"name": draw.choice(NAMES), "text": query(draw)},
                {"text": query(draw)},
                {"action": draw.choice(["pause", "resume", "halt", None, {}])},
                {
                    "action": "restart",
                    "settings": {draw.choice(["speed", "x", "mode"]): draw.choice([1, "", None, 1e9])},
                },
                {"name": draw.choice([7, None, [], {}]), "text": draw.choice([7, None, [], {}])},
            ]
        )
        return json.dumps(given).encode()
    return draw.choice(
        [b"", b"[1]", b"null", b"{", b"\xff", b"[" * 2_000, b'{"text": "\\ud800"}', b'{"text": 1e999}', b"x" * 100_000,
         b'{"text": "' + b"x" * 250_000 + b'"}', b'{"action":"restart","settings":{"speed":' + b"9" * 3_000 + b"}}"]
    )  # fmt: skip


# The attack ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Attack:
    """The requests to a server, and the errors in its responses."""

    server: Server
    draw: random.Random
    wrong: list[str] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def views(self) -> list[str]:
        return [v.name for v in list(self.server.hub.views.values())] or ["v"]

    def step(self) -> None:
        full = len(self.server.hub.views) >= MOST_VIEWS
        acts = (self.request, self.create, self.download, self.look, self.drop)
        self.draw.choices(acts, (30, 5 if full else 30, 15, 30, 30 if full else 2))[0]()

    def create(self) -> None:
        named = f"{self.draw.choice(('v', '漢é_'))}{self.draw.randrange(20)}"
        named = f"a{named}" if self.draw.random() < 0.8 else self.draw.choice(NAMES)
        given = {"name": named, "text": query(self.draw)}
        self._ask("POST", "/api/views", json.dumps(given).encode(), given)

    def download(self) -> None:
        view = quote(self.draw.choice(self.views() if self.draw.random() < 0.9 else NAMES), safe="")
        self._ask("GET", f"/api/download/{view}.{self.draw.choice(('csv', 'parquet', 'xls'))}")

    def drop(self) -> None:
        view = quote(self.draw.choice(self.views()), safe="")
        self._ask("DELETE", f"/api/views/{view}")

    def request(self) -> None:
        """Anything at all, in pieces that may be wrong."""
        draw = self.draw
        path = draw.choice(PATHS).format(view=quote(draw.choice(self.views())))
        host = draw.choice(HOSTS) if draw.random() < 0.3 else HOSTS[0]
        origin = draw.choice(["", "null", "http://", *HOSTS]) if draw.random() < 0.3 else f"http://{HOSTS[0]}"
        content = body(draw) if draw.random() < 0.6 else b""
        length: object = len(content) if draw.random() < 0.9 else draw.choice([0, -1, "x", 10**12, len(content) + 5])
        lines = [f"{draw.choice(METHODS)} {path} HTTP/1.1", f"Host: {host}", f"Origin: {origin}", "Connection: close"]
        lines += [f"Content-Length: {length}"] if content or draw.random() < 0.2 else []
        lines += ["Content-Type: application/json"] if draw.random() < 0.9 else []
        lines += draw.choice([[], ["Cookie: freshet_token=\x80"], ["Range: bytes=9-1,0-,x"], ["Upgrade: websocket"]])
        text = "\r\n".join(lines).replace("{port}", str(self.server.port)) + "\r\n\r\n"
        raw = text.encode("latin-1") + content
        self._send(raw[: draw.randrange(len(raw))] if draw.random() < 0.05 else raw, lines[0])

    def look(self) -> None:
        """A page that opens views in all ways."""
        draw = self.draw
        try:
            with connect(f"ws{self.origin[4:]}/api/live", origin=Origin(self.origin), open_timeout=PATIENCE) as page:
                for _ in range(draw.randrange(1, 5)):
                    looking = self._looking()
                    odd: list[str | bytes] = ["{", "[" * 5_000, b"\xff", "x" * 20_000]
                    page.send(json.dumps(looking) if draw.random() < 0.8 else draw.choice(odd))
                    for _ in range(2):  # the first may still be of the previous view
                        self._heard(page.recv(timeout=PATIENCE), looking)
        except (WebSocketException, OSError) as e:
            if isinstance(e, TimeoutError):
                self.wrong.append("a page received nothing")

    def _looking(self) -> dict[str, Any]:
        draw, view = self.draw, self.draw.choice(self.views())
        columns = [c["name"] for c in self._columns(view)] or ["x"]
        return {
            "view": view if draw.random() < 0.8 else draw.choice(["none", 7, None, view.upper()]),
            "sort": draw.choice([*columns, None, "none", 7, {}]),
            "descending": draw.choice([True, False, 1]),
            "filter": draw.choice([*TEXTS, None, 7, "\ud800"]),
            "page": draw.choice([0, 1, -1, 10**30, 0.5]),
            "size": draw.choice([25, 500, 10**9, -1, "x"]),
            "chart": draw.choice([None, 7, {"measure": draw.choice(columns), "k": 3}, {"k": -1}, {"k": 1e9}]),
        }

    def _heard(self, message: str | bytes, looking: object) -> None:
        try:
            document = json.loads(message, parse_constant=_no_constant)
        except ValueError as e:
            self.wrong.append(f"a message is not JSON ({e}), looking at {looking}")
            return
        said = document.get("error") or document.get("seen", {}).get("error") or ""
        if "something broke inside" in said:
            self.wrong.append(f"{said}, looking at {looking}")

    def _columns(self, view: str) -> list[dict[str, Any]]:
        watched = self.server.hub.views.get(view.lower())
        return [] if watched is None else watched.columns

    def _ask(self, method: str, path: str, content: bytes = b"", shown: object = "") -> None:
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.server.port}\r\nOrigin: {self.origin}\r\n"
            f"Connection: close\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        self._send(head.encode() + content, f"{method} {path} {shown}")

    def _send(self, raw: bytes, shown: str) -> None:
        response = b""
        try:
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=PATIENCE) as connection:
                with contextlib.suppress(ConnectionError):
                    connection.sendall(raw)
                while len(response) < 100_000 and (part := connection.recv(65_536)):
                    response += part
        except TimeoutError:
            self.wrong.append(f"no answer to {shown}")
        except OSError:
            pass  # it was closed, which is an answer
        status = response[9:12].decode("latin-1")
        self.answers[status or "closed"] += 1
        if status.startswith("5") and status != "503":
            self.wrong.append(f"{status} to {shown}: {response[-200:]!r}")

    def watch(self, ended: threading.Event) -> None:
        """Requests the state continuously, and records the processor time of this process until each response."""
        place = ("127.0.0.1", self.server.port)
        request = f"GET /api/state HTTP/1.1\r\nHost: 127.0.0.1:{self.server.port}\r\nConnection: close\r\n\r\n"
        while not ended.wait(0.02):
            start = time.process_time()
            with socket.create_connection(place, timeout=PATIENCE) as connection:
                connection.sendall(request.encode())
                if connection.recv(12)[9:12] != b"200":
                    self.wrong.append("the state was not answered")
            self.slowest = max(self.slowest, time.process_time() - start)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


class _Broken(logging.Handler):
    """The errors in the server's log."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(logging.Formatter().format(record))


def attack(seed: int, cases: int, budget: float = 1.5) -> Attack:
    hub = Hub(Settings(source="files", speed=200), AllTypes(seed), budget)
    server = Server(hub)
    log, ended = _Broken(), threading.Event()
    loggers = [logging.getLogger(name) for name in ("freshet.web", "uvicorn.error", "asyncio")]
    for logger in loggers:
        logger.addHandler(log)
    before, connections.HEAD, connections.BODY = (connections.HEAD, connections.BODY), 1.0, 1.0
    hub.start({"v": "SELECT * FROM one"})
    server.start()
    made = Attack(server, random.Random(seed))
    watching = threading.Thread(target=made.watch, args=(ended,), daemon=True)
    watching.start()
    try:
        for _ in range(cases):
            made.step()
    finally:
        ended.set()
        watching.join(PATIENCE)
        hub.cancel()
        server.close()
        hub.close()
        connections.HEAD, connections.BODY = before
        for logger in loggers:
            logger.removeHandler(log)
    made.wrong += [f"in the log: {each}" for each in log.said]
    if hub.message:
        made.wrong.append(f"the stream stopped: {hub.message}")
    if made.slowest > AT_ONCE:
        made.wrong.append(f"the state took {made.slowest:.1f} s of processor time")
    return made


def main() -> int:
    options = argparse.ArgumentParser(description="Random requests against the page's server.")
    options.add_argument("--cases", type=int, default=1_000)
    options.add_argument("--seed", type=int, default=int(time.time()) % (1 << 31))
    given = options.parse_args()
    print(f"seed {given.seed}", flush=True)
    outcome = attack(given.seed, given.cases)
    for each in dict.fromkeys(outcome.wrong):
        print(f"WRONG {each}")
    print(f"{dict(outcome.answers)}; the state took {outcome.slowest:.2f} s at most; {len(outcome.wrong)} wrong")
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
