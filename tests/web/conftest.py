"""A real browser, if one is installed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from freshet.web.server import Server

PATIENCE = 20_000  # milliseconds, for machines that are busy


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("no Chromium is installed; apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens the page of a server, or of an address; its own scripts must not fail."""
    from playwright.sync_api import expect

    pages: list[Page] = []
    wrong: list[str] = []

    def opened(server: Server | str, width: int = 1280, height: int = 1500) -> Page:
        page = browser.new_page(viewport={"width": width, "height": height})
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(server if isinstance(server, str) else server.address)
        page.wait_for_selector("#tree svg")
        pages.append(page)
        return page

    expect.set_options(timeout=PATIENCE)
    yield opened
    for page in pages:
        page.close()
    assert not wrong, "the page's own scripts failed"
