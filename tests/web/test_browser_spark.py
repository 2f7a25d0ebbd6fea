"""The page with Spark chosen in its settings: the same views, kept by a streaming query."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("pyspark")
pytest.importorskip("playwright.sync_api")

from playwright.sync_api import Page, expect

from tests.web.pages import picture

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]
SLOW = 300_000  # milliseconds until Spark has started and run its first micro-batches


def test_spark_is_chosen_in_the_settings(open_page: Callable[..., Page]) -> None:
    """In a process of its own, since a process has one Spark session."""
    command = [sys.executable, "-m", "freshet.cli", "serve", "--source", "market", "--scale", "0.001", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--speed", "200"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        page = open_page(process.stdout.readline().split()[4])
        page.select_option("#settings-form [name=engine]", "spark")
        page.fill("#settings-form [name=shards]", "2")
        page.select_option("#settings-form [name=master]", "local[1]")
        expect(page.locator("#settings-form [name=adapt]")).to_be_hidden()  # join trees on Spark are fixed
        page.click("#settings-form button")
        expect(page.locator("#status")).to_have_text("running · Spark", timeout=SLOW)
        expect(page.locator("#rows tbody tr").first).to_be_visible(timeout=SLOW)
        # alive / tuples · changes a second, as in this process
        expect(page.locator("#tree .count").last).to_have_text(
            re.compile(r"^[1-9]\d* / [1-9]\d* · \d+/s$"), timeout=SLOW
        )
        figures = page.locator("#figures")
        for stage in ("Spark: run it", "Spark: run it · maintain", "Spark: all together", "Counters moved a change"):
            expect(figures).to_contain_text(stage, timeout=SLOW)
        flow = page.locator("#dataflow")
        expect(flow.locator("h2")).to_have_text("Dataflow local[1] · 2 shards")
        expect(flow.locator(".box.table .figure").first).to_have_text(
            re.compile(r"^\d[\d.]* m?s · [\d,]+ rows? of [\d,]+$")
        )
        expect(flow.locator(".stage", has_text="level 0").locator(".box.shard .figure")).to_have_text(
            [re.compile(r"^\d[\d.]* m?s · [\d,]+ rows?$")] * 2
        )
        assert flow.locator(".box.shard .step1").first.evaluate("bar => bar.offsetWidth") > 0
        expect(flow.locator(".box.view")).to_have_text(["bids_that_meet_an_ask"])
        picture(flow, "page-dataflow")
        page.fill("#name", "stocks")
        page.evaluate(
            "document.querySelector('.CodeMirror').CodeMirror.setValue("
            "'SELECT stock, COUNT(*) AS n FROM bid GROUP BY stock')"
        )
        page.click("#run")
        expect(page.locator('.tab[aria-pressed="true"]')).to_contain_text("stocks")
        expect(page.locator("#rows tbody tr").first).to_be_visible(timeout=SLOW)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
