"""The example applications do what they promise, and stay short; shop_feed runs in tests/spark."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from examples import fraud_alerts, top_sellers

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.mark.parametrize("name", ["fraud_alerts", "shop_feed", "top_sellers"])
def test_they_are_short(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < 60


def test_fraud_alerts(capsys: pytest.CaptureFixture[str]) -> None:
    fraud_alerts.main()
    assert capsys.readouterr().out.splitlines() == [
        "ALERT: Ada paid in NO and BR, 1030.00 in total",
        "withdrawn: Ada paid in NO and BR, 1030.00 in total",
        "open cases: 1",
    ]


def test_top_sellers(capsys: pytest.CaptureFixture[str]) -> None:
    """Compared with a recount of the same sales."""
    draws, sold = random.Random(7), Counter[str]()
    for _ in range(60):
        sold[top_sellers.PRODUCTS[min(draws.randrange(9), draws.randrange(8))]] += 1
        draws.randrange(100, 900)
    top_sellers.main(60)
    title, *bars, last = capsys.readouterr().out.splitlines()
    expected = sorted(sold.items(), key=lambda item: (-item[1], item[0]))[:5]
    assert title == "best sellers after 60 sales" and last.endswith("of 60 sales changed the ranking or its figures")
    assert [(line.split()[0], int(line.split()[-2])) for line in bars] == expected
