"""Tables with lateness and views with EMIT FINAL on shards, next to a database in this process over the same rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import freshet
from benchmarks.local_job import LocalJob
from freshet.errors import ChangeError, UnsupportedError
from freshet.spark import maintain, metrics, snapshot
from freshet.spark.maintain import compile_job
from tests.late_cases import DDL, SCHEMAS, VIEWS, Twin, transactions
from tests.oracle import same_bag
from tests.spark.level_job import LevelJob
from tests.spark.streams import Sum, batch, read_files, run, view_part, write_files

QUERIES = {name: sql for name, (sql, _) in VIEWS.items()}


class InProcess:
    def __init__(self) -> None:
        self.db = freshet.connect()
        for statement in DDL.split(";")[:-1]:
            self.db.execute(statement)
        self.views = {name: self.db.create_view(f"v_{name}", sql) for name, sql in QUERIES.items()}


def only_grows(total: Sum, delta: pa.Table, schema: pa.Schema) -> pa.Table:
    """The sum of deltas, none of which takes back a row."""
    before = total.weights.copy()
    total.add(delta)
    assert all(total.weights[row] >= weight for row, weight in before.items()), "a final row has changed"
    return total.answer(schema)


@pytest.mark.parametrize("quarantine", [False, True])
@pytest.mark.parametrize("shards", [1, 3])
def test_final_rows_on_shards(shards: int, quarantine: bool) -> None:
    running, oracle = LocalJob(compile_job(QUERIES, DDL, shards, None, quarantine=quarantine)), InProcess()
    sums, twin = {view: Sum() for view in VIEWS}, Twin()
    for number, changes in enumerate(transactions(shards, 30)):
        oracle.db.apply(changes)
        twin.apply(changes)
        deltas = running.apply(changes)
        for view, kept in oracle.views.items():
            try:
                same_bag(only_grows(sums[view], deltas[view], kept.to_arrow().schema), kept.to_arrow())
            except AssertionError as e:
                raise AssertionError(f"{view} after transaction {number}: {e}") from e
        if number % 7 == 6:
            (running.forget, running.compact)[number % 2]()
    assert not running.quarantined
    assert running.late == sum(twin.late.values()) > 10


@pytest.mark.parametrize("shards", [1, 3])
def test_deletes_of_final_rows_are_refused(shards: int) -> None:
    kinds = pa.schema([*SCHEMAS["e"], ("_weight", pa.int64())])

    def rows(*given: tuple[object, ...]) -> dict[str, pa.Table]:
        columns = list(zip(*given, strict=True))
        arrays = [pa.array(c).cast(f.type) for c, f in zip(columns, kinds, strict=True)]
        return {"e": pa.table(arrays, schema=kinds)}

    times = [pa.scalar(f"2026-01-01 {h:02}:00:00Z").cast(pa.timestamp("us", "UTC")).as_py() for h in (9, 12)]
    view = {"v": "SELECT k, COUNT(*) AS n FROM e GROUP BY k, ts EMIT FINAL"}
    for quarantine in (False, True):
        running = LocalJob(compile_job(view, DDL, shards, None, quarantine=quarantine))
        running.apply(rows((1, 0, times[0], 2), (2, 0, times[1], 1)))
        running.apply(rows((1, 0, times[0], 1), (1, 0, times[0], -1)))  # nothing, in sum
        bad = rows((1, 0, times[0], -1), (2, 0, times[1], -1))
        if quarantine:
            running.apply(bad)
            (refused,) = running.quarantined
            assert refused[0] == "e"
            assert refused[2].startswith("deletes a row before the watermark: rows before the watermark are final")
        else:
            with pytest.raises(ChangeError, match="deletes a row before the watermark"):
                running.apply(bad)


def test_a_replayed_batch_judges_rows_alike(tmp_path: Path) -> None:
    """State stores are put back, as Spark does when it runs a batch again, and arenas are lost."""
    views = {name: QUERIES[name] for name in ("windows", "joined", "rows")}
    arenas = [tmp_path / "first", tmp_path / "second"]
    running = LevelJob(compile_job(views, DDL, 2, None), tmp_path / "checkpoint", arenas[0])
    oracle, sums = InProcess(), {view: Sum() for view in views}
    for number, given in enumerate(transactions(11, 12)):
        changes = {name: rows for name, rows in given.items() if name != "d"}
        oracle.db.apply(changes)
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
def test_final_rows_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Two runs on two shards, and then one on a single shard, for which the checkpoint is rebuilt."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    steps = list(transactions(5, 9))
    folder, checkpoint, oracle, twin = tmp_path / "in", tmp_path / "checkpoint", InProcess(), Twin()
    names = ("windows", "joined", "hours")
    sums, late = {name: Sum() for name in names}, 0

    def start(part: int, shards: int) -> None:
        nonlocal late
        streams = read_files(spark, folder, ["e", "p"])
        changes = maintain(
            spark, {name: QUERIES[name] for name in names}, streams, schema=DDL, shards=shards,
            checkpoint=str(checkpoint), arena=str(tmp_path / "arena"), rebuild=shards == 1,
        )  # fmt: skip
        query = run(changes, tmp_path / str(part), checkpoint)
        late += sum(shard["late"] for progress in query.recentProgress for shard in metrics(progress))

    schemas = {name: SCHEMAS[name].append(pa.field("_weight", pa.int64())) for name in ("e", "p")}
    for part in range(3):
        write_files(folder, schemas, steps[3 * part : 3 * part + 3], 3 * part)
        start(part, 1 if part == 2 else 2)
    ran = {int(place.name.split("=")[1]): place.parent for place in tmp_path.glob("[012]/batch=*")}
    skipped = max(ran) - len(steps) + 1  # the rebuilding counts as a batch
    for number, changes in enumerate(steps):
        oracle.db.apply(changes)
        twin.apply({name: rows for name, rows in changes.items() if name != "d"})
        place = number if number < 6 else number + skipped
        for name in names:
            kept = oracle.views[name].to_arrow()
            delta = view_part(batch(ran[place], place), name)
            same_bag(only_grows(sums[name], delta, kept.schema), kept)
    for name in names:
        assert len(snapshot(spark, str(checkpoint), name).collect()) == len(oracle.views[name].to_arrow())
    assert late == sum(twin.late.values()) > 0


def test_lateness_with_a_sequence_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    stream = spark.readStream.schema("id BIGINT, k INT, came TIMESTAMP, ts TIMESTAMP").parquet(str(tmp_path / "in"))
    with pytest.raises(UnsupportedError, match="table p with lateness and a sequence"):
        maintain(spark, "SELECT k FROM p", {"p": stream}, schema=DDL, sequence={"p": "ts"})
