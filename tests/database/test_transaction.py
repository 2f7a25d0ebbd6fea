"""`with db.transaction()` and BEGIN ... COMMIT: it reads its own writes, other threads do not; it becomes one version
at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import freshet
from freshet.testing import assert_fresh


@pytest.fixture
def db() -> freshet.Database:
    db = freshet.connect()
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, n BIGINT); CREATE TABLE bag (s STRING)")
    db.create_view("v", "SELECT SUM(n) AS n, COUNT(*) AS c FROM t")
    db.create_view("texts", "SELECT s, COUNT(*) AS c FROM bag GROUP BY s")
    db.execute("INSERT INTO t VALUES (1, 10), (2, 20)")
    return db


def elsewhere(call: Callable[[], Any]) -> Any:
    results: list[Any] = []
    other = threading.Thread(target=lambda: results.append(call()))
    other.start()
    other.join()
    return results[0]


def test_commit(db: freshet.Database) -> None:
    heard: list[int] = []
    db.view("v").subscribe(lambda tx: heard.append(tx.version))
    with db.transaction() as tx:
        tx.execute("UPDATE t SET n = n + 1")
        assert tx.query("SELECT n FROM t ORDER BY k").to_pylist() == [{"n": 11}, {"n": 21}]
        tx.apply({"t": [(3, 30)], "bag": [("new",), ("new",)]})
        tx.execute("UPDATE t SET n = n + 1 WHERE k = ?", [3])
        assert db.view("v").to_dicts() == [{"n": 63, "c": 3}]
        assert db.view("texts").get("new") == {"s": "new", "c": 2}
        assert elsewhere(lambda: (db.view("v").to_dicts(), db.view("texts").get("new"))) == ([{"n": 30, "c": 2}], None)
        assert tx.query("SELECT n FROM v").to_pylist() == [{"n": 63}]
        assert db.version == 1 and heard == []
    assert tx.version == db.version == 2 and heard == [2]
    assert sorted(tx.deltas["v"].to_pylist(), key=str) == [
        {"n": 30, "c": 2, "_weight": -1}, {"n": 63, "c": 3, "_weight": 1},
    ]  # fmt: skip
    assert tx.errors == ()
    assert_fresh(db)


def test_rollback(db: freshet.Database) -> None:
    try:
        with db.transaction() as tx:
            tx.execute("DELETE FROM t WHERE k = 1; INSERT INTO bag VALUES ('a')")
            assert len(db.view("texts")) == 1
            raise InterruptedError
    except InterruptedError:
        pass
    assert db.view("v").to_dicts() == [{"n": 30, "c": 2}] and len(db.view("texts")) == 0 and db.version == 1
    with pytest.raises(freshet.StateError, match="rolled back"):
        _ = tx.version
    assert_fresh(db)


def test_rows_added_and_removed_in_one_transaction_cancel_out(db: freshet.Database) -> None:
    with db.transaction() as tx:
        tx.execute("INSERT INTO t VALUES (3, 1)")
        tx.execute("DELETE FROM t WHERE k = 3")
    assert tx.version == db.version == 1 and len(tx.deltas) == 0
    with db.transaction() as tx:
        pass
    assert db.version == 1


def test_a_bad_statement_is_taken_back_alone(db: freshet.Database) -> None:
    db.create_view("shares", "SELECT 100 DIV n AS share FROM t")
    with db.transaction() as tx:
        tx.execute("INSERT INTO t VALUES (3, 5)")
        with pytest.raises(freshet.ChangeError, match="second row with primary key"):
            tx.execute("INSERT INTO t VALUES (4, 4), (3, 5)")
        with pytest.raises(freshet.ChangeError, match="a view has no answer after it"):
            tx.execute("INSERT INTO t VALUES (4, 0)")
        assert db.view("v").to_dicts() == [{"n": 35, "c": 3}]
    assert db.view("v").to_dicts() == [{"n": 35, "c": 3}]
    assert_fresh(db)


def test_sql(db: freshet.Database) -> None:
    db.execute("BEGIN")
    db.execute("INSERT INTO t VALUES (3, 1)")
    assert db.query("SELECT c FROM v").to_pylist() == [{"c": 3}]
    db.execute("ROLLBACK")
    assert db.query("SELECT c FROM v").to_pylist() == [{"c": 2}]
    tx = db.execute("START TRANSACTION; INSERT INTO t VALUES (3, 1); INSERT INTO bag VALUES ('a'); COMMIT")
    assert tx.version == db.version == 2


def test_a_text_that_fails_rolls_its_own_transaction_back(db: freshet.Database) -> None:
    with pytest.raises(
        freshet.ChangeError, match=r"3 of 4 failed; the transaction that statement 1 began was rolled back"
    ):
        db.execute("BEGIN; DELETE FROM t; INSERT INTO t VALUES (1, 1), (1, 1); COMMIT")
    assert db.query("SELECT c FROM v").to_pylist() == [{"c": 2}]
    elsewhere(lambda: db.execute("INSERT INTO t VALUES (9, 9)"))  # the lock is free


@pytest.mark.parametrize(("sql", "message"), [
    ("COMMIT", "COMMIT without a transaction"), ("ROLLBACK", "ROLLBACK without a transaction"),
    ("BEGIN; BEGIN", "a transaction is open already"), ("BEGIN; CREATE TABLE u (a INT)", "while a transaction is open"),
    ("BEGIN; DROP VIEW v", "while a transaction is open"), ("BEGIN; CREATE INDEX ON texts (c)", "transaction is open"),
])  # fmt: skip
def test_refused(db: freshet.Database, sql: str, message: str) -> None:
    with pytest.raises(freshet.StateError, match=message):
        db.execute(sql)


def test_used_twice_or_nested(db: freshet.Database) -> None:
    with db.transaction() as tx:
        with pytest.raises(freshet.StateError, match="open already"), db.transaction():
            pass
        with pytest.raises(freshet.StateError, match="once it is committed"):
            _ = tx.deltas
    with pytest.raises(freshet.StateError, match="used only once"), tx:
        pass


def test_a_read_does_not_span_a_change(db: freshet.Database) -> None:
    db.apply({"t": [(k, k) for k in range(10, 20)]})
    view = db.create_view("rows", "SELECT k FROM t")
    reading = view.batches(1)
    next(reading)
    with db.transaction() as tx:
        tx.execute("DELETE FROM t WHERE k > 12")
        with pytest.raises(freshet.StateError, match="while it was read"):
            next(reading)


def test_writers_wait(db: freshet.Database) -> None:
    order: list[str] = []
    with db.transaction() as tx:
        tx.execute("INSERT INTO t VALUES (3, 3)")

        def write() -> None:
            db.execute("INSERT INTO t VALUES (4, 4)")
            order.append("other")

        other = threading.Thread(target=write)
        other.start()
        other.join(0.2)
        assert other.is_alive()
        order.append("own")
    other.join()
    assert order == ["own", "other"] and db.version == 3


def test_a_thread_that_ends_rolls_back(db: freshet.Database, caplog: pytest.LogCaptureFixture) -> None:
    def leave_open() -> None:
        db.execute("BEGIN")
        db.execute("DELETE FROM t")

    for _ in range(2):  # the second thread may well have the first one's number
        elsewhere(leave_open)
        assert "rolled back" in caplog.text
        caplog.clear()
        assert db.view("v").to_dicts() == [{"n": 30, "c": 2}]
    assert elsewhere(lambda: db.execute("INSERT INTO t VALUES (3, 30)")).version == 2  # no thread waits for it
    assert_fresh(db)


def test_on_disk(tmp_path: Path) -> None:
    with freshet.connect(tmp_path / "db") as db:
        db.execute("CREATE TABLE t (k INT PRIMARY KEY, s STRING)")
        db.create_view("v", "SELECT s, COUNT(*) AS n FROM t GROUP BY s")
        for step in range(20):
            with db.transaction() as tx:
                tx.apply({"t": [(3 * step + i, f"text {step}") for i in range(3)]})
                assert elsewhere(lambda: db.view("v").count()) == max(0, step)
                tx.execute("DELETE FROM t WHERE k % 3 = 1")
        db.execute("BEGIN; DELETE FROM t")
    with freshet.connect(tmp_path / "db") as db:
        assert db.version == 20 and db.query("SELECT COUNT(*) AS n FROM t").to_pylist() == [{"n": 40}]
        assert_fresh(db)


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_one_that_a_statement_has_ended(end: str) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT)")

    def run() -> None:
        with db.transaction() as tx:
            tx.apply({"t": [(1,)]})
            db.execute(end)

    with pytest.raises(freshet.StateError, match="has ended, by COMMIT, ROLLBACK or close"):
        run()
    assert db.query("SELECT * FROM t").num_rows == (end == "COMMIT")
