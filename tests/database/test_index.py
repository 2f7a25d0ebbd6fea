"""CREATE INDEX and DROP INDEX."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

import freshet
from freshet.testing import assert_fresh


def small(folder: Path | None = None) -> freshet.Database:
    db = freshet.connect(folder, durability="none") if folder is not None else freshet.connect()
    db.execute("CREATE TABLE t (k INT, s STRING); CREATE TABLE u (k INT PRIMARY KEY, w STRING)")
    db.create_view("v", "SELECT t.k, t.s, u.w FROM t JOIN u ON u.k = t.k")
    return db


def agrees(view: freshet.View) -> None:
    rows = view.to_dicts()
    for value in {row["w"] for row in rows} | {"none such"}:
        found = Counter(str(row) for row in view.find(value, by="w"))
        assert found == Counter(str(row) for row in rows if row["w"] == value)


def test_follows_transactions() -> None:
    db, draw = small(), random.Random(3)
    db.execute("CREATE INDEX ON v (w); CREATE INDEX both ON v (s, k)")
    view, held = db.view("v"), list[tuple[int, str]]()
    for step in range(60):
        fresh = [(draw.randrange(4), draw.choice("abc")) for _ in range(draw.randrange(4))]
        gone = [held.pop(draw.randrange(len(held))) for _ in range(min(len(held), draw.randrange(3)))]
        rows = [{"k": k, "s": s, "_weight": w} for part, w in ((fresh, 1), (gone, -1)) for k, s in part]
        owner = {"k": draw.randrange(4), "w": draw.choice("xy"), "_change_type": "upsert"}
        db.apply({"t": rows, "u": [owner]}, deltas=step % 2 == 0)
        held += fresh
        agrees(view)
        for row in view.to_dicts():
            assert row in view.find((row["s"], row["k"]), by=("s", "k"))
    assert_fresh(db)


def test_on_disk(tmp_path: Path) -> None:
    with small(tmp_path / "db") as db:
        db.execute("CREATE INDEX named ON v (w); INSERT INTO t VALUES (1, 'a'); INSERT INTO u VALUES (1, 'x')")
    with freshet.connect(tmp_path / "db") as db:
        assert db.view("v").find("x", by="w") == [{"k": 1, "s": "a", "w": "x"}]
        db.execute("INSERT INTO t VALUES (1, 'b')")
        agrees(db.view("v"))
        db.execute("DROP INDEX named")
    with freshet.connect(tmp_path / "db") as db, pytest.raises(freshet.PlanError, match="no key of its own"):
        db.view("v").get("x")


def test_a_failed_transaction_leaves_it() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (k INT); INSERT INTO t VALUES (2), (2)")
    view = db.create_view("v", "SELECT 10 / k AS q FROM t")
    db.execute("CREATE INDEX ON v (q)")
    with pytest.raises(freshet.ChangeError, match="no answer"):
        db.execute("INSERT INTO t VALUES (5), (0)")
    assert view.find(5.0) == [{"q": 5.0}] * 2 and view.find(2.0) == []


@pytest.mark.parametrize(("sql", "message"), [
    ("CREATE INDEX ON t (k)", "an index on table t is not supported"),
    ("CREATE INDEX ON nothing (k)", "no view nothing; the views are v"),
    ("CREATE INDEX ON v (q)", "no column q; v has k, s, w"),
    ("CREATE INDEX ON v (k, k)", "name each once"),
    ("CREATE INDEX ON v (k + 1)", "name only columns of the view"),
    ("CREATE OR REPLACE INDEX ON v (k)", "CREATE OR REPLACE INDEX is not supported"),
    ("CREATE INDEX i ON v (k); CREATE INDEX i ON v (s)", "index i already exists"),
    ("DROP INDEX i", "no index i; the indexes are none yet"),
])  # fmt: skip
def test_refused(sql: str, message: str) -> None:
    with pytest.raises(freshet.FreshetError, match=message):
        small().execute(sql)


def test_if_exists() -> None:
    db = small()
    db.execute("CREATE INDEX IF NOT EXISTS i ON v (k); CREATE INDEX IF NOT EXISTS i ON v (k); DROP INDEX IF EXISTS j")
    assert db.view("v").find(1) == []


def test_explain_is_of_the_view() -> None:
    db = small()
    before = db.view("v").explain().splitlines()[:4]
    db.execute("CREATE INDEX ON v (k)")
    assert db.view("v").explain().splitlines()[:4] == before
