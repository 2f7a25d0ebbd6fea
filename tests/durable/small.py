"""A small database in a folder, and its expected contents at each version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import freshet
from freshet.database.db import inside
from tests.oracle import same_bag

DDL = "CREATE TABLE t (id BIGINT PRIMARY KEY, s STRING, x DECIMAL(30, 2)); CREATE TABLE b (s STRING, n INT)"
VIEW = "SELECT t.s, COUNT(*) AS n, SUM(b.n) AS total FROM t JOIN b ON b.s = t.s GROUP BY t.s"


def step(version: int) -> dict[str, list[dict[str, Any]]]:
    """The transaction that leads to a version: rows are inserted, others deleted, weights change, texts are empty, long
    or NULL."""
    i = version
    t: list[dict[str, Any]] = [{"id": i, "s": f"text {i % 3}" * (i % 4), "x": i, "_weight": 1}]
    if i > 3:
        t.append({"id": i - 3, "_weight": -1} | {"s": f"text {(i - 3) % 3}" * ((i - 3) % 4), "x": i - 3})
    b: list[dict[str, Any]] = [
        {"s": f"text {i % 3}" * (i % 4), "n": i % 5, "_weight": 2},
        {"s": None, "n": None, "_weight": 1},
    ]
    return {"t": t, "b": b}


def make(path: Path, versions: int, **options: Any) -> freshet.Database:
    db = freshet.connect(path, **options)
    db.execute(DDL)
    db.create_view("v", VIEW)
    for version in range(1, versions + 1):
        db.apply(step(version))
    return db


def end(db: freshet.Database) -> None:
    """Ends the session as a process does that is killed: nothing more is written."""
    store = inside(db).store
    assert store is not None
    store.release()
    inside(db).access.closed = True


class Expected:
    """The answers of databases in memory at each version."""

    def __init__(self, versions: int) -> None:
        self.tables: list[dict[str, pa.Table]] = []
        db = freshet.connect()
        db.execute(DDL)
        db.create_view("v", VIEW)
        for version in range(versions + 1):
            if version:
                db.apply(step(version))
            self.tables.append({name: db.execute(f"SELECT * FROM {name}") for name in ("t", "b", "v")})

    def check(self, db: freshet.Database) -> None:
        if "v" not in db.views:
            assert db.version == 0
            return
        for name, table in self.tables[db.version].items():
            same_bag(db.execute(f"SELECT * FROM {name}"), table)
        same_bag(db.view("v").to_arrow(), self.tables[db.version]["v"])
