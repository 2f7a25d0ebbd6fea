"""The page under attack: queries that never end, invalid requests, silent connections. Whatever they do, the page's
files and state are served, the other views continue, and a signal ends the process."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

pytest.importorskip("starlette")
pytest.importorskip("websockets")

from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from freshet.errors import StateError
from freshet.web import board, connections
from freshet.web.answer import Window, show
from freshet.web.download import download
from freshet.web.feed import Settings
from freshet.web.history import GroupHistory
from freshet.web.live import MOST_PAGES
from freshet.web.server import Server
from tests.web.pages import ask, deaf_page, said_to, served, wait_until

ROOT = Path(__file__).resolve().parents[2]
GRAPH = Settings(source="graph", scale=0.001, repeat=False)
#: Three tables' rows in all combinations, each looked at: for n rows n³ steps.
RUNAWAY = "SELECT COUNT(*) AS n FROM edge AS a, edge AS b, edge AS c WHERE CONCAT(a.src, b.src, c.src) = 'x'"
#: The same without state: it is created quickly, and reading it never ends.
UNREADABLE = "SELECT a.src FROM edge AS a, edge AS b, edge AS c WHERE CONCAT(a.src, b.src, c.src) = 'x'"
MANY = {"edge": pa.table({"src": list(range(3_000)), "dst": list(range(3_000))})}


@pytest.fixture
def page() -> Iterator[Server]:
    with served(GRAPH, paused=True, budget=0.5) as server:
        yield server


# Queries that take too long -----------------------------------------------------------------------------------------


def test_a_query_that_takes_too_long_is_refused_and_all_else_answers() -> None:
    with served(GRAPH, paused=True, budget=3) as page:
        page.hub.engine.apply(MANY)
        refused: list[Any] = []
        asking = threading.Thread(
            target=lambda: refused.append(ask(page, "/api/views", {"name": "bad", "text": RUNAWAY}, seconds=300))
        )
        asking.start()
        wait_until(lambda: "bad" in page.hub._making)
        answered = 0
        while asking.is_alive():
            assert ask(page, "/api/state")[0] == ask(page, "/static/app.js")[0] == ask(page, "/")[0] == 200
            answered += "bad" in page.hub._making
        asking.join()
        assert answered > 3, "the page was answered while the query ran"
        status, said = refused[0]
        assert status == 400 and said["error"].startswith("it takes more than 3 s of processor time; select less, or")
        assert "bad" not in page.hub.views and not page.hub._making
        assert ask(page, "/api/views", {"name": "bad", "text": "SELECT src FROM edge"})[0] == 200


def test_creating_a_view_can_be_cancelled() -> None:
    with served(GRAPH, paused=True, budget=300) as page:
        page.hub.engine.apply(MANY)
        refused: list[Any] = []
        asking = threading.Thread(
            target=lambda: refused.append(ask(page, "/api/views", {"name": "bad", "text": RUNAWAY}, seconds=300))
        )
        asking.start()
        wait_until(lambda: "bad" in page.hub._making)
        while asking.is_alive():
            ask(page, "/api/views/bad", method="DELETE")
        assert refused == [(400, {"error": "it was cancelled"})]


def test_a_view_that_runs_away_later_ends_alone(page: Server) -> None:
    hub = page.hub
    for name, text in (("bad", RUNAWAY), ("good", "SELECT COUNT(*) AS n FROM edge")):
        assert ask(page, "/api/views", {"name": name, "text": text})[0] == 200
    hub.engine.apply(MANY)
    state = ask(page, "/api/state")[1]
    assert list(state["errors"]) == ["bad"] and "it takes more than 0.5 s" in state["errors"]["bad"]
    assert show(hub.look(hub.view("good")).table, Window()).rows == [["3000"]]
    assert hub.view("good").recent[-1][2] == ["3000"]
    hub.engine.apply({"edge": pa.table({"src": [1], "dst": [2]})})
    assert show(hub.look(hub.view("good")).table, Window()).rows == [["3001"]]
    seen = hub.looked_at("bad", Window(), {})
    assert seen == {"view": "bad", "error": state["errors"]["bad"]}
    assert ask(page, "/api/download/bad.csv")[0] == 400
    assert ask(page, "/api/views/bad", method="DELETE")[0] == 200 and "bad" not in hub.views
    assert ask(page, "/api/views", {"name": "bad", "text": "SELECT src FROM edge"})[0] == 200


def test_a_view_without_an_answer_ends_alone(page: Server) -> None:
    hub = page.hub
    for name, text in (("bad", "SELECT 7 / (src - 5) AS x FROM edge"), ("good", "SELECT src FROM edge")):
        assert ask(page, "/api/views", {"name": name, "text": text})[0] == 200
    assert hub.engine.apply({"edge": pa.table({"src": [5, 6], "dst": [1, 1]})}) == 2, "the rows are not at fault"
    assert "it has no answer: " in (hub.view("bad").error or "")
    assert hub.view("good").rows == hub.look(hub.view("good")).table.num_rows == 2
    assert ask(page, "/api/state")[1]["message"] == ""


def test_a_view_that_cannot_be_read_ends(page: Server) -> None:
    hub = page.hub
    hub.engine.apply(MANY)
    status, said = ask(page, "/api/views", {"name": "bad", "text": UNREADABLE}, seconds=120)
    if status == 200:
        wait_until(lambda: hub.view("bad").error is not None, 120)
        assert (hub.view("bad").error or "").startswith("it takes more than 0.5 s")
    else:
        assert said["error"].startswith("it takes more than 0.5 s")
    before = hub.engine.version
    hub.engine.apply({"edge": pa.table({"src": [1], "dst": [2]})})
    assert hub.engine.version == before + 1


def test_twelve_views_are_twelve(page: Server) -> None:
    """All at the same time: a place is checked and taken in one step."""
    barrier, codes = threading.Barrier(30), list[int]()

    def create(i: int) -> None:
        barrier.wait()
        codes.append(ask(page, "/api/views", {"name": f"v{i % 20}", "text": "SELECT src FROM edge"}, seconds=120)[0])

    threads = [threading.Thread(target=create, args=(i,)) for i in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(page.hub.views) <= board.MOST_VIEWS and set(codes) <= {200, 400, 503}
    assert codes.count(200) == len(page.hub.views) - 1


def test_a_signal_ends_it_whatever_is_under_way() -> None:
    """While a view is created, the stream waits and pages are open, some of which do not read: nothing is printed, and
    the process ends quickly."""
    before = _children()
    command = ["serve", "--source", "graph", "--scale", "0.02", "--speed", "20000", "--budget", "3000", "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "freshet.cli", *command, "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    with contextlib.ExitStack() as opened:
        opened.callback(process.communicate)
        opened.callback(process.kill)
        assert process.stdout is not None and process.stderr is not None
        address = json.loads(process.stdout.readline())["address"]
        origin, port = address.rstrip("/"), int(address.rsplit(":", 1)[1].rstrip("/"))
        for _ in range(5):
            reading = opened.enter_context(connect(f"ws{address[4:]}api/live", origin=Origin(origin)))
            reading.send(json.dumps({"view": "hubs", "sort": "n"}))
            opened.enter_context(deaf_page(port))
            opened.enter_context(socket.create_connection(("127.0.0.1", port)))

        def state() -> dict[str, Any]:
            with urllib.request.urlopen(address + "api/state", timeout=60) as answer:
                served: dict[str, Any] = json.load(answer)
                return served

        wait_until(lambda: state()["health"]["tuples"] > 2_000, 120)
        making = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
        body = json.dumps({"name": "bad", "text": RUNAWAY})
        making.sendall(
            f"POST /api/views HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: {origin}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        wait_until(lambda: _stands_still(state), 60)
        spent = _processor_time(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert _children() - before - spent < 2.0, "seconds of processor time"
        assert process.stderr.read() == ""


def _stands_still(state: Callable[[], dict[str, Any]]) -> bool:
    """The view that is being created blocks the engine."""
    before = state()["health"]["version"]
    time.sleep(0.5)
    return bool(state()["health"]["version"] == before)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _processor_time(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# Views of every kind ------------------------------------------------------------------------------------------------


def test_lists_are_sorted_filtered_and_downloaded(page: Server) -> None:
    page.hub.engine.apply({"edge": pa.table({"src": [1, 1, 2], "dst": [10, 20, 30]})})
    text = "SELECT src, ARRAY_AGG(dst) AS l, ARRAY_AGG(CAST(dst AS STRING)) AS t FROM edge GROUP BY src"
    assert ask(page, "/api/views", {"name": "lists", "text": text})[0] == 200
    for column in ("src", "l", "t"):
        for descending in (False, True):
            seen = page.hub.looked_at("lists", Window(column, descending), {})
            rows = [["1", "[10, 20]", "[10, 20]"], ["2", "[30]", "[30]"]]
            assert seen["rows"] == (rows[::-1] if descending else rows)
    assert page.hub.looked_at("lists", Window(filter="20]"), {})["matching"] == 1
    _, csv = ask(page, "/api/download/lists.csv", Origin="")
    assert csv.decode().splitlines()[1:] == ['1,"[10, 20]","[10, 20]"', '2,"[30]","[30]"']
    _, parquet = ask(page, "/api/download/lists.parquet", Origin="")
    assert pq.read_table(pa.BufferReader(parquet)).column("l").to_pylist() == [[10, 20], [30]]


def test_a_name_beyond_ascii_is_downloaded(page: Server) -> None:
    assert ask(page, "/api/views", {"name": "a漢字", "text": "SELECT src FROM edge"})[0] == 200
    address = f"http://127.0.0.1:{page.port}/api/download/a%E6%BC%A2%E5%AD%97.csv"
    with urllib.request.urlopen(address) as answer:
        said = answer.headers["content-disposition"]
        assert said == "attachment; filename=\"a__.csv\"; filename*=UTF-8''a%E6%BC%A2%E5%AD%97.csv"
    assert ask(page, "/api/views/a%E6%BC%A2%E5%AD%97", method="DELETE")[0] == 200


def test_a_spreadsheet_runs_nothing() -> None:
    texts = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "\nx", "a=1", "", None, "'=1", "＝1"]
    table = pa.table([texts, [-1] * 12, [-1.5] * 12], names=["=t", "n", "f"])
    csv, _ = download(table, "csv")
    options = pacsv.ParseOptions(newlines_in_values=True)
    back = pacsv.read_csv(pa.BufferReader(csv), parse_options=options)
    guarded = ["'=1+1", "'+1", "'-1", "'@x", "'\tx", "'\rx", "'\nx", "a=1", "", "", "'=1", "'＝1"]
    assert back.column_names == ["'=t", "n", "f"] and back.column("'=t").to_pylist() == guarded
    assert back.column("n").to_pylist() == [-1] * 12 and back.column("f").to_pylist() == [-1.5] * 12
    assert pq.read_table(pa.BufferReader(download(table, "parquet")[0])).column("=t").to_pylist() == texts


def test_columns_of_one_name_are_shown() -> None:
    table = pa.table([[2, 1], [3, 4]], names=["a", "a"])
    assert show(table, Window("a")).rows == [["1", "4"], ["2", "3"]]
    assert show(table, Window("a", filter="4")).rows == [["1", "4"]]
    assert download(table, "csv")[0] == b'"a","a"\n2,3\n1,4\n'
    history = GroupHistory([0], [1])
    history.take(0.0, pa.table([list(range(500)), list(range(500))], names=["a", "a"]), 500)
    assert len(history.samples[0].values) == 50


def test_what_json_has_no_number_for(page: Server) -> None:
    page.hub.engine.apply({"edge": pa.table({"src": [1], "dst": [1]})})
    text = "SELECT src, SUM(CAST('NaN' AS DOUBLE)) AS n, MAX(CAST('Infinity' AS DOUBLE)) AS i FROM edge GROUP BY src"
    assert ask(page, "/api/views", {"name": "odd", "text": text})[0] == 200
    wait_until(lambda: bool(page.hub.view("odd").history.samples))
    with connect(f"ws://127.0.0.1:{page.port}/api/live", origin=Origin(f"http://127.0.0.1:{page.port}")) as socket:
        for measure in ("n", "i"):
            socket.send(json.dumps({"view": "odd", "chart": {"measure": measure}}))
            parsed = (json.loads(m, parse_constant=lambda name: pytest.fail(f"{name} is not JSON")) for m in socket)
            seen = next(m["seen"] for m in parsed if m.get("seen", {}).get("measure") == measure)
            assert seen["chart"]["series"] == [] or seen["chart"]["series"][0]["values"][-1] is None


def test_long_texts_are_cut(page: Server) -> None:
    table = pa.table({"t": ["x" * 100_000, "short"]})
    (long,), (short,) = show(table, Window()).rows
    assert long == "x" * 400 + "…" and short == "short"


# Requests -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["[", "]", "[::1", "a b", "", "127.0.0.1:x", "@", "127.0.0.1/..", "[::g]", "\xff"])
def test_invalid_hosts_are_refused(page: Server, host: str) -> None:
    lines = f"GET /api/state HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("latin-1")
    assert said_to(page, lines).split()[1] in (b"400", b"421")
    ours = f"Host: 127.0.0.1:{page.port}\r\nOrigin: {host}"
    for request in (f"POST /api/explain HTTP/1.1\r\n{ours}", f"GET /api/state HTTP/1.1\r\n{ours}"):
        wanted = (b"403", b"200") if not host else (b"403", b"400")
        assert said_to(page, f"{request}\r\n\r\n".encode("latin-1")).split()[1] in wanted


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "127.8.8.8", "localhost", "LocalHost", "[::1]"])
def test_the_page_answers_to_its_own_address(host: str) -> None:
    from freshet.web.hub import Hub

    hub = Hub(GRAPH)
    try:
        server = Server(hub, host)
    except StateError as e:
        pytest.skip(str(e))
    hub.start(paused=True)
    server.start()
    try:
        assert server.address.startswith(f"http://{host}:")
        with urllib.request.urlopen(server.address + "api/state") as answer:
            assert answer.status == 200
        with connect(f"ws{server.address[4:]}api/live", origin=Origin(server.address.rstrip("/"))) as page:
            assert "status" in json.loads(page.recv())
    finally:
        server.close()
        hub.close()


def test_a_request_that_is_too_large_is_not_read(page: Server) -> None:
    head = f"POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\nOrigin: http://127.0.0.1:{page.port}\r\n"
    for length in ("300001", "99999999999999999999999"):
        said = said_to(page, f"{head}Content-Length: {length}\r\n\r\n".encode())
        assert said.split()[1] in (b"413", b"400")
    assert said_to(page, f"{head}X: {'y' * 100_000}\r\n\r\n".encode()).split()[1] == b"400"


# Connections --------------------------------------------------------------------------------------------------------


def test_connections_that_do_nothing_are_ended(page: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEAD", "BODY", "STALL"):
        monkeypatch.setattr(connections, name, 0.5)
    page.hub.engine.apply({"edge": pa.table({"src": range(400_000), "dst": range(400_000)})})
    assert ask(page, "/api/views", {"name": "wide", "text": "SELECT src, dst FROM edge"})[0] == 200
    ours = f"Host: 127.0.0.1:{page.port}\r\nOrigin: http://127.0.0.1:{page.port}\r\n"
    begun = {
        "says nothing": b"",
        "half of a request": b"GET / HTTP/1.1\r\nHo",
        "no body": f"POST /api/explain HTTP/1.1\r\n{ours}Content-Length: 10\r\n\r\n{{".encode(),
        "says nothing more": f"GET /api/state HTTP/1.1\r\n{ours}\r\n".encode(),
        "reads nothing": f"GET /api/download/wide.csv HTTP/1.1\r\n{ours}\r\n".encode(),
    }
    with contextlib.ExitStack() as opened:
        for content in begun.values():
            each = opened.enter_context(socket.create_connection(("127.0.0.1", page.port)))
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            each.sendall(content)
        for _ in range(3):
            opened.enter_context(deaf_page(page.port))
        # The others are ended; open pages stay as long as they answer pings.
        wait_until(lambda: len(page._server.server_state.connections) == page._pages.open == 3, 60)
    wait_until(lambda: not page._server.server_state.connections, 60)
    wait_until(lambda: page._pages.open == 0)
    assert ask(page, "/api/state")[0] == 200


def test_a_byte_at_a_time_is_too_slow(page: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD", 0.5)
    with socket.create_connection(("127.0.0.1", page.port)) as slow:
        slow.settimeout(30)
        with pytest.raises(OSError, match=r"reset|closed|aborted|Broken pipe"):  # noqa: PT012
            for _ in range(1_000):
                slow.sendall(b"G")
                time.sleep(0.05)


def test_connections_and_pages_are_limited(page: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.ExitStack() as opened:
        for _ in range(MOST_PAGES):
            opened.enter_context(connect(f"ws://127.0.0.1:{page.port}/api/live", origin=_origin(page)))
        with pytest.raises(InvalidStatus):
            opened.enter_context(connect(f"ws://127.0.0.1:{page.port}/api/live", origin=_origin(page)))
        assert ask(page, "/api/state")[0] == 200
        monkeypatch.setattr(connections, "MOST", MOST_PAGES + 3)
        for _ in range(20):
            opened.enter_context(socket.create_connection(("127.0.0.1", page.port)))
        wait_until(lambda: len(page._server.server_state.connections) == MOST_PAGES + 3)
    wait_until(lambda: page._pages.open == 0)
    assert ask(page, "/api/state")[0] == 200


@pytest.mark.parametrize("message", [b"\xff\xfe", "[" * 9_000, "x" * 60_000, b"", "7", '{"view": 7, "page": -1e99}'])
def test_invalid_messages_are_ignored(page: Server, message: str | bytes) -> None:
    with connect(f"ws://127.0.0.1:{page.port}/api/live", origin=_origin(page)) as socket:
        socket.send(message)
        socket.send(json.dumps({"view": "hubs"}))
        assert next(m for m in map(json.loads, socket) if "seen" in m)["seen"]["view"] == "hubs"


def _origin(page: Server) -> Origin:
    return Origin(f"http://127.0.0.1:{page.port}")
