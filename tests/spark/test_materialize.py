"""Copies of an answer in a folder: versions that appear whole, replays that change nothing, files that go away."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from freshet.errors import ChangeError, PlanError, StateError
from freshet.spark import maintain, materialize, read_materialized
from freshet.spark.materialize import Materializer
from freshet.spark.sink import gathered
from freshet.spark.sink import runs as runs_here
from freshet.spark.sink.folder import HadoopFolder, LocalFolder
from freshet.spark.sink.spread import GROUP_ROWS
from freshet.spark.sink.versions import VersionedCopy, merges
from tests.spark.streams import read_files, write_files

pytestmark = pytest.mark.long

SCHEMA = "k BIGINT, s STRING, d DECIMAL(10,2), x DOUBLE, t TIMESTAMP, _weight BIGINT"
Row = tuple[Any, ...]


def random_row(rng: random.Random) -> Row:
    t = datetime(2024, 1, 1, 0, 0, 0, rng.randrange(3), UTC).replace(tzinfo=None)
    return (
        rng.choice([None, 1, 2]),
        rng.choice([None, "a", "b'\\é"]),
        rng.choice([None, Decimal("1.50"), Decimal("-0.01")]),
        rng.choice([None, 0.0, 0.1, 1e300]),
        rng.choice([None, t]),
    )


def random_changes(rng: random.Random, held: Counter[Row], size: int) -> list[Row]:
    """Valid changes, with a row's weight spread over several of them; `held` is updated to the resulting rows."""
    rows = []
    for _ in range(size):
        if held and rng.random() < 0.45:
            row = rng.choice(list(held))
            weight = -rng.randint(1, held[row])
        else:
            row, weight = random_row(rng), rng.choice([1, 1, 2, 5])
        held[row] += weight
        if not held[row]:
            del held[row]
        rows += [(*row, weight + 1), (*row, -1)] if rng.random() < 0.3 and weight != -1 else [(*row, weight)]
    rng.shuffle(rows)
    return rows


def batch_of(spark: SparkSession, rows: list[Row], schema: str = SCHEMA) -> DataFrame:
    return spark.createDataFrame(rows, schema)


def folder_copy(spark: SparkSession, target: str, schema: str = SCHEMA, keep: int = 30) -> Materializer:
    copy = VersionedCopy(spark, target, keep)
    fields = batch_of(spark, [], schema).drop("_weight").schema
    copy.prepare(fields)
    return Materializer({None: copy})


def answer(spark: SparkSession, target: Path | str) -> Counter[Row]:
    return Counter(tuple(row) for row in read_materialized(spark, str(target)).collect())


def newest(target: Path) -> dict[str, Any]:
    stored = json.loads(max((target / "_versions").glob("*.json")).read_text())
    assert isinstance(stored, dict)
    return stored


def test_is_the_sum_of_the_changes_after_every_batch(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(7)
    held: Counter[Row] = Counter()
    copy = folder_copy(spark, str(tmp_path / "copy"))
    for number, size in enumerate([8, 1, 1, 2, 0, 12, 1, 1]):
        rows = random_changes(rng, held, size)
        copy.apply(batch_of(spark, rows), number, "q")
        assert answer(spark, tmp_path / "copy") == held
        if number % 3 == 0:  # again, and in another order
            copy.apply(batch_of(spark, rows[::-1]), number, "q")
            assert answer(spark, tmp_path / "copy") == held
    version = newest(tmp_path / "copy")
    assert version["rows"] == held.total()
    assert version["version"] == 7  # the empty batch and the replays made none
    assert len(version["runs"]) <= 4


@pytest.fixture(params=["in this process", "by Spark"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches and runs are small enough for this process, or too large."""
    if request.param == "by Spark":
        monkeypatch.setattr(gathered, "GATHERED", 0)


@pytest.mark.parametrize("seed", range(2))
def test_batches_of_all_sizes_add_up(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Whatever is done by Spark and whatever in this process, with runs of both."""
    rng = random.Random(seed)
    held: Counter[Row] = Counter()
    copy = folder_copy(spark, str(tmp_path / "copy"))
    for number, size in enumerate([8, 6, 2, 3, 9, 2]):
        for module, name, most in (
            (gathered, "GATHERED", 16 << 20),
            (runs_here, "MERGED", 64 << 20),
            (runs_here, "LOOKED_UP", 4_000_000),
        ):
            monkeypatch.setattr(module, name, rng.choice([0, most]))
        rows = random_changes(rng, held, size)
        copy.apply(batch_of(spark, rows).repartition(2), number, "q")
        assert answer(spark, tmp_path / "copy") == held
        monkeypatch.setattr(gathered, "GATHERED", rng.choice([0, 16 << 20]))
        copy.apply(batch_of(spark, rows), number, "q")  # a replay is one, computed either way
        assert answer(spark, tmp_path / "copy") == held
        with pytest.raises(StateError, match="comes again with other rows"):
            copy.apply(batch_of(spark, [*rows, (*random_row(rng), 1)]), number, "q")


ALL_TYPES = """
    true AS b, 1Y AS i8, 2S AS i16, 3 AS i32, 4L AS i64, float('NaN') AS f, double('-0.0') AS d,
    1.5BD AS short, 12345678901234567890.12BD AS middle, 12345678901234567890123456789012345678BD AS long,
    'text' AS s, X'00FF' AS x, DATE '0001-01-01' AS day, TIMESTAMP '1500-01-01 00:00:00.000001' AS t,
    TIMESTAMP_NTZ '9999-12-31 23:59:59.999999' AS n
"""


@pytest.mark.parametrize("more", ["", ", INTERVAL '3-1' YEAR TO MONTH AS months, INTERVAL '1 02' DAY TO HOUR AS hours"])
def test_values_of_all_types(spark: SparkSession, tmp_path: Path, way: None, more: str) -> None:
    """Arrow has no form of all intervals; Spark then does everything."""
    row = spark.sql(f"SELECT {ALL_TYPES}{more}, 1L AS _weight")
    nulls = row.selectExpr(
        *(f"CAST(NULL AS {f.dataType.simpleString()}) AS {f.name}" for f in row.drop("_weight").schema)
    )
    copy = VersionedCopy(spark, str(tmp_path), 30)
    copy.prepare(row.drop("_weight").schema)
    write = Materializer({None: copy})
    for number, weight in enumerate([1, 2, -1]):
        both = row.drop("_weight").unionByName(nulls).withColumn("_weight", sf.lit(weight).cast("bigint"))
        write.apply(both, number, "q")
    found = read_materialized(spark, str(tmp_path))
    assert found.schema == nulls.schema
    expected = row.drop("_weight").unionByName(nulls)
    assert found.count() == 4
    assert found.exceptAll(expected.unionByName(expected)).isEmpty()
    write.apply(expected.withColumn("_weight", sf.lit(-2).cast("bigint")), 3, "q")
    assert read_materialized(spark, str(tmp_path)).isEmpty()


def test_everything_gone_is_an_empty_answer(spark: SparkSession, tmp_path: Path) -> None:
    copy = folder_copy(spark, str(tmp_path), "a INT, _weight BIGINT")
    assert answer(spark, tmp_path) == Counter()
    for number, weight in enumerate([2, 3, -1, -4]):
        copy.apply(batch_of(spark, [(1, weight)], "a INT, _weight BIGINT"), number, "q")
    assert answer(spark, tmp_path) == Counter()
    assert newest(tmp_path)["runs"] == {}  # merged, and nothing was left


def test_zeros_of_both_signs_are_one_row(spark: SparkSession, tmp_path: Path, way: None) -> None:
    copy = folder_copy(spark, str(tmp_path), "x DOUBLE, _weight BIGINT")
    for number, row in enumerate([(-0.0, 1), (0.0, 1), (float("nan"), 1), (-0.0, -2), (float("nan"), -1)]):
        copy.apply(batch_of(spark, [row], "x DOUBLE, _weight BIGINT"), number, "q")
    assert answer(spark, tmp_path) == Counter()


@given(st.lists(st.integers(1, 200), min_size=1, max_size=200))
def test_runs_are_few_and_rows_rewritten_seldom(batches: list[int]) -> None:
    runs: list[int] = []
    rewritten = 0
    for added in batches:
        count = merges(runs, added)
        tail = runs[len(runs) - count :]
        rewritten += sum(tail)
        runs = [*runs[: len(runs) - count], sum(tail) + added]
        assert all(runs[i] > sum(runs[i + 1 :]) for i in range(len(runs) - 3))
    levels = sum(batches).bit_length()
    assert sum(runs) == sum(batches)
    assert len(runs) <= levels + 3
    assert rewritten <= 2 * levels * sum(batches)


def test_a_small_batch_does_not_rewrite_a_large_answer(spark: SparkSession, tmp_path: Path) -> None:
    schema = "a BIGINT, _weight BIGINT"
    copy = folder_copy(spark, str(tmp_path), schema)
    copy.apply(spark.range(20_000).selectExpr("id AS a", "1L AS _weight"), 0, "q")
    (base,) = newest(tmp_path)["runs"]
    for number in range(1, 7):
        copy.apply(batch_of(spark, [(number, -1), (-number, 1)], schema), number, "q")
    runs = newest(tmp_path)["runs"]
    assert next(iter(runs)) == base and sum(runs.values()) <= 20_012
    assert read_materialized(spark, str(tmp_path)).count() == 20_000


@pytest.mark.parametrize("taken", [1, 600])
def test_removing_a_missing_row_is_refused(spark: SparkSession, tmp_path: Path, way: None, taken: int) -> None:
    schema = "a BIGINT, s STRING, _weight BIGINT"
    copy = folder_copy(spark, str(tmp_path), schema)
    copy.apply(spark.range(1_000).selectExpr("id AS a", "'x' AS s", "2L AS _weight"), 0, "q")
    rows: list[Row] = [(i, "x", -2) for i in range(taken)]
    with pytest.raises(
        ChangeError, match=r"batch 1 takes away 3 of the row \(a=999, s=x\), of which .* holds 2: .* new"
    ):
        copy.apply(batch_of(spark, [*rows, (999, "x", -3)], schema), 1, "q")
    with pytest.raises(ChangeError, match=r"the row \(a=5, s=NULL\), of which .* holds 0"):
        copy.apply(batch_of(spark, [*rows, (5, None, -1)], schema), 1, "q")
    assert newest(tmp_path)["version"] == 1
    copy.apply(batch_of(spark, rows, schema), 1, "q")  # the copy is unchanged, and continues
    assert read_materialized(spark, str(tmp_path)).count() == 2 * (1_000 - taken)


def test_a_reader_stays_with_its_version_while_the_writer_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    schema = "a INT, _weight BIGINT"
    copy = folder_copy(spark, str(tmp_path), schema, keep=3)
    copy.apply(batch_of(spark, [(0, 1)], schema), 0, "q")
    reader = read_materialized(spark, str(tmp_path))
    copy.apply(batch_of(spark, [(1, 1)], schema), 1, "q")
    assert [tuple(r) for r in reader.collect()] == [(0,)]
    for number in range(2, 12):
        copy.apply(batch_of(spark, [(number, 1)], schema), number, "q")
    version = newest(tmp_path)
    kept = {p.name for p in (tmp_path / "runs").iterdir()}
    assert kept == {*version["runs"], *version["retired"]}
    assert all(at > version["version"] - 3 for at in version["retired"].values())
    assert len(list((tmp_path / "_versions").iterdir())) == 3
    assert answer(spark, tmp_path).total() == 12


def test_a_batch_that_fails_before_its_version_leaves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = "a INT, _weight BIGINT"
    copy = folder_copy(spark, str(tmp_path), schema)
    copy.apply(batch_of(spark, [(0, 1)], schema), 0, "q")
    with monkeypatch.context() as broken:
        broken.setattr(VersionedCopy, "_commit", lambda self, version: os.stat("/nowhere/at/all"))
        with pytest.raises(FileNotFoundError):
            copy.apply(batch_of(spark, [(1, 1)], schema), 1, "q")
    assert answer(spark, tmp_path) == Counter({(0,): 1})
    assert len(list((tmp_path / "runs").iterdir())) == 2
    copy.apply(batch_of(spark, [(1, 1)], schema), 1, "q")
    assert answer(spark, tmp_path) == Counter({(0,): 1, (1,): 1})
    assert len(list((tmp_path / "runs").iterdir())) == 2  # the unreferenced run is removed


def test_of_two_writers_one_fails(spark: SparkSession, tmp_path: Path) -> None:
    schema = "a INT, _weight BIGINT"
    copy = folder_copy(spark, str(tmp_path), schema)
    once = VersionedCopy._advanced

    def slowly(self: VersionedCopy, *args: Any) -> Any:
        made = once(self, *args)
        if not (tmp_path / "_versions" / "0000000001.json").exists():
            (tmp_path / "_versions" / "0000000001.json").write_text(made.to_json())
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VersionedCopy, "_advanced", slowly)
        with pytest.raises(StateError, match=r"another query made version 1 of .*; stop one"):
            copy.apply(batch_of(spark, [(1, 1)], schema), 0, "q")


def test_batches_that_do_not_follow_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    schema = "a INT, _weight BIGINT"
    copy = folder_copy(spark, str(tmp_path), schema)
    copy.apply(batch_of(spark, [(1, 1)], schema), 200, "q")
    with pytest.raises(StateError, match=r"was filled by streaming query q, and this is query r.*checkpoint"):
        copy.apply(batch_of(spark, [(1, 1)], schema), 201, "r")
    for rows in ([(2, 1)], [(1, 2)], []):
        with pytest.raises(StateError, match="batch 200 comes again with other rows"):
            copy.apply(batch_of(spark, rows, schema), 200, "q")
    with pytest.raises(StateError, match=r"batch 7 comes again, but .* remembers them from 200 on only"):
        copy.apply(batch_of(spark, [(1, 1)], schema), 7, "q")
    assert answer(spark, tmp_path) == Counter({(1,): 1})


def test_through_hadoop(spark: SparkSession, tmp_path: Path) -> None:
    """Any file system but the local one, here a Hadoop view of a folder."""
    spark.conf.set("fs.viewfs.mounttable.freshet.link./box", tmp_path.as_uri())
    target, schema = "viewfs://freshet/box/copy", "a INT, _weight BIGINT"
    copy = folder_copy(spark, target, schema, keep=2)
    inner = copy.copies[None]
    assert isinstance(inner, VersionedCopy) and isinstance(inner.folder, HadoopFolder)
    for number in range(5):
        copy.apply(batch_of(spark, [(number, 1), (0, 1)], schema), number, "q")
    assert answer(spark, target) == Counter({(0,): 6, (1,): 1, (2,): 1, (3,): 1, (4,): 1})
    assert not inner.folder.create("_versions/0000000005.json", "again")
    assert sorted(inner.folder.names("_versions")) == ["0000000004.json", "0000000005.json"]
    with pytest.raises(FileNotFoundError):
        inner.folder.read("_versions/0000000009.json")


# As a streaming query -------------------------------------------------------------------------------------------

DDL = "CREATE TABLE t (g INT, v INT)"
SQL = "SELECT g, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY g"
TYPES = pa.schema([("g", pa.int32()), ("v", pa.int32()), ("_weight", pa.int64())])


def transactions() -> list[dict[str, pa.Table]]:
    rows = [[(1, 10, 1), (2, 5, 1)], [(1, 1, 1), (2, 5, -1)], [(3, 7, 2), (1, 10, -1), (2, 4, 1)]]
    return [{"t": pa.table(dict(zip(TYPES.names, zip(*r, strict=True), strict=True)), TYPES)} for r in rows]


EXPECTED = Counter({(1, 1, 1): 1, (3, 2, 14): 1, (2, 1, 4): 1})


def test_maintained_view_restarted_from_an_older_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    files, target, checkpoint = tmp_path / "files", str(tmp_path / "copy"), tmp_path / "checkpoint"

    def run(count: int, first: int = 0) -> None:
        write_files(files, {"t": TYPES}, transactions()[first:count], first)
        changes = maintain(
            spark, SQL, read_files(spark, files, ["t"]), schema=DDL, shards=2, arena=str(tmp_path / "arena")
        )
        trigger = {"availableNow": True}
        materialize(changes, target, checkpoint=str(checkpoint), trigger=trigger, name="copy").awaitTermination()

    run(1)
    shutil.copytree(checkpoint, tmp_path / "older")
    run(3, 1)
    assert answer(spark, target) == EXPECTED
    version = newest(tmp_path / "copy")["version"]
    shutil.rmtree(checkpoint)
    shutil.copytree(tmp_path / "older", checkpoint)
    run(3, 1)
    assert answer(spark, target) == EXPECTED
    assert newest(tmp_path / "copy")["version"] == version
    shutil.rmtree(checkpoint)  # a new checkpoint counts from 0 again, and must not pass for a replay
    with pytest.raises(StreamingQueryException, match="was filled by streaming query"):
        run(3, 1)


def test_several_views_from_one_query(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "files", {"t": TYPES}, transactions())
    views = {"groups": SQL, "small": "SELECT v FROM t WHERE v < 6"}
    tables = read_files(spark, tmp_path / "files", ["t"])
    changes = maintain(spark, views, tables, schema=DDL, shards=2, arena=None)
    targets = {name: str(tmp_path / name) for name in views}
    with pytest.raises(PlanError, match="give checkpoint="):
        materialize(changes, targets)
    with pytest.raises(PlanError, match="there is no view big; the views are groups, small"):
        materialize(changes, {"big": str(tmp_path / "big")})
    with pytest.raises(PlanError, match="changes of several views; give a dict"):
        materialize(changes, str(tmp_path / "one"))
    query = materialize(changes, targets, checkpoint=str(tmp_path / "checkpoint"), trigger={"availableNow": True})
    query.awaitTermination()
    assert answer(spark, tmp_path / "groups") == EXPECTED
    assert answer(spark, tmp_path / "small") == Counter({(1,): 1, (4,): 1})


def test_a_small_micro_batch_is_one_job_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "files", {"t": TYPES}, transactions())
    views = {"groups": SQL, "small": "SELECT v FROM t WHERE v < 6", "large": "SELECT v FROM t WHERE v > 6"}
    changes = maintain(spark, views, read_files(spark, tmp_path / "files", ["t"]), schema=DDL, shards=2, arena=None)
    targets = {name: str(tmp_path / name) for name in views}
    query = materialize(changes, targets, checkpoint=str(tmp_path / "checkpoint"), trigger={"availableNow": True})
    query.awaitTermination()
    assert answer(spark, tmp_path / "groups") == EXPECTED
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup(query.runId)) == len(transactions())


def test_lookups_read_the_groups_of_their_hashes_alone(spark: SparkSession, tmp_path: Path, way: None) -> None:
    schema, size = "a BIGINT, _weight BIGINT", 3 * GROUP_ROWS
    copy = folder_copy(spark, str(tmp_path), schema)
    copy.apply(spark.range(size).selectExpr("id AS a", "1L AS _weight"), 0, "q")
    (run,) = newest(tmp_path)["runs"]
    (file,) = (tmp_path / "runs" / run).glob("*.parquet")
    rows = pq.read_table(file, columns=["_hash"])["_hash"].to_numpy()
    assert (rows[1:] >= rows[:-1]).all()
    groups = runs_here._with_hashes(pq.read_metadata(file), rows[[7, 8]])
    assert pq.read_metadata(file).num_row_groups == 3 and groups == [0]
    folder = LocalFolder(str(tmp_path))
    there = np.sort(np.array([rows[7], rows[7] + 1, rows[-1]]))
    assert runs_here.held(folder, [run], there).tolist() == [1, 0, 1]  # type: ignore[union-attr]


KILLED = """
import os, signal, sys
from tests.spark.conftest import settings
from pyspark.sql import SparkSession
from freshet.spark import materialize
from freshet.spark.sink.versions import VersionedCopy

files, target = sys.argv[1:]
whole = VersionedCopy._commit

def cut(self, version):
    whole(self, version)
    if version.number == 2:
        os.kill(os.getpid(), signal.SIGKILL)

VersionedCopy._commit = cut
spark = settings(SparkSession.builder.master("local[1]")).getOrCreate()
changes = spark.readStream.schema("g INT, v INT, _weight BIGINT").option("maxFilesPerTrigger", "1").parquet(files)
materialize(changes, target, trigger={"availableNow": True}).awaitTermination()
spark.stop()
"""


def test_killed_driver(spark: SparkSession, tmp_path: Path) -> None:
    """Killed between the commit of a version and Spark's own commit of the batch: the batch is repeated."""
    write_files(tmp_path, {"t": TYPES}, transactions())
    script, target = tmp_path / "killed.py", tmp_path / "copy"
    script.write_text(KILLED)
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
    command = [sys.executable, str(script), str(tmp_path / "t"), str(target)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    assert newest(target)["version"] == 2
    changes = spark.readStream.schema("g INT, v INT, _weight BIGINT").option("maxFilesPerTrigger", "1")
    materialize(changes.parquet(str(tmp_path / "t")), str(target), trigger={"availableNow": True}).awaitTermination()
    assert answer(spark, target) == Counter({(1, 1): 1, (3, 7): 2, (2, 4): 1})


def test_refusals_name_the_fault_and_the_remedy(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path, {"t": TYPES}, transactions())
    changes = read_files(spark, tmp_path, ["t"])["t"]
    new, full = str(tmp_path / "new"), tmp_path / "full"
    full.mkdir()
    (full / "notes.txt").write_text("mine")
    with pytest.raises(StateError, match="is not empty and was not made by materialize; give a new"):
        materialize(changes, str(full))
    with pytest.raises(StateError, match="holds no materialized view; start one"):
        read_materialized(spark, new)
    folder_copy(spark, new, "g INT, v BIGINT, _weight BIGINT")
    with pytest.raises(
        StateError, match="holds the columns g int, v bigint, and the changes have g int, v int; select"
    ):
        materialize(changes, new)
    for bad, message in (
        (spark.range(1), "not a stream"),
        (changes.drop("_weight"), "no column _weight of type BIGINT"),
        (changes.selectExpr("g", "CAST(_weight AS INT) AS _weight"), "no column _weight of type BIGINT"),
        (changes.selectExpr("g", "v AS G", "_weight"), "two columns named g; give them different aliases"),
        (changes.selectExpr("g AS _hash", "_weight"), "a name the copy needs itself"),
        (changes.selectExpr("array(g) AS a", "_weight"), "column a is a array<int>"),
        (changes.select("_weight"), "no columns but the weight"),
    ):
        with pytest.raises(PlanError, match=message):
            materialize(bad, str(tmp_path / "other"))
    with pytest.raises(PlanError, match="one view; give one target"):
        materialize(changes, {"t": new})
    with pytest.raises(PlanError, match="a folder takes no options"):
        materialize(changes, new, options={"table": "t"})
    (tmp_path / "new" / "_versions" / "0000000001.json").write_text("{")
    with pytest.raises(StateError, match="is not a version file"):
        read_materialized(spark, new)
