"""Jobs on 1 to 8 shards, run in this process: same answers, after every transaction and after a loss of all arenas."""

from __future__ import annotations

import pytest
from oracle import duckdb_answer, same_bag
from spark.cases import DDL, VIEWS, Present, arrow, transactions
from spark.local_job import LocalJob
from spark.streams import Sum

from freshet.spark.maintain import compile_job


@pytest.mark.parametrize("shards", [1, 2, 4, 8])
def test_answers_on_shards(shards: int) -> None:
    running = LocalJob(compile_job(VIEWS, DDL, shards, None))
    present, sums = Present(), {view: Sum() for view in VIEWS}
    for number, tx in enumerate(transactions(100 + shards, 7)):
        tables = present.apply(tx)
        deltas = running.apply({n: arrow(n, rows) for n, rows in tx.items()})
        for view, sql in VIEWS.items():
            sums[view].add(deltas[view])
            try:
                same_bag(sums[view].answer(deltas[view].schema.remove(len(deltas[view].schema) - 1)), duckdb_answer(sql, tables))
            except AssertionError as e:
                raise AssertionError(f"{view} after transaction {number}: {e}") from e
        if number % 3 == 2:
            running.forget()


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_alone(view: str) -> None:
    """Alone a stream has one reader, and rows it does not want are left out before the shuffle."""
    running = LocalJob(compile_job(VIEWS[view], DDL, 4, {"t": 1e6, "r": 1e5}))
    present, total = Present(), Sum()
    for number, tx in enumerate(transactions(5, 6)):
        tables = present.apply(tx)
        delta = running.apply({n: arrow(n, rows) for n, rows in tx.items()})["view"]
        total.add(delta)
        same_bag(total.answer(delta.schema.remove(len(delta.schema) - 1)), duckdb_answer(VIEWS[view], tables))
        if number == 2:
            running.forget()
