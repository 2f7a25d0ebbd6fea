"""ALTER TABLE: columns come, go and are called otherwise, and the views over the table stay."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import freshet
from freshet.database.db import inside
from tests.oracle import RunningSum, duckdb_answer, same_bag

DDL = "CREATE TABLE t (id INT PRIMARY KEY, a INT, s STRING, b DECIMAL(5,2)); CREATE TABLE bag (k INT, v STRING, w INT)"
VIEWS = {
    "sums": "SELECT s, SUM(b) AS b, COUNT(*) AS n FROM t GROUP BY s",
    "joined": "SELECT t.id, bag.w FROM t JOIN bag ON t.id = bag.k WHERE t.b > 1",
    "above": "SELECT n, COUNT(*) AS m FROM sums GROUP BY n",
    "best": "SELECT id, s FROM t ORDER BY b DESC, id LIMIT 2",
    "most": "SELECT w, COUNT(*) AS n FROM bag GROUP BY w",
}


def _fill(db: freshet.Database, chosen: random.Random, first: int) -> freshet.Transaction:
    names = [f.name for f in db.catalog.tables["t"].fields]
    made: dict[str, Callable[[], Any]] = {
        "a": lambda: 1, "s": lambda: chosen.choice(("x", "y", None)), "b": lambda: chosen.randrange(5),
        "c": lambda: "new", "d": lambda: "new",
    }  # fmt: skip
    rows = [{n: first + i if n == "id" else made[n]() for n in names} for i in range(6)]
    return db.apply({"t": rows, "bag": [{"k": chosen.randrange(20), "w": chosen.randrange(3)} for _ in range(5)]})


def _check(db: freshet.Database) -> None:
    tables: dict[str, Any] = {name: db.query(f"SELECT * FROM {name}") for name in ("t", "bag")}
    tables["sums"] = db.view("sums").to_arrow()
    for name, sql in VIEWS.items():
        same_bag(db.view(name).to_arrow(), duckdb_answer(sql.replace("b DESC", "b DESC NULLS LAST"), tables))


def test_views_stay_through_every_change() -> None:
    chosen, db = random.Random(3), freshet.connect()
    db.execute(DDL)
    views = {name: db.create_view(name, sql) for name, sql in VIEWS.items()}
    db.execute("CREATE INDEX by_s ON sums (s)")
    totals = {name: RunningSum(view.to_arrow()) for name, view in views.items()}
    heard: list[int] = []
    views["sums"].subscribe(lambda tx: heard.append(tx.version))
    first = 0
    for statement in (
        "ALTER TABLE t ADD COLUMN c STRING",
        "ALTER TABLE t DROP COLUMN a",
        "ALTER TABLE t RENAME COLUMN c TO d",
        "ALTER TABLE bag DROP COLUMN v",
        "ALTER TABLE t ADD COLUMNS (a INT, c STRING)",
        "ALTER TABLE t DROP COLUMNS (d, a)",
    ):
        tx = _fill(db, chosen, first)
        first += 6
        for name, total in totals.items():
            total.add(tx.deltas[name])
        version = db.version
        assert db.execute(statement) is None and db.version == version
        for name, total in totals.items():
            assert db.view(name) is views[name]
            total.equals(views[name].to_arrow())
        _check(db)
        db.execute("DELETE FROM t WHERE id % 4 = 0 AND s = 'x'")
        _check(db)
        totals = {name: RunningSum(view.to_arrow()) for name, view in views.items()}
        assert db.query("SELECT n FROM sums WHERE s = 'y'").num_rows == 1
        assert views["sums"].metrics()["changes"] >= 0
    assert heard == list(range(1, db.version + 1))
    assert [f.name for f in db.catalog.tables["t"].fields] == ["id", "s", "b", "c"]
    late = db.create_view("late", VIEWS["sums"])
    same_bag(late.to_arrow(), views["sums"].to_arrow())


def test_new_columns_are_null_and_rows_that_become_equal_add_up() -> None:
    db = freshet.connect()
    db.execute(DDL)
    db.apply({"bag": [(1, "a", 1), (1, "b", 1), (2, None, None)]})
    db.execute("ALTER TABLE bag DROP COLUMN v")
    db.execute("ALTER TABLE bag ADD COLUMN x DOUBLE")
    db.apply({"bag": [{"k": 1, "w": 1, "_weight": -1}]})
    assert sorted(map(str, db.query("SELECT * FROM bag").to_pylist())) == [
        "{'k': 1, 'w': 1, 'x': None}", "{'k': 2, 'w': None, 'x': None}",
    ]  # fmt: skip


def test_a_folder_follows(tmp_path: Path) -> None:
    folder, copy = tmp_path / "db", tmp_path / "copy"
    with freshet.connect(folder, retain=100) as db:
        db.execute(DDL)
        for name, sql in VIEWS.items():
            db.create_view(name, sql)
        chosen = random.Random(9)
        _fill(db, chosen, 0)
        answers = {db.version: db.view("sums").to_arrow()}
        for first, statement in enumerate(
            ("ADD COLUMN c STRING", "DROP COLUMN a", "RENAME COLUMN c TO d", "DROP COLUMN d", "ADD COLUMN c STRING"), 1
        ):
            db.execute(f"ALTER TABLE t {statement}")
            _fill(db, chosen, 10 * first)
            answers[db.version] = db.view("sums").to_arrow()
        for version, answer in answers.items():
            same_bag(db.view("sums").at(version), answer)
        db.execute("ALTER TABLE bag RENAME COLUMN v TO vv")
        copy.mkdir()
        for file in folder.iterdir():
            if file.is_file():
                (copy / file.name).write_bytes(file.read_bytes())
    for each in (folder, copy):  # from its checkpoint, and from its log
        for first in (100, 200):
            with freshet.connect(each) as db:
                _check(db)
                _fill(db, random.Random(first), first)
                db.execute("DELETE FROM t WHERE id < 10")
                _check(db)
                assert [f.name for f in db.catalog.tables["bag"].fields] == ["k", "vv", "w"]


def test_a_change_that_fails_leaves_all_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    db = freshet.connect()
    db.execute(DDL)
    for name, sql in VIEWS.items():
        db.create_view(name, sql)
    _fill(db, random.Random(1), 0)
    views, built = inside(db).views, list[str]()
    build = views.build

    def failing(plan: freshet.Plan, number: int, indexes: Any) -> Any:
        built.append(plan.sql)
        if len(built) == 3:
            raise MemoryError
        return build(plan, number, indexes)

    nbytes = db.nbytes()
    with monkeypatch.context() as patched:
        patched.setattr(views, "build", failing)
        with pytest.raises(MemoryError):
            db.execute("ALTER TABLE t DROP COLUMN a")
    assert len(built) == 3 and db.nbytes() == nbytes
    _check(db)
    _fill(db, random.Random(2), 10)
    _check(db)
    db.execute("ALTER TABLE t DROP COLUMN a")
    _check(db)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DROP COLUMN b", "view (sums|joined|best) reads column b of table t; drop the view first"),
        ("DROP COLUMN id", "column id is in the primary key"),
        ("DROP COLUMN x", "no column x; t has"),
        ("DROP COLUMN IF EXISTS x", ""),
        ("ADD COLUMN A INT", "has a column A already"),
        ("ADD COLUMN _weight INT", "reserved for changes"),
        ("ADD COLUMN c INT NOT NULL", "the rows that are there have NULL in it"),
        ("ADD COLUMN c NUMBERS", "ADD COLUMN c NUMBERS is not supported"),
        ("RENAME COLUMN a TO b", "has a column b already"),
        ("RENAME TO u", "ADD COLUMN, DROP COLUMN and RENAME COLUMN are"),
        ("ALTER COLUMN a TYPE BIGINT", "ADD COLUMN, DROP COLUMN and RENAME COLUMN are"),
    ],
)
def test_what_is_refused_changes_nothing(change: str, words: str) -> None:
    db = freshet.connect()
    db.execute(DDL)
    for name, sql in VIEWS.items():
        db.create_view(name, sql)
    _fill(db, random.Random(1), 0)
    if words:
        with pytest.raises(freshet.FreshetError, match=words):
            db.execute(f"ALTER TABLE t {change}")
    else:
        db.execute(f"ALTER TABLE t {change}")
    assert [f.name for f in db.catalog.tables["t"].fields] == ["id", "a", "s", "b"]
    _check(db)


def test_alter_table_is_refused() -> None:
    db = freshet.connect()
    db.execute(DDL)
    with pytest.raises(freshet.UnsupportedError, match="run it alone"):
        db.execute("ALTER TABLE t DROP COLUMN a; SELECT 1")
    with pytest.raises(freshet.SqlError, match="no table v; the tables are"):
        db.execute("ALTER TABLE v DROP COLUMN a")
    with db.transaction() as tx, pytest.raises(freshet.StateError, match="while a transaction is open"):
        tx.execute("ALTER TABLE t DROP COLUMN a")


def test_a_table_with_retention_keeps_it() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE e (x INT, ts TIMESTAMP, y INT) WITH (retain = '1 hour')")
    db.apply({"e": [(1, "2026-01-01 10:00:00", 2), (3, "2026-01-01 12:00:00", 4)]})
    db.execute("ALTER TABLE e DROP COLUMN x")
    with pytest.raises(freshet.SqlError, match="rows stay by column ts"):
        db.execute("ALTER TABLE e DROP COLUMN ts")
    db.advance("2026-01-01 11:30:00")
    assert db.query("SELECT y FROM e").to_pylist() == [{"y": 4}]


def test_a_view_is_replaced_while_it_is_read() -> None:
    db = freshet.connect()
    db.execute(DDL)
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS n FROM t GROUP BY s")
    _fill(db, random.Random(2), 0)
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
    assert db.view("v").to_dicts() == [{"a": 1, "n": 6}]
    db.execute("ALTER TABLE t ADD COLUMN c STRING")
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT c, COUNT(*) AS n FROM t GROUP BY c")
    _fill(db, random.Random(2), 10)
    assert sorted(map(str, db.view("v").to_dicts())) == ["{'c': 'new', 'n': 6}", "{'c': None, 'n': 6}"]
