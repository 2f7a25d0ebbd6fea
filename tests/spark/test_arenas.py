"""Arenas damaged between the batches of a stream, and a disk that becomes full during a stream: the answer stays
correct, and rebuilds are logged."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from freshet.spark import maintain, profile
from tests.oracle import duckdb_answer, same_bag
from tests.spark.streams import Sum, batch, read_files, run, view_part, write_files
from tests.spark.test_snapshot import DDL, SCHEMAS, VIEWS, both, orders

pytestmark = pytest.mark.long


class Stream:
    """A stream of orders, run a batch at a time."""

    def __init__(self, spark: SparkSession, folder: Path, arena: Path) -> None:
        self.spark, self.folder, self.arena = spark, folder, arena
        self.number, self.sums = 0, {view: Sum() for view in VIEWS}
        self.present: dict[str, pa.Table] | None = None

    def take(self, first: int, last: int) -> list[str]:
        """One more batch, checked; why shards were rebuilt for it."""
        come = orders(first, last, 1)
        write_files(self.folder / "in", SCHEMAS, [come], self.number)
        self.present = come if self.present is None else both(self.present, come)
        notes = self.folder / "notes"
        shutil.rmtree(notes, ignore_errors=True)
        changes = maintain(
            self.spark, VIEWS, read_files(self.spark, self.folder / "in", list(SCHEMAS)), schema=DDL, shards=1,
            arena=str(self.arena), profile=str(notes),
        )  # fmt: skip
        run(changes, self.folder / "out", self.folder / "checkpoint")
        for view, sql in VIEWS.items():
            delta = view_part(batch(self.folder / "out", self.number), view)
            self.sums[view].add(delta)
            answer = self.sums[view].answer(delta.schema.remove(len(delta.schema) - 1))
            same_bag(answer, duckdb_answer(sql, self.present))
        self.number += 1
        rebuilt = [n for n in profile.notes(str(notes)) if n["step"] == "rebuild"]
        assert all(n["rows"] > 0 and n["seconds"] > 0 for n in rebuilt)
        return [n["why"] for n in rebuilt]


def missing(home: Path) -> None:
    shutil.rmtree(home)


def truncated(home: Path) -> None:
    file = next((home / "arena").glob("*lanes.bin"))
    os.truncate(file, file.stat().st_size // 2)


def corrupted(home: Path) -> None:
    file = next((home / "arena").glob("*lanes.bin"))
    data = bytearray(file.read_bytes())
    data[0] ^= 0xFF
    file.write_bytes(data)


def marked(name: str) -> Callable[[Path], None]:
    def change(home: Path) -> None:
        marker = json.loads((home / "marker.json").read_text())
        (home / "marker.json").write_text(json.dumps({**marker, name: "another"}))

    return change


@pytest.mark.timeout(900)
def test_damaged_arenas(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    stream = Stream(spark, tmp_path, tmp_path / "arena")
    assert stream.take(0, 40) == []
    first = 40
    for damage, why in [
        (missing, "no arena was left whole"),
        (truncated, "files are not as they were left"),
        (corrupted, "files are not as they were left"),
        (marked("freshet"), "is of Freshet another"),
        (marked("fingerprint"), "of another query"),
    ]:
        (home,) = (tmp_path / "arena").iterdir()
        damage(home)
        (reasons,) = stream.take(first, first + 10)
        assert why in reasons
        first += 10
    assert stream.take(first, first + 10) == []  # and a whole one is used


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.timeout(900)
def test_full_disk(spark: SparkSession, tmp_path: Path, small_disk: Path) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    stream = Stream(spark, tmp_path, small_disk)
    assert stream.take(0, 40) == []
    assert stream.take(40, 50) == []
    for first, last in ((50, 20_000), (20_000, 20_010)):
        reasons = stream.take(first, last)
        assert reasons
        assert all("No space left on device" in why for why in reasons)
