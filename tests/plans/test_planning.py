"""Planning ends: queries of thirty relations of every shape, and longer chains, within a bounded number of calls.

Calls of functions are counted, not seconds: ten million of them take about a second. Budgets of single searches are
tested next to the searches.
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from itertools import combinations

import pytest

import freshet
from freshet.plans import build_plan
from freshet.sql.catalog import Catalog
from freshet.sql.parse import bind_query

MOST_CALLS = 20_000_000
N = 30


def tables(many: int, columns: str = "k INT, a INT, b INT") -> str:
    return "; ".join(f"CREATE TABLE t{i} ({columns})" for i in range(many))


def every(many: int) -> str:
    return ", ".join(f"t{i}" for i in range(many))


def chained(many: int, kind: str = "JOIN", on: str = "ON t{i}.a = t{before}.b") -> str:
    return "t0" + "".join(f" {kind} t{i} {on.format(i=i, before=i - 1)}" for i in range(1, many))


def pairwise(many: int, test: str) -> str:
    return " AND ".join(test.format(i=i, j=j) for j, i in combinations(range(many), 2))


STAR = "ON t{i}.k = t0.k"

#: A query for a number of relations, and the columns of their tables.
SHAPES: dict[str, Callable[[int], str]] = {
    "clique": lambda n: f"SELECT COUNT(*) AS c FROM {every(n)} WHERE {pairwise(n, 't{i}.c{j} = t{j}.c{i}')}",
    "clique by less": lambda n: f"SELECT t0.a FROM {every(n)} WHERE {pairwise(n, 't{i}.a < t{j}.b')}",
    "clique by unequal": lambda n: f"SELECT t0.a FROM {every(n)} WHERE {pairwise(n, 't{i}.a <> t{j}.a')}",
    "chain, all compared": lambda n: f"SELECT t0.a FROM {chained(n)} WHERE {pairwise(n, 't{i}.k < t{j}.a')}",
    "cycle": lambda n: f"SELECT t0.k FROM {chained(n)} WHERE t0.a = t{n - 1}.b",
    "many cycles": lambda n: (
        f"SELECT t0.k FROM {chained(n)} WHERE " + " AND ".join(f"t{i}.k = t{(7 * i + 3) % n}.k" for i in range(n))
    ),
    "star": lambda n: f"SELECT t0.a FROM {chained(n, on=STAR)}",
    "distinct star": lambda n: (
        f"SELECT DISTINCT t0.k, {', '.join(f't{i}.a AS a{i}' for i in range(n))} FROM {chained(n, on=STAR)}"
    ),
    "cross join": lambda n: f"SELECT t0.a FROM {every(n)}",
    "grouped chain": lambda n: f"SELECT t0.k, SUM(t{n - 1}.a) AS s FROM {chained(n)} GROUP BY t0.k",
    "grouped star": lambda n: f"SELECT t0.k, SUM(t1.a), COUNT(*) FROM {chained(n, on=STAR)} GROUP BY t0.k",
    "exists star": lambda n: (
        f"SELECT a FROM t0 o WHERE EXISTS (SELECT 1 FROM {chained(n, on=STAR)} WHERE t0.a = o.a AND t1.a = o.b)"
    ),
    "not exists cycle": lambda n: (
        f"SELECT a FROM t0 o WHERE NOT EXISTS (SELECT 1 FROM {chained(n)} WHERE t0.a = t{n - 1}.b AND t0.k = o.k)"
    ),
    "left joins": lambda n: (
        f"SELECT t0.a FROM {chained(n, 'LEFT JOIN', 'ON t{i}.k = t{before}.k OR t{i}.a = t{before}.a')}"
    ),
    "full joins": lambda n: f"SELECT t0.a FROM {chained(n, 'FULL JOIN')}",
    "full joins by name": lambda n: f"SELECT k FROM {chained(n, 'FULL JOIN', 'USING (k)')}",
    "right joins": lambda n: f"SELECT t0.a FROM {chained(n, 'RIGHT JOIN')}",
    "values of subqueries": lambda n: (
        f"SELECT {', '.join(f'(SELECT MAX(a) FROM t{i} WHERE t{i}.k < o.k) AS m{i}' for i in range(n))} FROM t0 o"
    ),
    "not in": lambda n: (
        f"SELECT a FROM t0 o WHERE {' AND '.join(f'a NOT IN (SELECT b FROM t{i} WHERE k = o.k)' for i in range(n))}"
    ),
    "set operations": lambda n: " EXCEPT ".join(f"SELECT a FROM t{i}" for i in range(n)),
}


def calls(sql: str, ddl: str) -> int:
    catalog, profile = Catalog.from_ddl(ddl), cProfile.Profile()
    profile.runcall(lambda: build_plan(bind_query(sql, catalog)))
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.parametrize("shape", SHAPES)
def test_thirty_relations(shape: str) -> None:
    columns = ", ".join(f"c{i} INT" for i in range(N)) if shape == "clique" else "k INT, a INT, b INT"
    assert calls(SHAPES[shape](N), tables(N, columns)) < MOST_CALLS


@pytest.mark.parametrize("shape", ["star", "grouped chain", "full joins", "left joins", "cross join", "set operations"])
def test_planning_takes_at_most_cubic_time(shape: str) -> None:
    """For any constant: twice as many relations take little more than eight times as many calls at most."""
    few, many = (calls(SHAPES[shape](n), tables(n)) for n in (20, 40))
    assert many < 10 * few


def test_primary_keys_of_many_tables() -> None:
    """A cyclic join along keys, which many trees follow."""
    columns = "k INT PRIMARY KEY, " + ", ".join(f"c{i} INT" for i in range(N))
    near = [(i, j) for i in range(N) for j in range(N) if j < i < j + 4]
    sql = f"SELECT t0.k FROM {every(N)} WHERE {' AND '.join(f't{i}.k = t{j}.c{i}' for i, j in near)}"
    assert calls(sql, tables(N, columns)) < MOST_CALLS


def test_too_deep_is_refused() -> None:
    deep = "SELECT a FROM t0"
    for i in range(400):
        deep = f"SELECT DISTINCT a FROM ({deep}) q{i}"
    with pytest.raises(freshet.UnsupportedError, match="deep is not supported"):
        freshet.plan(deep, tables(1))
