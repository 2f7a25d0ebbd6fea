"""view.changes(since=) and view.at(version): past versions from the log, and future ones."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import freshet
from freshet.database.db import inside
from freshet.database.replay import Replay
from freshet.durable import store as stores
from freshet.durable.kept_logs import KeptLogs
from tests.durable.small import DDL, VIEW, Expected, end, make, step
from tests.oracle import RunningSum, same_bag


@pytest.fixture(scope="module")
def expected() -> Expected:
    return Expected(40)


def follow(changes: Any, total: RunningSum, expected: Expected, until: int) -> None:
    """Takes changes up to a version; each leads to the answer of its version."""
    while changes.version < until:
        before = changes.version
        version, delta = next(changes)
        assert version == before + 1 == changes.version
        total.add(delta)
        total.equals(expected.tables[version]["v"])


@pytest.mark.parametrize("level", ["os", "none"])
def test_past_and_future_changes(tmp_path: Path, expected: Expected, level: str) -> None:
    db = make(tmp_path, 5, durability=level)
    for since in range(6):
        with db.view("v").changes(since, follow=False) as changes:
            follow(changes, RunningSum(expected.tables[since]["v"]), expected, db.version)
            assert next(changes, None) is None
    changes, total = db.view("v").changes(since=2), RunningSum(expected.tables[2]["v"])
    follow(changes, total, expected, 4)
    for version in range(6, 12):
        db.apply(step(version), deltas=version % 3 != 0)
    follow(changes, total, expected, 11)
    writer = threading.Thread(target=lambda: [db.apply(step(version)) for version in range(12, 20)])
    writer.start()
    follow(changes, total, expected, 19)
    writer.join()
    db.close()
    assert next(changes, None) is None


def test_going_on_after_a_crash(tmp_path: Path, expected: Expected) -> None:
    """A reader that stores its version misses nothing, even if plans and definitions changed meanwhile."""
    db = make(tmp_path, 3, durability="os")
    total, seen = RunningSum(expected.tables[0]["v"]), 0
    for version in range(4, 20):
        db.apply(step(version))
        if version % 4 == 0:
            db.execute("CREATE TABLE more (a INT); DROP TABLE more")
            db.create_view("w", "SELECT * FROM v")
            db.execute("DROP VIEW w")
        if version % 3 == 0:
            end(db)
            db = freshet.connect(tmp_path, durability="os")
            with db.view("v").changes(seen) as changes:
                follow(changes, total, expected, version - 1)
                seen = changes.version
    assert seen == 17


def test_old_versions(tmp_path: Path, expected: Expected) -> None:
    db = make(tmp_path, 12, durability="os")
    for version in range(13):
        same_bag(db.view("v").at(version), expected.tables[version]["v"])
    with pytest.raises(freshet.StateError, match="has versions 0 to 12, not 13"):
        db.view("v").at(13)
    late = db.create_view("late", VIEW)
    with pytest.raises(freshet.StateError, match="late has versions 12 to 12, not 5"):
        late.at(5)
    with pytest.raises(freshet.StateError, match="late was created at version 12"):
        late.changes(since=5)
    with pytest.raises(freshet.StateError, match="no version 99; the database is at 12"):
        late.changes(since=99)


@pytest.mark.parametrize("retain", [0, 10])
def test_as_far_as_the_log_reaches_back(tmp_path: Path, expected: Expected, retain: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(stores, "_LEAST", 1)  # rewritten after nearly every transaction
    monkeypatch.setattr(stores, "_TIMES", 0)
    db = make(tmp_path, 0, durability="os", retain=retain)
    changes, total = db.view("v").changes(buffer=2), RunningSum(expected.tables[0]["v"])
    for version in range(1, 31):
        db.apply(step(version))
        if retain and version % 5 == 0:
            follow(changes, total, expected, version)
    for version in range(30 - retain, 31):
        same_bag(db.view("v").at(version), expected.tables[version]["v"])
    if not retain:
        with pytest.raises(freshet.StateError, match="no longer reaches back to version 3"):
            db.view("v").at(3)
    assert len(list(tmp_path.glob("log.*"))) <= retain + 1
    end(db)
    with freshet.connect(tmp_path, retain=retain) as db, db.view("v").changes(30 - retain, follow=False) as changes:
        follow(changes, RunningSum(expected.tables[30 - retain]["v"]), expected, 30)


def test_a_reader_follows_the_writer(tmp_path: Path, expected: Expected, monkeypatch: Any) -> None:
    """Also over logs that were rewritten; one state advances, so a version that was read is not replayed again."""
    monkeypatch.setattr(stores, "_LEAST", 1)  # rewritten after nearly every transaction
    monkeypatch.setattr(stores, "_TIMES", 0)
    writer = make(tmp_path, 3, durability="os")
    replayed = []
    began = Replay.run

    def run(self: Replay, until: int | None = None) -> bool:
        replayed.append(until)
        return began(self, until)

    monkeypatch.setattr(Replay, "run", run)
    with freshet.connect(tmp_path, read_only=True) as reader:
        changes, total = reader.view("v").changes(), RunningSum(expected.tables[3]["v"])
        logs = set()
        for version in range(4, 24):
            writer.apply(step(version))
            logs.add(KeptLogs(tmp_path).holding(version).id)
            follow(changes, total, expected, version)
        assert len(logs) > 1 and reader.version == 3
        assert replayed == [None, 3], "once when it is opened, and once to where the changes begin"
        writer.execute("DROP VIEW v")
        writer.apply(step(24))
        with pytest.raises(freshet.StateError, match="view v was dropped after version 23"):
            next(changes)
        changes.close()
    writer.close()


def test_in_memory_there_is_no_log() -> None:
    db = freshet.connect()
    db.execute(DDL)
    view = db.create_view("v", VIEW)
    changes = view.changes(buffer=3)
    for version in range(1, 4):
        db.apply(step(version))
    assert [next(changes)[0] for _ in range(3)] == [1, 2, 3]
    for version in range(4, 8):
        db.apply(step(version))
    with pytest.raises(freshet.StateError, match="versions 4 to 7 were missed"):
        next(changes)
    for ask in (lambda: view.changes(since=3), lambda: view.at(3)):
        with pytest.raises(freshet.StateError, match="a database in memory keeps no log"):
            ask()
    del changes
    db.apply(step(8))
    assert not inside(view).subscriptions


def test_async(tmp_path: Path, expected: Expected) -> None:
    db = make(tmp_path, 3, durability="os")

    async def read() -> list[int]:
        versions = []
        async for version, _ in db.view("v").changes(since=1):
            versions.append(version)
            if version == 3:
                threading.Timer(0.05, lambda: db.apply(step(4))).start()
            if version == 4:
                break
        return versions

    assert asyncio.run(read()) == [2, 3, 4]
