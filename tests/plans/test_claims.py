"""Guarantees hold: those of named queries, and of drawn ones over streams that double in length (tests/fuzz/claims)."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

import freshet
from benchmarks import tpch
from freshet.plans.claims import claim
from freshet.plans.explain import as_dict
from tests.fuzz import claims
from tests.fuzz.claim_cases import CHAIN, Case, Change, draw, theorem_stream

PSI = "CREATE TABLE r1 (x INT, y INT, z INT); CREATE TABLE r2 (y INT); CREATE TABLE r3 (z INT)"
BOTH_EXIST = """SELECT x, y, z FROM r1 WHERE EXISTS (SELECT 1 FROM r2 WHERE r2.y = r1.y)
AND EXISTS (SELECT 1 FROM r3 WHERE r3.z = r1.z)"""
ENDS_EXIST = """SELECT r2.x1, r3.x2, r3.x3, r4.x4 FROM r2 JOIN r3 ON r2.x2 = r3.x2 JOIN r4 ON r3.x3 = r4.x3
WHERE EXISTS (SELECT 1 FROM r1 WHERE r1.x1 = r2.x1) AND EXISTS (SELECT 1 FROM r5 WHERE r5.x4 = r4.x4)"""


def described(sql: str, ddl: str) -> dict[str, Any]:
    return as_dict(freshet.plan(sql, ddl).root)


def official(number: int) -> dict[str, Any]:
    return described(tpch.official(number).rstrip().rstrip(";"), "; ".join(tpch.ddl()))


def bounds(operator: dict[str, Any]) -> tuple[str, str, str]:
    claimed = operator["guarantee"]["claim"]
    return claimed["every_stream"], claimed["first_in_first_out"], claimed["insert_only"]


def toggles(n: int) -> list[Change]:
    """The hardest case of AJU's ψ₂: one end is never inserted, and the other flips the counters of all tuples in the
    middle."""
    rows: list[Change] = [{"r1": [{"x": i, "y": 1, "z": 1}]} for i in range(n)]
    return rows + [{"r2": [{"y": 1, "_weight": 1 - 2 * (i % 2)}]} for i in range(n)]


# Named queries ----------------------------------------------------------------------------------------------------


def test_arms_count_in_class_and_height() -> None:
    plan = described(BOTH_EXIST, PSI)
    assert plan["class"] == "free-connex" and plan["height"] == 2
    assert bounds(plan) == ("λ", "1", "1")
    alone = described("SELECT x, y, z FROM r1 WHERE EXISTS (SELECT 1 FROM r2 WHERE r2.y = r1.y)", PSI)
    assert alone["class"] == "q-hierarchical" and bounds(alone) == ("1", "1", "1")


def test_theorem_6_2() -> None:
    """Ends that only have to exist are as hard as ends that are joined."""
    plan = described(ENDS_EXIST, CHAIN)
    assert plan["height"] == 3 and bounds(plan) == ("λ_T", "λ_T", "1")


def test_absence_below_a_join() -> None:
    """Inserts alone make r2 alive and dead, again and again."""
    sql = """SELECT r2.x1 FROM r2 WHERE NOT EXISTS (SELECT 1 FROM r3 WHERE r3.x2 = r2.x2
    AND NOT EXISTS (SELECT 1 FROM r4 WHERE r4.x3 = r3.x3)) AND r2.x1 IN (SELECT x1 FROM r1)"""
    assert bounds(described(sql, CHAIN)) == ("n", "n", "n")


@pytest.mark.parametrize("number", [2, 7, 8])
def test_foreign_keys_of_any_height(number: int) -> None:
    """AJU's theorem 8 knows no height."""
    plan = official(number)
    select = plan["inputs"]["rows"] if number == 2 else plan
    every, window, inserts = bounds(select)
    assert every == "λ"
    assert (window, inserts) == (("λ", "λ") if number == 2 else ("1", "1"))  # Q2 joins a query
    assert not [reason for reason in select["guarantee"]["lost"] if "height" in reason or "totals" in reason]


def test_arms_of_tpch() -> None:
    assert bounds(official(16))[0] == "λ"
    (within,) = official(17)["inputs"].values()
    assert bounds(within["inputs"]["bounds"])[0] == "λ" and bounds(official(4)) == ("1", "1", "1")


def test_inputs_are_named_with_their_logarithms() -> None:
    guarantee = official(15)["guarantee"]
    assert (
        "subquery (O(log n))" in guarantee["update"]
        and "each row that revenue and subquery change" in guarantee["update"]
    )
    assert guarantee["claim"]["per"] == ("supplier", "revenue", "subquery")


def test_a_nested_aggregate_updates_in_place() -> None:
    sql = """SELECT r1.x FROM r1 JOIN (SELECT y, COUNT(*) % 2 AS k FROM r2 GROUP BY y) a ON a.k = r1.y
    JOIN (SELECT z, COUNT(*) % 2 AS k FROM r3 GROUP BY z) b ON b.k = r1.z"""
    plan = described(sql, PSI)
    assert bounds(plan)[2] != "1" and "insert-only" in " ".join(plan["guarantee"]["lost"])


def test_joined_rows_are_in_the_headline() -> None:
    far = "SELECT DISTINCT r2.x1, r4.x4 FROM r2 JOIN r3 ON r2.x2 = r3.x2 JOIN r4 ON r3.x3 = r4.x3"
    guarantee = described(far, CHAIN)["guarantee"]
    assert guarantee["claim"]["rows"] == "joined" and guarantee["update"].endswith(
        "each joined row that appears or vanishes"
    )


def test_totals_are_linear_state() -> None:
    sql = "SELECT r2.x1, COUNT(*) AS n FROM r2 JOIN r3 ON r2.x2 = r3.x2 JOIN r4 ON r3.x3 = r4.x3 GROUP BY r2.x1"
    plan = described(sql, CHAIN)
    assert plan["inputs"] and not [reason for reason in plan["guarantee"]["lost"] if "state" in reason]


# Streams ----------------------------------------------------------------------------------------------------------

HARD = Case(PSI, BOTH_EXIST, "every_stream", toggles, (16, 32, 64), "toggles")
THEOREM = Case(CHAIN, ENDS_EXIST, "first_in_first_out", lambda n: theorem_stream(Random(n), n), (4, 8, 16), "6.2")


@pytest.mark.parametrize("case", [HARD, THEOREM], ids=["psi", "theorem"])
def test_a_claim_that_is_too_strong_is_found(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    assert claims.check(case).kind == "kept"
    monkeypatch.setattr(claims, "claim_of", lambda operator, kind: "1")
    assert claims.check(case).kind == "broken"


@pytest.mark.parametrize("seed", range(24))
def test_claims_are_kept(seed: int) -> None:
    case = draw(seed)
    outcome = claims.check(replace(case, sizes=case.sizes[:3]))
    assert outcome.kind in ("kept", "refused", "too large"), outcome.why


@pytest.mark.parametrize("seed", [11, 27, 59, 75, 91, 107])
def test_three_comparisons_cost_the_best_pair(seed: int) -> None:
    case = draw(seed)
    assert case.searched is not None
    outcome = claims.check(case)
    assert outcome.kind == "kept" and "v, places searched" in outcome.ratios, outcome.why


def test_more_than_the_best_pair_is_found() -> None:
    """With all tuples satisfying two of three comparisons, nothing less than the third one bounds the search."""
    case = next(c for c in map(draw, range(11, 5_000, 16)) if c.name.count("'all'") == 2 and "none" not in c.name)
    assert claims.check(case).kind == "kept"
    assert claims.check(replace(case, searched=lambda stream, key: 0)).kind == "broken"


def test_claims_of_every_plan() -> None:
    """Operators other than selects state the cost of a row of their input."""
    for sql in ("SELECT x, y FROM r1 ORDER BY x LIMIT 3", "SELECT y FROM r2 UNION SELECT z FROM r3", "VALUES (1)"):
        claimed = claim(freshet.plan(sql, PSI).root)
        assert claimed.every_stream == "1"
