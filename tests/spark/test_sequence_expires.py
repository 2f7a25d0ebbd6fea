"""Changes by key of a table with retain: the greatest change of each key wins, whatever has expired meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from benchmarks.local_job import LocalJob
from freshet.spark import maintain
from freshet.spark.maintain import compile_job
from tests.spark.streams import Sum, batch, read_files, run, view_part, write_files

DDL = "CREATE TABLE t (id BIGINT PRIMARY KEY, v INT, ts TIMESTAMP) WITH (retain = '3 hours')"
VIEWS = {"every": "SELECT id, v FROM t", "sums": "SELECT v, COUNT(*) AS n FROM t GROUP BY v"}
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int32()), ("ts", pa.timestamp("us", "UTC")),
                    ("_change_type", pa.string()), ("_sequence", pa.int64())])  # fmt: skip
BEGIN = datetime(2026, 1, 31, 12, tzinfo=UTC)

Change = tuple[int, int | None, int | None, bool, int]  # key, value, hour, whether it is a row, sequence


def hour(number: int) -> datetime:
    return BEGIN + timedelta(hours=number)


def feed(changes: Sequence[Change], now: int | None) -> dict[str, pa.Table]:
    rows = [
        (key, v, None if at is None else hour(at), "upsert" if adds else "delete", moment)
        for key, v, at, adds, moment in changes
    ]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
    if now is None:
        return {"t": table}
    return {"t": table, "the clock": pa.table({"now": pa.array([hour(now)], pa.timestamp("us", "UTC"))})}


def standing(changes: Sequence[Change], now: int) -> dict[int, int | None]:
    """The law, in plain words."""
    rows = {}
    for key in {change[0] for change in changes}:
        mine = [change for change in changes if change[0] == key]
        last = max(moment for *_, moment in mine)
        there = [
            (at is None, at or 0, v is not None, v or 0)
            for _, v, at, adds, moment in mine
            if moment == last and adds and (at is None or at + 3 > now)
        ]
        if there:
            known, value = max(there)[2:]
            rows[key] = value if known else None
    return rows


def answers(rows: dict[int, int | None]) -> dict[str, Counter[Any]]:
    return {"every": Counter(rows.items()), "sums": Counter(Counter(rows.values()).items())}


_CHANGES = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([None, 1, 2]), st.sampled_from([None, 0, 1, 2, 4, 6]), st.booleans(),
              st.integers(1, 4)), max_size=5)  # fmt: skip


@pytest.mark.parametrize("shards", [1, 3])
@given(steps=st.lists(st.tuples(_CHANGES, st.sampled_from([None, 0, 1, 2, 4])), min_size=1, max_size=6), data=st.data())
def test_any_order_while_rows_expire(
    shards: int, steps: list[tuple[list[Change], int | None]], data: st.DataObject
) -> None:
    running = LocalJob(compile_job(VIEWS, DDL, shards, None, ["t"]))
    sums, seen, now, known = {v: Sum() for v in VIEWS}, list[Change](), 0, False
    for changes, later in steps:
        known |= later is not None
        now += later or 0
        seen += changes
        for view, delta in running.apply(feed(changes, now if later is not None else None)).items():
            sums[view].add(delta)
        expected = answers(standing(seen, now if known else -100))
        assert {v: s.weights for v, s in sums.items()} == expected
        (lambda: None, running.forget, running.compact)[data.draw(st.integers(0, 2))]()


def test_an_expired_row_is_forgotten_but_for_its_key_and_sequence() -> None:
    running, total = LocalJob(compile_job(VIEWS["every"], DDL, 1, None, ["t"])), Sum()
    total.add(running.apply(feed([(1, 1, 0, True, 5), (2, 2, 4, True, 5)], 0))["view"])
    total.add(running.apply(feed([], 3))["view"])
    assert total.weights == {(2, 2): 1}
    shard = running.shards[0, 0]
    assert {name: table.tuples.live for name, table in shard.tables.items() if name in ("t/key", "t/gone")} == {
        "t/key": 1, "t/gone": 1,
    }  # fmt: skip
    total.add(running.apply(feed([(1, 9, 6, True, 4)], None))["view"])  # older than the row that has expired
    assert total.weights == {(2, 2): 1}
    total.add(running.apply(feed([(1, 9, 6, True, 6)], None))["view"])
    assert total.weights == {(1, 9): 1, (2, 2): 1}


@pytest.mark.timeout(900)
def test_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    steps: list[tuple[list[Change], int]] = [
        ([(1, 1, 0, True, 5), (2, 2, 4, True, 5)], 0),
        ([(3, 1, 4, True, 1)], 4),  # the first row expires
        ([(1, 9, 6, True, 4), (2, None, None, False, 9)], 4),
        ([(1, 9, 6, True, 6)], 5),
    ]
    schemas = {"t": SCHEMA, "the clock": pa.schema([("now", pa.timestamp("us", "UTC"))])}
    write_files(tmp_path / "in", schemas, [feed(changes, now) for changes, now in steps])
    streams = read_files(spark, tmp_path / "in", list(schemas))
    clock = streams.pop("the clock")
    stream = streams["t"].withColumnRenamed("_sequence", "at")
    out = maintain(spark, VIEWS, {"t": stream}, schema=DDL, shards=2, checkpoint=str(tmp_path / "at"),
                   arena=str(tmp_path / "arena"), clock=clock, sequence="at")  # fmt: skip
    run(out, tmp_path / "out", tmp_path / "at")
    sums, seen = {v: Sum() for v in VIEWS}, list[Change]()
    for number, (changes, now) in enumerate(steps):
        seen += changes
        for view, total in sums.items():
            total.add(view_part(batch(tmp_path / "out", number), view))
        assert {v: s.weights for v, s in sums.items()} == answers(standing(seen, now))
