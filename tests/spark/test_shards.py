"""Jobs on 1 to 8 shards, run in this process: same answers, after every transaction and after a loss of all arenas."""

from __future__ import annotations

import pyarrow as pa
import pytest

from benchmarks.local_job import LocalJob
from freshet.errors import ChangeError
from freshet.spark.maintain import compile_job
from tests.oracle import duckdb_answer, same_bag
from tests.spark.cases import DDL, VIEWS, Present, arrow, transactions
from tests.spark.streams import Sum

pytestmark = pytest.mark.long


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
                same_bag(
                    sums[view].answer(deltas[view].schema.remove(len(deltas[view].schema) - 1)),
                    duckdb_answer(sql, tables),
                )
            except AssertionError as e:
                raise AssertionError(f"{view} after transaction {number}: {e}") from e
        if number % 3 == 2:
            running.forget()


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_alone(view: str) -> None:
    """If a stream has only one reader, rows that this reader does not need are dropped before the shuffle."""
    running = LocalJob(compile_job(VIEWS[view], DDL, 4, {"t": 1e6, "r": 1e5}))
    present, total = Present(), Sum()
    for number, tx in enumerate(transactions(5, 6)):
        tables = present.apply(tx)
        delta = running.apply({n: arrow(n, rows) for n, rows in tx.items()})["view"]
        total.add(delta)
        same_bag(total.answer(delta.schema.remove(len(delta.schema) - 1)), duckdb_answer(VIEWS[view], tables))
        if number == 2:
            running.forget()


@pytest.mark.parametrize("select", ["t.id, COUNT(DISTINCT r.a) AS n", "DISTINCT t.id, r.a"])
def test_groups_of_the_outer_side(select: str) -> None:
    """What matches nothing is on every shard, and one group or one row."""
    sql = f"SELECT {select} FROM r LEFT JOIN t ON r.id = t.id" + (" GROUP BY t.id" if "COUNT" in select else "")
    present = Present()
    rows: list[tuple[object, ...]] = [(i, i % 3, 0, "1.25", 0.5, "x", 1) for i in range(20)]
    tables = present.apply({"r": rows, "t": [(7, 1, 1, 1, 1)]})
    delta = LocalJob(compile_job(sql, DDL, 4, None)).apply({"r": tables["r"], "t": tables["t"]})["view"]
    total = Sum()
    total.add(delta)
    same_bag(total.answer(delta.schema.remove(len(delta.schema) - 1)), duckdb_answer(sql, tables))


UPSERTS = pa.schema([("id", pa.int64()), ("b", pa.int32()), ("c", pa.int32()), ("w", pa.int64()),
                     ("_change_type", pa.string()), ("_sequence", pa.int64())])  # fmt: skip


def feed(*rows: tuple[object, ...]) -> dict[str, pa.Table]:
    return {
        "t": pa.table(
            [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), UPSERTS, strict=True)], schema=UPSERTS
        )
    }


@pytest.mark.parametrize("shards", [1, 4])
def test_upserts_and_deletes_by_key(shards: int) -> None:
    sql = "SELECT c, SUM(w) AS total, COUNT(*) AS n FROM t GROUP BY c"
    running, total = LocalJob(compile_job(sql, DDL, shards, None, ["t"])), Sum()
    steps = [
        (
            feed((1, 1, 1, 10, "upsert", 2), (1, 1, 1, 5, "insert", 1), (2, 1, 2, 7, "insert", 1)),
            {1: (10, 1), 2: (7, 1)},
        ),
        (feed((2, None, None, None, "delete", 3), (1, 1, 2, 4, "upsert", 4), (3, 1, 2, 1, "insert", 5)), {2: (5, 2)}),
        (feed((3, 1, 2, 1, "update_preimage", 6), (3, 1, 1, 9, "update_postimage", 6)), {1: (9, 1), 2: (4, 1)}),
        (feed((1, 0, 0, 0, "delete", 8), (1, 1, 5, 2, "upsert", 9), (1, 0, 0, 0, "delete", 10)), {1: (9, 1)}),
    ]
    for number, (changes, expected) in enumerate(steps):
        delta = running.apply(changes)["view"]
        total.add(delta)
        assert {c: (int(s), n) for c, s, n in total.weights} == expected
        if number == 1:
            running.forget()


def test_an_upsert_needs_a_sequence() -> None:
    running = LocalJob(compile_job("SELECT c FROM t", DDL, 2, None))
    with pytest.raises(ChangeError, match="name the column that orders changes"):
        running.apply({"t": feed((1, 1, 1, 1, "upsert", 1))["t"].drop_columns(["_sequence"])})
