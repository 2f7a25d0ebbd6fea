"""The docs site in a real browser, opened as files: it is read and searched without a server, and fetches nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("material")
pytest.importorskip("playwright.sync_api")

from playwright.sync_api import expect

from tests.web.conftest import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[2]


def test_search_needs_no_server(browser: Browser, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((tmp_path / "howto" / "restart.html").as_uri())
    page.click("input[name=query]")
    page.keyboard.type("levenshtein")
    link = page.locator(".md-search-result__link").first
    expect(link).to_be_visible(timeout=PATIENCE)
    expect(link).to_have_attribute("href", (tmp_path / "reference" / "functions.html").as_uri())
    assert asked and all(url.startswith(("file:", "data:", "blob:")) for url in asked), asked
    page.close()
