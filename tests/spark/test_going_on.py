"""A stopped query states the reason in a sentence of Freshet's, and only the same query can resume from its
checkpoint."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from freshet.errors import ChangeError, StateError
from freshet.job import read_job
from freshet.job.run import JobRun, failure_of
from freshet.spark import maintain, reason, snapshot
from tests.spark.streams import Sum, batch, read_files, run, view_part, write_files
from tests.spark.test_jobs import Seen
from tests.spark.test_quarantine import DDL, SCHEMAS, VIEWS, rows

WORKER = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: PythonException: Traceback \
(most recent call last):
  File "shard.py", line 85, in _resolve
    raise refusal(table, schema, rows, e) from None
freshet.errors.ChangeError: table k: a second row
  of the text 'two
lines'; send it as an upsert
%s
rest"""


@pytest.mark.parametrize("after", ["\tat org.apache.spark.Task", " SQLSTATE: 39000", "\nDriver stacktrace:", "=== S"])
def test_reason(after: str) -> None:
    expected = "table k: a second row\n  of the text 'two\nlines'; send it as an upsert"
    assert reason(WORKER % after) == expected
    assert reason(RuntimeError(WORKER % after)) == expected
    assert str(failure_of(RuntimeError(WORKER % after))) == expected
    assert reason(ChangeError("no row", "k", 3)) == "table k, row 3: no row"
    assert reason("java.lang.OutOfMemoryError: heap") is None


@pytest.mark.timeout(900)
def test_stopped_and_going_on(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    steps = [
        {"k": rows("k", (1, 5, 1), (2, 5, 1))},
        {"k": rows("k", (1, 5, -1), (7, 5, -1), (3, 6, 1), (8, 1 << 40, 1))},
        {"k": rows("k", (2, 5, -1), (4, 6, 1))},
    ]
    (tmp_path / "in").mkdir()

    def changes(kind: str, sql: Any = VIEWS["grouped"], ddl: str = DDL, shards: int = 2, **other: Any) -> Any:
        streams = read_files(spark, other.pop("folder", tmp_path / "in"), ["k"])
        return maintain(
            spark, sql, streams, schema=ddl, shards=shards, arena=str(tmp_path / "arena"), on_error=kind,
            checkpoint=str(tmp_path / "checkpoint"), sizes={}, **other,
        )  # fmt: skip

    write_files(tmp_path / "in", {"k": SCHEMAS["k"]}, steps[:1])
    changes("stop", "SELECT COUNT(*) AS n FROM k")  # never started: the folder is not its own
    run(changes("stop"), tmp_path / "stop", tmp_path / "checkpoint")
    write_files(tmp_path / "in", {"k": SCHEMAS["k"]}, steps[1:2], 1)
    with pytest.raises(StreamingQueryException) as stopped:
        run(changes("stop"), tmp_path / "stop", tmp_path / "checkpoint")
    first = str(stopped.value).splitlines()[0]
    assert first.startswith("table k")
    assert "removes a row the table does not hold (id=7, a=5); remove" in first or "does not fit INT" in first
    assert reason(stopped.value) == first
    assert "Traceback" not in str(stopped.value).partition("PythonException")[2]  # of the worker's
    assert str(failure_of(stopped.value)) == first

    run(changes("quarantine"), tmp_path / "quarantine", tmp_path / "checkpoint")
    write_files(tmp_path / "in", {"k": SCHEMAS["k"]}, steps[2:], 2)
    run(changes("stop"), tmp_path / "stop", tmp_path / "checkpoint")
    total = Sum()
    total.add(batch(tmp_path / "stop", 0))
    aside = batch(tmp_path / "quarantine", 1)
    total.add(view_part(aside, "view"))
    total.add(batch(tmp_path / "stop", 2))
    assert total.weights == {(6, 2): 1}
    reasons = sorted(r["reason"].partition(";")[0] for r in view_part(aside, "_quarantine").to_pylist())
    assert reasons == ["a: 1099511627776 does not fit INT", "removes a row the table does not hold (id=7, a=5)"]
    assert [tuple(r) for r in snapshot(spark, str(tmp_path / "checkpoint")).collect()] == [(6, 2)]

    write_files(tmp_path / "elsewhere", {"k": SCHEMAS["k"]}, steps[:1])
    refused: list[tuple[dict[str, Any], str]] = [
        (
            {"sql": VIEWS["grouped"].replace("COUNT", "SUM").replace("*", "id")},
            "view view: its query was\n    SELECT a",
        ),
        ({"sql": {"other": VIEWS["grouped"]}}, "view other: added"),
        ({"shards": 3}, "shards: 2 then, 3 now"),
        ({"ddl": DDL.replace("a INT NOT NULL", "a BIGINT")}, "table k: column a was INT NOT NULL, is BIGINT"),
        ({"folder": tmp_path / "elsewhere"}, "table k: source was parquet file:"),
        ({"check_keys": True}, "check_keys: False then, True now"),
        ({"sequence": {"k": "id"}}, "table k: sequence was None, is id"),
    ]
    for other, message in refused:
        with pytest.raises(StateError, match="was made by another query") as refusal:
            changes("stop", **other)
        assert message in str(refusal.value)
        assert "another checkpoint folder" in str(refusal.value)
    same = "SELECT  a,\n COUNT(*) AS n FROM k\tGROUP BY a"
    assert changes("quarantine", same).isStreaming


JOB = """
SET on_error = '%s';
SET trigger = 'available now';
CREATE TABLE b (a INT, s STRING) USING json OPTIONS (path 'in', changes '_weight', maxFilesPerTrigger '1');
CREATE MATERIALIZED VIEW by_a AS SELECT a, COUNT(*) AS n FROM b GROUP BY a;
CREATE MATERIALIZED VIEW by_s AS SELECT s, COUNT(*) AS n FROM b GROUP BY s;
%s
"""


@pytest.mark.timeout(900)
def test_a_job_sets_aside_what_stopped_it(spark: SparkSession, tmp_path: Path) -> None:
    """Two views read a table in two ways, and no shard checks changes for both: the batch is run again
    automatically."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    (tmp_path / "in").mkdir()
    batches = [[(1, "x", 2), (2, "y", 1)], [(1, "x", -1), (3, "z", -1), (4, "w", 1)]]
    for number, changes in enumerate(batches):
        lines = [json.dumps({"a": a, "s": s, "_weight": weight}) for a, s, weight in changes]
        path = tmp_path / "in" / f"{number}.json"
        path.write_text("\n".join(lines))
        os.utime(path, (1e9 + number, 1e9 + number))

    def go(on_error: str, sink: str) -> Seen:
        job, mistakes = read_job(JOB % (on_error, sink), tmp_path)
        assert not mistakes
        seen = Seen(job)
        made = JobRun(
            spark,
            job,
            shards=2,
            checkpoint=str(tmp_path / "checkpoint"),
            watchers=[seen],
            arena=str(tmp_path / "arena"),
        )
        made.wait(threading.Event(), lambda progress, sinks: None)
        return seen

    with pytest.raises(StateError, match="table b: removes a row the table does not hold"):
        go("stop", "")
    seen = go("quarantine", "CREATE SINK bad FROM _quarantine USING json OPTIONS (path 'bad');")
    assert seen.rows == {"by_a": {(1, 1): 1, (1, 2): -1, (4, 1): 1}, "by_s": {("x", 1): 1, ("x", 2): -1, ("w", 1): 1}}
    (bad,) = spark.read.json(str(tmp_path / "bad")).collect()
    assert (bad["table"], json.loads(bad["row"])) == ("b", {"a": 3, "s": "z", "_weight": -1})
    answers = {v: {tuple(r) for r in snapshot(spark, str(tmp_path / "checkpoint"), v).collect()} for v in seen.rows}
    assert answers == {"by_a": {(1, 1), (2, 1), (4, 1)}, "by_s": {("x", 1), ("y", 1), ("w", 1)}}
