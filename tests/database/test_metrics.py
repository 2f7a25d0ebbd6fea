"""The measured cost of views, in total and over the last minute, with a clock that the test controls."""

from __future__ import annotations

import json

import pytest

import freshet
from freshet.database.db import inside
from freshet.database.metrics import Clock

DDL = "CREATE TABLE a (x BIGINT, y BIGINT); CREATE TABLE b (x BIGINT); CREATE TABLE c (x BIGINT)"
SQL = "SELECT a.y FROM a WHERE EXISTS (SELECT * FROM b WHERE a.x = b.x)"


class Watch:
    def __init__(self) -> None:
        self.time = 1_000.0

    def __call__(self) -> float:
        return self.time


def watched() -> tuple[freshet.Database, Watch]:
    db, watch = freshet.connect(), Watch()
    inside(db).views.clock = Clock(watch)
    db.execute(DDL)
    db.apply({"b": [{"x": 2}], "a": [{"x": 2, "y": 9}]})
    db.create_view("v", SQL)
    return db, watch


def flicker(db: freshet.Database) -> None:
    for weight in (1, -1):
        db.apply({"b": [{"x": 1, "_weight": weight}]})


def test_overall() -> None:
    """Since the view was made: neither the rows it found nor changes of tables it does not read count."""
    db, _ = watched()
    view = db.view("v")
    nothing = {
        "changes": 0, "counters_changed": 0, "counters_per_change": None, "joined_rows": 0,
        "joined_rows_per_change": None, "residual_checks": 0, "residual_checks_per_change": None, "grouped_rows": 0,
        "grouped_rows_per_change": None, "distinct_rows": 0, "distinct_rows_per_change": None, "ordered_places": 0,
        "ordered_places_per_change": None, "nested_rows": 0, "nested_rows_per_change": None, "steps": 0,
        "steps_per_change": None,
    }  # fmt: skip
    assert view.metrics() == {**nothing, "last_minute": nothing, "shared": [], "tree_switches": 0, "tree_since": 1}
    db.apply({"a": [{"x": 1, "y": i} for i in range(10)], "c": [{"x": i} for i in range(100)]})
    flicker(db)
    figures = view.metrics()
    assert (figures["changes"], figures["counters_changed"]) == (12, 20)
    assert figures["counters_per_change"] == pytest.approx(20 / 12, abs=0.001)
    assert "20 counters changed by 12 changes, 1.67 a change" in view.explain()
    assert json.loads(view.explain("json"))["work"]["last minute"]["counters changed"] == 20


def test_last_minute() -> None:
    db, watch = watched()
    view = db.view("v")
    db.apply({"a": [{"x": 1, "y": i} for i in range(10)]})
    for second in range(200):
        watch.time += 1.0
        if second < 100 or second >= 180:
            flicker(db)
        figures = view.metrics()
        happened = [s for s in range(second + 1) if s < 100 or s >= 180]
        late = [s for s in happened if s > second - 60]
        recent = figures["last_minute"]
        assert figures["counters_changed"] == 20 * len(happened)
        # A note is one second apart from the next, so the minute is off by a second at most.
        assert abs(recent["counters_changed"] - 20 * len(late)) <= 20
        assert abs(recent["changes"] - 2 * len(late)) <= (10 if second < 62 else 2)
    assert len(inside(view).paid._notes) <= 62


def test_many_transactions_in_a_second() -> None:
    """They are noted once, and all of them count."""
    db, watch = watched()
    view = db.view("v")
    for _ in range(50):
        watch.time += 0.001
        flicker(db)
    assert len(inside(view).paid._notes) == 1 and view.metrics()["last_minute"]["changes"] == 100


def test_refused_transactions() -> None:
    """A view that is rebuilt after a rollback keeps its totals."""
    db, _ = watched()
    db.create_view("w", "SELECT 1 / a.y AS q FROM a JOIN b ON a.x = b.x")
    view = db.view("v")
    db.apply({"a": [{"x": 1, "y": i} for i in range(1, 11)]})
    flicker(db)
    before = view.metrics()
    with pytest.raises(freshet.ChangeError, match="no answer after it"):
        db.apply({"a": [{"x": 2, "y": 0}]})
    after = view.metrics()
    assert after["changes"] == before["changes"] and after["counters_changed"] - before["counters_changed"] <= 1


def test_database() -> None:
    db, _ = watched()
    flicker(db)
    figures = db.metrics()
    assert (
        figures["version"] == 3 and figures["changes"] == 4 and figures["tuples"] == 2 and figures["tree_switches"] == 0
    )
    assert figures["views"]["v"] == db.view("v").metrics() and figures["state_bytes"] == db.nbytes()
