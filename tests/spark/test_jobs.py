"""Job files on Spark: the ready-made ones run over their data, sources and sinks of each kind, plans and shares."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import freshet
from examples.make_data import MAKERS
from freshet.errors import StateError
from freshet.job import JobFile, read_job
from freshet.job.local import file_source, files_of, read_file
from freshet.job.run import JobRun
from freshet.plans.document import table_ddl
from freshet.spark import read_materialized, snapshot, split

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def read(text: str, folder: Path) -> JobFile:
    job, mistakes = read_job("SET trigger = 'available now';\n" + text, folder)
    assert not mistakes, mistakes
    return job


class Told:
    """The running sum of every view's changes."""

    def __init__(self, job: JobFile) -> None:
        self.rows: dict[str, Counter[tuple[Any, ...]]] = {view: Counter() for view in job.views}

    def __call__(self, changes: DataFrame, number: int, query: str) -> None:
        for view, rows in self.rows.items():
            for *row, weight in split(changes, view).collect():
                rows[tuple(row)] += weight
                if not rows[tuple(row)]:
                    del rows[tuple(row)]


def run(spark: SparkSession, job: JobFile, folder: Path, plans: dict[str, freshet.Plan] | None = None) -> Told:
    told = Told(job)
    made = JobRun(
        spark,
        job,
        shards=2,
        checkpoint=str(folder / "checkpoint"),
        plans=plans,
        told=[told],
        arena=str(folder / "arena"),
    )
    made.wait(threading.Event(), lambda progress, sinks: None)
    return told


def bag(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(r.values()) for r in table.to_pylist())


def in_process(job: JobFile) -> dict[str, Counter[tuple[Any, ...]]]:
    """The same files taken in by a database; what it refuses is set aside."""
    db = freshet.connect()
    for source in job.sources.values():
        db.execute(table_ddl(source.schema))
        for path in sorted(files_of(job, source)):
            rows = read_file(path, source)
            try:
                db.apply({source.schema.name: rows})
            except freshet.ChangeError:
                for i in range(rows.num_rows):
                    try:
                        db.apply({source.schema.name: rows.slice(i, 1)})
                    except freshet.ChangeError:
                        continue
    return {name: bag(db.create_view(name, sql).to_arrow()) for name, sql in job.views.items()}


@pytest.mark.parametrize("name", MAKERS)
def test_ready_made_job(name: str, spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    MAKERS[name](tmp_path / "in")
    job = read((EXAMPLES / name / "job.sql").read_text(), tmp_path)
    told = run(spark, job, tmp_path)
    expected = in_process(job)
    assert all(expected.values()), "an empty answer shows nothing"
    assert told.rows == expected
    for sink in job.sinks:
        path = job.path(sink.place)
        if sink.place.format == "materialized":
            assert Counter(tuple(r) for r in read_materialized(spark, str(path)).collect()) == expected[sink.view]
        elif sink.place.format == "console":
            assert f"{sink.name}, version 0\n  +1  " in capfd.readouterr().out
    if name == "webshop":
        (bad,) = spark.read.json(str(tmp_path / "out" / "bad")).collect()
        assert bad["table"] == "customer" and "999" in bad["row"]
    assert file_source(job).queries == job.views


SOURCES = """
CREATE TABLE a (id BIGINT PRIMARY KEY, name STRING, price DECIMAL(10, 2), day DATE)
  USING %s OPTIONS (path 'in', %s changes '_change_type');
CREATE MATERIALIZED VIEW v AS SELECT day, COUNT(*) AS n, SUM(price) AS total FROM a GROUP BY day;
CREATE SINK out FROM v USING parquet OPTIONS (path 'out');
"""
ROWS = [
    (1, "x", "1.50", "2024-01-01", "insert"), (2, "y", "2.25", "2024-01-01", "insert"),
    (3, None, "4.00", "2024-01-02", "insert"), (2, "y", "2.25", "2024-01-01", "delete"),
]  # fmt: skip
COLUMNS = ("id", "name", "price", "day", "_change_type")


def test_text_sources_and_a_file_sink(spark: SparkSession, tmp_path: Path) -> None:
    """JSON here; CSV and TBL are read alike in this process, and TBL on Spark by the ready-made TPC-H job."""
    (tmp_path / "in").mkdir()
    lines = (json.dumps(dict(zip(COLUMNS, r, strict=True))) + "\n" for r in ROWS)
    (tmp_path / "in" / "0.json").write_text("".join(lines))
    told = run(spark, read(SOURCES % ("json", ""), tmp_path), tmp_path)
    assert {str(day): (n, str(total)) for day, n, total in told.rows["v"]} == {
        "2024-01-01": (1, "1.50"), "2024-01-02": (1, "4.00"),
    }  # fmt: skip
    feed = pq.read_table(tmp_path / "out")
    assert feed.column_names == ["day", "n", "total", "_weight", "version"] and feed.num_rows == 2


def test_a_bad_value_stops_the_job_with_its_reason(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("1,x,much,2024-01-01,insert\n")
    with pytest.raises(StateError, match="MALFORMED_RECORD"):
        run(spark, read(SOURCES % ("csv", ""), tmp_path), tmp_path)


TWO_HOPS = """
CREATE TABLE edge (src BIGINT, dst BIGINT) USING parquet OPTIONS (path 'in/edge');
CREATE MATERIALIZED VIEW paths AS SELECT a.src, a.dst, b.dst AS last FROM edge AS a JOIN edge AS b ON a.dst = b.src;
"""


def test_an_edited_plan_with_shares(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in" / "edge").mkdir(parents=True)
    pq.write_table(pa.table({"src": [1, 2, 2, 3, 5], "dst": [2, 3, 4, 1, 2]}), tmp_path / "in" / "edge" / "0.parquet")
    job = read(TWO_HOPS, tmp_path)
    document = json.loads(freshet.plan(job.views["paths"], job.catalog).to_json())
    document["trees"][0]["nodes"] = [{"node": "a", "parent": None}, {"node": "b", "parent": "a"}]
    document["trees"][0]["shares"] = {"nothing": 2}
    wrong = freshet.Plan.from_json(json.dumps(document))
    with pytest.raises(freshet.PlanError, match="no dimension nothing to give a share to; this join has") as refused:
        run(spark, job, tmp_path / "wrong", {"paths": wrong})
    named = str(refused.value).split("this join has ")[1].split(", ")
    document["trees"][0]["shares"] = {named[0]: 2}
    plan = freshet.Plan.from_json(json.dumps(document))
    told = run(spark, job, tmp_path, {"paths": plan})
    assert told.rows["paths"] == in_process(job)["paths"]
    kept = snapshot(spark, str(tmp_path / "checkpoint"), "paths")
    assert Counter(tuple(r) for r in kept.collect()) == told.rows["paths"]
    with pytest.raises(StateError, match="made by another job"):
        run(spark, job, tmp_path, {"paths": freshet.plan(job.views["paths"], job.catalog)})


def test_a_checkpoint_of_another_stream_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "in").mkdir()
    with pytest.raises(StateError, match="is the checkpoint of a stream that is no job file's"):
        run(spark, read(SOURCES % ("csv", ""), tmp_path), tmp_path)
