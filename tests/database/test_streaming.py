"""A whole answer is read in batches: of one version, in bounded memory, however many rows it has."""

from __future__ import annotations

import numpy as np
import psutil
import pyarrow as pa
import pytest

import freshet
from freshet.database.db import Database

MEGABYTE = 1 << 20


def many_to_many(side: int, keys: int) -> Database:
    """Two tables of `side` rows whose join has side² / keys rows."""
    db = freshet.connect()
    db.execute("CREATE TABLE a (k INT, x INT); CREATE TABLE b (k INT, y INT)")
    numbers = np.arange(side, dtype=np.int32)
    changes = {"a": pa.table({"k": numbers % keys, "x": numbers}), "b": pa.table({"k": numbers % keys, "y": numbers})}
    db.apply(changes)
    return db


def test_a_hundred_million_rows_in_bounded_memory() -> None:
    db = many_to_many(20_000, 4)
    view = db.create_view("v", "SELECT a.x, b.y FROM a JOIN b ON a.k = b.k")
    assert view.count() == 100_000_000
    process = psutil.Process()
    before = process.memory_info().rss
    rows, x_total, y_total, peak = 0, 0, 0, 0
    for batch in view.batches(1_000_000):
        assert batch.num_rows <= 1_000_000
        rows += batch.num_rows
        x_total += int(np.asarray(batch.column(0)).sum(dtype=np.int64))
        y_total += int(np.asarray(batch.column(1)).sum(dtype=np.int64))
        peak = max(peak, process.memory_info().rss)
    assert rows == 100_000_000
    every = 5_000 * int(np.arange(20_000).sum())  # each row of either table meets 5,000 of the other
    assert (x_total, y_total) == (every, every)
    assert peak - before < 300 * MEGABYTE, f"{(peak - before) / MEGABYTE:.0f} MB"


def test_duplicates_are_streamed_too() -> None:
    """One pair of rows with large weights: more copies than a batch may hold."""
    db = freshet.connect()
    db.execute("CREATE TABLE a (k INT, x INT); CREATE TABLE b (k INT, y INT)")
    view = db.create_view("v", "SELECT a.x, b.y FROM a JOIN b ON a.k = b.k")
    tx = db.apply({"a": [{"k": 1, "x": 7, "_weight": 3_000}], "b": [{"k": 1, "y": 8, "_weight": 2_000}]})
    assert tx.deltas["v"].to_pylist() == [{"x": 7, "y": 8, "_weight": 6_000_000}]
    sizes = [batch.num_rows for batch in view.batches(65_536)]
    assert sum(sizes) == view.count() == 6_000_000
    assert max(sizes) <= 65_536


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.x, b.y FROM a JOIN b ON a.k = b.k",
        "SELECT x, COUNT(*) AS n FROM a GROUP BY x",
        "SELECT DISTINCT a.k, b.y FROM a JOIN b ON a.k = b.k",
        "SELECT DISTINCT a.x + b.y AS z FROM a JOIN b ON a.k = b.k",
        "SELECT a.x + 1 AS z FROM a WHERE a.x >= 0",
        "SELECT a.x, b.y FROM a LEFT JOIN b ON a.k = b.k WHERE b.y IS NULL OR b.y > a.x",
    ],
)
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_batches_make_up_the_answer(sql: str, size: int) -> None:
    view = many_to_many(60, 6).create_view("v", sql)
    batches = list(view.batches(size))
    assert all(0 < batch.num_rows <= size for batch in batches)
    assert all(batch.schema == view.schema for batch in batches)
    whole = view.to_arrow()
    assert pa.Table.from_batches(batches).equals(whole)
    assert view.count() == whole.num_rows > 0


@pytest.mark.parametrize(
    "sql", ["SELECT a.x, b.y FROM a JOIN b ON a.k = b.k", "SELECT x, COUNT(*) AS n FROM a GROUP BY x"]
)
def test_a_transaction_between_two_batches_ends_the_reading(sql: str) -> None:
    db = many_to_many(60, 6)
    view = db.create_view("v", sql)
    reading = view.batches(10)
    assert next(reading).num_rows == 10
    db.execute("DELETE FROM a WHERE x = 59")
    with pytest.raises(freshet.StateError, match=r"version 1 to 2 .*read it again"):
        next(reading)
    assert sum(batch.num_rows for batch in view.batches(10)) == view.count()


def test_a_refused_transaction_does_not_end_the_reading() -> None:
    db = many_to_many(60, 6)
    view = db.create_view("v", "SELECT a.x, b.y FROM a JOIN b ON a.k = b.k")
    reading = view.batches(10)
    rows = next(reading).num_rows
    with pytest.raises(freshet.ChangeError):
        db.apply({"a": [{"k": 1, "x": 99, "_weight": -1}]})
    assert rows + sum(batch.num_rows for batch in reading) == view.count()


def test_two_readings_at_once() -> None:
    """Each reading has its own place, also among the same chains."""
    view = many_to_many(60, 6).create_view("v", "SELECT a.x, b.y FROM a JOIN b ON a.k = b.k")
    first, second = view.batches(7), view.batches(13)
    seen: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([next(first)], [next(second)])
    for batch in first:
        seen[0].append(batch)
        seen[1].extend([b] if (b := next(second, None)) is not None else [])
    seen[1].extend(second)
    whole = view.to_arrow()
    assert pa.Table.from_batches(seen[0]).equals(whole)
    assert pa.Table.from_batches(seen[1]).equals(whole)


def test_a_batch_has_rows() -> None:
    view = many_to_many(6, 2).create_view("v", "SELECT x FROM a")
    with pytest.raises(ValueError, match="ask for 1 or more"):
        next(view.batches(0))


def test_a_dropped_view_cannot_be_read_on() -> None:
    db = many_to_many(60, 6)
    reading = db.create_view("v", "SELECT x FROM a").batches(10)
    next(reading)
    db.execute("DROP VIEW v")
    with pytest.raises(freshet.StateError, match="dropped"):
        next(reading)
