"""A round of random joins that has found a fault: a row that only had to exist satisfied one of its comparisons."""

from __future__ import annotations

from tests.fuzz.joins import run_round


def test_joins() -> None:
    outcomes, failed = run_round(4)
    assert not failed, "\n".join(failed)
    assert outcomes["views"] > 150
