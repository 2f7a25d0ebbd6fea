"""A checkpoint of the previous version can be resumed: its job is read in the format of that version, and identified by
its state."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from typing import Any

import pytest

from freshet.spark.job import Job, _digest, fingerprint, restored
from freshet.spark.maintain import compile_job

DDL = "CREATE TABLE t (g BIGINT, v BIGINT)"
JOB = compile_job({"a": "SELECT g, SUM(v) AS s FROM t GROUP BY g HAVING COUNT(*) > 1"}, DDL, 2, None)


def as_before(part: Any) -> Any:
    """References had one class for all, with the relation -1 for a group's row, and jobs had no `made_as`."""
    if isinstance(part, list):
        return [as_before(each) for each in part]
    if not isinstance(part, dict):
        return part
    made = {name: as_before(each) for name, each in part.items() if name != "made_as"}
    if made.get("is") == "GroupRef":
        return {**made, "is": "ColumnRef", "relation": -1, "outer": False}
    return {**made, "outer": False} if made.get("is") == "ColumnRef" else made


def packed(written: dict[str, Any]) -> str:
    return base64.b85encode(zlib.compress(json.dumps(written, ensure_ascii=False).encode())).decode()


def unpacked(job: Job) -> dict[str, Any]:
    document = json.loads(zlib.decompress(base64.b85decode(job.to_text())))
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("quarantine", [False, True])
def test_a_job_in_other_words_keeps_its_fingerprint(quarantine: bool) -> None:
    job = replace(JOB, quarantine=quarantine)
    before = as_before(unpacked(job))
    assert "GroupRef" not in json.dumps(before) and "GroupRef" in json.dumps(unpacked(job))
    known = _digest(json.dumps({**before, "quarantine": False}, ensure_ascii=False))
    job_again = restored(packed(before), known)
    assert job_again is not None and fingerprint(job_again) == known != fingerprint(job)
    assert replace(job_again, made_as="") == job
    again = restored(job_again.to_text(), known)  # as workers and snapshots read it
    assert again == job_again


def test_a_job_in_our_words_is_itself() -> None:
    assert restored(JOB.to_text(), fingerprint(JOB)) == JOB


def test_another_job_is_not_restored() -> None:
    other = compile_job({"a": "SELECT g FROM t"}, DDL, 2, None)
    assert restored(JOB.to_text(), fingerprint(other)) is None
