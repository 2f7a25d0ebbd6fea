"""Arenas on a shared machine: no folder of another user is used, no planted link followed, nothing is readable; and
remains of ended queries are removed."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from freshet.errors import StateError
from freshet.spark import arenas, cache
from freshet.spark.arenas import arenas_folder, check_arenas, remove_abandoned
from freshet.spark.maintain import compile_job
from freshet.spark.private import default_arenas
from freshet.state.arena import Growable
from tests.spark.level_job import LevelJob
from tests.spark.streams import Sum

JOB = compile_job(
    "SELECT s, COUNT(*) AS n FROM t GROUP BY s", "CREATE TABLE t (id BIGINT PRIMARY KEY, s STRING)", 1, None
)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder that everybody may write to."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tmp_path.chmod(0o1777)
    arenas_folder.cache_clear()
    before = os.umask(0)
    yield tmp_path
    os.umask(before)
    arenas_folder.cache_clear()


def rows(first: int, last: int) -> dict[str, pa.Table]:
    ids = list(range(first, last))
    return {"t": pa.table({"id": ids, "s": [f"text {i % 7}" for i in ids]})}


def started(arenas: str | None = "") -> LevelJob:
    running = LevelJob(JOB)
    running.arenas = arenas
    running.apply(rows(0, 10))
    return running


def test_the_default_is_private(temporary: Path) -> None:
    started()
    (root,) = temporary.iterdir()
    assert root == default_arenas() and root.name.endswith(str(os.getuid()))
    files = [root, *root.rglob("*")]
    assert len(files) > 10
    assert {stat.S_IMODE(f.lstat().st_mode) for f in files} == {0o700, 0o600}


def test_one_that_was_open_is_closed(temporary: Path) -> None:
    default_arenas().mkdir(mode=0o777)
    started()
    assert stat.S_IMODE(default_arenas().stat().st_mode) == 0o700


def of_another(path: Path) -> None:
    path.mkdir()
    if os.getuid():
        pytest.skip("only root can give a folder away")
    os.chown(path, 12345, 12345)


def a_link(path: Path) -> None:
    (path.parent / "target").mkdir(mode=0o700)
    path.symlink_to(path.parent / "target")


@pytest.mark.parametrize(
    ("plant", "message"),
    [(of_another, "belongs to user 12345"), (a_link, "is a link"), (Path.touch, "is a file")],
)
def test_files_planted_by_others_are_refused(temporary: Path, plant: Callable[[Path], None], message: str) -> None:
    plant(default_arenas())
    for use in (lambda: check_arenas(""), started):
        with pytest.raises(StateError, match=f"{message}.*give maintain\\(\\) another folder as arena="):
            use()
        arenas_folder.cache_clear()
    assert not (temporary / "target").exists() or not list((temporary / "target").iterdir())


def test_a_folder_that_was_given(temporary: Path) -> None:
    given = temporary / "given"
    a_link(given)
    started(str(given))
    assert list(given.iterdir())  # the user's own link
    (temporary / "wide").mkdir(mode=0o777)
    with pytest.raises(StateError, match=r"everybody can write to .*chmod o-w"):
        check_arenas(str(temporary / "wide"))
    of_another(temporary / "other")
    with pytest.raises(StateError, match="belongs to user 12345, and this is"):
        started(str(temporary / "other"))


def test_a_planted_lock_is_not_followed(temporary: Path) -> None:
    running = started()
    (home,) = default_arenas().iterdir()
    (home / "lock").unlink()
    (home / "lock").symlink_to(temporary / "victim")
    cache._open.clear()
    total = Sum()
    total.add(running.apply(rows(10, 20))["view"])
    assert not (temporary / "victim").exists()


@pytest.mark.parametrize("damage", [shutil.rmtree, lambda folder: os.truncate(next(folder.glob("*lanes.bin")), 64)])
def test_an_arena_that_vanishes_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """The shard continues in memory, from its log, and its arena is rebuilt with the next batch."""
    running, total = LevelJob(JOB, tmp_path / "checkpoint", tmp_path / "arena"), Sum()
    total.add(running.apply(rows(0, 10))["view"])
    grow, damaged = Growable.grow, list[Path]()

    def late(array: Growable, wanted: int) -> None:
        if array._file is not None and "lanes" in array.name and wanted > array.capacity > 0 and not damaged:
            damaged.append(array._file.parent)
            damage(array._file.parent)
        grow(array, wanted)

    monkeypatch.setattr(Growable, "grow", late)
    total.add(running.apply(rows(10, 5000))["view"])
    assert damaged
    assert "rebuilt from its log: 10 rows" in caplog.text
    total.add(running.apply(rows(5000, 5010))["view"])
    assert total.weights == {(f"text {i}", len(range(i, 5010, 7))): 1 for i in range(7)}


def test_leftovers_of_queries_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, checkpoint = tmp_path / "arena", tmp_path / "checkpoint"

    def left(name: str, **changed: object) -> Path:
        home = root / (name * 8)
        (home / "arena").mkdir(parents=True)
        marker = {"boot": arenas.boot(), "checkpoint": str(checkpoint), **changed}
        (home / "marker.json").write_text(json.dumps(marker))
        return home

    checkpoint.mkdir()
    live, nowhere = left("1111"), left("2222", checkpoint=None)
    gone, older = left("3333", checkpoint=str(tmp_path / "deleted")), left("4444", boot="an earlier one")
    idle, torn, beginning, held = left("5555"), left("6666"), left("7777"), left("8888", boot="an earlier one")
    other = root / "not an arena"
    other.mkdir()
    os.utime(idle / "marker.json", (time.time() - 8 * 86_400,) * 2)
    for home in (torn, beginning):
        (home / "marker.json").unlink()
    os.utime(torn, (time.time() - 7_200,) * 2)
    lock = os.open(held / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    (root / ("9" * 32)).symlink_to(checkpoint)
    remove_abandoned(root)
    os.close(lock)
    assert {p.name for p in root.iterdir()} == {p.name for p in (live, nowhere, beginning, held, other)} | {"9" * 32}
    assert not any(p.exists() for p in (gone, older, idle, torn)) and checkpoint.exists()
