"""Heavy values of join keys are split: DuckDB's answers after every transaction, an even load, and one report of a bad
change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.local_job import LocalJob
from freshet.errors import PlanError
from freshet.spark.cuts import Layout
from freshet.spark.explain import explain_job
from freshet.spark.job import Job
from freshet.spark.maintain import compile_job
from tests.oracle import duckdb_answer, same_bag
from tests.spark.cases import DDL, VIEWS, Present, arrow, transactions
from tests.spark.streams import Sum

HEAVY = {
    "r": {"b": {0: 0.4, 1: 0.5}, "a": {2: 0.6}},
    "T": {"B": {1: 0.6}, "c": {0: 0.5, 2: 0.5}},
    "u": {"c": {1: 0.9}},
}
SIZES = {"r": 300.0, "t": 300.0, "u": 200.0}


def is_split(job: Job) -> bool:
    return any(d.heavy for s in job.streams for d in s.grid)


@pytest.mark.parametrize("view", VIEWS)
def test_answers(view: str) -> None:
    for shards, layout in ((4, Layout.CHEAPEST), (6, Layout.LEVELS)):
        running = LocalJob(compile_job(VIEWS[view], DDL, shards, SIZES, layout=layout, heavy=HEAVY))
        present, total = Present(), Sum()
        for number, tx in enumerate(transactions(5, 5)):
            tables = present.apply(tx)
            delta = running.apply({n: arrow(n, rows) for n, rows in tx.items()})["view"]
            total.add(delta)
            same_bag(total.answer(delta.schema.remove(len(delta.schema) - 1)), duckdb_answer(VIEWS[view], tables))
            if number == 2:
                running.forget()


def test_most_joins_split() -> None:
    """What the test above compares is split in fact."""
    split = [v for v, sql in VIEWS.items() if is_split(compile_job(sql, DDL, 4, SIZES, heavy=HEAVY))]
    assert {"plain", "chain", "products", "semi", "outer_join", "distinct_rows"} <= {*split}, split


SHOP = """
CREATE TABLE account (id BIGINT PRIMARY KEY, name BIGINT);
CREATE TABLE payment (id BIGINT PRIMARY KEY, account BIGINT, total BIGINT)
"""
JOIN = "SELECT payment.id, name, total FROM payment, account WHERE payment.account = account.id"
PER_ACCOUNT = "SELECT account, COUNT(*) AS n FROM payment, account WHERE payment.account = account.id GROUP BY account"
MANY = {"payment": 20_000.0, "account": 10_000.0}
ACCOUNT_7 = {"payment": {"account": {7: 0.3, 8: 0.001}}}


def test_an_even_load() -> None:
    draw = np.random.default_rng(1)
    of = np.where(draw.random(20_000) < 0.3, 7, draw.integers(0, 10_000, 20_000))
    payments = pa.table({"id": np.arange(20_000), "account": of, "total": np.ones(20_000, np.int64)})
    accounts = pa.table({"id": np.arange(10_000), "name": np.arange(10_000)})
    busiest = {}
    for name, heavy in (("whole", None), ("split", ACCOUNT_7)):
        running = LocalJob(compile_job(JOIN, SHOP, 16, MANY, heavy=heavy), chunk=30_000)
        delta = running.apply({"payment": payments, "account": accounts})["view"]
        assert delta.num_rows == 20_000
        busiest[name] = max(load.rows for load in running.loads.values())
    assert busiest["whole"] > 0.3 * 20_000
    assert busiest["split"] < 1.3 * 30_000 / 16


def test_explained() -> None:
    told = explain_job(compile_job(JOIN, SHOP, 16, MANY, heavy=ACCOUNT_7))
    assert "hashed on account, rows of 1 heavy value hashed on id" in told  # 8 has less than an even share
    assert "hashed on id, rows of 1 heavy value copied" in told
    assert "heavy" not in explain_job(compile_job(JOIN, SHOP, 2, MANY, heavy=ACCOUNT_7))
    assert "level 1" not in explain_job(compile_job(PER_ACCOUNT, SHOP, 16, MANY))
    assert "level 1" in explain_job(compile_job(PER_ACCOUNT, SHOP, 16, MANY, heavy=ACCOUNT_7))  # merges its groups


def test_one_report_of_a_bad_change() -> None:
    job = compile_job(JOIN, SHOP, 4, MANY, heavy={"payment": {"account": {7: 0.5}}})
    running = LocalJob(replace(job, quarantine=True))
    rows = pa.table({"id": [7, 3], "name": [1, 1], "_weight": [-1, -1]})
    running.apply({"account": rows})
    assert sorted(row for _, row, _ in running.quarantined) == [
        '{"id": 3, "name": 1, "_weight": -1}', '{"id": 7, "name": 1, "_weight": -1}',
    ]  # fmt: skip


@pytest.mark.parametrize(("heavy", "reason"), [
    ({"payment": {"acount": {7: 0.3}}}, "heavy names payment.acount; the columns of payment are id, account, total"),
    ({"payment": {"account": {"seven": 0.3}}}, "heavy values of payment.account do not fit BIGINT"),
])  # fmt: skip
def test_refused(heavy: dict[str, dict[str, dict[object, float]]], reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        compile_job(JOIN, SHOP, 4, MANY, heavy=heavy)
