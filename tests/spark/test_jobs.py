"""Job files on Spark: the ready-made ones run over their data, sources and sinks of each kind, plans and shares."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
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


class Seen:
    """The running sum of every view's changes."""

    def __init__(self, job: JobFile) -> None:
        self.rows: dict[str, Counter[tuple[Any, ...]]] = {view: Counter() for view in job.views}

    def __call__(self, changes: DataFrame, number: int, query: str) -> None:
        for view, rows in self.rows.items():
            for *row, weight in split(changes, view).collect():
                rows[tuple(row)] += weight
                if not rows[tuple(row)]:
                    del rows[tuple(row)]


def run(spark: SparkSession, job: JobFile, folder: Path, plans: dict[str, freshet.Plan] | None = None) -> Seen:
    seen = Seen(job)
    made = JobRun(
        spark,
        job,
        shards=2,
        checkpoint=str(folder / "checkpoint"),
        plans=plans,
        watchers=[seen],
        arena=str(folder / "arena"),
    )
    made.wait(threading.Event(), lambda progress, sinks: None)
    return seen


def bag(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(r.values()) for r in table.to_pylist())


def in_process(job: JobFile) -> dict[str, Counter[tuple[Any, ...]]]:
    """The same files applied to a database; refused changes are set aside."""
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
    seen = run(spark, job, tmp_path)
    expected = in_process(job)
    assert all(expected.values()), "an empty answer shows nothing"
    assert seen.rows == expected
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
FORMATS = """
CREATE TABLE a (id BIGINT PRIMARY KEY, name STRING) USING csv OPTIONS (path 'in/a', header 'true');
CREATE TABLE b (id BIGINT, price DECIMAL(10, 2), day DATE)
  USING tbl OPTIONS (path 'in/b', delimiter ';', trailing 'false');
CREATE TABLE c (id BIGINT, n INT) USING orc OPTIONS (path 'in/c', changes '_weight');
CREATE TABLE d (id BIGINT, seen BOOLEAN) USING json OPTIONS (path 'in/d', changes '_change_type');
CREATE MATERIALIZED VIEW v AS
SELECT a.id, name, price, day, n, seen FROM a, b, c, d WHERE a.id = b.id AND a.id = c.id AND a.id = d.id;
CREATE SINK as_csv FROM v USING csv OPTIONS (path 'out/csv', header 'true');
CREATE SINK as_json FROM v USING json OPTIONS (path 'out/json');
CREATE SINK as_orc FROM v USING orc OPTIONS (path 'out/orc');
CREATE SINK as_parquet FROM v USING parquet OPTIONS (path 'out/parquet', files '2');
CREATE SINK shown FROM v USING console OPTIONS (rows '1');
"""


def test_each_format_of_files_in_and_out(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for table in "abcd":
        (tmp_path / "in" / table).mkdir(parents=True)
    (tmp_path / "in" / "a" / "0.csv").write_text('id,name\n1,"x, y"\n2,\n3,z\n')
    (tmp_path / "in" / "b" / "0.tbl").write_text("1;1.50;2024-01-01\n2;2.25;2024-01-02\n2;3.00;2024-01-03\n")
    orc.write_table(
        pa.table({"id": [1, 2, 3], "n": pa.array([10, 20, 30], pa.int32()), "_weight": [1, 1, 1]}),
        str(tmp_path / "in" / "c" / "0.orc"),
    )
    lines = [(1, True, "insert"), (2, False, "insert"), (2, False, "delete"), (2, None, "insert")]
    rows = (dict(zip(("id", "seen", "_change_type"), line, strict=True)) for line in lines)
    (tmp_path / "in" / "d" / "0.json").write_text("".join(json.dumps(r) + "\n" for r in rows))
    seen = run(spark, read(FORMATS, tmp_path), tmp_path)
    expected = {
        (1, "x, y", "1.50", "2024-01-01", 10, True),
        (2, None, "2.25", "2024-01-02", 20, None),
        (2, None, "3.00", "2024-01-03", 20, None),
    }
    assert {(i, name, str(p), str(d), n, at) for i, name, p, d, n, at in seen.rows["v"]} == expected
    kinds = "id BIGINT, name STRING, price DECIMAL(10, 2), day DATE, n INT, seen BOOLEAN, _weight BIGINT"
    for form in ("csv", "json", "orc", "parquet"):
        kept = spark.read.schema(kinds).options(**({"header": "true"} if form == "csv" else {})).format(form)
        written = kept.load(str(tmp_path / "out" / form / "version=0")).collect()
        assert {(*r[:2], str(r[2]), str(r[3]), *r[4:6]) for r in written} == expected, form
        assert {r["_weight"] for r in written} == {1}
    shown = capfd.readouterr().out
    assert "shown, version 0\n  +1  id=" in shown and "... the first 1; OPTIONS (rows '...') shows more" in shown


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
    seen = run(spark, job, tmp_path, {"paths": plan})
    assert seen.rows["paths"] == in_process(job)["paths"]
    kept = snapshot(spark, str(tmp_path / "checkpoint"), "paths")
    assert Counter(tuple(r) for r in kept.collect()) == seen.rows["paths"]
    with pytest.raises(StateError, match="created by another job"):
        run(spark, job, tmp_path, {"paths": freshet.plan(job.views["paths"], job.catalog)})


def test_a_checkpoint_of_another_stream_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "in").mkdir()
    with pytest.raises(StateError, match="is the checkpoint of a stream that is not a job"):
        run(spark, read(SOURCES % ("csv", ""), tmp_path), tmp_path)
