"""Random queries of the fuzzer's grammar as jobs on 1, 2 and 4 shards: the sum of deltas is DuckDB's answer, also when
all shards are lost on the way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.local_job import LocalJob
from freshet.errors import ChangeError, UnsupportedError
from freshet.spark.cuts import Layout
from freshet.spark.maintain import compile_job
from tests.fuzz.choices import Choices
from tests.fuzz.dialect import for_duckdb
from tests.fuzz.grammar import BARE, Grammar
from tests.fuzz.question import NoOracleError, NoValueError, expected
from tests.fuzz.tables import random_tables, random_transaction
from tests.oracle import same_bag
from tests.spark.streams import Sum

pytestmark = pytest.mark.long
SHARDS, CASES = (1, 2, 4), 40


def outcomes(seeds: range, shards: int, layout: Layout = Layout.CHEAPEST) -> Iterator[str]:
    """How each seed's case went: agreed, or why there was nothing to compare."""
    for seed in seeds:
        choices = Choices(seed=seed)
        tables = random_tables(choices)
        sql = Grammar(choices, tables).statement().replace(BARE, "")
        try:
            sizes = {t.name: 100.0 for t in tables}
            job = LocalJob(compile_job(sql, "; ".join(t.ddl for t in tables), shards, sizes, layout=layout))
        except UnsupportedError as e:
            yield e.reason
            continue
        total = Sum()
        try:
            for number in range(4):
                if number == 2:
                    job.forget()
                delta = job.apply(random_transaction(choices, tables).arrow(tables))["view"]
                total.add(delta)
                answer = total.answer(delta.schema.remove(len(delta.schema) - 1))
                same_bag(answer, expected(for_duckdb(sql), {t.name: t.arrow() for t in tables}))
        except (NoOracleError, NoValueError):
            yield "no oracle"
            continue
        except ChangeError:
            yield "no value"
            continue
        except Exception as e:
            ddl = "; ".join(t.ddl for t in tables)
            raise AssertionError(f"seed {seed} on {shards} shards: {ddl}; {sql}: {e}") from e
        yield "agreed"


@pytest.mark.parametrize("shards", SHARDS)
def test_random_queries_on_shards(shards: int) -> None:
    results = list(outcomes(range(shards * 1_000, shards * 1_000 + CASES), shards))
    assert results.count("agreed") > 0.7 * CASES, results


def test_random_queries_cut_into_levels() -> None:
    results = list(outcomes(range(7_000, 7_000 + CASES), 3, Layout.LEVELS))
    assert results.count("agreed") > 0.7 * CASES, results
