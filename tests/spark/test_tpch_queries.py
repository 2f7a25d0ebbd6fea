"""All 22 TPC-H queries on 1 and 4 shards, all as views of one job: after ten batches of changes to all eight tables the
sums of their deltas are DuckDB's answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import freshet
from benchmarks import tpch as schema
from benchmarks.agreement import ties_broken
from benchmarks.local_job import LocalJob
from freshet.spark import maintain
from freshet.spark.cuts import Strategy
from freshet.spark.maintain import compile_job
from tests.engine.test_tpch import EASED, eased, first_load, folded, most_moved, stock
from tests.oracle import duckdb_answer, same_bag
from tests.spark.streams import Sum, batch, read_files, run, view_part, write_files
from tests.twin import TwinTable, transaction

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
BATCHES = 10
QUERIES = {f"q{n}": eased(n, EASED) for n in range(1, 23)}
EVERY = "\n".join(QUERIES.values())
DDL = ";\n".join(schema.ddl(schema.tables_of(EVERY), schema.columns_of(EVERY)))


def batches(tables: list[TwinTable], seed: int) -> Iterator[dict[str, pa.Table]]:
    """Half of every table, then transactions that move rows of all of them."""
    rng = np.random.default_rng(seed)
    for number in range(BATCHES):
        moves = {t.name: first_load(t, rng, 0.6) if number == 0 else transaction(t, rng, most_moved(t)) for t in tables}
        for table in tables:
            np.add.at(table.held, *moves[table.name])
        yield {t.name: t.weighted(moves[t.name]) for t in tables}


def compare(sums: dict[str, Sum], schemas: dict[str, pa.Schema], tables: list[TwinTable]) -> None:
    held, answered = {t.name: t.arrow() for t in tables}, 0
    for name, sql in QUERIES.items():
        shown = [f.name for f in freshet.plan(sql, DDL).root.fields]
        expected = duckdb_answer(ties_broken(sql, shown), held)
        answered += expected.num_rows > 0
        try:
            same_bag(sums[name].answer(schemas[name]), expected)
        except AssertionError as e:
            raise AssertionError(f"{name}: {e}") from e
    assert answered >= 15, "empty answers show nothing"


@pytest.mark.parametrize(("shards", "layout"), [(1, Strategy.CHEAPEST), (4, Strategy.HYPERCUBE), (4, Strategy.LEVELS)])
def test_queries_on_shards(shards: int, layout: Strategy, tiny_tpch: dict[str, pa.Table]) -> None:
    """The same job without Spark, in this process; once with all joins cut wherever they may be."""
    tables, sums, schemas = stock(EVERY, folded(tiny_tpch)), {name: Sum() for name in QUERIES}, {}
    sizes = {table.name: float(tiny_tpch[table.name].num_rows) for table in tables}
    job = compile_job(QUERIES, DDL, shards, sizes, layout=layout)
    assert any(o.trunk for o in job.operators) == (layout is Strategy.LEVELS)
    running = LocalJob(job, chunk=1_000)
    for number, changes in enumerate(batches(tables, shards)):
        for name, delta in running.apply(changes).items():
            sums[name].add(delta)
            schemas[name] = delta.schema.remove(len(delta.schema) - 1)
        if number == BATCHES // 2:
            running.forget()
    compare(sums, schemas, tables)


@pytest.mark.parametrize("shards", [1, 4])
def test_queries_on_spark(spark: SparkSession, tmp_path: Path, shards: int, tiny_tpch: dict[str, pa.Table]) -> None:
    tables, sums, schemas = stock(EVERY, folded(tiny_tpch)), {name: Sum() for name in QUERIES}, {}
    steps = list(batches(tables, 10 + shards))
    write_files(tmp_path / "in", {name: steps[0][name].schema for name in steps[0]}, steps)
    spark.conf.set("spark.sql.shuffle.partitions", str(min(shards, 2)))
    sources = read_files(spark, tmp_path / "in", [t.name for t in tables])
    changes = maintain(spark, QUERIES, sources, schema=DDL, shards=shards, arena=str(tmp_path / "arena"))
    run(changes, tmp_path / "out", tmp_path / "checkpoint")
    for number in range(BATCHES):
        rows = batch(tmp_path / "out", number)
        for name in QUERIES:
            part = view_part(rows, name)
            sums[name].add(part)
            schemas[name] = part.schema.remove(len(part.schema) - 1)
    compare(sums, schemas, tables)
