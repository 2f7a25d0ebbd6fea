"""Acyclic and free-connex with predicates: the verdicts of all generalized join trees, for small queries."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

import freshet
from benchmarks.papers.queries import FRAUD, FRAUD_DDL, INEQUALITIES, INEQUALITY_DDL
from freshet.query import Hypergraph, QueryClass, classify
from tests.query.brute_force_generalized import verdict
from tests.query.every_query import every_query, named

STEP = 4  # of the queries of three relations every fourth
Query = tuple[list[int], list[int], int]


def assert_by_definition(atoms: list[int], predicates: list[int], output: int) -> tuple[bool, bool]:
    expected = verdict(atoms, predicates, output)
    h = Hypergraph(tuple(map(named, atoms)), named(output))
    classified = classify(h, None, {str(i): named(p) for i, p in enumerate(predicates)})
    assert (classified.acyclic, classified.free_connex) == expected, (h, list(map(named, predicates)))
    assert (classified.name == QueryClass.CYCLIC_BY_PREDICATES) == (h.is_acyclic and not expected[0])
    return expected


@pytest.mark.parametrize("relations", [1, 2, 3])
def test_every_query_over_three_variables(relations: int) -> None:
    compared = [p for p in range(8) if p.bit_count() >= 2]
    seen = set()
    for *atoms, output in every_query(relations, 3)[:: STEP if relations > 2 else 1].tolist():
        used = 0
        for atom in atoms:
            used |= atom
        fitting = [p for p in compared if not p & ~used]
        for count in range(min(len(fitting), 2) + 1):
            seen |= {assert_by_definition(atoms, list(chosen), output) for chosen in combinations(fitting, count)}
    assert seen == {(True, True)} | ({(True, False)} if relations > 1 else set()) | (
        {(False, False)} if relations > 2 else set()
    )


def drawn(rng: random.Random) -> Query:
    count, variables = rng.choice([(2, 5), (3, 4), (3, 5), (4, 3), (4, 4)])
    atoms = [sum(1 << v for v in rng.sample(range(variables), rng.randint(1, 3))) for _ in range(count)]
    used = [v for v in range(variables) if any(atom >> v & 1 for atom in atoms)]
    predicates = [
        sum(1 << v for v in rng.sample(used, rng.choice([2, 2, 2, 3])))
        for _ in range(rng.randint(1, 3))
        if len(used) > 2
    ]
    return atoms, predicates, sum(1 << v for v in used if rng.random() < 0.6)


def test_random_queries() -> None:
    rng = random.Random(4)
    seen = [assert_by_definition(*drawn(rng)) for _ in range(60)]
    assert all(seen.count(kind) > 2 for kind in [(True, True), (True, False), (False, False)])


def test_without_predicates_nothing_changes() -> None:
    for *atoms, output in every_query(3, 4).tolist():
        h = Hypergraph(tuple(map(named, atoms)), named(output))
        assert classify(h, None, {}) == classify(h)


@pytest.mark.parametrize("name", INEQUALITIES)
def test_table_1_of_iedyn(name: str) -> None:
    explained = freshet.plan(INEQUALITIES[name], INEQUALITY_DDL).explain()
    known = "acyclic" if name in ("q10", "q11", "q12") else "free-connex"
    assert explained.splitlines()[0] == f"class      {known}"


def test_example_3_6_of_iedyn() -> None:
    ddl = "CREATE TABLE r (x INT, y INT); CREATE TABLE s (y INT, z INT, w INT); CREATE TABLE t (u INT, v INT)"
    joined = "FROM r JOIN s ON r.y = s.y JOIN t ON r.x < s.z AND s.w < t.u"
    classes = {
        columns: freshet.plan(f"SELECT {columns} {joined}", ddl).explain().splitlines()[0].split(maxsplit=1)[1]
        for columns in ("r.x, r.y, s.z, s.w, t.u, t.v", "s.y, s.z, s.w, t.u", "r.x, t.u")
    }
    assert list(classes.values()) == ["free-connex", "free-connex", "acyclic"]


def test_why_not() -> None:
    q10 = freshet.plan(INEQUALITIES["q10"], INEQUALITY_DDL).explain()
    assert "{r.a, s.d, t.g} are not output, but decide which tuples of r, s, t meet, by (r.a < s.d), (s.d < t.g)" in q10
    fraud = freshet.plan(FRAUD, FRAUD_DDL).explain()
    assert fraud.startswith(f"class      {QueryClass.CYCLIC_BY_PREDICATES}\n")
    assert "no join tree has an edge for each of (s1.ts < s2.ts), (s2.ts < l.ts), (l.ts < PLUS_INTERVAL" in fraud


def test_a_comparison_within_a_relation_by_an_equality_is_a_filter() -> None:
    ddl = "CREATE TABLE a (x INT, y INT); CREATE TABLE b (x INT, z INT)"
    sql = "SELECT a.x, a.y, b.z FROM a JOIN b ON a.x = b.x AND b.x < a.y"
    explained = freshet.plan(sql, ddl).explain()
    assert explained.startswith("class      q-hierarchical\n") and "O(1) for every stream of changes" in explained
    assert " · where (a.x < a.y)" in explained
