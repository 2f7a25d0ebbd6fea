"""Long reads while other threads write: consistent versions, and who waits for whom."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import freshet
from freshet.database import state_copy
from freshet.database.db import inside
from freshet.database.history import history_of
from freshet.engine.maintained import Tables
from tests.fuzz.case import run_case
from tests.fuzz.choices import Choices

ROWS = 3_000


def made(folder: Path) -> freshet.Database:
    db = freshet.connect(folder, durability="os")
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)")
    db.create_view("pairs", "SELECT a.k, b.k AS other FROM t AS a JOIN t AS b ON a.v = b.v")
    db.apply({"t": pa.table({"k": np.arange(ROWS), "v": np.arange(ROWS) // 30})})
    return db


def test_a_read_only_process_does_not_wait_or_block(tmp_path: Path) -> None:
    """The way to read a large answer for long: a connection that only reads stays at its version."""
    db = made(tmp_path)
    with freshet.connect(tmp_path, read_only=True) as reader:
        seen = 0
        for batch in reader.view("pairs").batches(1_000):
            seen += batch.num_rows
            if seen % 10_000 < 1_000:
                db.apply({"t": [{"k": ROWS + seen, "v": 0}]})
        assert reader.version == 1
    assert seen == 30 * ROWS
    assert db.version > 5


def test_batches_hold_the_state_for_one_batch(tmp_path: Path) -> None:
    """Between two batches others can write; the answer of a version that has gone is not mixed with another."""
    db = made(tmp_path)
    batches = db.view("pairs").batches(1_000)
    assert next(batches).num_rows
    writer = threading.Thread(target=lambda: db.apply({"t": [{"k": ROWS, "v": 0}]}))
    writer.start()
    writer.join(60)
    assert not writer.is_alive()
    with pytest.raises(freshet.StateError, match="changed from version 1 to 2 while it was read"):
        list(batches)


def test_versions_that_were_are_read_without_the_lock(tmp_path: Path) -> None:
    db = made(tmp_path)
    db.apply({"t": [{"k": ROWS, "v": 0}]})
    counts, ready, held = list[int](), threading.Event(), threading.Event()

    def read() -> None:
        history = history_of(inside(db).access, "pairs", 1)
        ready.set()
        held.wait(60)
        counts.append(history.answer().num_rows)
        history.close()

    thread = threading.Thread(target=read)
    thread.start()
    assert ready.wait(60)
    with inside(db).state.lock:  # as a long transaction of another thread
        held.set()
        thread.join(60)
        assert not thread.is_alive()
    assert counts == [30 * ROWS]


@pytest.mark.parametrize("buffer", [-1, 0, 1.5])
def test_a_buffer_holds_something(buffer: object) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (k BIGINT)")
    view = db.create_view("v", "SELECT k FROM t")
    with pytest.raises(ValueError, match=r"buffer is .*; give the number of transactions"):
        view.changes(buffer=buffer)  # type: ignore[arg-type]


ORDERED = "SELECT a.k, b.k AS other FROM t AS a JOIN t AS b ON a.v = b.v ORDER BY other DESC, k"
COMPARED = "SELECT a.k FROM t AS a JOIN t AS b ON a.v = b.v AND a.k < b.k"
ASKED = "SELECT a.v, COUNT(*) AS n FROM t AS a JOIN t AS b ON a.v = b.v GROUP BY a.v"
READ: dict[str, Callable[[freshet.Database], object]] = {
    "to_arrow": lambda db: db.view("pairs").to_arrow().num_rows,
    "in order": lambda db: db.view("ordered").to_arrow().num_rows,
    "count": lambda db: db.view("compared").count(),
    "query": lambda db: sum(row["n"] for row in db.execute(ASKED).to_pylist()),
    "at": lambda db: db.view("pairs").at(1).num_rows,
    "batches": lambda db: sum(b.num_rows for b in db.view("pairs").batches(1_000, copy=True)),
}


@pytest.mark.parametrize("what", READ)
def test_no_thread_waits_for_a_whole_read(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that takes as long as a copy continues on a copy, of the version it began with: meanwhile other threads
    write, read, define, and drop the view."""
    db = made(tmp_path)
    db.create_view("ordered", ORDERED)
    db.create_view("compared", COMPARED)
    expected = READ[what](db)
    held = inside(db).state.memory.held
    monkeypatch.setattr(state_copy, "_SHORT", -1.0)
    monkeypatch.setattr(state_copy, "_A_BYTE", 0.0)
    copied, go_on, results = threading.Event(), threading.Event(), list[object]()
    make = state_copy.StateCopy.__init__

    def made_slowly(self: state_copy.StateCopy, *args: Any) -> None:
        make(self, *args)
        attached, shared = self.core.tables["t"], self.core.tables.shared

        class Waiting(Tables):
            """The first use of the copy takes long."""

            def __getitem__(self, name: str) -> Any:
                copied.set()
                assert go_on.wait(60)
                return attached

        self.core.tables = Waiting()
        self.core.tables["t"], self.core.tables.shared = attached, shared

    monkeypatch.setattr(state_copy.StateCopy, "__init__", made_slowly)
    reader = threading.Thread(target=lambda: results.append(READ[what](db)))
    reader.start()
    assert copied.wait(60)
    monkeypatch.undo()
    db.apply({"t": [{"k": ROWS, "v": 0}]})
    assert db.view("pairs").count() == 30 * ROWS + 61
    assert db.metrics()["version"] == 2 and not results
    db.execute("DROP VIEW pairs; DROP VIEW ordered; DROP VIEW compared; DROP TABLE t")
    go_on.set()
    reader.join(60)
    assert results == [expected]
    assert inside(db).state.memory.held < held


def test_a_reader_without_room_for_a_copy_goes_on_under_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = made(tmp_path)
    monkeypatch.setattr(state_copy, "_SHORT", -1.0)
    monkeypatch.setattr(state_copy, "_A_BYTE", 0.0)
    made_copies = list[object]()
    make = state_copy.StateCopy.__init__

    def counted(self: state_copy.StateCopy, *args: Any) -> None:
        make(self, *args)
        made_copies.append(self)

    monkeypatch.setattr(state_copy.StateCopy, "__init__", counted)
    db.apply({"t": pa.table({"k": np.arange(ROWS, 40 * ROWS), "v": -np.arange(ROWS, 40 * ROWS)})})
    inside(db).state.memory.limit = inside(db).state.memory.held + (4 << 20)
    assert db.view("pairs").to_arrow().num_rows == 30 * ROWS + 39 * ROWS and not made_copies
    with pytest.raises(freshet.BudgetError, match="memory_limit"):
        list(db.view("pairs").batches(copy=True))
    monkeypatch.setattr(state_copy, "available", lambda: 1000)
    inside(db).state.memory.limit = None
    assert db.view("pairs").to_arrow().num_rows == 30 * ROWS + 39 * ROWS and not made_copies


def test_copies_are_read_as_the_state_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random views of the whole grammar, each read from a copy after every transaction."""
    monkeypatch.setattr(state_copy, "_SHORT", -1.0)
    monkeypatch.setattr(state_copy, "_A_BYTE", 0.0)
    copies = 0
    make = state_copy.StateCopy.__init__

    def counted(self: state_copy.StateCopy, *args: Any) -> None:
        nonlocal copies
        copies += 1
        make(self, *args)

    monkeypatch.setattr(state_copy.StateCopy, "__init__", counted)
    for seed in range(40):
        outcome = run_case(Choices(seed=7000 + seed))
        assert outcome.kind != "failed", outcome.report()
    assert copies > 100


def test_rows_are_counted_once_where_a_reading_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = made(tmp_path)
    look, late_ones = state_copy._Patience.look, 0

    def late(patience: state_copy._Patience) -> None:
        nonlocal late_ones
        if patience.given:
            late_ones += 1
            patience.seconds = -1.0
        look(patience)

    monkeypatch.setattr(state_copy._Patience, "look", late)
    sql = "SELECT a.k, b.k AS other FROM t AS a JOIN t AS b ON a.v = b.v"
    assert db.execute(sql, rows=30 * ROWS).num_rows == 30 * ROWS and late_ones
    with pytest.raises(freshet.BudgetError, match="has more than"):
        db.execute(sql, rows=30 * ROWS - 1)
