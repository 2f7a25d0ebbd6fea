"""Ctrl-C, and handlers that raise, at any bytecode of a change: the state before or the state after, and every
subscriber is called for every version."""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import freshet
from freshet.database.db import inside
from freshet.interrupts import Deferred, deliver
from tests.durable.small import Expected, end, make, step

VERSIONS = 40


class AlarmError(Exception):
    """Raised by a handler."""


@pytest.fixture(scope="module")
def expected() -> Expected:
    return Expected(VERSIONS)


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    def raising(*_: object) -> None:
        raise AlarmError

    before = signal.signal(signal.SIGALRM, raising), signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before[0])
    signal.signal(signal.SIGINT, before[1])


def interrupted_at(n: int, number: signal.Signals, call: Callable[..., object], *args: Any) -> tuple[bool, int]:
    """Calls it with a signal at the n-th bytecode; whether that was raised, and how many bytecodes there were."""
    seen = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal seen
        # An exception raised in a callback of the test library is lost, and in a subscriber it is the subscriber's own
        # failure.
        if "gc_callback" in frame.f_code.co_name or frame.f_code.co_filename == __file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen += 1
            if seen == n:
                signal.raise_signal(number)
        return trace

    sys.settrace(trace)
    try:
        call(*args)
    except (KeyboardInterrupt, AlarmError):
        return True, seen
    finally:
        sys.settrace(None)
    return False, seen


@pytest.mark.parametrize("on_disk", [False, True])
def test_at_random_bytecodes(tmp_path: Path, expected: Expected, on_disk: bool) -> None:
    rng = random.Random(7)
    db = make(tmp_path / "db", 0, durability="os") if on_disk else _in_memory()
    published: list[int] = []
    db.view("v").subscribe(lambda tx: published.append(tx.version))
    db.apply(step(1))  # which takes longer than those that follow
    _, length = interrupted_at(-1, signal.SIGINT, db.apply, step(2))
    raised = 0
    while db.version < VERSIONS - 2:
        before = db.version
        number = rng.choice([signal.SIGINT, signal.SIGALRM])
        cut, _ = interrupted_at(rng.randrange(1, length), number, db.apply, step(before + 1))
        raised += cut
        assert db.version == before + 1 or (cut and db.version == before)
        assert published == list(range(1, db.version + 1))
        expected.check(db)
        if on_disk and rng.random() < 0.2:
            end(db)
            db = freshet.connect(tmp_path / "db", durability="os")
            assert db.version == len(published)
            db.view("v").subscribe(lambda tx: published.append(tx.version))
            expected.check(db)
    assert raised > VERSIONS // 2


def test_definitions_at_random_bytecodes(tmp_path: Path, expected: Expected) -> None:
    rng = random.Random(8)
    db = make(tmp_path, 3, durability="os")
    statements = [
        ("CREATE TABLE more (a INT)", "DROP TABLE more"),
        ("CREATE MATERIALIZED VIEW w AS SELECT s, COUNT(*) AS n FROM b GROUP BY s", "DROP VIEW w"),
    ]
    for statement, opposite in statements * 4:
        for sql in (statement, opposite):
            _, length = interrupted_at(-1, signal.SIGINT, db.execute, sql)
            db.execute(opposite if sql == statement else statement)
            for _ in range(2):
                before = (list(inside(db).state.core.tables), list(db.views))
                cut, _ = interrupted_at(rng.randrange(length // 2, length), signal.SIGINT, db.execute, sql)
                after = (list(inside(db).state.core.tables), list(db.views))
                assert cut or after != before
                expected.check(db)
                end(db)
                db = freshet.connect(tmp_path, durability="os")
                assert (list(inside(db).state.core.tables), list(db.views)) == after
                if after != before:
                    db.execute(opposite if sql == statement else statement)
            db.execute(sql)


def test_at_random_times(tmp_path: Path, expected: Expected) -> None:
    rng = random.Random(9)
    db = make(tmp_path, 0, durability="os")
    raised = 0
    total = freshet.connect()
    total.execute("CREATE TABLE published (version BIGINT PRIMARY KEY)")

    def heard(tx: freshet.Transaction) -> None:
        try:
            total.apply({"published": [{"version": tx.version}]})
        except AlarmError:  # came while it was called: it may try again
            if not total.execute(f"SELECT version FROM published WHERE version = {tx.version}").to_pylist():
                total.apply({"published": [{"version": tx.version}]})
            raise

    db.view("v").subscribe(heard)
    while db.version < VERSIONS:
        before = db.version
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 1.5e-3))
            db.apply(step(before + 1))
            signal.setitimer(signal.ITIMER_REAL, 0)
        except AlarmError:
            raised += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        assert db.version - before in (0, 1)
        expected.check(db)
        assert total.execute("SELECT COUNT(*) AS n FROM published").to_pylist() == [{"n": db.version}]
    assert raised
    end(db)
    with freshet.connect(tmp_path) as db:
        assert db.version == VERSIONS
        expected.check(db)


def test_closing_leaves_all_there_is(tmp_path: Path, expected: Expected) -> None:
    make(tmp_path, 4).close()
    for n in range(1, 2_000, 97):
        (tmp_path / "checkpoint").unlink(missing_ok=True)
        db = freshet.connect(tmp_path)
        interrupted_at(n, signal.SIGINT, db.close)
        db.close()
        with freshet.connect(tmp_path) as db:
            assert db.version == 4
            expected.check(db)


def test_a_failing_kernel_is_taken_back(tmp_path: Path, expected: Expected, monkeypatch: Any) -> None:
    """Memory runs out at any point of a change, also while views are rebuilt."""
    from freshet.state.arena import Growable

    db = make(tmp_path, 0, durability="os")
    real, left = Growable.grow, 0

    def grow(self: Growable, rows: int) -> None:
        nonlocal left
        left -= rows > len(self.data)
        if left < 0 and rows > len(self.data):
            raise MemoryError
        real(self, rows)

    monkeypatch.setattr(Growable, "grow", grow)
    failed = 0
    for i in range(60):
        left = i % 23
        rows = [{"id": 1_000 + 200 * i + j, "s": f"{i} {j}", "x": j} for j in range(200)]
        before, size = db.version, db.tuples()
        try:
            db.apply({"t": rows, "b": [{"s": r["s"], "n": 1} for r in rows]})
        except MemoryError:
            failed += 1
            left = 1_000
            assert db.version == before and db.tuples() == size
        left = 1_000
        n = db.version * 200
        assert db.execute("SELECT COUNT(*) AS n FROM t").to_pylist() == [{"n": n}]
        assert db.view("v").count() == n
    assert failed > 3
    end(db)
    with freshet.connect(tmp_path) as db:
        assert db.view("v").count() == db.version * 200


def test_a_subscriber_can_be_interrupted(expected: Expected) -> None:
    """A hanging subscriber is interrupted, the others are called, and a subscriber's own change is atomic like any
    other."""
    db = _in_memory()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    heard: list[str] = []

    def hang(tx: freshet.Transaction) -> None:
        heard.append(f"first {tx.version}")
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        time.sleep(60)

    hanging = db.view("v").subscribe(hang)
    db.view("v").subscribe(lambda tx: heard.append(f"second {tx.version}"))
    with pytest.raises(KeyboardInterrupt):
        db.apply(step(1))
    assert heard == ["first 1", "second 1"] and db.version == 1
    hanging.close()

    def react(tx: freshet.Transaction) -> None:
        if tx.version == 2:
            cut, _ = interrupted_at(400, signal.SIGALRM, db.apply, step(3))
            heard.append(f"cut {cut}")

    with db.view("v").subscribe(react), pytest.raises(KeyboardInterrupt):
        db.apply(step(2))
    assert heard[2:] == ["second 2", "cut False", "second 3"]
    expected.check(db)


def test_other_threads_and_nesting() -> None:
    events: list[str] = []

    def other() -> None:
        with Deferred():
            events.append("through")
        deliver()

    thread = threading.Thread(target=other)
    with Deferred():
        thread.start()
        thread.join()
        with Deferred():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGALRM)
        deliver()
        time.sleep(0)
        events.append("not raised")
    with pytest.raises(AlarmError):
        deliver()
    assert events == ["through", "not raised"]
    deliver()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _in_memory() -> freshet.Database:
    from tests.durable.small import DDL, VIEW

    db = freshet.connect()
    db.execute(DDL)
    db.create_view("v", VIEW)
    return db
