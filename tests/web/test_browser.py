"""The live page in a real browser: typing, reading and clicking.

Screenshots for the README are written when FRESHET_SCREENSHOTS names a folder.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable

import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

pytest.importorskip("starlette")
pytest.importorskip("playwright.sync_api")

from playwright.sync_api import Page, expect

from freshet.demo import tpch
from freshet.web.feed import Settings
from tests.web.pages import picture, served, wait_until

TPCH = Settings(source="tpch", scale=0.001, mode="sliding", window=0.3, speed=2_500, repeat=False)


def write(page: Page, text: str) -> None:
    page.evaluate("text => document.querySelector('.CodeMirror').CodeMirror.setValue(text)", text)


def written(page: Page) -> str:
    return str(page.evaluate("document.querySelector('.CodeMirror').CodeMirror.getValue()"))


def groups(page: Page) -> list[str]:
    """The lines of the chart."""
    return (page.get_attribute("#chart", "data-groups") or "").split("|")


def cells(page: Page, column: int) -> list[str]:
    return page.locator(f"#rows tbody tr:not(.gone) td:nth-child({column})").all_inner_texts()


def counted(page: Page) -> int:
    """All orders that Q4 counts just now."""
    return sum(int(n) for n in cells(page, 2))


def last_values(page: Page) -> list[str]:
    return (page.get_attribute("#chart", "data-last") or "").split("|")


def test_counts_rise_and_fall_back_to_zero(open_page: Callable[..., Page]) -> None:
    """TPC-H Q4: late orders by priority, as orders are inserted and deleted."""
    with served(TPCH, paused=True) as server:
        page = open_page(server)
        expect(page.locator("#total")).to_have_text(re.compile("^0 rows"))
        expect(page.locator("#status")).to_have_text("paused · in-process")
        expect(page.locator("#tree")).to_contain_text("orders")
        expect(page.locator("#tree")).to_contain_text("semi")
        expect(page.locator("#guarantees")).to_contain_text("O(1) for every stream of changes")
        page.click("#pause")
        expect(page.locator("#status")).to_have_text("running · in-process")
        seen = [0]
        end = time.monotonic() + 60
        while time.monotonic() < end and page.get_attribute("body", "data-stream") != "finished":
            now = counted(page)
            if now != seen[-1]:
                seen.append(now)
            if now > 20 and not page.locator("#chart canvas").count():
                page.wait_for_selector("#chart canvas")
        expect(page.locator("#total")).to_have_text(re.compile("^0 rows"))
        top = max(seen)
        assert top > 20, "the counts rise"
        assert any(0 < n < top for n in seen), "step by step, though a busy machine may show only some of the steps"
        assert seen[-1] < top, "and fall"
        expect(page.locator("#rows tbody tr:not(.gone)")).to_have_count(0)
        wait_until(lambda: set(last_values(page)) == {"0"})  # so do the lines of the chart
        expect(page.locator("#feed li.minus").first).to_contain_text("−1")


def test_a_query_is_typed_explained_and_kept(open_page: Callable[..., Page]) -> None:
    with served(TPCH, paused=True) as server:
        page = open_page(server)
        editor = page.locator(".CodeMirror")
        editor.click()
        page.keyboard.press("Control+A")
        page.keyboard.type("SELECT o_orderstatus, COUNT(*) AS n, SUM(o_total")
        page.wait_for_selector(".CodeMirror-hints")  # completion knows the columns
        expect(page.locator(".CodeMirror-hints")).to_contain_text("o_totalprice")
        page.keyboard.press("Escape")
        page.keyboard.type("price) AS total FROM orders GROUP BY o_orderstatus")
        page.keyboard.press("Escape")
        page.click("#explain")
        expect(page.locator("#explain-text")).to_contain_text("class      q-hierarchical")
        assert list(server.hub.views) == ["q4"], "to explain is not to run"
        expect(page.locator("#plan-of")).to_have_text("as it would be")
        page.wait_for_timeout(1_200)  # messages of the open view have arrived in between
        expect(page.locator("#tree .name")).to_have_text(["orders"])
        page.click("#live-plan")
        expect(page.locator("#tree .name")).to_have_text(["orders", "lineitem"])
        expect(page.locator("#live-plan")).to_be_hidden()
        page.fill("#name", "status")
        page.keyboard.press("Tab")
        page.click("#run")
        expect(page.locator('.tab[aria-pressed="true"]')).to_contain_text("status")
        page.click("#pause")
        expect(page.locator("#rows tbody")).to_contain_text("F")
        expect(page.locator(".count").first).to_contain_text("/")  # alive / tuples, moving
        page.click("th button:has-text('total')")
        expect(page.locator("th[aria-sort=ascending]")).to_contain_text("total")
        page.fill("#filter", "no such thing")
        expect(page.locator("#total")).to_contain_text("0 of")


def test_the_chart_shows_another_aggregate_and_other_groups(open_page: Callable[..., Page]) -> None:
    query = """SELECT c_mktsegment, COUNT(*) AS n, SUM(o_totalprice) AS total
               FROM customer, orders WHERE c_custkey = o_custkey GROUP BY c_mktsegment"""
    settings = Settings(source="tpch", scale=0.001, mode="insert", speed=3_000, repeat=False)
    with served(settings, paused=True) as server:
        server.hub.create("segments", query)
        page = open_page(server)
        page.click(".tab[data-view=segments]")
        page.click("#pause")
        expect(page.locator("#chart")).to_have_attribute("data-name", "segments/n")
        wait_until(lambda: len(groups(page)) == 5)
        page.select_option("#measure", "total")
        expect(page.locator("#chart")).to_have_attribute("data-name", "segments/total")
        page.fill("#k", "2")
        page.keyboard.press("Tab")
        wait_until(lambda: len(groups(page)) == 2)
        expect(page.locator("body")).to_have_attribute("data-stream", "finished")
        page.wait_for_timeout(1_500)
        totals = {
            row["c_mktsegment"]: float(row["total"])
            for row in server.hub.look(server.hub.view("segments")).table.to_pylist()
        }
        ranked = sorted(totals, key=lambda s: -totals[s])
        assert groups(page) == ranked[:2]
        page.select_option("#extreme", "bottom")
        wait_until(lambda: groups(page) == ranked[:-3:-1])
        assert [float(v) for v in last_values(page)] == [totals[s] for s in ranked[:-3:-1]]
        page.click("#hold")
        expect(page.locator("#hold")).to_have_attribute("aria-pressed", "true")
        page.click("#hold")
        expect(page.locator("#chart .u-legend")).to_contain_text(ranked[-1])
        page.click(f"#chart .u-legend th:has-text('{ranked[-1]}')")
        expect(page.locator("#chart .u-series.u-off")).to_contain_text(ranked[-1])
        expect(page.locator("#unzoom")).to_be_disabled()
        page.locator("#chart").scroll_into_view_if_needed()
        box = page.locator("#chart .u-over").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 60, box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] + 160, box["y"] + 40, steps=5)
        page.mouse.up()
        expect(page.locator("#unzoom")).to_be_enabled()
        page.click("#unzoom")
        expect(page.locator("#unzoom")).to_be_disabled()
        page.focus("#chart")
        page.keyboard.press("+")
        expect(page.locator("#unzoom")).to_be_enabled()
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("0")
        expect(page.locator("#unzoom")).to_be_disabled()
        page.focus("#chart .u-legend .u-series:nth-child(3) th")
        page.keyboard.press("Enter")
        expect(page.locator("#chart .u-series:nth-child(3)")).to_have_class(re.compile("u-off"))


def test_pause_and_reload_lose_nothing(open_page: Callable[..., Page]) -> None:
    settings = Settings(source="tpch", scale=0.001, mode="insert", speed=300, repeat=False)
    with served(settings) as server:
        page = open_page(server)
        with page.expect_response("**/api/state"):  # it requests new changes
            server.hub.create("nations", "SELECT n_name, n_regionkey FROM nation")
        page.click(".tab[data-view=nations]")
        wait_until(lambda: written(page) == "SELECT n_name, n_regionkey FROM nation")
        page.click("th button:has-text('n_name')")
        page.select_option("#size", "10")
        page.click("#next")
        expect(page.locator("#page")).to_have_text("page 2 of 3")
        expect(page.locator("#rows tbody td").first).to_have_text("INDONESIA")
        page.click("#pause")
        expect(page.locator("#status")).to_have_text("paused · in-process")
        before = server.hub.engine.version
        page.reload()
        page.wait_for_selector("#tree svg")
        expect(page.locator('.tab[aria-pressed="true"]')).to_contain_text("nations · 25")
        expect(page.locator("th[aria-sort=ascending]")).to_contain_text("n_name")
        expect(page.locator("#status")).to_have_text("paused · in-process")
        expect(page.locator("#pause")).to_have_text("Resume")
        for form, reader in (("csv", pacsv.read_csv), ("parquet", pq.read_table)):
            with page.expect_download() as download:
                page.click(f"#{form}")
            assert download.value.suggested_filename == f"nations.{form}"
            assert sorted(reader(download.value.path()).column("n_name").to_pylist())[0] == "ALGERIA"
        assert server.hub.engine.version == before
        assert {v.name for v in server.hub.views.values()} == {"Q4", "nations"}
        page.once("dialog", lambda asked: asked.dismiss())
        page.click("button[aria-label='close view nations']")
        page.wait_for_timeout(300)
        assert set(server.hub.views) == {"q4", "nations"}, "it asks first"
        page.once("dialog", lambda asked: asked.accept())
        page.click("button[aria-label='close view nations']")
        expect(page.locator("#views")).not_to_contain_text("nations")
        expect(page.locator("#log")).to_contain_text("view nations was closed")


def test_a_bad_query_is_marked_at_its_place(open_page: Callable[..., Page]) -> None:
    with served(TPCH, paused=True) as server:
        page = open_page(server)
        write(page, "SELECT o_orderkey,\n  o_prio\nFROM orders")
        page.click("#run")
        expect(page.locator("#error")).to_contain_text("line 2, column 3: no column o_prio; orders has o_")
        expect(page.locator(".CodeMirror .wrong")).to_have_text("o_prio")
        assert "Traceback" not in page.inner_text("body")
        write(page, "SELECT * FROM parquet.`/etc/passwd`")
        page.click("#explain")
        expect(page.locator("#error")).to_be_visible()
        assert list(server.hub.views) == ["q4"]


def test_a_plan_as_json_is_edited_and_kept(open_page: Callable[..., Page]) -> None:
    with served(TPCH, paused=True) as server:
        page = open_page(server)
        write(page, "SELECT c_name, COUNT(*) AS n FROM customer, orders WHERE c_custkey = o_custkey GROUP BY c_name")
        page.click("#edit-plan")
        wait_until(lambda: written(page).startswith("{"))
        plan = json.loads(written(page))
        plan["trees"][0]["nodes"] = [{"node": "customer", "parent": None}, {"node": "nobody", "parent": "customer"}]
        write(page, json.dumps(plan))
        page.fill("#name", "edited")
        page.click("#run")
        expect(page.locator("#error")).to_contain_text("the query has no nobody there; it has customer, orders")
        plan["trees"][0]["nodes"] = [{"node": "customer", "parent": None}, {"node": "orders", "parent": "customer"}]
        write(page, json.dumps(plan))
        page.click("#run")
        expect(page.locator('.tab[aria-pressed="true"]')).to_contain_text("edited")
        expect(page.locator("#tree .name")).to_have_text(["customer", "orders"])
        page.click("#pause")
        expect(page.locator("#rows tbody")).to_contain_text("Customer#")


def test_a_phone_the_keyboard_and_the_dark(open_page: Callable[..., Page]) -> None:
    settings = Settings(source="market", scale=0.002, speed=500)
    with served(settings) as server:
        page = open_page(server, width=390, height=844)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, "nothing is wider than the screen"
        page.locator("#name").focus()
        page.keyboard.press("Tab")
        assert page.evaluate("!!document.activeElement.closest('.CodeMirror')")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "run", "Tab leaves the editor"
        page.locator("#theme").focus()
        before = page.get_attribute("html", "data-theme")
        page.keyboard.press("Enter")
        assert page.get_attribute("html", "data-theme") != before
        page.locator("#pause").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#status")).to_have_text("paused · in-process")
        unnamed = page.evaluate(
            "[...document.querySelectorAll('button, input, select')].filter(e => !(e.textContent || e.ariaLabel ||"
            " e.labels?.length || e.title || e.closest('.CodeMirror'))).map(e => e.outerHTML)"
        )
        assert unnamed == []
        expect(page.locator("#settings-form select[name=source] option")).to_have_count(3)
        picture(page, "page-phone")


def test_settings_start_another_stream(open_page: Callable[..., Page]) -> None:
    with served(Settings(source="graph", scale=0.001, speed=500)) as server:
        page = open_page(server)
        page.select_option("#settings-form [name=source]", "market")
        page.fill("#settings-form [name=scale]", "0.001")
        page.select_option("#settings-form [name=mode]", "random")
        page.click("#settings-form button")
        expect(page.locator("#views")).to_contain_text("bids_that_meet_an_ask")
        expect(page.locator("#rows tbody tr").first).to_be_visible()
        assert (server.hub.settings.source, server.hub.settings.mode) == ("market", "random")
        page.fill("#settings-form [name=window]", "5")
        page.evaluate("document.querySelector('#settings-form').noValidate = true")
        page.click("#settings-form button")
        expect(page.locator("#settings-error")).to_contain_text("window is 5.0; give 0.001 to 1")


@pytest.mark.skipif("FRESHET_SCREENSHOTS" not in os.environ, reason="pictures are made on demand")
def test_pictures_for_the_readme(open_page: Callable[..., Page]) -> None:
    with served(Settings(source="tpch", scale=0.01, window=0.25, speed=8_000)) as server:
        server.hub.create("Q5", tpch.queries()["Q5"].replace("= 'ASIA'", "<> ''"))
        server.hub.create("Q3", tpch.queries()["Q3"])
        page = open_page(server, width=1280, height=1180)
        page.click(".tab[data-view=Q5]")
        write(page, server.hub.view("Q5").sql)
        wait_until(lambda: server.hub.view("Q5").rows > 4, 60)
        page.wait_for_timeout(4_000)
        picture(page, "page")
