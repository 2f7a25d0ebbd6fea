"""A checkpoint belongs to the job that created it: the same job resumes with its plans, another is refused with the
differences."""

from __future__ import annotations

import json

import pytest

import freshet
from freshet.errors import StateError
from freshet.job import read_job
from freshet.job.checkpoint import continued, record

JOB = """
CREATE TABLE t (a BIGINT PRIMARY KEY, b STRING) USING csv OPTIONS (path 'in', header 'true');
CREATE TABLE u (a BIGINT) USING csv OPTIONS (path 'other');
CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n FROM t JOIN u ON t.a = u.a GROUP BY b;
CREATE SINK s FROM v USING materialized OPTIONS (path 'out');
"""


def recorded(text: str = JOB, shards: int = 2) -> str:
    job, mistakes = read_job(text)
    assert not mistakes
    return record(job, {name: freshet.plan(sql, job.catalog) for name, sql in job.views.items()}, shards)


def test_the_same_job_goes_on_with_its_plans() -> None:
    job, _ = read_job(JOB)
    plans = continued(recorded(), recorded(JOB.replace("SELECT b,  ", "SELECT b,\n")), "folder")
    assert plans == {"v": freshet.plan(job.views["v"], job.catalog)}


def test_what_does_not_matter_may_change() -> None:
    changed = JOB.replace(", header 'true'", ", maxFilesPerTrigger '1'").replace("AS SELECT b", "AS  SELECT  b")
    assert continued(recorded(), recorded("SET trigger = '5 seconds';" + changed), "folder")
    assert continued(recorded(), recorded("SET on_error = 'quarantine';" + JOB), "folder")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("b STRING", "b INT", "table t: column b was STRING, is INT"),
        ("a BIGINT PRIMARY KEY, b STRING", "a BIGINT, b STRING", "table t: primary key was ['a'], is []"),
        ("path 'in'", "path 'elsewhere'", "table t: path was in, is elsewhere"),
        ("COUNT(*) AS n", "SUM(t.a) AS n", "view v: its query was\n    SELECT b, COUNT(*) AS n"),
        ("VIEW v", "VIEW w", "view v: removed"),
        ("path 'out'", "path 'out2'", "sink s: path was out, is out2"),
    ],
)
def test_another_job_is_refused_with_the_differences(before: str, after: str, message: str) -> None:
    changed = JOB.replace(before, after, 1)
    changed = changed.replace("FROM v USING", "FROM w USING") if "VIEW w" in changed else changed
    with pytest.raises(StateError, match="was created by another job") as refused:
        continued(recorded(), recorded(changed), "folder")
    assert message in str(refused.value)
    assert "start over with another checkpoint folder" in str(refused.value)


def test_shards_must_be_the_same() -> None:
    with pytest.raises(StateError, match="shards: 2 then, 3 now"):
        continued(recorded(), recorded(shards=3), "folder")


def test_a_plan_asked_for_must_be_the_one_kept() -> None:
    job, _ = read_job(JOB)
    other = freshet.plan(job.views["v"], job.catalog).to_json()
    document = json.loads(other)
    document["trees"][0]["nodes"] = [{"node": "u", "parent": None}, {"node": "t", "parent": "u"}]
    edited = freshet.Plan.from_json(json.dumps(document))
    now = record(job, {"v": edited}, 2)
    with pytest.raises(StateError, match=r"view v: its tree was .* on top; .*, and is u on top; t on u"):
        continued(recorded(), now, "folder", ["v"])
    assert continued(now, now, "folder", ["v"]) == {"v": edited}


def test_a_torn_record_is_refused() -> None:
    with pytest.raises(StateError, match="cannot be read"):
        continued("{", recorded(), "folder")
