"""The clock of a database: moved by hand or by the system, logged, replayed, never back."""

from __future__ import annotations

import datetime as dt
import gc
import threading
import time
from pathlib import Path

import pytest

import freshet

DDL = "CREATE TABLE e (id INT, ts TIMESTAMP)"
WINDOW = "SELECT id FROM e WHERE ts > NOW() - INTERVAL 1 HOUR"
ROWS = [(1, "2026-01-01 10:00:00"), (2, "2026-01-01 11:00:00"), (3, None)]


def _ids(answer: object) -> list[int]:
    return sorted(row["id"] for row in answer)  # type: ignore[attr-defined]


def test_times_may_be_given_in_several_forms() -> None:
    db = freshet.connect()
    assert db.query("SELECT NOW() AS t").to_pylist() == [{"t": dt.datetime(1970, 1, 1)}]
    for given, then in (
        (dt.date(2026, 1, 1), dt.datetime(2026, 1, 1)),
        ("2026-01-01 10:00:00.5", dt.datetime(2026, 1, 1, 10, 0, 0, 500_000)),
        (dt.timedelta(seconds=1.5), dt.datetime(2026, 1, 1, 10, 0, 2)),
        (dt.datetime(2026, 1, 1, 11), dt.datetime(2026, 1, 1, 11)),
        (dt.datetime(2026, 1, 1, 13, tzinfo=dt.timezone(dt.timedelta(hours=1))), dt.datetime(2026, 1, 1, 12)),
    ):
        version = db.version
        assert db.advance(given).version == version + 1
        assert db.query("SELECT NOW() AS t, CURRENT_DATE AS d").to_pylist() == [{"t": then, "d": then.date()}]


@pytest.mark.parametrize("to", ["soon", 5, None, dt.datetime(2025, 12, 31), dt.timedelta(seconds=-1)])
def test_invalid_and_past_times_are_refused(to: object) -> None:
    db = freshet.connect()
    db.advance("2026-01-01")
    with pytest.raises(freshet.ChangeError, match=r"is not a time; give|cannot go back to"):
        db.advance(to)  # type: ignore[arg-type]
    assert db.version == 1 and db.query("SELECT CURRENT_DATE AS d").to_pylist() == [{"d": dt.date(2026, 1, 1)}]


def test_the_clock_is_not_a_table_of_the_users() -> None:
    db = freshet.connect()
    db.execute(DDL)
    db.create_view("v", WINDOW)
    db.advance("2026-01-01")
    assert db.execute("SHOW TABLES").num_rows == 1 and db.catalog.names() == ["e", "v"]
    with pytest.raises(freshet.ChangeError, match=r"the tables are e$"):
        db.apply({"the clock": [{"now": dt.datetime(2027, 1, 1)}]})
    db.execute("CREATE TABLE clock (now TIMESTAMP)")
    assert freshet.Plan.from_json(db.view("v").plan.to_json()).explain() == db.view("v").plan.explain()


def test_statements_that_run_once_use_the_current_time() -> None:
    db = freshet.connect()
    db.execute(DDL)
    db.advance("2026-01-01 12:00:00")
    db.execute("INSERT INTO e VALUES (1, NOW()), (2, NOW() - INTERVAL 1 DAY)")
    db.execute("UPDATE e SET id = 3 WHERE ts < CURRENT_DATE")
    assert db.query("SELECT id, ts = NOW() AS now FROM e ORDER BY id").to_pylist() == [
        {"id": 1, "now": True}, {"id": 3, "now": False},
    ]  # fmt: skip
    db.advance("2026-01-03")
    db.execute("DELETE FROM e WHERE ts < NOW() - INTERVAL 36 HOURS")
    assert _ids(db.query("SELECT id FROM e").to_pylist()) == [1]  # 36 hours old, and not older


def test_a_folder_keeps_its_time(tmp_path: Path) -> None:
    with freshet.connect(tmp_path / "db", retain=10) as db:
        db.execute(DDL)
        view = db.create_view("v", WINDOW)
        db.apply({"e": ROWS})
        db.advance("2026-01-01 11:30:00")
        assert [_ids(view.at(v).to_pylist()) for v in (1, 2)] == [[1, 2], [2]]
        unclosed = tmp_path / "copy"
        unclosed.mkdir()
        for file in (tmp_path / "db").iterdir():
            if file.is_file():
                (unclosed / file.name).write_bytes(file.read_bytes())
    for folder in (tmp_path / "db", unclosed):  # from its checkpoint, and from its log
        with freshet.connect(folder) as db:
            assert _ids(db.view("v")) == [2]
            with pytest.raises(freshet.ChangeError, match="the clock is at 2026-01-01 11:30:00"):
                db.advance("2026-01-01 11:00:00")
            db.apply({"e": [(4, "2026-01-01 11:10:00")]})
            tx = db.advance("2026-01-01 12:05:00")
            assert tx.deltas["v"].to_pylist() == [{"id": 2, "_weight": -1}]
            assert _ids(db.view("v")) == [4]
        with freshet.connect(folder, read_only=True) as db:
            assert _ids(db.view("v")) == [4]


def test_time_does_not_move_within_a_transaction() -> None:
    db = freshet.connect()
    db.execute(DDL)
    db.create_view("v", WINDOW)
    with db.transaction() as tx:
        tx.apply({"e": ROWS})
        with pytest.raises(freshet.StateError, match="while a transaction is open"):
            db.advance("2026-01-01")
    assert db.version == 1 and db.view("v").count() == 2


def test_a_refused_step_of_time_changes_nothing() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE e (id INT, ts TIMESTAMP)")
    view = db.create_view("v", "SELECT SUM(CASE WHEN ts <= NOW() THEN 10 DIV id ELSE 0 END) AS s FROM e")
    db.apply({"e": [(5, "2026-01-01"), (0, "2026-01-03")]})
    db.advance("2026-01-02")
    with pytest.raises(freshet.ChangeError, match="division by zero"):
        db.advance("2026-01-04")
    assert db.version == 2 and view.to_arrow().to_pylist() == [{"s": 2}]
    db.execute("DELETE FROM e WHERE id = 0")
    assert db.advance("2026-01-04").version == 4 and view.to_arrow().to_pylist() == [{"s": 2}]


# Retention --------------------------------------------------------------------------------------------------------


def test_rows_past_their_time_leave_the_table(tmp_path: Path) -> None:
    with freshet.connect(tmp_path / "db") as db:
        db.execute("CREATE TABLE e (id INT PRIMARY KEY, ts TIMESTAMP) TBLPROPERTIES ('retain' = '1 hour')")
        db.execute("CREATE TABLE bag (k INT, since DATE, ts TIMESTAMP) WITH (retain = '2 days', retain_by = 'since')")
        view = db.create_view("n", "SELECT COUNT(*) AS n, SUM(k) AS k FROM bag")
        db.apply({"e": ROWS, "bag": [(1, "2026-01-01", None), (1, "2026-01-01", None), (2, None, None)]})
        db.execute("DELETE FROM bag WHERE k = 1")
        db.apply({"bag": [(1, "2026-01-01", None)] * 2})
        db.advance("2026-01-01 11:00:00")
        assert _ids(db.query("SELECT id FROM e").to_pylist()) == [2, 3]
        db.apply({"e": [(9, "2026-01-01 09:00:00")]})  # late: it goes with the next step of time
        assert db.query("SELECT COUNT(*) AS n FROM e").to_pylist() == [{"n": 3}]
    with freshet.connect(tmp_path / "db") as db:
        tx = db.advance("2026-01-03")
        assert tx.deltas["n"].to_pylist() == [{"n": 3, "k": 4, "_weight": -1}, {"n": 1, "k": 2, "_weight": 1}]
        assert _ids(db.query("SELECT id FROM e").to_pylist()) == [3]
        assert db.view("n").to_arrow().to_pylist() == [{"n": 1, "k": 2}]
        again = freshet.plan("SELECT id FROM e", db.catalog)
        assert freshet.Plan.from_json(again.to_json()).explain() == again.explain()
    assert view.name == "n"


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ("retain = '1 month'", "retain cannot be '1 month'"),
        ("retain = '-1 day'", "retain cannot be"),
        ("retain = 'long'", "has no units"),
        ("retain = '1 day', retain_by = 'id'", "column id is INT; retain goes by a TIMESTAMP or DATE"),
        ("retain = '1 day', retain_by = 'x'", "no column x"),
        ("retain_by = 'ts'", "retain_by without retain"),
        ("owner = 'me'", "give only columns, keys, retain, retain_by, lateness"),
        ("retain = '1 day'", "needs the column of the rows' time"),
    ],
)
def test_invalid_retention_is_refused(properties: str, words: str) -> None:
    with pytest.raises(freshet.SqlError, match=words):
        freshet.connect().execute(f"CREATE TABLE e (id INT, ts TIMESTAMP, u TIMESTAMP) WITH ({properties})")


# The system's time ------------------------------------------------------------------------------------------------


def test_a_clock_may_follow_the_system(tmp_path: Path) -> None:
    with freshet.connect(tmp_path / "db", clock="system") as db:
        db.execute("CREATE TABLE e (id INT, ts TIMESTAMP) WITH (retain = '1 second')")
        view, gone = db.create_view("v", "SELECT id FROM e WHERE ts > NOW()"), threading.Event()
        view.subscribe(lambda tx: gone.set() if any(r["_weight"] < 0 for r in tx.deltas["v"].to_pylist()) else None)
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        db.apply({"e": [(1, now + dt.timedelta(seconds=1)), (2, now + dt.timedelta(days=1))]})
        assert _ids(view) == [1, 2]
        assert gone.wait(20) and _ids(view) == [2]
        with pytest.raises(freshet.StateError, match="the clock follows the system's"):
            db.advance("2100-01-01")
        until = time.monotonic() + 20
        while len(db.query("SELECT id FROM e")) > 1 and time.monotonic() < until:
            time.sleep(0.05)
        assert _ids(db.query("SELECT id FROM e").to_pylist()) == [2]
        version = db.version
        time.sleep(0.5)
        assert db.version == version  # nothing is due
    assert not [t for t in threading.enumerate() if t.name == "freshet clock"]


def test_a_database_nobody_holds_has_no_clock() -> None:
    db = freshet.connect(clock="system")
    (thread,) = (t for t in threading.enumerate() if t.name == "freshet clock")
    del db
    gc.collect()
    thread.join(20)
    assert not thread.is_alive()


def test_invalid_clocks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='give "advance" or "system"'):
        freshet.connect(clock="atomic")
    freshet.connect(tmp_path / "db").close()
    with pytest.raises(ValueError, match="a read-only database"):
        freshet.connect(tmp_path / "db", read_only=True, clock="system")
