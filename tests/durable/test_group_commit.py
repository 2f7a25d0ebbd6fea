"""Threads that write at the same time share an fsync; none is acknowledged before its own record is on disk."""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import freshet
from freshet.database.db import inside
from freshet.durable import store as stores
from freshet.durable.log import Log
from tests.durable.small import end
from tests.durable.test_levels import Disk
from tests.inner import store_of

DDL = "CREATE TABLE t (id BIGINT PRIMARY KEY, s STRING)"
VIEW = "SELECT s, COUNT(*) AS n FROM t GROUP BY s"


def made(folder: Path) -> freshet.Database:
    db = freshet.connect(folder)
    db.execute(DDL)
    db.create_view("v", VIEW)
    return db


def row(i: int) -> dict[str, Any]:
    return {"t": [{"id": i, "s": f"text {i % 7}"}]}


class Gate:
    """The fsync of a disk that blocks until it is released."""

    def __init__(self, monkeypatch: Any) -> None:
        self.syncs, self.waiting, self.open = 0, threading.Semaphore(0), threading.Semaphore(0)
        self.fails = False
        real = os.fsync

        def fsync(fd: int) -> None:
            self.syncs += 1
            self.waiting.release()
            assert self.open.acquire(timeout=60)
            if self.fails:
                raise OSError(errno.EIO, "Input/output error")
            real(fd)

        monkeypatch.setattr(os, "fsync", fsync)

    def reached(self) -> None:
        assert self.waiting.acquire(timeout=60)


class Writers:
    """Threads with one transaction each."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.returned: list[int] = []
        self.raised: list[Exception] = []

    def start(self, write: Callable[[], Any]) -> None:
        def run() -> None:
            try:
                self.returned.append(write().version)
            except freshet.StateError as e:
                self.raised.append(e)

        self.threads.append(threading.Thread(target=run, daemon=True))
        self.threads[-1].start()

    def join(self) -> None:
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive()


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_many_threads_share_an_fsync(tmp_path: Path, monkeypatch: Any) -> None:
    """Also statements. Subscribers are called for each version once, in order, when it is on disk."""
    db = made(tmp_path / "db")
    real, syncs, threads = os.fsync, 0, list[threading.Thread]()

    def slow(fd: int) -> None:
        """Takes as long as the other threads need to write their records."""
        nonlocal syncs
        syncs += 1
        limit = time.monotonic() + 2
        while db.version - store_of(db)._synced < sum(t.is_alive() for t in threads) and time.monotonic() < limit:
            time.sleep(0.001)
        real(fd)

    monkeypatch.setattr(os, "fsync", slow)
    published: list[int] = []

    def hear(tx: freshet.Transaction) -> None:
        assert store_of(db).settled(tx.version)
        published.append(tx.version)

    db.view("v").subscribe(hear)

    def write(first: int) -> None:
        for i in range(first, first + 20):
            sql = f"INSERT INTO t VALUES ({i}, 'text {i % 7}')"
            tx = db.execute(sql) if first % 40 else db.apply(row(i))
            assert tx.version in published, "acknowledged before its subscribers heard of it"

    threads += [threading.Thread(target=write, args=(n * 20,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert published == list(range(1, 161))
    assert syncs < 80, f"{syncs} fsyncs for 160 transactions"
    end(db)
    with freshet.connect(tmp_path / "db") as db:
        assert db.version == 160 and db.execute("SELECT COUNT(*) AS n, SUM(id) AS s FROM t").to_pylist() == [
            {"n": 160, "s": 159 * 80}
        ]


def test_nothing_is_acknowledged_before_its_sync(tmp_path: Path, monkeypatch: Any) -> None:
    """While the disk syncs the first transaction, other threads can read it and write; two that write meanwhile share a
    sync."""
    db = made(tmp_path)
    published: list[int] = []
    db.view("v").subscribe(lambda tx: published.append(tx.version))
    gate, writers = Gate(monkeypatch), Writers()
    writers.start(lambda: db.apply(row(1)))
    gate.reached()
    assert db.version == 1 and db.view("v").count() == 1
    for i in (2, 3):
        writers.start(partial(db.execute, f"INSERT INTO t VALUES ({i}, 'text {i}')"))
    until(lambda: db.version == 3)
    late: list[int] = []
    db.view("v").subscribe(lambda tx: late.append(tx.version))
    assert not published and not writers.returned
    gate.open.release()
    gate.reached()
    until(lambda: bool(writers.returned))
    assert published == writers.returned == [1]
    gate.open.release()
    writers.join()
    assert published == [1, 2, 3] and sorted(writers.returned) == [1, 2, 3] and gate.syncs == 2
    assert late == [], "what was there when it was made is not published again"


def test_a_failing_sync_refuses_all_that_waited_for_it(tmp_path: Path, monkeypatch: Any) -> None:
    db = made(tmp_path)
    db.apply(row(0))
    published: list[int] = []
    db.view("v").subscribe(lambda tx: published.append(tx.version))
    with monkeypatch.context() as patched:
        gate, writers = Gate(patched), Writers()
        gate.fails = True
        writers.start(lambda: db.apply(row(1)))
        gate.reached()
        for i in (2, 3):
            writers.start(partial(db.apply, row(i)))
        until(lambda: db.version == 4)
        gate.open.release()
        writers.join()
    assert not published and not writers.returned and len(writers.raised) == 3
    assert all("connect again" in str(e) for e in writers.raised)
    with pytest.raises(freshet.StateError, match="are not acknowledged; close the database"):
        db.view("v").to_arrow()
    db.close()
    with freshet.connect(tmp_path) as db:
        assert db.version == 1 and db.execute("SELECT id FROM t").to_pylist() == [{"id": 0}]
        db.apply(row(1))


def test_a_definition_and_a_close_take_along_what_waits(tmp_path: Path, monkeypatch: Any) -> None:
    db = made(tmp_path)
    published: list[int] = []
    db.view("v").subscribe(lambda tx: published.append(tx.version))
    with monkeypatch.context() as patched:
        gate, writers = Gate(patched), Writers()
        writers.start(lambda: db.apply(row(1)))
        gate.reached()
        writers.start(lambda: db.apply(row(2)))
        until(lambda: db.version == 2)
        definer = threading.Thread(target=lambda: db.execute("CREATE TABLE more (a INT)"))
        definer.start()
        gate.open.release(3)
        definer.join(60)
        writers.join()
    assert published == [1, 2] and sorted(writers.returned) == [1, 2]
    with monkeypatch.context() as patched:
        gate, writers = Gate(patched), Writers()
        writers.start(lambda: db.apply(row(3)))
        gate.reached()
        closer = threading.Thread(target=db.close)
        closer.start()
        gate.open.release(9)
        closer.join(60)
        writers.join()
    assert published == [1, 2, 3] and writers.returned == [3]
    with freshet.connect(tmp_path) as db:
        assert db.version == 3 and set(inside(db).state.core.tables) == {"t", "more"}


def test_a_subscriber_that_writes_keeps_the_others_out(tmp_path: Path) -> None:
    """The state does not change while a subscriber is called."""
    db = made(tmp_path)
    db.execute("CREATE TABLE copied (id BIGINT)")
    seen, others = list[tuple[int, int]](), Writers()

    def copy(tx: freshet.Transaction) -> None:
        if tx.deltas["v"].num_rows:
            version = db.version
            if not others.threads:
                others.start(lambda: db.apply(row(2)))
            db.apply({"copied": [{"id": tx.version}]})
            seen.append((version, db.version))

    db.view("v").subscribe(copy)
    db.apply(row(1))
    others.join()
    db.close()
    assert seen == [(1, 2), (3, 4)]


def partly(unsynced: bytes, rng: random.Random) -> bytes:
    """What a disk may have of unsynced bytes: some of the blocks, up to some position."""
    data = bytearray(unsynced[: rng.randint(0, len(unsynced)) if rng.random() < 0.3 else len(unsynced)])
    for start in range(0, len(data), 32):
        if rng.random() < 0.2:
            data[start : start + 32] = bytes(len(data[start : start + 32]))
    return bytes(data)


def test_power_is_lost_while_several_wait(tmp_path: Path, monkeypatch: Any) -> None:
    """The disk may then hold arbitrary parts of the unsynced records: the folder opens without recovery, with all that
    was acknowledged and whole transactions in order. Damage among what was synced is still found."""
    monkeypatch.setattr(stores, "_LEAST", 10_000)  # the log is rewritten
    folder, rng = tmp_path / "db", random.Random(3)
    disk = Disk(folder, monkeypatch)
    db = made(folder)
    synced, acknowledged, images = os.fsync, [0], list[tuple[int, dict[str, bytes]]]()

    def fsync(fd: int) -> None:
        """Images before the sync: the synced bytes, and arbitrary parts of the rest."""
        time.sleep(0.02)  # others write meanwhile
        safe, now = max(acknowledged), os.stat(folder / "log").st_ino
        files = {name: disk.contents.get(inode, b"") for name, inode in disk.names.items() if name != "lock"}
        if disk.names["log"] == now:
            whole = (folder / "log").read_bytes()
            files["log"] += partly(whole[len(files["log"]) :], rng)
        images.append((safe, files))
        synced(fd)

    def write(first: int) -> None:
        for i in range(first, first + 20):
            version = db.apply(row(i)).version
            acknowledged.append(version)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        threads = [threading.Thread(target=write, args=(n * 20,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    end(db)
    lost, torn = 0, 0
    for i, (safe, files) in enumerate(images):
        image = tmp_path / f"image{i}"
        image.mkdir()
        for name, data in files.items():
            (image / name).write_bytes(data)
        log = Log(image / "log", write=False)
        last = [r.end for r in log.records(log.first)][-1]
        torn += bool(whole_ones(log, last))
        log.close()
        with freshet.connect(image) as opened:
            assert opened.version >= safe
            lost += opened.version == safe
            assert opened.execute("SELECT COUNT(*) AS n FROM t").to_pylist() == [{"n": opened.version}]
            assert sum(r["n"] for r in opened.view("v").to_arrow().to_pylist()) == opened.version
    assert lost and torn, "no image lacked a record before one it has: the test proves nothing"
    whole = bytearray((folder / "log").read_bytes())
    whole[len(whole) // 3] ^= 4
    (folder / "log").write_bytes(whole)
    with pytest.raises(freshet.StateError, match="is damaged at byte"):
        freshet.connect(folder)


def whole_ones(log: Log, after: int) -> list[int]:
    """The positions of complete records after the last one that can be read in order."""
    data = os.pread(log.fd, log.size, 0)
    places = [i for i in range(after, len(data)) if data.startswith(b"\xf5rec", i)]
    return [at for at in places if next(log.records(at), None) is not None]
