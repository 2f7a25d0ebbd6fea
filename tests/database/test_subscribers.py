"""Subscribers: which transactions they receive, when, and what happens if one fails."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

import pytest

import freshet
from freshet.database.db import Database


@pytest.fixture
def db() -> Database:
    made = freshet.connect()
    made.execute("CREATE TABLE t (id INT PRIMARY KEY, body STRING)")
    made.create_view("v", "SELECT id, body FROM t")
    made.create_view("n", "SELECT COUNT(*) AS n FROM t")
    return made


def test_a_failing_subscriber_does_not_stop_the_others(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[int] = []

    def fail(tx: freshet.Transaction) -> None:
        raise ZeroDivisionError(f"on {tx.version}")

    failing = [db.view("v").subscribe(fail), db.view("n").subscribe(fail)]
    db.view("n").subscribe(lambda tx: heard.append(tx.version))
    with caplog.at_level(logging.ERROR, logger="freshet"):
        tx = db.apply({"t": [{"id": 1, "body": "one"}]})
    assert heard == [1] and db.version == 1 and db.view("v").count() == 1
    assert [(e.view, e.subscription, str(e.exception)) for e in tx.errors] == [
        ("v", failing[0], "on 1"),
        ("n", failing[1], "on 1"),
    ]
    assert [r.getMessage() for r in caplog.records] == [
        "a subscriber of view v failed on version 1",
        "a subscriber of view n failed on version 1",
    ]
    assert all(r.exc_info is not None and r.exc_info[0] is ZeroDivisionError for r in caplog.records)
    for subscription in failing:
        subscription.close()
    assert db.execute("INSERT INTO t VALUES (2, 'two')").errors == () and heard == [1, 2]


def test_one_that_fails_on_what_another_applies(db: Database) -> None:
    """Each transaction has its own errors, also if one was applied by a subscriber of the other."""
    seen: list[freshet.Transaction] = []

    def more(tx: freshet.Transaction) -> None:
        seen.append(tx)
        if tx.version == 1:
            db.apply({"t": [{"id": 2}]})

    def fail(tx: freshet.Transaction) -> None:
        raise ValueError(str(tx.version))

    db.view("v").subscribe(more)
    db.view("n").subscribe(fail)
    first = db.apply({"t": [{"id": 1}]})
    assert seen[0] is first and [t.version for t in seen] == [1, 2]
    assert [[str(e.exception) for e in t.errors] for t in seen] == [["1"], ["2"]]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_what_stops_the_program_goes_on_to_the_writer(db: Database, stop: type[BaseException]) -> None:
    heard: list[tuple[str, int]] = []

    def halt(tx: freshet.Transaction) -> None:
        if tx.version == 1:
            db.apply({"t": [{"id": 7}]})
            raise stop

    db.view("v").subscribe(halt)
    db.view("n").subscribe(lambda tx: heard.append(("n", tx.version)))
    with pytest.raises(stop):
        db.apply({"t": [{"id": 1, "body": "one"}]})
    assert heard == [("n", 1), ("n", 2)], "all hear of both transactions before the writer stops"
    tx = db.apply({"t": [{"id": 2, "body": "two"}]})
    assert tx.errors == () and heard[-1] == ("n", 3)
    assert db.view("n").to_arrow().to_pylist() == [{"n": 3}] and db.view("v").count() == 3


def test_a_subscription_closed_meanwhile_is_not_called(db: Database) -> None:
    heard: list[str] = []

    def first(tx: freshet.Transaction) -> None:
        heard.append("first")
        second.close()
        db.execute("DROP VIEW n")

    db.view("v").subscribe(first)
    second = db.view("v").subscribe(lambda tx: heard.append("second"))
    db.view("n").subscribe(lambda tx: heard.append("of a dropped view"))
    assert db.apply({}).errors == () and heard == ["first"]


def test_a_subscriber_may_wait_for_a_thread_that_reads(db: Database) -> None:
    """Everything the other thread reads (deltas, answers, batches, metrics, a query) is of the new version."""
    asked: queue.Queue[freshet.Transaction | None] = queue.Queue()
    answered: queue.Queue[list[object]] = queue.Queue()
    view, counted = db.view("v"), db.view("n")

    def read() -> None:
        while (tx := asked.get()) is not None:
            answered.put(
                [
                    tx.deltas["v"]["id"].to_pylist(), view.to_arrow()["id"].to_pylist(),
                    [row for batch in view.batches(1) for row in batch["id"].to_pylist()],
                    counted.to_pandas()["n"].tolist(), [view.count()], [db.version], [db.metrics()["version"]],
                    db.execute("SELECT id FROM t")["id"].to_pylist(), [len(db.views)], [db.nbytes() > 0],
                    ["v" in view.explain()],
                ]
            )  # fmt: skip

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    answers: list[list[object]] = []

    def wait(tx: freshet.Transaction) -> None:
        asked.put(tx)
        answers.append(answered.get(timeout=60))

    view.subscribe(wait)
    for i in (1, 2):
        assert db.apply({"t": [{"id": i, "body": f"text {i}"}]}).errors == ()
    asked.put(None)
    reader.join(60)
    assert answers[0] == [[1], [1], [1], [1], [1], [1], [1], [1], [2], [True], [True]]
    assert answers[1] == [[2], [1, 2], [1, 2], [2], [2], [2], [2], [1, 2], [2], [True], [True]]


@pytest.mark.parametrize("change", ["apply", "execute", "create_view"])
def test_a_thread_that_writes_waits_for_subscribers(db: Database, change: str) -> None:
    """Versions are published in order, and a subscriber reads its own version, however many threads write."""
    calls: dict[str, Callable[[], object]] = {
        "apply": lambda: db.apply({"t": [{"id": 100}]}),
        "execute": lambda: db.execute("INSERT INTO t VALUES (100, 'by another thread')"),
        "create_view": lambda: db.create_view("w", "SELECT id FROM t WHERE id > 50"),
    }
    began, heard = threading.Event(), list[tuple[int, int, int]]()

    def look(tx: freshet.Transaction) -> None:
        if tx.version == 1:
            other.start()
            began.wait(60)
            other.join(0.2)
        heard.append((tx.version, db.version, len(db.views)))

    def write() -> None:
        began.set()
        calls[change]()

    other = threading.Thread(target=write)
    db.view("v").subscribe(look)
    db.apply({"t": [{"id": 1}]})
    other.join(60)
    assert heard[0] == (1, 1, 2)
    assert heard[1:] == ([] if change == "create_view" else [(2, 2, 2)])


@pytest.mark.parametrize("where", ["ts < NOW()", "id > 1 AND CURRENT_DATE > ts", "luck(id) > 0"])
def test_conditions_are_refused_whose_value_changes_with_time(where: str) -> None:
    db = freshet.connect()
    db.create_function("luck", lambda x: x, returns="INT", deterministic=False)
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP)")
    view = db.create_view("v", "SELECT id, ts FROM t")
    with pytest.raises(freshet.FreshetError, match=r"without subqueries and NOW\(\)|not deterministic"):
        view.subscribe(print, where=where)
