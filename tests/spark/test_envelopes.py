"""Changes by key: upserts, Debezium's envelopes and messages, in Python and as sinks of jobs."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from freshet.errors import PlanError
from freshet.job import read_job
from freshet.job.mistakes import find_mistakes
from freshet.spark import envelopes, maintain, messages, reason, upserts
from tests.spark.test_jobs import run

SCHEMA = "g INT, h STRING, total DECIMAL(10,2), at TIMESTAMP, _weight BIGINT"
Row = tuple[Any, ...]
Key = tuple[int | None, str]


def batches(rng: random.Random, number: int) -> list[tuple[list[Row], dict[Key, Row]]]:
    """Changes of a view with the key (g, h), each with the answer after it. NULL is a key like others."""
    answer: dict[Key, Row] = {}
    found = []
    for _ in range(number):
        weights: Counter[Row] = Counter()
        for key in rng.sample([(g, h) for g in (None, 1, 2) for h in ("a", 'b"\\')], 3):
            if (old := answer.pop(key, None)) is not None:
                weights[old] -= 1
            if rng.random() < 0.7:
                answer[key] = (
                    *key,
                    rng.choice([None, Decimal(1), Decimal(2)]),
                    datetime(2024, 1, 1, 0, 0, 0, rng.randrange(3)),
                )
                weights[answer[key]] += 1
        rows = [(*row, weight) for row, weight in weights.items()]
        noise = (9, "gone", Decimal(1), None)
        found.append(([*rows, (*noise, 2), (*noise, -2)], dict(answer)))
    return found


@pytest.mark.parametrize("seed", range(2))
def test_changes_by_key_lead_from_answer_to_answer(spark: SparkSession, seed: int) -> None:
    upserted: dict[Key, Row] = {}
    enveloped: dict[Key, Row] = {}
    sent: dict[str, dict[Key, Row]] = {"upserts": {}, "envelopes": {}}
    ops: set[str] = set()
    for rows, answer in batches(random.Random(seed), 5):
        changes = spark.createDataFrame(rows, SCHEMA)
        ups, said = upserts(changes, ["g", "h"]), envelopes(changes, ["g", "h"], source={"batch": 7})
        for *row, kind in ups.collect():
            assert kind == "upsert" or upserted.pop((row[0], row[1])) == tuple(row)
            upserted |= {(row[0], row[1]): tuple(row)} if kind == "upsert" else {}
        for before, after, op, source, ts in said.collect():
            ops.add(op)
            key = tuple((after or before)[:2])
            assert (
                op == {(True, False): "d", (False, True): "c", (True, True): "u"}[before is not None, after is not None]
            )
            assert enveloped.pop(key, None) == (None if before is None else tuple(before))
            enveloped |= {} if after is None else {key: tuple(after)}
            assert source.asDict() == {"connector": "freshet", "batch": 7} and ts > 1_700_000_000_000
        for form, made in (("upserts", ups), ("envelopes", said)):
            for key_text, value in messages(made, ["g", "h"]).collect():
                _receive(sent[form], form, json.loads(key_text), value)
        assert upserted == enveloped == sent["upserts"] == sent["envelopes"] == answer
    assert ops == {"c", "u", "d"}


def _receive(held: dict[Key, Row], form: str, key: dict[str, Any], value: str | None) -> None:
    """What a reader of the topic does with a message."""
    place = (key["g"], key["h"])
    if value is None:
        held.pop(place, None)
        return
    row = json.loads(value) if form == "upserts" else json.loads(value)["after"]
    if row is None:
        del held[place]
        return
    row["at"] = datetime.fromisoformat(row["at"]).replace(tzinfo=None)
    held[place] = tuple(row.values())


def test_the_tombstone_of_an_envelope_follows_it(spark: SparkSession) -> None:
    changes = spark.createDataFrame([(1, "a", None, None, -1)], SCHEMA)
    found = [value and json.loads(value)["op"] for _, value in messages(envelopes(changes, "g"), "g").collect()]
    assert found == ["d", None]


def test_what_has_no_key_is_refused(spark: SparkSession) -> None:
    changes = spark.createDataFrame([(1, "a", None, None, 1), (1, "b", None, None, 1)], SCHEMA)
    for make in (upserts, envelopes):
        with pytest.raises(Exception, match=r'2 rows have the key {"g":1}; choose key columns in which no') as refused:
            make(changes, "g").count()
        assert (
            reason(refused.value)
            == '2 rows have the key {"g":1}; choose key columns in which no two rows of the view agree'
        )
        with pytest.raises(PlanError, match="the view has no column k for the key; it has g, h, total, at"):
            make(changes, "k")
        with pytest.raises(PlanError, match="no key; give some of the view's columns: g"):
            make(changes, [])
        with pytest.raises(PlanError, match="no column _weight"):
            make(changes.drop("_weight"), "g")
        ddl = "CREATE TABLE t (timestamp TIMESTAMP, value BIGINT)"
        stream = maintain(
            spark, "SELECT value FROM t", {"t": spark.readStream.format("rate").load()}, schema=ddl, arena=None
        )
        with pytest.raises(PlanError, match=r"the changes are a stream.*call this in foreachBatch"):
            make(stream, "value")
    with pytest.raises(PlanError, match=r"several views; split\(\) them"):
        upserts(changes.selectExpr("'v' AS _view", "g AS v", "_weight"), "v")


JOB = """
SET trigger = 'available now';
CREATE TABLE t (g INT, v INT) USING json OPTIONS (path 'in', changes '_weight', maxFilesPerTrigger '1');
CREATE MATERIALIZED VIEW sums AS SELECT g, SUM(v) AS total FROM t GROUP BY g;
CREATE SINK ups FROM sums USING json OPTIONS (path 'ups', envelope 'upsert', key 'g');
CREATE SINK said FROM sums USING json OPTIONS (path 'said', envelope 'debezium', key 'g', ignoreNullFields 'false');
"""


def test_sinks_of_a_job(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for i, rows in enumerate([[(1, 2, 1), (2, 5, 1)], [(1, 3, 1), (2, 5, -1)]]):
        text = "".join(json.dumps({"g": g, "v": v, "_weight": w}) + "\n" for g, v, w in rows)
        (tmp_path / "in" / f"{i}.json").write_text(text)
        os.utime(tmp_path / "in" / f"{i}.json", (1e9 + i, 1e9 + i))
    job, mistakes = find_mistakes(JOB, tmp_path)
    assert not mistakes
    run(spark, job, tmp_path)

    def written(name: str) -> list[list[dict[str, Any]]]:
        folders = sorted((tmp_path / name).iterdir())
        return [[json.loads(line) for f in d.glob("*.json") for line in f.read_text().splitlines()] for d in folders]

    ups = [{r["g"]: (r["total"], r["_change_type"]) for r in batch} for batch in written("ups")]
    assert ups == [{1: (2, "upsert"), 2: (5, "upsert")}, {1: (5, "upsert"), 2: (5, "delete")}]
    said = [{r["op"]: (r["before"], r["after"]) for r in batch} for batch in written("said")]
    assert said[1] == {"u": ({"g": 1, "total": 2}, {"g": 1, "total": 5}), "d": ({"g": 2, "total": 5}, None)}
    assert {r["source"]["batch"] for r in written("said")[1]} == {1}
    assert {r["source"]["table"] for r in written("said")[1]} == {"sums"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("json OPTIONS (path 'o', envelope 'upsert')", "sink s: envelope 'upsert' needs the view's key; add key"),
        ("json OPTIONS (path 'o', key 'g')", "sink s has a key, which only envelopes have; add envelope 'upsert'"),
        (
            "json OPTIONS (path 'o', envelope 'upsert', key 'x')",
            "view sums has no column x for the key; it has g, total",
        ),
        ("json OPTIONS (path 'o', envelope 'avro', key 'g')", "envelope 'avro'; give 'upsert' or 'debezium'"),
        ("csv OPTIONS (path 'o', envelope 'debezium', key 'g')", "csv cannot hold the rows before and after; use json"),
        ("console OPTIONS (envelope 'upsert', key 'g')", "console writes no envelopes; leave envelope away"),
    ],
)
def test_mistakes_in_sinks(tmp_path: Path, options: str, message: str) -> None:
    (tmp_path / "in").mkdir()
    text = JOB.partition("CREATE SINK")[0] + f"CREATE SINK s FROM sums USING {options};"
    _, wrong = read_job(text, tmp_path)
    found = [str(e) for e in wrong] or [m.message for m in find_mistakes(text, tmp_path)[1]]
    assert len(found) == 1 and message in found[0]
