"""The queries of the IEDyn paper, table 1, and the fraud of its introduction, beside DuckDB.

Streams in time order, where compared values rise and the oldest rows go first, and in no order at all, where values
meet, repeat and are NULL.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import freshet
from benchmarks.papers.data import in_time, inequality_tables
from benchmarks.papers.queries import FRAUD, FRAUD_DDL, INEQUALITIES, INEQUALITY_DDL
from tests.twin import Twin, TwinTable, drain, waves

#: Projections also as sets: what a bag's duplicates would hide.
DISTINCT = {
    f"{name} distinct": INEQUALITIES[name].replace("SELECT", "SELECT DISTINCT")
    for name in ("q7", "q8", "q9", "q10", "q11", "q12")
}
HOUR = 3_600_000_000


def some_nulls(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    for place, name in enumerate(table.column_names):
        hidden = pa.array(rng.random(table.num_rows) < 0.08)
        table = table.set_column(
            place, name, pa.compute.if_else(hidden, pa.scalar(None, table.schema.field(name).type), table.column(name))
        )
    return table


@pytest.mark.parametrize("order", ["in time", "any order"])
@pytest.mark.parametrize("seed", range(2))
def test_table_1(seed: int, order: str) -> None:
    rng, timed = np.random.default_rng(seed), order == "in time"
    tables = inequality_tables(40, 3, seed, spread=7)
    if timed:
        tables = in_time(tables, np.arange(120).reshape(-1, 3).T.ravel())
    else:
        tables = {name: some_nulls(table, rng) for name, table in tables.items()}
    db = freshet.connect()
    db.execute(INEQUALITY_DDL)
    twin = Twin(db, [TwinTable(name, rows) for name, rows in tables.items()], INEQUALITIES | DISTINCT)
    waves(twin, rng, 24, pace=dict.fromkeys(tables, 4), in_order=timed)
    for name, sizes in twin.sizes.items():
        assert np.mean(np.array(sizes) > 0) > 0.4, f"{name} was mostly empty"
    drain(twin)
    assert all(view.count() == 0 for view in twin.views.values())


def payments(rng: np.random.Generator, count: int, spread: int) -> pa.Table:
    """Small payments and large ones of two accounts, within a time of `spread`; some times are NULL."""
    times = np.sort(rng.integers(0, spread, count))
    return pa.table(
        {
            "id": np.arange(count),
            "acc": rng.integers(0, 2, count),
            "ts": pa.array(times, pa.timestamp("us"), mask=rng.random(count) < 0.05),
            "amnt": rng.choice([10, 50, 99, 100, 401, 900], count),
        }
    )


@pytest.mark.parametrize("in_order", [True, False], ids=["in time", "any order"])
@pytest.mark.parametrize("seed", range(2))
def test_fraud(seed: int, in_order: bool) -> None:
    rng = np.random.default_rng(seed)
    db = freshet.connect()
    db.execute(FRAUD_DDL)
    known = payments(rng, 120 if in_order else 50, 2 * HOUR)
    twin = Twin(db, [TwinTable("trans", known, ("id",))], {"fraud": FRAUD})
    waves(twin, rng, 50, first=14, in_order=in_order)
    assert np.mean(np.array(twin.sizes["fraud"]) > 0) > 0.3
    drain(twin)
    assert twin.views["fraud"].count() == 0


def test_what_no_tree_can_place_is_checked_on_rows() -> None:
    """The hour between the first and the last of three payments closes a cycle of comparisons."""
    explained = freshet.plan(FRAUD, FRAUD_DDL).explain()
    assert "delay      not bounded" in explained and "PLUS_INTERVAL" in explained
    for name in ("q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8", "q9"):
        assert "delay      constant" in freshet.plan(INEQUALITIES[name], INEQUALITY_DDL).explain(), name
