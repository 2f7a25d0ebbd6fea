"""An arena is used only if it matches the state store exactly; otherwise it is rebuilt."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from freshet.scalar.column import Column
from freshet.scalar.types import BIGINT
from freshet.spark import cache
from freshet.spark.block import Signed
from freshet.spark.cache import Cached, open_shard
from freshet.spark.job import Job
from freshet.spark.maintain import compile_job

DDL = "CREATE TABLE t (a BIGINT, b BIGINT)"
TOKEN = b"0123456789abcdef"


@pytest.fixture
def job() -> Job:
    return compile_job("SELECT a, SUM(b) AS total FROM t GROUP BY a", DDL, 1, None)


def opened(folder: Path, job: Job, version: int = 1, token: bytes = TOKEN, fingerprint: str = "job") -> Cached:
    return open_shard(folder, job, fingerprint, 0, 0, version, token)


@pytest.fixture
def left(tmp_path: Path, job: Job) -> Path:
    """A folder left whole at version 1."""
    held = opened(tmp_path, job, 0, b"")
    assert held.whole
    held.begin()
    (name,) = held.shard.streams
    rows = Signed([Column(BIGINT, np.array([1, 2, 2])), Column(BIGINT, np.array([10, 20, 30]))], np.ones(3, np.int64))
    held.shard.apply({name: rows})
    held.commit("job", 1, TOKEN)
    held.close()
    cache._open.clear()  # as another process would find it
    return tmp_path


def test_left_whole(left: Path, job: Job) -> None:
    held = opened(left, job)
    assert held.whole
    assert held.shard.live_rows() == 3
    held.close()
    again = opened(left, job)
    assert again.whole
    again.close()


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def corrupt(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[0] ^= 0xFF
    file.write_bytes(data)


@pytest.mark.parametrize("damage", [truncate, corrupt, Path.unlink])
def test_damaged_files(left: Path, job: Job, damage: Callable[[Path], None]) -> None:
    damage(next(f for f in sorted((left / "arena").iterdir()) if f.name.endswith("lanes.bin")))
    held = opened(left, job)
    assert not held.whole
    assert held.why == "the arena's files are not as they were left"
    assert held.shard.live_rows() == 0
    held.close()


def test_damaged_marker(left: Path, job: Job) -> None:
    (left / "marker.json").write_text("{")
    held = opened(left, job)
    assert not held.whole
    assert "not readable" in held.why
    held.close()


@pytest.mark.parametrize(
    ("version", "token", "fingerprint", "why"),
    [
        (2, TOKEN, "job", "version 1, the state store at 2"),
        (1, b"another token...", "job", "version 1"),
        (1, TOKEN, "other job", "of another query"),
    ],
)
def test_of_another_moment(left: Path, job: Job, version: int, token: bytes, fingerprint: str, why: str) -> None:
    held = opened(left, job, version, token, fingerprint)
    assert not held.whole
    assert why in held.why
    held.close()


def test_torn(left: Path, job: Job) -> None:
    held = opened(left, job)
    held.begin()  # and never commits
    held.close()
    cache._open.clear()
    again = opened(left, job)
    assert not again.whole
    assert again.why == "no arena was left whole"
    again.close()


def test_of_another_boot(left: Path, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "boot", lambda: "a later boot")
    held = opened(left, job)
    assert not held.whole
    assert "was restarted" in held.why
    held.close()


def test_of_another_version(left: Path, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "code", lambda: "9.9")
    held = opened(left, job)
    assert not held.whole
    assert "this is 9.9" in held.why
    held.close()


def test_held_by_another_process(left: Path, job: Job) -> None:
    lock = os.open(left / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    held = opened(left, job)
    assert not held.whole
    assert held.folder is None  # it works in memory
    held.close()
    os.close(lock)
    with_lock = opened(left, job)
    assert with_lock.whole
    with_lock.close()
