"""Evaluations under a budget: stopped between chunks, and undone like one that has no value."""

from __future__ import annotations

import threading
import time

import numpy as np
import pyarrow as pa
import pytest

import freshet
from freshet.budget import Budget, look
from freshet.errors import BudgetError
from tests.oracle import same_bag

ALL = "SELECT COUNT(*) AS n FROM t AS a, t AS b, t AS c WHERE CONCAT(a.x, b.x, c.x) = 'x'"
#: Operators of every kind over a join of all with all.
QUERIES = {
    "groups": ALL,
    "distinct": "SELECT DISTINCT CONCAT(a.x, b.x, c.x) AS s FROM t AS a, t AS b, t AS c",
    "top": "SELECT CONCAT(a.x, b.x, c.x) AS s FROM t AS a, t AS b, t AS c ORDER BY s LIMIT 3",
    "window": "SELECT s, ROW_NUMBER() OVER (ORDER BY s) AS n "
    "FROM (SELECT CONCAT(a.x, b.x, c.x) AS s FROM t AS a, t AS b, t AS c) AS q",
    "set": "SELECT CONCAT(a.x, b.x, c.x) AS s FROM t AS a, t AS b, t AS c EXCEPT SELECT 'x' AS s",
    "nested": "SELECT COUNT(*) AS n FROM (SELECT DISTINCT CONCAT(a.x, b.x, c.x) AS s FROM t AS a, t AS b, t AS c) AS q "
    "JOIN t ON CAST(t.x AS STRING) = q.s",
}


@pytest.fixture
def db() -> freshet.Database:
    made = freshet.connect()
    made.execute("CREATE TABLE t (x BIGINT)")
    made.apply({"t": pa.table({"x": np.arange(2_000)})})
    return made


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_a_view_beyond_its_budget_is_not_created(db: freshet.Database, query: str) -> None:
    with pytest.raises(BudgetError, match=r"it takes more than 0.2 s of processor time; ask for less"), Budget(0.2):
        db.create_view("v", query)
    assert not db.views
    assert db.execute("SELECT COUNT(*) AS n FROM t").to_pylist() == [{"n": 2_000}]


def test_a_transaction_beyond_its_budget_changes_nothing(db: freshet.Database) -> None:
    db.execute("CREATE TABLE u (x BIGINT)")
    view = db.create_view("v", "SELECT COUNT(*) AS n FROM u AS a, u AS b, u AS c WHERE CONCAT(a.x, b.x, c.x) = 'x'")
    kept = db.create_view("kept", "SELECT x FROM u")
    db.apply({"u": pa.table({"x": [1, 2]})})
    with pytest.raises(BudgetError), Budget(0.2):
        db.apply({"u": pa.table({"x": np.arange(2_000)})})
    assert db.version == 2, "one for t, one for u"
    same_bag(kept.to_arrow(), pa.table({"x": [1, 2]}))
    assert db.apply({"u": pa.table({"x": [3]})}).deltas["kept"].num_rows == 1
    assert view.to_arrow().to_pylist() == [{"n": 0}]


def test_an_answer_beyond_its_budget_is_read_later(db: freshet.Database) -> None:
    view = db.create_view("v", "SELECT a.x FROM t AS a, t AS b, t AS c")
    with pytest.raises(BudgetError), Budget(0.1):
        for _ in view.batches():
            pass
    assert next(view.batches()).num_rows == 65_536 and view.count() == 2_000**3


def test_memory_is_bounded_too(db: freshet.Database) -> None:
    with pytest.raises(BudgetError, match=r"it takes more than 64 MB of memory; ask for less"), Budget(600, 64 << 20):
        db.create_view("v", QUERIES["distinct"])
    assert not db.views


def test_another_thread_cancels(db: freshet.Database) -> None:
    budget = Budget(600)
    timer = threading.Timer(0.3, budget.cancel, ["nobody wants it any more"])
    timer.start()
    with pytest.raises(BudgetError, match="nobody wants it any more"), budget:
        db.create_view("v", ALL)
    timer.join()


def test_the_cost_counts_until_it_is_reset() -> None:
    budget = Budget(0.05)
    with budget:
        _spin(0.03)
        look()
    with budget:
        _spin(0.03)
        with pytest.raises(BudgetError):
            look()
    budget.renew()
    with budget:
        look()
    look()  # no budget, no limit


def _spin(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
