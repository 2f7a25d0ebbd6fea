"""A few random command lines; `python -m tests.cli.fuzz` tries many."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")
pytest.importorskip("pyspark")

from tests.cli.fuzz import fuzz, judge


@pytest.mark.parametrize("seed", range(4))
def test_random_command_lines(seed: int) -> None:
    wrong, codes = fuzz(seed, 100)
    assert not wrong
    assert codes[2] > 20 and codes[0] > 2, "both kinds occur"


def test_wrong_results_are_detected() -> None:
    assert not list(judge(["check", "--json"], 2, '{"error": "no"}\n', "freshet: no\n"))
    for code, out, err in (
        (1.5, "", "x"), (2, "", ""), (2, '{"error": "x"}\n', "Traceback"), (0, "text\n", ""), (2, "[1]\n", "x"),
        (2, "", "x" * 9_000),
    ):  # fmt: skip
        assert list(judge(["check", "--json"], code, out.replace("[1]", "{}"), err))
