"""Test profiles and the data several tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import hypothesis
import pyarrow as pa
import pytest

from benchmarks import tpch as tpch_data
from freshet.state.kernel_cache import KERNELS
from tests.stress import fence

os.environ.setdefault("FRESHET_TPCH", str(tpch_data.ROOT / ".cache" / "tpch"))

# FRESHET_PROFILE chooses how hard the property tests look. No deadline: the first example may compile kernels.
# The ci profile draws the same examples every time; nightly looks further.
hypothesis.settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True)
hypothesis.settings.register_profile("quick", max_examples=15, deadline=None)
hypothesis.settings.register_profile("nightly", max_examples=3000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("FRESHET_PROFILE", "ci"))

# FRESHET_FENCE=1 puts the state behind fences: a step beyond an array stops the process (tests/stress/fence.py).
if os.environ.get("FRESHET_FENCE"):
    fence.build()


@pytest.fixture(scope="session", autouse=True)
def _kernels_are_called_as_declared() -> Iterator[None]:
    """A call with other types, such as an array that is read-only, would be compiled in the middle of a transaction."""
    yield
    others = [
        f"{k.name}: argument {i} is {given}, not {wanted}"
        for k in KERNELS.all
        for called in k.dispatcher.overloads
        for i, (given, wanted) in enumerate(zip(called, k.arguments, strict=True))
        if given != wanted
    ]
    assert not others, "\n".join(others)


@pytest.fixture(scope="session")
def tpch() -> dict[str, pa.Table]:
    """All TPC-H tables at scale factor 0.01 (15,000 orders)."""
    return tpch_data.generate(0.01)


@pytest.fixture(scope="session")
def tiny_tpch() -> dict[str, pa.Table]:
    """All TPC-H tables at scale factor 0.001 (1,500 orders): enough to exercise a query, not always to answer it."""
    return tpch_data.generate(0.001)
