"""Memory, rows and time have limits: an operation that would exceed one is refused with the numbers, and changes
nothing."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import freshet
from freshet.budget import parse_size
from freshet.database.db import inside

MANY = 200_000


def numbers(n: int, start: int = 0) -> pa.Table:
    return pa.table({"k": np.arange(start, start + n), "v": np.arange(n) % 100})


def texts(n: int) -> pa.Table:
    return pa.table({"k": np.arange(n), "s": [f"text number {i} of this table" for i in range(n)]})


@pytest.fixture(params=["memory", "folder"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> freshet.Database:
    folder = tmp_path / "db" if request.param == "folder" else None
    made = freshet.connect(folder, memory_limit="3MB", durability="os")
    made.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT); CREATE TABLE s (k BIGINT PRIMARY KEY, s STRING)")
    made.execute("CREATE MATERIALIZED VIEW sums AS SELECT v, SUM(k) AS total FROM t GROUP BY v")
    made.apply({"t": numbers(1_000), "s": texts(100)})
    return made


def state(db: freshet.Database) -> tuple[int, list[dict[str, int]], pa.Table, pa.Table]:
    sums = db.view("sums").to_arrow().sort_by("v").to_pylist()
    return db.version, sums, db.execute("SELECT * FROM t ORDER BY k"), db.execute("SELECT * FROM s ORDER BY k")


def test_a_transaction_beyond_the_limit_changes_nothing(db: freshet.Database) -> None:
    before, held = state(db), inside(db).state.memory.held
    for changes in ({"t": numbers(MANY, 5_000)}, {"s": texts(MANY)}, {"t": numbers(10, 5_000), "s": texts(MANY)}):
        with pytest.raises(freshet.BudgetError, match=r"memory_limit is 3 MB: .* are in use and .* more are needed"):
            db.apply(changes)
        assert state(db) == before
    assert inside(db).state.memory.held < 2 * held  # the memory they grew by was released
    tx = db.apply({"t": numbers(1, 7_000)})  # and it continues
    assert tx.version == before[0] + 1


def test_a_transaction_refused_half_way_changes_nothing(db: freshet.Database) -> None:
    """The rows fit, but the state of the views does not."""
    db.execute("CREATE MATERIALIZED VIEW pairs AS SELECT a.k, b.k AS other FROM t AS a JOIN t AS b ON a.v = b.v")
    before = state(db)
    with pytest.raises(freshet.BudgetError, match="memory_limit"):
        db.apply({"t": pa.table({"k": np.arange(2_000, 6_000), "v": np.zeros(4_000, np.int64)})})
    assert state(db) == before
    assert db.view("pairs").count() == 10_000


def test_a_view_beyond_the_limit_is_not_created(db: freshet.Database) -> None:
    db.apply({"t": numbers(9_000, 5_000)})
    before = state(db)
    inside(db).state.memory.limit = inside(db).state.memory.held + 100_000
    with pytest.raises(freshet.BudgetError, match="memory_limit"):
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT k, ROW_NUMBER() OVER (PARTITION BY v ORDER BY k) AS n FROM t")
    inside(db).state.memory.limit = 3_000_000
    assert list(db.views) == ["sums"]
    assert state(db) == before


def test_queries_and_answers_beyond_the_limit(db: freshet.Database) -> None:
    held = inside(db).state.memory.held
    with pytest.raises(freshet.BudgetError, match="memory_limit"):
        db.execute("SELECT a.k, b.k AS other, a.v FROM t AS a CROSS JOIN t AS b")
    assert inside(db).state.memory.held == held
    pairs = "SELECT a.k, b.k AS other FROM t AS a JOIN t AS b ON a.v < b.v"
    view = db.create_view("pairs", pairs)
    held = inside(db).state.memory.held
    with pytest.raises(freshet.BudgetError, match="memory_limit"):
        view.to_arrow()
    assert inside(db).state.memory.held == held
    assert sum(batch.num_rows for batch in view.batches()) == view.count()  # in bounded memory, it can be read


def test_a_folder_with_more_than_the_limit(tmp_path: Path) -> None:
    for close in (True, False):
        folder = tmp_path / str(close)
        db = freshet.connect(folder, durability="os")
        db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)")
        db.apply({"t": numbers(MANY)})
        if close:
            db.close()
        else:
            inside(db).store.release()  # type: ignore[union-attr]
        with pytest.raises(freshet.BudgetError, match="memory_limit is 1 MB"):
            freshet.connect(folder, memory_limit="1MB")
        with freshet.connect(folder, memory_limit="1GB") as again:
            assert again.execute("SELECT COUNT(*) AS n FROM t").to_pylist() == [{"n": MANY}]


def test_memory_of_dropped_objects_is_freed() -> None:
    db = freshet.connect(memory_limit="1GB")
    held = inside(db).state.memory.held
    for _ in range(3):
        db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)")
        db.apply({"t": numbers(10_000)})
        db.create_view("v", "SELECT v, COUNT(*) AS n FROM t GROUP BY v")
        assert inside(db).state.memory.held == db.nbytes() > held
        db.execute("DROP VIEW v; DROP TABLE t")
        assert inside(db).state.memory.held == held


def test_versions_that_were_count(tmp_path: Path) -> None:
    db = freshet.connect(tmp_path / "db", durability="os", memory_limit="1GB")
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)")
    view = db.create_view("v", "SELECT v, COUNT(*) AS n FROM t GROUP BY v")
    db.apply({"t": numbers(50_000)})
    db.apply({"t": numbers(10, 50_000)})
    held = inside(db).state.memory.held
    assert view.at(1).num_rows == 100
    assert inside(db).state.memory.held == held
    inside(db).state.memory.limit = held + 100_000
    with pytest.raises(freshet.BudgetError, match="memory_limit"):
        view.at(1)


@pytest.mark.parametrize(
    ("given", "bytes"),
    [(5, 5), ("5", 5), ("2GB", 2 * 10**9), ("1.5 kb", 1500), ("512MiB", 512 << 20), ("1TiB", 1 << 40), (None, None)],
)
def test_sizes(given: int | str | None, bytes: int | None) -> None:
    assert parse_size(given) == bytes


@pytest.mark.parametrize("given", [0, -1, "", "2 apples", "GB", "-1GB", 1.5, True])
def test_invalid_sizes_are_refused(given: object) -> None:
    with pytest.raises(ValueError, match=r"memory_limit is .*; give bytes"):
        freshet.connect(memory_limit=given)  # type: ignore[arg-type]


# One-off queries ----------------------------------------------------------------------------------------------------

LONG = "SELECT COUNT(*) AS n FROM t AS a JOIN t AS b ON a.v = b.v JOIN t AS c ON b.v + c.v > a.k % 7"


def busy() -> freshet.Database:
    db = freshet.connect()
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)")
    db.apply({"t": numbers(20_000)})
    return db


def test_rows_of_an_answer() -> None:
    db = busy()
    assert db.execute("SELECT k FROM t", rows=20_000).num_rows == 20_000
    with pytest.raises(
        freshet.BudgetError, match="the answer has more than 19,999 rows; ask for less, or raise the limit"
    ):
        db.execute("SELECT k FROM t", rows=19_999)
    with pytest.raises(ValueError, match="rows is 0; give a number above 0"):
        db.execute("SELECT 1 AS one", rows=0)
    with pytest.raises(ValueError, match="seconds is -1; give a number above 0"):
        db.execute("SELECT 1 AS one", seconds=-1)


def test_time_of_a_statement() -> None:
    db = busy()
    with pytest.raises(freshet.BudgetError, match=r"it takes more than 0.2 s of processor time"):
        db.execute(LONG, seconds=0.2)
    version = db.version
    with pytest.raises(freshet.BudgetError, match="processor time"):
        db.execute(f"INSERT INTO t SELECT 100000 + n, n FROM ({LONG}) AS q", seconds=0.2)
    assert db.version == version
    assert db.execute("SELECT COUNT(*) AS n FROM t", seconds=60).to_pylist() == [{"n": 20_000}]


@pytest.mark.parametrize("what", ["query", "view"])
def test_interrupting_from_another_thread(what: str) -> None:
    db, errors = busy(), list[BaseException]()

    def ask() -> None:
        try:
            db.execute(LONG if what == "query" else f"CREATE MATERIALIZED VIEW long AS {LONG}")
        except freshet.FreshetError as e:
            errors.append(e)

    thread = threading.Thread(target=ask)
    thread.start()
    while not inside(db).access._running:
        time.sleep(0.01)
    while thread.is_alive():
        db.interrupt()
        thread.join(0.05)
    assert "it was interrupted" in str(errors[0])
    assert isinstance(errors[0], freshet.BudgetError)
    assert not db.views
    assert db.execute("SELECT COUNT(*) AS n FROM t").to_pylist() == [{"n": 20_000}]


def test_a_subscriber_is_not_on_the_budget_of_the_writer() -> None:
    db, read = busy(), list[int]()
    view = db.create_view("v", "SELECT v, COUNT(*) AS n FROM t GROUP BY v")

    def slow(tx: freshet.Transaction) -> None:
        end = time.thread_time() + 0.6
        while time.thread_time() < end:
            pass
        read.append(db.execute("SELECT k FROM t").num_rows)

    view.subscribe(slow)
    tx = db.execute("INSERT INTO t VALUES (50000, 1)", seconds=0.5, rows=10)
    assert not tx.errors
    assert read == [20_001]
