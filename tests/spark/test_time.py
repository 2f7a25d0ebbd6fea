"""Views with NOW() and tables with retain, next to a database in this process over the same history."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from benchmarks.local_job import LocalJob
from freshet.errors import PlanError
from freshet.spark import maintain, snapshot, system_clock
from freshet.spark.maintain import compile_job
from tests.oracle import same_bag
from tests.spark.level_job import LevelJob
from tests.spark.streams import Sum, batch, read_files, run, view_part, write_files
from tests.spark.time_cases import DDL, SCHEMAS, VIEWS, InProcess, transactions


def answer(total: Sum, delta: pa.Table) -> pa.Table:
    return total.answer(delta.schema.remove(len(delta.schema) - 1))


@pytest.mark.parametrize("quarantine", [False, True])
@pytest.mark.parametrize("shards", [1, 3])
def test_time_on_shards(shards: int, quarantine: bool) -> None:
    running, oracle = LocalJob(compile_job(VIEWS, DDL, shards, None, quarantine=quarantine)), InProcess()
    sums = {view: Sum() for view in VIEWS}
    for number, changes in enumerate(transactions(shards, 24)):
        oracle.apply(changes)
        deltas = running.apply(changes)
        for view, kept in oracle.views.items():
            sums[view].add(deltas[view])
            try:
                same_bag(answer(sums[view], deltas[view]), kept.to_arrow())
            except AssertionError as e:
                raise AssertionError(f"{view} after transaction {number}: {e}") from e
        if number % 7 == 6:
            (running.forget, running.compact)[number % 2]()
    assert not running.quarantined


@pytest.mark.parametrize("quarantine", [False, True])
def test_a_replayed_batch_has_the_same_clock(tmp_path: Path, quarantine: bool) -> None:
    """State stores are put back, as Spark does when it runs a batch again, and arenas are lost."""
    views = {name: VIEWS[name] for name in ("recent", "joined", "every", "groups")}
    job = compile_job(views, DDL, 2, None, quarantine=quarantine)
    arenas = [tmp_path / "first", tmp_path / "second"]
    running, oracle = LevelJob(job, tmp_path / "checkpoint", arenas[0]), InProcess()
    sums = {view: Sum() for view in VIEWS}
    for number, changes in enumerate(transactions(11, 12)):
        oracle.apply(changes)
        before, batch = running.kept(), running.batch
        deltas = running.apply(changes)
        if number % 3 == 1:
            running.stores, running.batch = before, batch
            running.arenas = str(arenas[number // 3 % 2])
            again = running.apply(changes)
            assert {v: sorted(map(str, d.to_pylist())) for v, d in again.items()} == {
                v: sorted(map(str, d.to_pylist())) for v, d in deltas.items()
            }
        for view in views:
            if view in deltas:
                sums[view].add(deltas[view])
            kept = oracle.views[view].to_arrow()
            same_bag(sums[view].answer(kept.schema), kept)


@pytest.mark.timeout(900)
def test_time_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Two runs, the second of which begins with the last batch of the first once more."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    steps = list(transactions(5, 7))
    folder, checkpoint, oracle = tmp_path / "in", tmp_path / "checkpoint", InProcess()
    sums, views = {name: Sum() for name in ("joined", "every", "groups")}, oracle.views

    def start(out: Path) -> None:
        streams = read_files(spark, folder, list(SCHEMAS))
        clock = streams.pop("the clock")
        changes = maintain(
            spark, {name: VIEWS[name] for name in sums}, streams, schema=DDL, shards=2, checkpoint=str(checkpoint),
            arena=str(tmp_path / "arena"), clock=clock,
        )  # fmt: skip
        run(changes, out, checkpoint)

    write_files(folder, SCHEMAS, steps[:4])
    start(tmp_path / "first")
    again = {name: Counter(map(str, part(tmp_path / "first", 3, name).to_pylist())) for name in sums}
    uncommit(checkpoint, 3)
    write_files(folder, SCHEMAS, steps[4:], 4)
    start(tmp_path / "second")
    for number, changes in enumerate(steps):
        oracle.apply(changes)
        for name, total in sums.items():
            delta = part(tmp_path / ("first" if number < 3 else "second"), number, name)
            if number == 3:
                assert Counter(map(str, delta.to_pylist())) == again[name]
            total.add(delta)
            same_bag(total.answer(views[name].to_arrow().schema), views[name].to_arrow())
    for name in sums:
        rows = [tuple(r) for r in snapshot(spark, str(checkpoint), name).collect()]
        assert len(rows) == len(views[name].to_arrow())


def uncommit(checkpoint: Path, number: int) -> None:
    """As if the process had ended before the end of the batch."""
    for name in (str(number), f".{number}.crc"):
        (checkpoint / "commits" / name).unlink()


def part(out: Path, number: int, view: str) -> pa.Table:
    """A view's delta in a batch, times in UTC."""
    return view_part(batch(out, number), view)


@pytest.mark.timeout(900)
def test_the_clock_of_the_system(spark: SparkSession, tmp_path: Path) -> None:
    """Its time is that of the plan of a batch, whenever the batch is run; it passes while the streams are idle."""
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    begin = datetime.now(UTC)
    times = [(begin + timedelta(seconds=i / 2),) for i in range(1200)]
    ddl = "CREATE TABLE t (ts TIMESTAMP) WITH (retain = '1 day')"
    spark.createDataFrame(times, "ts TIMESTAMP").write.parquet(str(tmp_path / "in"))

    def start(**clock: Any) -> DataFrame:
        stream = spark.readStream.schema("ts TIMESTAMP").parquet(str(tmp_path / "in"))
        return maintain(
            spark, "SELECT ts FROM t WHERE ts <= NOW()", {"t": stream}, schema=ddl, checkpoint=str(tmp_path / "at"),
            arena=str(tmp_path / "arena"), **clock,
        )  # fmt: skip

    run(start(), tmp_path / "first", tmp_path / "at")
    first = batch(tmp_path / "first", 0)
    assert 0 < len(first) < len(times)
    uncommit(tmp_path / "at", 0)
    run(start(), tmp_path / "second", tmp_path / "at")
    again = batch(tmp_path / "second", 0)
    assert sorted(again["ts"].to_pylist()) == sorted(first["ts"].to_pylist())
    run(start(clock=system_clock(spark, every=0.5)), tmp_path / "second", tmp_path / "at")
    later = batch(tmp_path / "second", 1)
    assert min(later["ts"].to_pylist()) > max(first["ts"].to_pylist())
    assert {*later["_weight"].to_pylist()} == {1}


def test_what_is_no_clock(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    stream = spark.readStream.schema("a INT, ts TIMESTAMP").parquet(str(tmp_path / "in"))
    ddl, sql = "CREATE TABLE t (a INT, ts TIMESTAMP)", "SELECT a FROM t WHERE ts > NOW()"
    for clock, why in ((stream, "a stream of one column"), (stream.select("a"), "clock is a stream of int")):
        with pytest.raises(PlanError, match=why):
            maintain(spark, sql, {"t": stream}, schema=ddl, clock=clock)
    with pytest.raises(PlanError, match="tick every 0 seconds"):
        system_clock(spark, every=0)
