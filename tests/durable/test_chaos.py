"""Databases in folders that are killed, interrupted, damaged and out of space; `make chaos` runs thousands more."""

from __future__ import annotations

import pytest

from tests.chaos.case import run_case, shortest
from tests.chaos.kills import run_kill
from tests.fuzz.choices import Choices

CASES, PARTS, KILLS = 48, 4, 4


@pytest.mark.parametrize("part", range(PARTS))
def test_random_cases(part: int) -> None:
    faults = 0
    for seed in range(part, CASES, PARTS):
        outcome = run_case(Choices(seed=seed))
        faults += outcome.faults.total()
        assert outcome.kind != "failed", f"seed {seed}\n{shortest(outcome, 100).report()}"
    assert faults > CASES // PARTS


@pytest.mark.parametrize("seed", range(KILLS))
def test_killed_processes(seed: int) -> None:
    assert not run_kill(seed)
