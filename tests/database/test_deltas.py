"""A delta belongs to whoever holds it: read at once or late, it is the same, whatever became of view and database."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import freshet
from freshet.database.db import inside
from freshet.database.delta import Delta
from freshet.state.strings import StringPool

DDL = "CREATE TABLE t (id BIGINT PRIMARY KEY, body STRING, n BIGINT)"
SQL = "SELECT id, UPPER(body) AS body, 10 / n AS share FROM t"


def rows(step: int, weight: int = 1) -> list[dict[str, Any]]:
    return [{"id": i, "body": f"text {step} of {i}", "n": 5, "_weight": weight} for i in range(50)]


def shown(step: int, weight: int = 1) -> list[dict[str, Any]]:
    return [{"id": i, "body": f"TEXT {step} OF {i}", "share": 2.0, "_weight": weight} for i in range(50)]


def made(folder: Path | None = None) -> freshet.Database:
    db = freshet.connect(folder)
    db.execute(DDL)
    db.create_view("v", SQL)
    return db


def replaced(db: freshet.Database, step: int) -> freshet.Transaction:
    return db.apply({"t": [*rows(step - 1, -1), *rows(step)] if step else rows(step)})


def is_of(tx: freshet.Transaction, step: int) -> None:
    expected = [*(shown(step - 1, -1) if step else []), *shown(step)]
    found = sorted(tx.deltas["v"].to_pylist(), key=lambda r: (r["_weight"], r["id"]))
    assert found == sorted(expected, key=lambda r: (r["_weight"], r["id"]))


@pytest.fixture(params=["memory", "files"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "db" if request.param == "files" else None


def test_read_after_many_sweeps(folder: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StringPool, "wants_sweep", lambda pool: True)
    with made(folder) as db:
        held = [replaced(db, step) for step in range(6)]
        for step, tx in enumerate(held):
            is_of(tx, step)
            is_of(tx, step)


def test_read_after_the_view_is_dropped_and_its_text_forgotten(folder: Path | None) -> None:
    with made(folder) as db:
        tx = replaced(db, 0)
        db.execute("DROP VIEW v; DELETE FROM t; DROP TABLE t; CREATE TABLE u (s STRING)")
        db.apply({"u": [{"s": f"something else {i}"} for i in range(20_000)]})
        is_of(tx, 0)


def test_read_after_the_view_was_rebuilt(folder: Path | None) -> None:
    with made(folder) as db:
        tx = replaced(db, 0)
        with pytest.raises(freshet.ChangeError, match="a view has no answer after it"):
            db.apply({"t": [{"id": 1000 + i, "body": f"never {i}", "n": 0} for i in range(500)]})
        is_of(tx, 0)
        is_of(replaced(db, 1), 1)


def test_read_after_the_database_is_closed(folder: Path | None) -> None:
    db = made(folder)
    held = [replaced(db, step) for step in range(3)]
    db.close()
    if folder is not None:
        with freshet.connect(folder) as again:  # the same files, with other text in them
            again.execute("DROP VIEW v; DELETE FROM t; DROP TABLE t; CREATE TABLE u (s STRING)")
            again.apply({"u": [{"s": f"something else {i}"} for i in range(20_000)]})
    for step, tx in enumerate(held):
        is_of(tx, step)


def test_read_by_several_threads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All get one table, also when the pool is swept at that moment."""
    db, start, found = made(), threading.Barrier(5), list[pa.Table]()
    tx = replaced(db, 0)

    def read() -> None:
        start.wait()
        found.append(tx.deltas["v"])

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    monkeypatch.setattr(StringPool, "wants_sweep", lambda pool: True)
    start.wait()
    replaced(db, 1)
    for thread in threads:
        thread.join()
    assert all(table is found[0] for table in found)
    is_of(tx, 0)


def test_deltas_nobody_holds_are_not_kept() -> None:
    db = made()
    held = weakref.ref(replaced(db, 0).deltas._deltas["v"])
    for step in range(1, 200):
        replaced(db, step)
    gc.collect()
    assert held() is None and len(inside(db).transactions.unread._deltas) <= 130


def test_a_delta_that_could_not_be_kept_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no memory for the text of an old delta, the new transaction is not refused for it."""
    db = made()
    first = replaced(db, 0)

    def no_memory(delta: Delta) -> pa.Table:
        raise pa.ArrowMemoryError("realloc of size 4294967296 failed")

    with monkeypatch.context() as patch:
        patch.setattr(StringPool, "wants_sweep", lambda pool: True)
        patch.setattr(Delta, "_converted", no_memory)
        replaced(db, 1)
    with pytest.raises(freshet.StateError, match="too large to be kept: realloc of size"):
        _ = first.deltas["v"]
    is_of(replaced(db, 2), 2)


def test_nothing_works_on_a_closed_database() -> None:
    db = made()
    view = db.view("v")
    replaced(db, 0)
    reading = view.batches(10)
    next(reading)
    db.close()
    db.close()
    for use in (
        view.to_arrow, view.count, view.explain, view.metrics, view.to_pandas, lambda: next(reading),
        lambda: next(view.batches()), lambda: view.subscribe(print), db.metrics, db.nbytes, db.tuples,
        lambda: db.apply({}), lambda: db.execute("SELECT 1"), lambda: db.execute("DROP VIEW v"), lambda: db.view("v"),
        lambda: db.create_view("w", SQL),
    ):  # fmt: skip
        with pytest.raises(freshet.StateError, match="the database is closed; connect again"):
            use()
    assert (db.version, db.changes, list(db.views), view.schema.names) == (1, 50, ["v"], ["id", "body", "share"])
