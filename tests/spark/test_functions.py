"""Functions in Python in views on Spark: sent to workers, refused in one sentence where they cannot be."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import freshet
from benchmarks.local_job import LocalJob
from freshet.errors import PlanError, StateError
from freshet.spark import maintain, reason, snapshot, views
from freshet.spark.shipped import ShippedJob, pack_job, read_job
from freshet.spark.stages import make_job
from tests.oracle import same_bag
from tests.spark.streams import Sum, batch, read_files, run, write_files

DDL = "CREATE TABLE t (id BIGINT PRIMARY KEY, k STRING, v DOUBLE); CREATE TABLE u (k STRING, w BIGINT)"
SQL = "SELECT k, SUM(score(v, w)) AS s, MAX(score(v, w)) AS m FROM t JOIN u USING (k) WHERE score(v, 1) > 1 GROUP BY k"
SCHEMAS = {
    "t": pa.schema([("id", pa.int64()), ("k", pa.string()), ("v", pa.float64()), ("_weight", pa.int64())]),
    "u": pa.schema([("k", pa.string()), ("w", pa.int64()), ("_weight", pa.int64())]),
}


def steps() -> list[dict[str, pa.Table]]:
    changes: list[dict[str, list[tuple[Any, ...]]]] = [
        {"t": [(1, "a", 1.0, 1), (2, "b", 0.5, 1), (3, "a", None, 1)], "u": [("a", 2, 1), ("b", 3, 1)]},
        {"t": [(4, "b", 4.0, 1), (1, "a", 1.0, -1)], "u": [("a", 2, -1), ("a", None, 1)]},
        {"t": [(2, "b", 0.5, -1), (5, "a", 3.0, 1)], "u": [("a", 5, 1)]},
    ]
    return [
        {
            n: pa.Table.from_pylist([dict(zip(SCHEMAS[n].names, r, strict=True)) for r in rows], SCHEMAS[n])
            for n, rows in c.items()
        }
        for c in changes
    ]


def catalog(factor: float) -> freshet.Catalog:
    made = freshet.Catalog.from_ddl(DDL)
    made.create_function("score", lambda v, w: pc.multiply(pc.multiply(v, factor), w), returns="DOUBLE")
    return made


def in_process(factor: float, changes: list[dict[str, pa.Table]]) -> pa.Table:
    db = freshet.connect()
    for statement in DDL.split(";"):
        db.execute(statement)
    db.create_function("score", lambda v, w: pc.multiply(pc.multiply(v, factor), w), returns="DOUBLE")
    view = db.create_view("v", SQL)
    for each in changes:
        db.apply(each)
    return view.to_arrow()


@pytest.mark.parametrize("shards", [1, 3])
def test_functions_on_shards(shards: int) -> None:
    plan = freshet.plan(SQL, catalog(2.5))
    running, total = LocalJob(make_job({"view": plan.root}, shards)), Sum()
    for number, changes in enumerate(steps()):
        total.add(running.apply(changes)["view"])
        expected = in_process(2.5, steps()[: number + 1])
        same_bag(total.answer(expected.schema), expected)
        running.forget()


ROWS = "SELECT w.c, COUNT(*) AS n, SUM(t.v + w.place) AS s FROM t, LATERAL letters(k, id) AS w GROUP BY w.c"


def letters(text: pa.Array, number: pa.Array) -> list[list[tuple[str, int]]]:
    pairs = zip(text.to_pylist(), number.to_pylist(), strict=True)
    return [[(c, place) for place, c in enumerate((line or "") * (1 + i % 3))] for line, i in pairs]


def letters_catalog() -> freshet.Catalog:
    made = freshet.Catalog.from_ddl(DDL)
    made.create_function("letters", letters, returns="TABLE(c STRING, place INT)")
    return made


def letters_in_process(changes: list[dict[str, pa.Table]]) -> pa.Table:
    db = freshet.connect()
    for statement in DDL.split(";"):
        db.execute(statement)
    db.create_function("letters", letters, returns="TABLE(c STRING, place INT)")
    view = db.create_view("v", ROWS)
    for each in changes:
        db.apply(each)
    return view.to_arrow()


@pytest.mark.parametrize("shards", [1, 3])
def test_table_functions_on_shards(shards: int) -> None:
    running, total = LocalJob(make_job({"view": freshet.plan(ROWS, letters_catalog()).root}, shards)), Sum()
    for number, changes in enumerate(steps()):
        total.add(running.apply(changes)["view"])
        expected = letters_in_process(steps()[: number + 1])
        assert len(expected) > 0
        same_bag(total.answer(expected.schema), expected)
        running.forget()


@pytest.mark.timeout(900)
def test_table_functions_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    write_files(tmp_path / "in", SCHEMAS, steps())
    out = maintain(spark, ROWS, {"t": read_files(spark, tmp_path / "in", ["t"])["t"]}, schema=letters_catalog(),
                   checkpoint=str(tmp_path / "at"), shards=2, arena=str(tmp_path / "arena"))  # fmt: skip
    run(out, tmp_path / "out", tmp_path / "at")
    total = Sum()
    for number in range(len(steps())):
        total.add(batch(tmp_path / "out", number))
    expected = letters_in_process(steps())
    same_bag(total.answer(expected.schema), expected)


def test_each_query_has_its_own_function() -> None:
    """Two queries of one text in one worker."""
    shipped = [pack_job(make_job({"view": freshet.plan(SQL, catalog(f)).root}, 1)) for f in (2.0, 3.0)]
    assert shipped[0].text == shipped[1].text
    assert read_job(shipped[0]) is not read_job(shipped[1])
    assert read_job(shipped[0]) is read_job(ShippedJob(shipped[0].text, shipped[0].functions))


@pytest.mark.timeout(900)
def test_functions_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    folder, place = tmp_path / "in", str(tmp_path / "checkpoint")

    def start(schema: freshet.Catalog, **other: Any) -> Any:
        streams = read_files(spark, folder, list(SCHEMAS))
        arena = str(tmp_path / "arena")
        return maintain(spark, SQL, streams, schema=schema, checkpoint=place, shards=2, arena=arena, sizes={}, **other)

    write_files(folder, SCHEMAS, steps()[:2])
    run(start(catalog(2.5)), tmp_path / "out", tmp_path / "checkpoint")
    write_files(folder, SCHEMAS, steps()[2:], 2)
    run(start(catalog(2.5)), tmp_path / "out", tmp_path / "checkpoint")
    expected, total = in_process(2.5, steps()), Sum()
    for number in range(3):
        total.add(batch(tmp_path / "out", number))
    same_bag(total.answer(expected.schema), expected)
    assert views(spark, place) == ["view"]
    score = catalog(2.5).functions["score"].body
    rows = [tuple(r) for r in snapshot(spark, place, functions={"Score": score}).collect()]
    assert sorted(rows) == sorted(tuple(r.values()) for r in expected.to_pylist())
    with pytest.raises(StateError, match="a view calls function score, which is written in Python; give it"):
        snapshot(spark, place)

    broken = catalog(2.5)
    broken.create_function("score", lambda v, w: [1 / x for x in v.to_pylist() if x], returns="DOUBLE")
    write_files(
        folder, SCHEMAS, [{"t": pa.Table.from_pylist([{"id": 9, "k": "a", "v": 0.0, "_weight": 1}], SCHEMAS["t"])}], 3
    )
    with pytest.raises(StreamingQueryException) as stopped:
        run(start(broken), tmp_path / "out", tmp_path / "checkpoint")
    assert "function score fails for the row (0.0, 1)" in str(reason(stopped.value))


def test_what_cannot_be_sent(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    made, lock = freshet.Catalog.from_ddl("CREATE TABLE t (a INT)"), threading.Lock()

    def locked(x: pa.Array) -> pa.Array:
        with lock:
            return x

    made.create_function("locked", locked, returns="INT")
    stream = spark.readStream.schema("a INT").parquet(str(tmp_path / "in"))
    with pytest.raises(PlanError, match=r"function locked cannot be sent to Spark's workers .TypeError: cannot pickle"):
        maintain(spark, "SELECT locked(a) AS a FROM t", {"t": stream}, schema=made)
    shipped = ShippedJob("", b"cno_such_module\nf\n.")
    with pytest.raises(StateError, match=r"cannot be loaded on a worker .ModuleNotFoundError: No module named"):
        read_job(shipped)


def test_what_is_not_deterministic() -> None:
    made = freshet.Catalog.from_ddl("CREATE TABLE t (a INT)")
    made.create_function("draw", lambda x: x, returns="INT", deterministic=False)
    with pytest.raises(freshet.UnsupportedError, match="function draw, which is not deterministic, in a view"):
        freshet.plan("SELECT draw(a) AS a FROM t", made)
    with pytest.raises(freshet.SqlError, match="the catalog of a database; use its create_function"):
        freshet.connect().catalog.create_function("f", lambda x: x, returns="INT")
