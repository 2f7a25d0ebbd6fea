"""Aggregates next to outer joins as totals, on several shards of this process: DuckDB's answers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.local_job import LocalJob
from freshet.spark.maintain import compile_job
from tests.engine.test_outer_totals import DDL, QUERIES, rows
from tests.oracle import duckdb_answer, same_bag
from tests.spark.streams import Sum


@pytest.mark.parametrize("shards", [2, 3])
@pytest.mark.parametrize("name", QUERIES)
def test_answers_on_shards(name: str, shards: int) -> None:
    rng, job, total = np.random.default_rng(shards), LocalJob(compile_job(QUERIES[name], DDL, shards, None)), Sum()
    held = {table: rows(rng, table, 0) for table in "abc"}
    for number in range(4):
        changes = {}
        for table, before in held.items():
            new, stay = rows(rng, table, 6), rng.random(len(before)) < 0.6
            held[table] = pa.concat_tables([before.filter(pa.array(stay)), new])
            weights = pa.array([1] * len(new) + [-1] * int((~stay).sum()), pa.int64())
            changed = pa.concat_tables([new, before.filter(pa.array(~stay))])
            changes[table] = changed.append_column("_weight", weights)
        delta = job.apply(changes)["view"]
        total.add(delta)
        same_bag(total.answer(delta.schema.remove(len(delta.schema) - 1)), duckdb_answer(QUERIES[name], held))
        if number == 2:
            job.forget()
