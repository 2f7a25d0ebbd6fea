"""Bytes that are missing or other: cut, refused or recovered, and never a wrong answer."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import freshet
from freshet.cli import main
from freshet.database.db import inside
from freshet.durable import store as stores
from freshet.durable.log import Log
from tests.durable.small import Expected, end, make, step
from tests.inner import store_of

VERSIONS = 6


@pytest.fixture(scope="module")
def expected() -> Expected:
    return Expected(VERSIONS + 3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    end(make(tmp_path / "db", VERSIONS))
    return tmp_path / "db"


def boundaries(folder: Path) -> list[tuple[int, int]]:
    """The end of each record, and its version."""
    log = Log(folder / "log", write=False)
    ends = [(r.end, r.version) for r in log.records(log.first)]
    log.close()
    return ends


def test_a_log_cut_anywhere_leads_to_the_last_whole_record(folder: Path, expected: Expected, tmp_path: Path) -> None:
    whole, ends = (folder / "log").read_bytes(), boundaries(folder)
    rng = random.Random(1)
    cuts = {64, len(whole), *(e for e, _ in ends), *(e - 1 for e, _ in ends), *(e + 9 for e, _ in ends[:-1])}
    for cut in sorted(cuts | {rng.randrange(64, len(whole)) for _ in range(20)}):
        (folder / "log").write_bytes(whole[:cut])
        with freshet.connect(folder) as db:
            assert db.version == max((v for e, v in ends if e <= cut), default=0)
            expected.check(db)
            if "v" in db.views:
                db.apply(step(db.version + 1))
                expected.check(db)
        shutil.rmtree(folder)
        folder.mkdir()


def test_a_flipped_bit_is_found_wherever_it_is(folder: Path, expected: Expected, capsys: Any) -> None:
    """In the middle it is an error that names the command, which brings back all before it; in the last record it looks
    like a write that was not finished."""
    whole, ends = (folder / "log").read_bytes(), boundaries(folder)
    rng = random.Random(2)
    for _ in range(60):
        at = rng.randrange(len(whole))
        bad = bytearray(whole)
        bad[at] ^= 1 << rng.randrange(8)
        (folder / "log").write_bytes(bad)
        before = max((v for e, v in ends if e <= at), default=0)
        if at < 64:
            with pytest.raises(freshet.StateError, match="restore it"):
                freshet.connect(folder)
            continue
        if at < ends[-2][0]:
            with pytest.raises(freshet.StateError, match=f"up to version {before}, .*freshet recover {folder}"):
                freshet.connect(folder)
            with pytest.raises(freshet.StateError, match="is damaged at byte"):
                freshet.connect(folder, read_only=True)
            assert main(["recover", str(folder)]) == 0
            assert f"version {before}" in capsys.readouterr().out
            assert (folder / "log.damaged").read_bytes() == bytes(bad)
            (folder / "log.damaged").unlink()
        with freshet.connect(folder) as db:
            assert db.version == before
            expected.check(db)
        (folder / "checkpoint").unlink()


def test_a_checkpoint_is_used_only_if_it_is_whole(folder: Path, expected: Expected) -> None:
    freshet.connect(folder).close()
    whole = (folder / "checkpoint").read_bytes()
    rng = random.Random(3)
    for i in range(40):
        bad = bytearray(whole)
        at = rng.randrange(len(whole)) if i % 2 else rng.randrange(4096)
        bad[at] ^= 1 << rng.randrange(8)
        (folder / "checkpoint").write_bytes(bad if i % 3 else whole[:at])
        with freshet.connect(folder) as db:
            assert db.version == VERSIONS
            expected.check(db)


def test_a_checkpoint_goes_on_with_the_log_after_it(folder: Path, expected: Expected) -> None:
    freshet.connect(folder).close()
    db = freshet.connect(folder)
    db.apply(step(VERSIONS + 1))
    db.execute("DROP VIEW v; CREATE TABLE more (a INT); INSERT INTO more VALUES (7)")
    db.create_view("v", "SELECT s FROM t")
    end(db)
    with freshet.connect(folder) as db:
        assert db.version == VERSIONS + 2
        assert db.execute("SELECT * FROM more").to_pylist() == [{"a": 7}]
        assert db.view("v").count() == 3


def test_a_checkpoint_saves_a_log_that_is_cut_or_lost(folder: Path, expected: Expected) -> None:
    """After a clean close all rows are there twice."""
    freshet.connect(folder).close()
    whole = (folder / "log").read_bytes()
    (folder / "log").write_bytes(whole[: len(whole) // 2])
    with freshet.connect(folder) as db:
        assert db.version == VERSIONS
        expected.check(db)
        db.apply(step(VERSIONS + 1))
    whole = (folder / "log").read_bytes()
    (folder / "log").write_bytes(whole[:-5] + b"x" + whole[-4:])  # in the last record
    with freshet.connect(folder, read_only=True) as db:
        assert db.version == VERSIONS + 1
    with freshet.connect(folder) as db:
        assert db.version == VERSIONS + 1
    (folder / "checkpoint").unlink()
    with freshet.connect(folder) as db:
        assert db.version == VERSIONS + 1
        expected.check(db)
    (folder / "log").unlink()
    for read_only in (False, True):
        with pytest.raises(freshet.StateError, match=r"is missing; .*freshet recover"):
            freshet.connect(folder, read_only=read_only)
    assert main(["recover", str(folder)]) == 0
    (folder / "checkpoint").unlink()
    with freshet.connect(folder) as db:
        assert db.version == VERSIONS + 1
        expected.check(db)


def test_a_checkpoint_of_other_code_is_not_used(folder: Path, expected: Expected, monkeypatch: Any) -> None:
    freshet.connect(folder).close()
    monkeypatch.setattr("freshet.durable.checkpoint.code", lambda: "other code")
    with freshet.connect(folder) as db:
        expected.check(db)


@pytest.mark.parametrize("level", ["fsync", "os"])
def test_a_write_that_fails_changes_nothing(tmp_path: Path, expected: Expected, level: str, monkeypatch: Any) -> None:
    """A full disk, at any byte of a record: the transaction or definition is refused, and the next one works."""
    db = make(tmp_path, 3, durability=level)
    real, room = os.pwrite, 0

    def pwrite(fd: int, data: Any, at: int) -> int:
        nonlocal room
        if room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = real(fd, bytes(data)[: min(room, 100)], at)
        room -= done
        return done

    published: list[int] = []
    db.view("v").subscribe(lambda tx: published.append(tx.version))
    for room in (0, 1, 31, 32, 150, 300):
        size = (tmp_path / "log").stat().st_size
        monkeypatch.setattr(os, "pwrite", pwrite)
        for refused in (
            lambda: db.apply(step(4)),
            lambda: db.execute("CREATE TABLE more (a INT, bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb INT)"),
            lambda: db.create_view("more", "SELECT s FROM t"),
            lambda: db.execute("DROP VIEW v"),
            lambda: db.execute("UPDATE t SET x = 5"),
        ):
            left, room = room, min(room, 60)
            with pytest.raises(freshet.StateError, match=r"No space left on device.*free space"):
                refused()
            room = left
        monkeypatch.undo()
        assert (tmp_path / "log").stat().st_size == size
        assert not published and list(db.views) == ["v"] and list(inside(db).state.core.tables) == ["t", "b"]
        expected.check(db)
    db.apply(step(4))
    assert published == [4]
    end(db)
    with freshet.connect(tmp_path) as db:
        assert db.version == 4
        expected.check(db)


def test_a_failing_fsync_ends_the_session(tmp_path: Path, expected: Expected, monkeypatch: Any) -> None:
    """The contents of the disk are unknown then: nothing is acknowledged, and nothing can be read."""
    db = make(tmp_path, 3)
    published, view = list[int](), db.view("v")
    view.subscribe(lambda tx: published.append(tx.version))

    def fsync(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(freshet.StateError, match="Input/output error"):
        db.apply(step(4))
    monkeypatch.undo()
    for use in (lambda: db.apply(step(4)), view.to_arrow, lambda: db.execute("SELECT * FROM t"), db.metrics):
        with pytest.raises(freshet.StateError, match=r"Input/output error.*connect again"):
            use()
    db.close()
    assert not published
    with freshet.connect(tmp_path) as db:
        assert db.version == 3
        db.apply(step(4))
        expected.check(db)


def test_a_failing_fsync_of_a_definition_takes_it_back(tmp_path: Path, expected: Expected, monkeypatch: Any) -> None:
    db = make(tmp_path, 3)

    def fsync(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(freshet.StateError, match="Input/output error"):
        db.create_view("more", "SELECT s FROM t")
    monkeypatch.undo()
    assert list(db.views) == ["v"]
    expected.check(db)
    with pytest.raises(freshet.StateError, match="connect again"):
        db.apply(step(4))
    db.close()
    with freshet.connect(tmp_path) as db:
        assert db.version == 3 and list(db.views) == ["v"]
        expected.check(db)


def test_the_log_is_rewritten_when_it_has_grown(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(stores, "_LEAST", 20_000)
    db = freshet.connect(tmp_path, durability="os")
    db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, s STRING); CREATE MATERIALIZED VIEW v AS SELECT s FROM t")
    sizes = []
    for i in range(1000):
        old = [{"id": i - 10, "s": f"text {i - 10}", "_weight": -1}] if i >= 10 else []
        db.apply({"t": [{"id": i, "s": f"text {i}", "_weight": 1}, *old]})
        sizes.append((tmp_path / "log").stat().st_size)
    assert max(sizes) < 45_000 and sum(b < a for a, b in pairwise(sizes)) > 1, sizes[::20]
    end(db)
    with freshet.connect(tmp_path) as db:
        assert db.version == 1000 and db.changes == 1990
        assert sorted(db.view("v").to_arrow()["s"].to_pylist()) == [f"text {i}" for i in range(990, 1000)]


def test_rewriting_is_safe_at_each_step(tmp_path: Path, expected: Expected, monkeypatch: Any) -> None:
    """Whichever system call fails, or is the last one, the folder holds the whole database."""
    names = ("open", "pwrite", "fsync", "replace")
    for name in names:
        for n in range(6):
            folder = tmp_path / f"{name}{n}"
            db = make(folder, VERSIONS)
            real, count = getattr(os, name), 0

            def failing(*args: Any, real: Any = real, n: int = n) -> Any:
                nonlocal count
                count += 1
                if count > n:
                    raise OSError(errno.ENOSPC, "No space left on device")
                return real(*args)

            with monkeypatch.context() as patched:
                patched.setattr(os, name, failing)
                with contextlib.suppress(freshet.StateError):
                    store_of(db)._rewrite(inside(db).state)
            shutil.copytree(folder, tmp_path / "copy")
            with freshet.connect(tmp_path / "copy") as copy:
                assert copy.version == VERSIONS
                expected.check(copy)
            shutil.rmtree(tmp_path / "copy")
            if store_of(db).log.broken is None:
                db.apply(step(VERSIONS + 1))
                expected.check(db)
            db.close()
            with freshet.connect(folder) as db:
                expected.check(db)
