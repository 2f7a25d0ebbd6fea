"""A short random attack on the page's server; `python -m tests.web.fuzz` makes long ones."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")
pytest.importorskip("websockets")

from tests.web.fuzz import attack


@pytest.mark.parametrize("seed", [1, 2])
def test_a_random_attack(seed: int) -> None:
    outcome = attack(seed, 80)
    assert not outcome.wrong
    assert {"200", "400", "404"} <= set(outcome.answers), "requests of all kinds were made"
