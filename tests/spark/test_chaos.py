"""Some cases of `make chaos-spark`: a driver, workers and an executor killed."""

from __future__ import annotations

import pytest

from tests.chaos.spark_case import run_case

pytestmark = pytest.mark.long


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("seed", "what"), [(21, "driver"), (12, "worker"), (5, "executor")])
def test_a_stream_whose_processes_are_killed(seed: int, what: str) -> None:
    outcome = run_case(seed)
    assert not outcome.wrong, "\n".join([outcome.wrong, *outcome.script])
    assert outcome.killed[what], "nothing was killed: the case proves nothing"
