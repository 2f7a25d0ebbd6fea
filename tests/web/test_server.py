"""The page's server: responses, refusals, and that a transaction reaches a page quickly."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

pytest.importorskip("starlette")
pytest.importorskip("websockets")

from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

import freshet
from freshet.errors import PlanError
from freshet.web import board
from freshet.web.answer import Window
from freshet.web.feed import Settings
from freshet.web.security import is_loopback
from freshet.web.server import Server
from tests.web.pages import ask, served, wait_until

GRAPH = Settings(source="graph", scale=0.001, speed=2_000, repeat=False)


@pytest.fixture(scope="module")
def page() -> Iterator[Server]:
    with served(GRAPH, paused=True) as server:
        yield server


def live(server: Server, origin: str | None = None) -> ClientConnection:
    sent = Origin(origin or f"http://127.0.0.1:{server.port}")
    return connect(f"ws://127.0.0.1:{server.port}/api/live", origin=sent)


# Responses ----------------------------------------------------------------------------------------------------------


def test_the_page_and_its_files(page: Server) -> None:
    status, html = ask(page, "/")
    assert status == 200 and b'src="/static/app.js"' in html
    for name in ("app.js", "style.css", "vendor/codemirror.js", "vendor/uPlot.esm.js"):
        assert ask(page, f"/static/{name}")[0] == 200
    assert b"http://" not in html and b"https://" not in html, "everything comes from the package"


def test_explain_without_running(page: Server) -> None:
    status, explained = ask(page, "/api/explain", {"text": "SELECT src, COUNT(*) AS n FROM edge GROUP BY src;"})
    assert status == 200
    assert explained["explain"]["class"] == "q-hierarchical" and "tree" in explained["text"]
    assert ask(page, "/api/explain", {"text": explained["plan"]})[1]["plan"] == explained["plan"]
    assert "n" not in page.hub.views


def test_views_are_created_and_dropped(page: Server) -> None:
    assert ask(page, "/api/views", {"name": "mine", "text": "SELECT src FROM edge"}) == (200, {"name": "mine"})
    assert "mine" in ask(page, "/api/state")[1]["sizes"]
    status, refused = ask(page, "/api/views", {"name": "mine", "text": "SELECT src FROM edge"})
    assert status == 400 and "view mine already exists" in refused["error"]
    assert ask(page, "/api/views/mine", method="DELETE")[0] == 200
    assert "mine" not in ask(page, "/api/state")[1]["sizes"]
    assert ask(page, "/api/views/mine", method="DELETE")[1]["error"].startswith("no view mine")


def test_a_view_that_another_reads_stays(page: Server) -> None:
    assert ask(page, "/api/views", {"name": "lower", "text": "SELECT src FROM edge"})[0] == 200
    assert ask(page, "/api/views", {"name": "upper", "text": "SELECT COUNT(*) AS n FROM lower"})[0] == 200
    status, refused = ask(page, "/api/views/lower", method="DELETE")
    assert status == 400 and "view upper reads view lower; drop the view first" in refused["error"]
    assert {"lower", "upper"} <= set(ask(page, "/api/state")[1]["sizes"])
    for name in ("upper", "lower"):
        assert ask(page, f"/api/views/{name}", method="DELETE")[0] == 200


def test_downloads(page: Server) -> None:
    page.hub.engine.apply({"edge": pa.table({"src": [901, 901], "dst": [902, 903]})})
    ask(page, "/api/views", {"name": "some", "text": "SELECT dst FROM edge WHERE src = 901"})
    _, csv = ask(page, "/api/download/some.csv", Origin="")
    assert pacsv.read_csv(pa.BufferReader(csv)).column("dst").to_pylist() == [902, 903]
    _, parquet = ask(page, "/api/download/some.parquet", Origin="")
    assert pq.read_table(pa.BufferReader(parquet)).num_rows == 2
    assert ask(page, "/api/download/some.xls") == (400, {"error": "no format xls; there are csv and parquet"})
    assert ask(page, "/api/download/nothing.csv")[0] == 400
    ask(page, "/api/views/some", method="DELETE")


def test_a_window_of_a_view(page: Server) -> None:
    rows = {"src": list(range(2000, 2100)), "dst": [7_000 + i % 3 for i in range(100)]}
    page.hub.engine.apply({"edge": pa.table(rows)})
    ask(page, "/api/views", {"name": "wide", "text": "SELECT src, dst FROM edge WHERE src BETWEEN 2000 AND 2099"})
    with live(page) as socket:
        socket.send(json.dumps({"view": "wide", "sort": "src", "descending": True, "page": 1, "size": 10}))
        seen = next(m["seen"] for m in map(json.loads, socket) if "seen" in m)
        assert [r[0] for r in seen["rows"]] == [str(2099 - i) for i in range(10, 20)]
        assert seen["total"] == seen["matching"] == 100
        socket.send(json.dumps({"view": "wide", "filter": "7001", "size": 5000, "page": 99}))
        seen = next(m["seen"] for m in map(json.loads, socket) if "seen" in m and m["seen"]["matching"] < 100)
        assert seen["matching"] == 33 == len(seen["rows"]) and seen["page"] == 0
        assert seen["plan"]["tree"][0]["tuples"] >= 100
    ask(page, "/api/views/wide", method="DELETE")


# Refusals -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT nothing FROM edge", "no column nothing; edge has src, dst"),
        ("SELECT * FROM parquet.`/etc/passwd`", ""),
        ("SELECT * FROM read_csv('/etc/passwd')", ""),
        ("DROP TABLE edge", "a SELECT is expected"),
        ("INSERT INTO edge VALUES (1, 2)", "a SELECT is expected"),
        ("CREATE TABLE x (a BIGINT) USING csv OPTIONS (path '/etc/passwd')", ""),
        ("SELECT 1 AS one; SELECT 2 AS two", "another statement begins here"),
        ('{"format": 9}', "the plan's format is not 2"),
        ("SELECT " + "1 + " * 9_000 + "1 AS n FROM edge", "a query may have 20,000"),
        ("   ", "text is missing; give a text"),
    ],
)
def test_only_queries_over_registered_tables(page: Server, text: str, message: str) -> None:
    for path, body in (("/api/explain", {"text": text}), ("/api/views", {"name": "bad", "text": text})):
        status, refused = ask(page, path, body)
        assert status == 400 and message in refused["error"]
        assert "Traceback" not in refused["error"]
    assert "bad" not in page.hub.views


def test_errors_have_their_place(page: Server) -> None:
    _, refused = ask(page, "/api/explain", {"text": "SELECT src,\n  nothing\nFROM edge"})
    assert (refused["line"], refused["column"]) == (2, 3)


@pytest.mark.parametrize("name", ["", "a b", "1a", "x" * 42, "../x"])
def test_names_of_views(page: Server, name: str) -> None:
    assert ask(page, "/api/views", {"name": name, "text": "SELECT src FROM edge"})[0] == 400


def test_the_number_of_views_is_limited(page: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "MOST_VIEWS", len(page.hub.views))
    status, refused = ask(page, "/api/views", {"name": "more", "text": "SELECT src FROM edge"})
    assert status == 400 and "the maximum; close one first" in refused["error"]


def test_other_pages_are_refused(page: Server) -> None:
    body = {"text": "SELECT src FROM edge"}
    assert ask(page, "/api/explain", body, Origin="http://elsewhere.example")[0] == 403
    assert ask(page, "/api/explain", body, Origin="")[0] == 403, "what changes something comes from our pages"
    assert ask(page, "/api/state", Host="elsewhere.example", Origin="")[0] == 421, "a name pointed at us"
    for origin in ("http://elsewhere.example", "null"):
        with pytest.raises(InvalidStatus), live(page, origin):
            pass


def test_requests_are_bounded(page: Server) -> None:
    status, refused = ask(page, "/api/explain", {"text": "x" * 400_000})
    assert status == 413 and refused == {"error": "the request is too large"}
    assert ask(page, "/api/explain", b"nonsense")[0] == 400
    assert ask(page, "/api/explain", b"[1]")[1] == {"error": "the request is not a JSON object; send one"}
    assert ask(page, "/api/explain", b"text", Content_Type="text/plain")[0] == 400
    deep = b'{"text":' * 3_000 + b"1" + b"}" * 3_000
    assert ask(page, "/api/explain", deep) == (400, {"error": "the request is not JSON; correct it"})
    assert ask(page, "/api/stream", {"action": "restart", "settings": [1]})[0] == 400
    assert ask(page, "/nothing")[1] == {"error": "there is nothing here"}
    assert ask(page, "/static/../server.py")[0] == 404


def test_half_of_a_character_is_refused_and_breaks_nothing(page: Server) -> None:
    """JSON can say half of a surrogate pair; an answer with it could not be sent."""
    before = set(page.hub.views)
    status, refused = ask(page, "/api/views", {"name": "half", "text": "SELECT '\ud800' AS a FROM edge"})
    assert status == 400 and refused["error"] == "text has half of a character at place 9; remove it"
    assert set(page.hub.views) == before and ask(page, "/api/state")[0] == 200
    with live(page) as socket:
        socket.send(json.dumps({"view": "hubs", "filter": "\ud800"}))
        assert "error" not in json.loads(socket.recv()) and "error" not in json.loads(socket.recv())


def test_what_breaks_inside_is_not_shown(
    page: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(page.hub, "state", broken)
    assert ask(page, "/api/state") == (500, {"error": "something broke inside; the server's log says what"})
    assert "secret" in caplog.text


def test_headers(page: Server) -> None:
    import urllib.request

    with urllib.request.urlopen(f"http://127.0.0.1:{page.port}/") as answer:
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers


def test_a_token(tmp_path: object) -> None:
    with served(GRAPH, token="long enough", paused=True) as page:
        assert ask(page, "/api/state")[0] == 401
        assert ask(page, "/api/state?token=wrong")[0] == 401
        assert ask(page, "/api/state", Authorization="Bearer long enough")[0] == 200
        assert ask(page, "/api/state", Cookie='freshet_token="long enough"')[0] == 200
        assert ask(page, "/static/app.js")[0] == 401
        with pytest.raises(InvalidStatus), live(page):
            pass


def test_loopback() -> None:
    assert [is_loopback(h) for h in ("127.0.0.1", "::1", "localhost", "127.8.8.8")] == [True] * 4
    assert not any(is_loopback(h) for h in ("0.0.0.0", "::", "192.168.1.2", "localhost.example"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"speed": "fast"}, "speed is 'fast'; give a int"),
        ({"window": 7}, "window is 7.0; give 0.001 to 1"),
        ({"source": "files"}, "source is 'files'; there are tpch, graph, market"),
        ({"path": "/etc"}, "no setting path; there are source, scale"),
        ({"repeat": 1}, "repeat is 1; give a bool"),
    ],
)
def test_settings_are_checked(page: Server, given: dict[str, object], message: str) -> None:
    status, refused = ask(page, "/api/stream", {"action": "restart", "settings": given})
    assert status == 400 and message in refused["error"]
    assert ask(page, "/api/stream", {"action": "halt"})[1]["error"].startswith("no action 'halt'")


# The stream -------------------------------------------------------------------------------------------------------


def test_pause_resume_restart_and_the_end_of_a_round() -> None:
    with served(GRAPH, paused=True) as page:
        hub = page.hub
        assert ask(page, "/api/state")[1]["stream"] == "paused"
        before = hub.engine.version
        time.sleep(0.2)
        assert hub.engine.version == before
        assert ask(page, "/api/stream", {"action": "resume"})[1]["stream"] == "running"
        wait_until(lambda: hub.engine.version > before + 2)
        status, _ = ask(page, "/api/stream", {"action": "restart", "settings": {"source": "market", "speed": 4_000}})
        assert status == 200 and list(hub.views) == ["bids_that_meet_an_ask"]
        wait_until(lambda: hub.status()["stream"] == "finished")
        assert hub.status()["sizes"] == {"bids_that_meet_an_ask": 0}, "a sliding window runs empty"
        assert hub.status()["health"]["tuples"] == 0
        view = hub.view("bids_that_meet_an_ask")
        assert view.appeared == view.vanished > 0
        assert any(s.values for s in view.history.samples)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_where_spark_does_not_start_the_page_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    for started in ("_gateway", "_jvm", "_active_spark_context"):  # by tests before this one
        monkeypatch.setattr(pyspark.SparkContext, started, None)
    monkeypatch.setattr(pyspark.sql.SparkSession, "_instantiatedSession", None)
    with served(GRAPH) as page:
        ask(page, "/api/views", {"name": "mine", "text": "SELECT src FROM edge"})
        status, refused = ask(page, "/api/stream", {"action": "restart", "settings": {"engine": "spark"}})
        assert status == 400 and refused["error"].startswith("Spark does not start: ")
        assert "/nowhere" in refused["error"] and refused["error"].endswith("`freshet doctor` says what is missing")
        assert page.hub.settings.engine == "in-process" and set(page.hub.views) == {"hubs", "mine"}
        before = page.hub.engine.version
        wait_until(lambda: page.hub.engine.version > before or page.hub.status()["stream"] == "finished")
    gc.collect()  # PySpark leaves a pipe to the process that did not start: nothing of a later test


def test_views_stay_where_their_tables_do() -> None:
    with served(GRAPH, paused=True) as page:
        ask(page, "/api/views", {"name": "mine", "text": "SELECT src FROM edge"})
        ask(page, "/api/stream", {"action": "restart", "settings": {"mode": "insert", "scale": 0.0005}})
        assert set(page.hub.views) == {"hubs", "mine"}


def test_a_transaction_reaches_the_page_soon() -> None:
    """Into a view of 100,000 rows that a page has open: the page receives each version quickly. The limit is ten times
    the promised delay, for busy machines."""
    with served(GRAPH, paused=True) as page:
        engine = page.hub.engine
        rows = np.arange(100_000)
        engine.apply({"edge": pa.table({"src": 10_000 + rows, "dst": 1 + rows % 7})})
        ask(page, "/api/views", {"name": "wide", "text": "SELECT src, dst FROM edge WHERE src >= 10000"})
        taken = []
        with live(page) as socket:
            socket.send(json.dumps({"view": "wide", "sort": "src", "size": 50}))
            for i in range(5):
                start = time.monotonic()
                engine.apply({"edge": pa.table({"src": [-1 - i], "dst": [0]})})
                engine.apply({"edge": pa.table({"src": [200_000 + i], "dst": [5]})})
                while json.loads(socket.recv()).get("seen", {}).get("version", 0) < engine.version:
                    pass
                taken.append(time.monotonic() - start)
        assert sorted(taken)[2] < 2.0


def test_a_failing_stream_says_why() -> None:
    with served(GRAPH, paused=True) as page:
        page.hub._stopped("it failed")
        assert ask(page, "/api/state")[1]["message"] == "it failed"


def test_charts_take_the_top_and_the_bottom() -> None:
    with served(GRAPH, paused=True) as page:
        engine, hub = page.hub.engine, page.hub
        src = np.repeat(np.arange(300), np.arange(300) % 30 + 1)
        engine.apply({"edge": pa.table({"src": src + 5_000, "dst": np.arange(len(src))})})
        text = "SELECT src, COUNT(*) AS n, MIN(dst) AS least FROM edge WHERE src >= 5000 GROUP BY src"
        ask(page, "/api/views", {"name": "counts", "text": text})
        wait_until(lambda: bool(hub.view("counts").history.samples))
        top = hub.looked_at("counts", Window(), {"measure": "n", "k": 3, "largest": True})["chart"]
        assert [s["values"][-1] for s in top["series"]] == [30.0] * 3
        bottom = hub.looked_at("counts", Window(), {"measure": "least", "k": 2, "largest": False})["chart"]
        assert [s["group"] for s in bottom["series"]] == ["5000", "5001"]
        rows = hub.looked_at("counts", Window(), {"measure": "rows of the answer"})["chart"]
        assert rows["series"][0]["values"][-1] == 300


def test_a_scenario_is_refused() -> None:
    with pytest.raises(PlanError, match="unknown scenario x; there are tpch, graph, market"):
        freshet.demo.make_scenario("x", 1)
