"""The promise of each level of durability, on a disk that loses all unsynced data."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import freshet
from freshet.database.db import inside
from tests.durable.small import Expected, end, make, step
from tests.inner import store_of


class Disk:
    """A folder after a loss of power: each file with its contents at its last sync, under the names at the last sync of
    the folder. Any later data may be there: the image leaves it out, or adds garbage."""

    def __init__(self, folder: Path, monkeypatch: Any) -> None:
        self.folder = folder
        self.contents: dict[int, bytes] = {}
        self.names: dict[str, int] = {}
        self.syncs = 0
        real = os.fsync

        def fsync(fd: int) -> None:
            real(fd)
            self.syncs += 1
            self.synced(fd)

        monkeypatch.setattr(os, "fsync", fsync)

    def synced(self, fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if path == self.folder:
            self.names = {f.name: f.stat().st_ino for f in path.iterdir()}
        elif path.is_file():
            self.contents[os.fstat(fd).st_ino] = path.read_bytes()

    def after_power_loss(self, to: Path, garbage: bytes) -> None:
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir()
        for name, inode in self.names.items():
            if name != "lock":
                (to / name).write_bytes(self.contents.get(inode, b"") + (garbage if name == "log" else b""))


@pytest.fixture(scope="module")
def expected() -> Expected:
    return Expected(30)


def test_fsync_survives_a_loss_of_power(tmp_path: Path, expected: Expected, monkeypatch: Any) -> None:
    """At every moment: also while the log is rewritten, and when the database is closed and opened again."""
    folder, rng = tmp_path / "db", random.Random(5)
    disk = Disk(folder, monkeypatch)
    db = make(folder, 0)
    published: list[int] = []
    db.view("v").subscribe(lambda tx: published.append(disk.syncs))
    for version in range(1, 25):
        before = disk.syncs
        db.apply(step(version))
        assert published.pop() > before, "a subscriber heard of what was not on disk"
        if version % 7 == 0:
            store_of(db)._rewrite(inside(db).state)
        if version % 10 == 0:
            db.close()
            db = freshet.connect(folder)
            db.view("v").subscribe(lambda tx: published.append(disk.syncs))
        disk.after_power_loss(tmp_path / "image", rng.randbytes(rng.choice([0, 3, 40, 500])))
        with freshet.connect(tmp_path / "image") as image:
            assert image.version == version
            expected.check(image)
    db.close()


def test_os_survives_the_process_without_a_single_sync(tmp_path: Path, expected: Expected, monkeypatch: Any) -> None:
    db = make(tmp_path / "db", 3, durability="os")
    disk = Disk(tmp_path / "db", monkeypatch)
    for version in range(4, 10):
        db.apply(step(version))
    assert disk.syncs == 0
    end(db)
    with freshet.connect(tmp_path / "db", durability="os") as db:
        assert db.version == 9
        expected.check(db)


def test_without_durability_only_close_saves(tmp_path: Path, expected: Expected, monkeypatch: Any) -> None:
    disk = Disk(tmp_path / "db", monkeypatch)
    make(tmp_path / "db", 5, durability="none").close()
    db = freshet.connect(tmp_path / "db", durability="none")
    size = (tmp_path / "db" / "log").stat().st_size
    db.apply(step(6))
    assert (tmp_path / "db" / "log").stat().st_size == size
    end(db)
    with freshet.connect(tmp_path / "db", durability="none") as db:
        assert db.version == 5
        expected.check(db)
    assert disk.syncs == 0
