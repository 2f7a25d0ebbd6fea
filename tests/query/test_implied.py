"""Comparisons dropped because others imply them change nothing, and none is kept that could be dropped."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

import freshet
from freshet.logical.implied import without_implied
from freshet.scalar.expression import Call, ColumnRef, Expression
from freshet.scalar.functions import build
from freshet.scalar.types import INT

VALUES = tuple(ColumnRef(INT, i, 0, f"v{i}", True) for i in range(4))
HOLDS = {"lt": int.__lt__, "le": int.__le__, "gt": int.__gt__, "ge": int.__ge__}
comparisons = st.builds(
    lambda name, pair: build(name, pair),
    st.sampled_from(tuple(HOLDS)),
    st.permutations(VALUES).map(lambda v: tuple(v[:2])),
)


def holds(predicate: Expression, values: tuple[int, ...]) -> bool:
    assert isinstance(predicate, Call)
    left, right = (values[a.relation] for a in predicate.args if isinstance(a, ColumnRef))
    return bool(HOLDS[predicate.name](left, right))


def solutions(predicates: list[Expression]) -> set[tuple[int, ...]]:
    return {values for values in product(range(4), repeat=4) if all(holds(p, values) for p in predicates)}


@given(st.lists(comparisons, max_size=6))
def test_the_same_rows_pass(predicates: list[Expression]) -> None:
    kept = without_implied(predicates)
    assert solutions(kept) == solutions(predicates)


@given(st.lists(comparisons, max_size=4))
def test_remaining_predicates_are_not_implied(predicates: list[Expression]) -> None:
    kept = without_implied(predicates)
    everything = solutions(kept)
    if everything:  # from a contradiction, anything follows
        for i in range(len(kept)):
            assert solutions(kept[:i] + kept[i + 1 :]) != everything


def test_a_chain_of_comparisons_needs_no_check_on_rows() -> None:
    ddl = "CREATE TABLE a (x INT NOT NULL); CREATE TABLE b (z INT NOT NULL); CREATE TABLE c (u INT NOT NULL)"
    sql = "SELECT x, z, u FROM a, b, c WHERE x < z AND z < u AND x < u"
    assert "residual" not in freshet.plan(sql, ddl).explain()
    assert "residual" in freshet.plan(sql.replace("x < u", "x + 1 < u"), ddl).explain()


def test_equal_values_lead_on() -> None:
    ddl = "CREATE TABLE a (x INT, v INT); CREATE TABLE b (y INT, w BIGINT); CREATE TABLE c (u INT)"
    joined = "SELECT a.v, b.w, c.u FROM a, b, c WHERE a.x = b.y"
    for implied in ("a.x < c.u AND b.y < c.u", "b.y < c.u AND a.x <= c.u", "b.y < c.u AND a.x <= b.y"):
        assert "residual" not in freshet.plan(f"{joined} AND {implied}", ddl).explain(), implied
    kept = freshet.plan(f"{joined} AND b.y <= c.u AND c.u > a.x", ddl).explain()
    assert "<=" not in kept and ">=" not in kept  # the sharper one stays
