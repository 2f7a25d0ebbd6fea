"""The memory of a worker stays bounded, however many shards it processes: arenas are released immediately, not when
Python happens to collect cycles."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from freshet.scalar.column import Column
from freshet.scalar.types import BIGINT
from freshet.spark import cache
from freshet.spark.block import Signed
from freshet.spark.cache import open_shard
from freshet.spark.maintain import compile_job

ROWS = 200_000
JOB = compile_job(
    "SELECT x.a, SUM(y.b) AS total FROM t AS x JOIN t AS y ON x.a = y.b GROUP BY x.a",
    "CREATE TABLE t (a BIGINT, b BIGINT)",
    1,
    None,
)


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    """Objects as few and as large as here may be collected never."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    cache._open.clear()


def fill(folder: Path | None, count: int) -> None:
    """Opens a shard, applies a number of rows to it and leaves it, as a transaction does."""
    held = open_shard(folder, JOB, "job", 0, 0, 0, b"")
    held.begin()
    ids = np.arange(count)
    brought = Signed([Column(BIGINT, ids), Column(BIGINT, ids)], np.ones(count, np.int64))
    held.shard.apply(dict.fromkeys(held.shard.streams, brought))
    held.commit("job", 1, b"token")
    held.close()


def resident() -> int:
    return int(psutil.Process().memory_info().rss)


def test_shards_in_memory() -> None:
    fill(None, ROWS)
    before = resident()
    for _ in range(20):
        fill(None, ROWS)
    assert resident() - before < 100 << 20


def test_open_shards(tmp_path: Path) -> None:
    for i in range(3 * cache._MOST_OPEN):
        fill(tmp_path / str(i), 100)
    assert list(cache._open) == [tmp_path / str(i) for i in range(2 * cache._MOST_OPEN, 3 * cache._MOST_OPEN)]


def test_deleted_folders(tmp_path: Path) -> None:
    fill(tmp_path / "gone", 100)
    fill(tmp_path / "other", 100)
    gone, ahead = (cache._open[tmp_path / name][0] for name in ("gone", "other"))
    shutil.rmtree(tmp_path / "gone")
    (tmp_path / "other" / "marker.json").write_text("{}")  # as a process that went on with it
    fill(tmp_path / "last", 100)
    assert list(cache._open) == [tmp_path / "last"]
    assert gone.core.arena.nbytes() == ahead.core.arena.nbytes() == 0
