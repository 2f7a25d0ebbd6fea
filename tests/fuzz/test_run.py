"""Random queries and streams from the grammar in tests/fuzz; `make fuzz` runs thousands more."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from freshet.logical.kinds import SetKind
from freshet.state.arrays import Int64s
from tests.fuzz.case import run_case, shortest
from tests.fuzz.choices import Choices, shrunk
from tests.fuzz.dialect import for_duckdb

CASES, PARTS = 300, 6


@pytest.mark.parametrize("part", range(PARTS))
def test_random_cases_agree_with_duckdb(part: int) -> None:
    kinds = []
    for seed in range(part, CASES, PARTS):
        outcome = run_case(Choices(seed=seed))
        kinds.append(outcome.kind)
        assert outcome.kind != "failed", f"seed {seed}\n{shortest(outcome).report()}"
    assert kinds.count("agreed") > 0.8 * len(kinds), "most of the grammar should be kept, and have an oracle"


def test_a_wrong_answer_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(kind: SetKind, every: bool, left: Int64s, right: Int64s) -> Int64s:
        return np.asarray(np.sign(left + right) if kind is SetKind.UNION else left * 0, np.int64)

    monkeypatch.setattr(SetKind, "copies", wrong)
    outcomes = (run_case(Choices(seed=seed)) for seed in range(1_000))
    some = islice((o for o in outcomes if o.kind == "failed"), 4)
    short = shortest(min(some, key=lambda o: len(o.made)), 400)
    assert short.kind == "failed" and ("EXCEPT" in short.sql or "INTERSECT" in short.sql)
    assert len(short.sql) < 600, short.sql


def test_a_recorded_list_reproduces_the_case() -> None:
    first = run_case(Choices(seed=11))
    again = run_case(Choices(made=first.made))
    assert (again.sql, again.stream, again.kind) == (first.sql, first.stream, first.kind)


def test_shrinking_finds_the_least() -> None:
    least = shrunk([7, 3, 50, 9, 41, 2], lambda made: sum(n > 5 for n in made) >= 2, 500)
    assert least == [6, 6] or (len(least) == 2 and min(least) > 5)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT a AS o0 FROM t ORDER BY o0 LIMIT 1", "ORDER BY o0 NULLS FIRST, 1 ASC NULLS FIRST LIMIT 1"),
        ("SELECT a AS o0 FROM t ORDER BY o0 DESC LIMIT 1", "ORDER BY o0 DESC, 1 ASC NULLS FIRST"),
        ("SELECT a, COUNT(*) AS n FROM t GROUP BY ROLLUP (a)", "HAVING COUNT(*) > 0"),
        ("SELECT a DIV 2 AS h FROM t", "//"),
    ],
)
def test_what_differs_by_design(sql: str, words: str) -> None:
    assert words in for_duckdb(sql)
