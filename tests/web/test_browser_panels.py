"""The page's panels in a real browser: tables, log, empty states, plans, colours, and the page of a job."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow.csv as pacsv
import pytest

pytest.importorskip("starlette")
pytest.importorskip("playwright.sync_api")

from playwright.sync_api import Page, expect

from freshet.demo import tpch
from freshet.web.feed import Settings
from tests.web.pages import served, wait_until

TPCH = Settings(source="tpch", scale=0.001, mode="sliding", window=0.3, speed=2_500, repeat=False)
NATIONS = "SELECT n_name, n_regionkey FROM nation"


def written(page: Page) -> str:
    return str(page.evaluate("document.querySelector('.CodeMirror').CodeMirror.getValue()"))


def test_tables_are_listed_with_types_and_rows(open_page: Callable[..., Page]) -> None:
    with served(TPCH, paused=True) as server:
        page = open_page(server)
        nation = page.locator("#tables details", has_text="nation").first
        expect(nation.locator("summary")).to_have_text("nation 25 rows")
        expect(page.locator("#tables summary", has_text="orders")).to_have_text("orders 0 rows")
        nation.locator("summary").click()
        expect(nation.locator("dl")).to_contain_text(re.compile(r"n_nationkey\s*\w+ · key\s*n_name\s*STRING"))
        page.click("#pause")
        orders = page.locator("#tables summary", has_text="orders")
        expect(orders).to_have_text(re.compile(r"^orders [1-9][\d,]* rows$"))


def test_the_page_opens_on_an_answer(open_page: Callable[..., Page]) -> None:
    """However slow the stream is: the first rows appear immediately."""
    for source in ("tpch", "graph", "market"):
        with served(Settings(source=source, scale=0.001, speed=40)) as server:
            assert all(view.rows for view in server.hub.views.values())
            page = open_page(server)
            expect(page.locator("#rows tbody tr").first).to_be_visible()
            expect(page.locator("#empty")).to_be_hidden()


def test_nothing_to_show_is_said_in_words(open_page: Callable[..., Page]) -> None:
    with served(TPCH, paused=True) as server:
        page = open_page(server)
        expect(page.locator("#empty")).to_have_text(re.compile("^The answer has no rows at this version"))
        expect(page.locator("#no-feed")).to_be_visible()
        server.hub.create("nations", NATIONS)
        page.click(".tab[data-view=nations]")
        expect(page.locator("#empty")).to_be_hidden()
        page.fill("#filter", "nowhere")
        expect(page.locator("#empty")).to_have_text("None of 25 rows has “nowhere”.")
        server.hub.drop("nations")
        server.hub.drop("Q4")
        expect(page.locator("#empty")).to_have_text("No view is kept. Write a query, and press Keep fresh.")


def test_a_tab_brings_its_query_name_and_explanation(open_page: Callable[..., Page]) -> None:
    with served(TPCH, paused=True) as server:
        server.hub.create("nations", NATIONS)
        page = open_page(server)
        expect(page.locator("#name")).to_have_value("Q4")
        page.click("#explained summary")
        expect(page.locator("#explain-text")).to_contain_text("lineitem")
        page.click(".tab[data-view=nations]")
        expect(page.locator("#name")).to_have_value("nations")
        assert written(page) == NATIONS
        expect(page.locator("#explain-text")).not_to_contain_text("lineitem")
        expect(page.locator("#explain-text")).to_contain_text("nation")
        page.evaluate("document.querySelector('.CodeMirror').CodeMirror.setValue('SELECT 1 AS mine')")
        page.click(".tab[data-view=Q4]")
        expect(page.locator("#tree .name").first).to_have_text("orders")
        assert written(page) == "SELECT 1 AS mine", "what somebody has begun to write stays"


def test_what_is_filtered_and_sorted_is_downloaded_so(open_page: Callable[..., Page]) -> None:
    with served(TPCH, paused=True) as server:
        server.hub.create("nations", NATIONS)
        page = open_page(server)
        page.click(".tab[data-view=nations]")
        page.fill("#filter", "in")
        expect(page.locator("#total")).to_contain_text("of 25 rows")
        page.click("th button:has-text('n_name')")
        page.click("th button:has-text('n_name')")
        expect(page.locator("th[aria-sort=descending]")).to_contain_text("n_name")
        expect(page.locator("#csv")).to_have_attribute("href", re.compile("filter=in&sort=n_name&descending=1"))
        with page.expect_download() as download:
            page.click("#csv")
        names = pacsv.read_csv(download.value.path()).column("n_name").to_pylist()
        assert names == sorted((n for n in names if "IN" in n), reverse=True) and 0 < len(names) < 25


def test_changes_and_the_log_have_their_time(open_page: Callable[..., Page]) -> None:
    with served(TPCH) as server:
        page = open_page(server)
        expect(page.locator("#feed li time").first).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
        expect(page.locator("#no-feed")).to_be_hidden()
        expect(page.locator("#log")).to_contain_text("the stream begins: tpch, sliding, 2,500 a second, in-process")
        expect(page.locator("#log")).to_contain_text("view Q4 is kept from version 1 on")
        page.click("#pause")
        expect(page.locator("#log li").first).to_contain_text("the stream was paused")
        server.hub.failed("Q4", "it took too long")
        expect(page.locator("#log li").first).to_contain_text("view Q4 has ended: it took too long")
        expect(page.locator("#view-error")).to_have_text("Q4: it took too long")
        expect(page.locator("#message")).to_be_hidden()


def test_a_large_plan_fits_and_can_be_made_larger(open_page: Callable[..., Page]) -> None:
    with served(TPCH, paused=True) as server:
        server.hub.create("Q8", tpch.queries()["Q8"])
        page = open_page(server, width=700)
        page.click(".tab[data-view=Q8]")
        expect(page.locator("#tree .name", has_text="region")).to_be_visible()
        wide = "document.querySelector('#tree').scrollWidth - document.querySelector('#tree').clientWidth"
        assert page.evaluate(wide) <= 0, "all of it is in sight"
        covered = """[...document.querySelectorAll('#tree .key')].every(text => {
            const label = text.previousElementSibling.previousElementSibling.getBBox(), box = text.getBBox();
            return label.x <= box.x + 1 && label.x + label.width >= box.x + box.width - 1;
        })"""
        assert page.evaluate(covered), "no line runs through a label"
        for _ in range(4):
            page.click("#plan-in")
        assert page.evaluate(wide) > 100
        box = page.locator("#tree").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 200, box["y"] + 100)
        page.mouse.down()
        page.mouse.move(box["x"] + 120, box["y"] + 100, steps=4)
        page.mouse.up()
        assert page.evaluate("document.querySelector('#tree').scrollLeft") == 80
        page.click("#plan-fit")
        assert page.evaluate(wide) <= 0


def test_a_group_keeps_its_colour(open_page: Callable[..., Page]) -> None:
    query = "SELECT n_name, SUM(n_regionkey) AS n FROM nation GROUP BY n_name"
    with served(TPCH, paused=True) as server:
        server.hub.create("regions", query)
        page = open_page(server)
        page.click(".tab[data-view=regions]")

        def colours() -> dict[str, str]:
            chart = page.locator("#chart")
            groups, shown = chart.get_attribute("data-groups") or "", chart.get_attribute("data-colours") or ""
            return dict(zip(groups.split("|"), shown.split("|"), strict=False))

        wait_until(lambda: len(colours()) == 5)
        before = colours()
        assert len(set(before.values())) == 5
        page.fill("#k", "12")
        page.keyboard.press("Tab")
        wait_until(lambda: len(colours()) == 12)
        assert len(set(colours().values())) == 12 and before.items() <= colours().items()
        page.select_option("#extreme", "bottom")
        wait_until(lambda: not before.keys() <= colours().keys())
        assert all(colours()[group] == before[group] for group in before.keys() & colours().keys())


def test_the_page_of_a_job_offers_only_what_it_supports(open_page: Callable[..., Page]) -> None:
    with served(TPCH, paused=True) as server:
        server.hub.fixed_views = True
        page = open_page(server)
        for hidden in ("#settings", "#run", "#pause", "#name"):
            expect(page.locator(hidden)).to_be_hidden()
        expect(page.locator("#explain")).to_be_visible()
        expect(page.locator("#views .close")).to_have_count(0)
        page.evaluate("document.querySelector('.CodeMirror').CodeMirror.focus()")
        page.keyboard.press("Control+Enter")
        page.click("#explain")
        expect(page.locator("#plan-of")).to_have_text("as it would be")
        expect(page.locator("#error")).to_be_hidden()
