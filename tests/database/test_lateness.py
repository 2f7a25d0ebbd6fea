"""Tables with lateness drop late rows, and views with EMIT FINAL have only rows that never change, next to DuckDB."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import freshet
from tests.late_cases import DDL, VIEWS, Twin, transactions
from tests.oracle import RunningSum, same_bag


def opened(folder: Path | None = None) -> freshet.Database:
    db = freshet.connect() if folder is None else freshet.connect(folder)
    for statement in DDL.split(";")[:-1]:
        db.execute(statement)
    return db


@pytest.mark.parametrize("seed", range(4))
def test_final_rows_beside_duckdb(seed: int) -> None:
    db, twin = opened(), Twin()
    views = {name: db.create_view(f"v_{name}", sql) for name, (sql, _) in VIEWS.items()}
    sums = {name: RunningSum(view.to_arrow()) for name, view in views.items()}
    appeared = dict.fromkeys(VIEWS, 0)
    for number, changes in enumerate(transactions(seed, 40)):
        tx = db.apply(changes)
        assert tx.late == twin.apply(changes)
        for name, view in views.items():
            delta = tx.deltas[f"v_{name}"]
            assert all(weight > 0 for weight in delta["_weight"].to_pylist()), "a final row has changed"
            appeared[name] += len(delta)
            sums[name].add(delta)
            sums[name].equals(view.to_arrow())
            try:
                same_bag(plain(view.to_arrow()), twin.answer(name))
            except AssertionError as e:
                raise AssertionError(f"{name} after transaction {number}: {e}") from e
        if number in (9, 25):  # a view that is created later has the same rows
            for name, (sql, _) in VIEWS.items():
                later = db.create_view("later", sql)
                same_bag(later.to_arrow(), views[name].to_arrow())
                same_bag(db.query(sql), views[name].to_arrow())
                db.execute("DROP VIEW later")
    assert db.metrics()["late_rows"] == dict(twin.late)
    assert sum(twin.late.values()) > 10
    assert min(appeared.values()) > 0, appeared


def plain(answer: pa.Table) -> pa.Table:
    return answer.cast(pa.schema([(f.name, _naive(f.type)) for f in answer.schema]))


def _naive(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us") if pa.types.is_timestamp(kind) else kind


def test_a_folder_has_the_same_watermark(tmp_path: Path) -> None:
    twin, steps = Twin(), list(transactions(7, 30))
    with opened(tmp_path / "db") as db:
        for name, (sql, _) in VIEWS.items():
            db.create_view(f"v_{name}", sql)
        for changes in steps[:10]:
            db.apply(changes)
    for part in (steps[10:20], steps[20:]):
        with freshet.connect(tmp_path / "db") as db:
            for number, changes in enumerate(part):
                db.apply(changes)
                if number == 5:
                    earlier = {name: db.view(f"v_{name}").to_arrow() for name in VIEWS}
                    version = db.version
            before = {name: db.view(f"v_{name}").to_arrow() for name in VIEWS}
    for changes in steps:
        twin.apply(changes)
    for name, answer in before.items():
        same_bag(plain(answer), twin.answer(name))
    (tmp_path / "db" / "checkpoint").unlink(missing_ok=True)
    with freshet.connect(tmp_path / "db") as db:
        for name, answer in before.items():
            same_bag(db.view(f"v_{name}").to_arrow(), answer)
            same_bag(db.view(f"v_{name}").at(version), earlier[name])


def test_rows_are_judged_by_the_watermark_before_their_transaction() -> None:
    db = opened()
    view = db.create_view("v", "SELECT id FROM e EMIT FINAL")
    tx = db.apply({"e": [(1, 0, "2026-01-01 12:00:00"), (2, 0, "2026-01-01 09:00:00")]})
    assert (tx.late, tx.deltas["v"].to_pylist()) == ({}, [{"id": 2, "_weight": 1}])
    tx = db.apply({"e": [(3, 0, "2026-01-01 11:39:59"), (4, 0, "2026-01-01 11:40:00"), (5, 0, None)]})
    assert (tx.late, tx.deltas["v"].to_pylist()) == ({"e": 1}, [])
    assert sorted(db.query("SELECT id FROM e")["id"].to_pylist()) == [1, 2, 4, 5]
    tx = db.apply({"e": [(6, 0, "2026-01-01 12:00:00.000001")]})
    assert tx.deltas["v"].to_pylist() == [{"id": 4, "_weight": 1}]
    assert view.count() == 2
    assert "the watermark of e > final" in view.explain()
    assert "rows only ever appear" in view.explain()


def test_final_rows_are_not_deleted() -> None:
    db = opened()
    db.apply({"p": [(1, 0, "2026-01-01 12:00:00", None), (2, 0, "2026-01-01 09:00:00", None)]})
    for statement in ("DELETE FROM p WHERE id = 2", "UPDATE p SET k = 1", "DELETE FROM p"):
        with pytest.raises(freshet.ChangeError, match="deletes a row before the watermark, 2026-01-01 11:15:00"):
            db.execute(statement)
    for change in ({"id": 2, "_change_type": "delete"}, {"id": 2, "k": 5, "_change_type": "upsert"}):
        with pytest.raises(freshet.ChangeError, match="delete and update later rows only"):
            db.apply({"p": [change]})
    bag = opened()
    bag.apply({"e": [(1, 0, "2026-01-01 09:00:00")] * 3 + [(1, 0, "2026-01-01 12:00:00")]})
    with pytest.raises(freshet.ChangeError, match="before the watermark"):
        bag.apply({"e": [{"id": 1, "k": 0, "ts": "2026-01-01 09:00:00", "_weight": -1}]})
    assert bag.apply({"e": [(1, 0, "2026-01-01 09:00:00")] * 2}).late == {"e": 2}
    assert bag.query("SELECT COUNT(*) AS n FROM e").to_pylist() == [{"n": 4}]
    db.execute("UPDATE p SET k = 7 WHERE id = 1")
    assert db.query("SELECT k FROM p ORDER BY id").to_pylist() == [{"k": 7}, {"k": 0}]


def test_the_watermark_rises_when_a_transaction_of_several_statements_commits() -> None:
    db = opened()
    db.create_view("v", "SELECT id FROM e EMIT FINAL")
    with db.transaction():
        db.execute("INSERT INTO e VALUES (1, 0, TIMESTAMP '2026-01-01 12:00:00')")
        db.execute("INSERT INTO e VALUES (2, 0, TIMESTAMP '2026-01-01 09:00:00')")
        assert db.view("v").count() == 0
    assert db.view("v").to_dicts() == [{"id": 2}]
    with db.transaction():
        db.execute("INSERT INTO e VALUES (3, 0, TIMESTAMP '2026-01-01 09:00:00')")
    assert db.view("v").to_dicts() == [{"id": 2}]


def test_a_replaced_table_has_a_new_watermark() -> None:
    db = opened()
    db.apply({"e": [(1, 0, "2026-01-01 12:00:00")]})
    db.execute("CREATE OR REPLACE TABLE e (id BIGINT, k INT, ts TIMESTAMP) WITH (lateness = '0 seconds')")
    assert db.apply({"e": [(1, 0, "2026-01-01 09:00:00")]}).late == {}
    db.execute("DROP TABLE e")
    db.execute("CREATE TABLE e (id BIGINT)")
    assert db.apply({"e": [(1,)]}).late == {}
    db.execute("ALTER TABLE p ADD COLUMN more INT")
    db.execute("ALTER TABLE p DROP COLUMN k")
    db.apply({"p": [(1, "2026-01-01 12:00:00", None, 1)]})
    assert db.apply({"p": [(2, "2026-01-01 11:00:00", None, 1)]}).late == {"p": 1}
    with pytest.raises(freshet.SqlError, match="rows are late by column came"):
        db.execute("ALTER TABLE p DROP COLUMN came")


def test_a_view_over_final_rows() -> None:
    db = opened()
    db.create_view("v", "SELECT k, COUNT(*) AS n FROM e GROUP BY WINDOW(ts, '1 hour'), k EMIT FINAL")
    above = db.create_view("total", "SELECT k, SUM(n) AS n FROM v GROUP BY k")
    db.apply({"e": [(1, 0, "2026-01-01 09:30:00"), (2, 0, "2026-01-01 12:00:00")]})
    assert above.to_dicts() == [{"k": 0, "n": 1}]
    plan = freshet.plan("SELECT k, ts FROM e EMIT FINAL", db.catalog)
    assert freshet.Plan.from_json(plan.to_json()).explain() == plan.explain()
    db.create_view("again", freshet.Plan.from_json(plan.to_json()))
    assert len(db.view("again").to_dicts()) == 1
    db.execute("CREATE MATERIALIZED VIEW named AS SELECT id FROM e EMIT FINAL")
    assert db.view("named").to_dicts() == [{"id": 1}]
    emit = freshet.connect()
    emit.execute("CREATE TABLE emit (a INT)")
    assert emit.query("SELECT final.a FROM emit final").num_rows == 0


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT k, COUNT(*) AS n FROM e GROUP BY k", "rows that may always change is not supported; group by e.ts"),
        ("SELECT ts, k FROM e ORDER BY ts LIMIT 2", "may always change"),
        ("SELECT COUNT(*) AS n FROM e", "may always change"),
        ("SELECT DISTINCT k FROM e", "may always change"),
        ("SELECT e.ts FROM e JOIN p ON e.k = p.k", "join tables where these are equal"),
        ("SELECT e.ts FROM e JOIN p ON e.ts = p.ts", "join tables where these are equal"),
        ("SELECT e.ts FROM e JOIN n ON e.k = n.k", "table n without lateness"),
        ("SELECT ts, k FROM r", "table r, whose rows expire"),
        ("SELECT k FROM e WHERE ts > NOW()", "EMIT FINAL with NOW()"),
        ("SELECT ts FROM e WHERE k IN (SELECT k FROM p)", "subqueries in expressions"),
        ("SELECT 1 AS a", "a query without tables"),
        ("SELECT session_window.start FROM e GROUP BY SESSION_WINDOW(ts, '5 minutes')", "may always change"),
        ("SELECT MONTH(ts) AS m FROM e GROUP BY 1", "may always change"),
        ("SELECT ts FROM e UNION ALL SELECT ts FROM p", "may always change"),
        # A row of p that joins nothing is there whatever its times are.
        ("SELECT p.ts, COUNT(*) AS n FROM e RIGHT JOIN p ON e.ts = p.came AND e.ts = p.ts GROUP BY p.ts", "may always"),
    ],
)
def test_what_is_never_final(query: str, words: str) -> None:
    db = opened()
    db.execute("CREATE TABLE n (k INT)")
    db.execute("CREATE TABLE r (k INT, ts TIMESTAMP) WITH (lateness = '1 minute', retain = '1 day')")
    with pytest.raises(freshet.UnsupportedError, match=words.replace("(", r"\(").replace(")", r"\)")) as error:
        db.create_view("v", f"{query} EMIT FINAL")
    assert error.value.line == 1


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ("lateness = '1 month'", "lateness cannot be '1 month'"),
        ("lateness = '-1 second'", "lateness cannot be"),
        ("lateness = '1 day', lateness_by = 'id'", "column id is INT; lateness goes by a TIMESTAMP or DATE"),
        ("lateness_by = 'ts'", "lateness_by without lateness"),
        ("lateness = '1 day'", "needs the column of the rows' time"),
    ],
)
def test_invalid_lateness_is_refused(properties: str, words: str) -> None:
    with pytest.raises(freshet.SqlError, match=words):
        freshet.connect().execute(f"CREATE TABLE e (id INT, ts TIMESTAMP, u TIMESTAMP) WITH ({properties})")


def test_expired_rows_are_no_final_ones() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE r (k INT, ts TIMESTAMP) WITH (lateness = '1 minute', retain = '1 day')")
    db.apply({"r": [(1, "2026-01-01 12:00:00"), (2, "2026-01-05 12:00:00")]})
    db.advance("2026-01-05 12:00:00")
    assert db.query("SELECT k FROM r").to_pylist() == [{"k": 2}]


def test_the_systems_clock_does_not_tick_for_watermarks() -> None:
    with freshet.connect(clock="system") as db:
        db.execute("CREATE TABLE e (id INT, ts TIMESTAMP) WITH (lateness = '1 minute')")
        db.create_view("v", "SELECT id FROM e EMIT FINAL")
        db.create_view("w", "SELECT id FROM e WHERE ts > NOW()")
        version = db.apply({"e": [(1, "2020-01-01 00:00:00")]}).version
        db.execute("SELECT 1")
        from freshet.database.ticking import _first_due

        assert _first_due(db._inner.state.core) is None
        assert db.version == version
