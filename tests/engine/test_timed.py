"""Views that read the clock, compared with DuckDB with the clock's value in place of it, after every transaction."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pyarrow as pa
import pytest

import freshet
from freshet.database.db import inside
from freshet.engine.timed import TimedOperator
from tests.oracle import RunningSum, duckdb_answer, same_bag

DDL = "CREATE TABLE e (id INT PRIMARY KEY, k INT, ts TIMESTAMP, d DATE); CREATE TABLE f (k INT, until TIMESTAMP)"
SCHEMAS = {
    "e": pa.schema([("id", pa.int32()), ("k", pa.int32()), ("ts", pa.timestamp("us")), ("d", pa.date32())]),
    "f": pa.schema([("k", pa.int32()), ("until", pa.timestamp("us"))]),
}
START = dt.datetime(2024, 2, 28)
QUERIES = (
    "SELECT id FROM e WHERE ts > NOW() - INTERVAL '5' HOUR",
    "SELECT id, k FROM e WHERE ts BETWEEN NOW() - INTERVAL '5' HOUR AND NOW() AND k > 0",
    "SELECT k, COUNT(*) AS n, MAX(ts) AS m FROM e WHERE ts <= NOW() GROUP BY k",
    "SELECT COUNT(*) AS n FROM e WHERE d = CURRENT_DATE",
    "SELECT k, COUNT(*) FILTER (WHERE ts > NOW() - INTERVAL '3' HOUR) AS n FROM e GROUP BY k",
    "SELECT k, SUM(CASE WHEN ts > NOW() THEN 1 WHEN d < CURRENT_DATE THEN 10 ELSE 100 END) AS n FROM e GROUP BY k",
    "SELECT k, MAX(ts) AS m FROM e GROUP BY k HAVING MAX(ts) >= NOW() - INTERVAL '4' HOUR AND COUNT(*) > 1",
    "SELECT k, MIN(ts) > NOW() AS later, COUNT(*) AS n FROM e GROUP BY k",
    "SELECT e.id, f.until FROM e JOIN f ON e.k = f.k AND f.until > NOW() AND e.ts <= NOW()",
    "SELECT e.id, f.until FROM e LEFT JOIN f ON e.k = f.k AND f.until > NOW()",
    "SELECT e.id, f.until FROM e LEFT JOIN f ON e.k = f.k AND e.ts > NOW()",
    "SELECT e.id, f.until FROM e LEFT JOIN f ON e.k = f.k WHERE f.until > NOW() OR e.ts > NOW()",
    "SELECT e.id FROM e LEFT JOIN f ON e.k = f.k WHERE COALESCE(f.until, e.ts) > NOW()",
    "SELECT e.id FROM e, f WHERE e.k = f.k AND GREATEST(e.ts, f.until) > NOW()",
    "SELECT id FROM e WHERE EXISTS (SELECT 1 FROM f WHERE f.k = e.k AND f.until > NOW())",
    "SELECT id FROM e WHERE k NOT IN (SELECT k FROM f WHERE until <= NOW() AND k IS NOT NULL)",
    "SELECT id FROM e WHERE NOT (ts > NOW() - INTERVAL '2' HOUR) OR d >= CURRENT_DATE + 1",
    "SELECT DISTINCT k, ts > NOW() AS later FROM e",
    "SELECT id, ts FROM e WHERE ts < NOW() ORDER BY ts DESC, id LIMIT 3",
    "SELECT id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY id) AS r FROM e WHERE ts > NOW() - INTERVAL '6' HOUR",
    "SELECT id FROM e WHERE ts > NOW() UNION ALL SELECT k FROM f WHERE until > NOW()",
    "SELECT a.id, b.id AS other FROM e a FULL JOIN e b ON a.k = b.id AND a.ts > NOW() WHERE b.ts < NOW()",
    "WITH w AS (SELECT k, COUNT(*) AS n FROM e WHERE ts > NOW() GROUP BY k) SELECT f.k, w.n FROM f JOIN w ON f.k = w.k",
    "SELECT id FROM e WHERE NOW() > TIMESTAMP '2024-02-28 12:00:00' AND k = 1",
    "SELECT id FROM e WHERE NOW() > TIMESTAMP '2024-02-28 12:00:00' OR d <> CURRENT_DATE",
)


def _literal(sql: str, now: dt.datetime) -> str:
    return sql.replace("NOW()", f"TIMESTAMP '{now}'").replace("CURRENT_DATE", f"DATE '{now.date()}'")


class _Model:
    """Tables that change at random, in Python."""

    def __init__(self, seed: int) -> None:
        self.random, self.rows = random.Random(seed), {"e": list[Any](), "f": list[Any]()}

    def row(self, table: str) -> tuple[Any, ...]:
        chosen = self.random
        ts = None if chosen.random() < 0.1 else START + dt.timedelta(hours=chosen.randrange(40))
        k = None if chosen.random() < 0.1 else chosen.randrange(3)
        if table == "f":
            return k, ts
        return chosen.randrange(30), k, ts, None if chosen.random() < 0.1 else START.date() + dt.timedelta(
            days=chosen.randrange(3)
        )  # fmt: skip

    def change(self) -> dict[str, pa.Table]:
        changes = {}
        for name, rows in self.rows.items():
            gone = [rows.pop(self.random.randrange(len(rows))) for _ in range(min(len(rows), self.random.randrange(4)))]
            come = []
            for row in (self.row(name) for _ in range(self.random.randrange(7))):
                if name == "f" or all(r[0] != row[0] for r in rows):
                    rows.append(row)
                    come.append(row)
            changes[name] = self._arrow(name, gone + come).append_column(
                "_weight", pa.array([-1] * len(gone) + [1] * len(come), pa.int64())
            )
        return changes

    def _arrow(self, name: str, rows: list[Any]) -> pa.Table:
        columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMAS[name])
        return pa.table([pa.array(list(c), f.type) for c, f in zip(columns, SCHEMAS[name], strict=True)], SCHEMAS[name])

    def tables(self) -> dict[str, pa.Table]:
        return {name: self._arrow(name, rows) for name, rows in self.rows.items()}


@pytest.mark.parametrize("sql", QUERIES)
def test_views_follow_the_clock(sql: str) -> None:
    model, now, db = _Model(len(sql)), START, freshet.connect()
    db.execute(DDL)
    db.apply(model.change())
    db.advance(now)
    view = db.create_view("v", sql)
    total = RunningSum(view.to_arrow())
    for step in range(30):
        if model.random.random() < 0.5:
            now += dt.timedelta(hours=model.random.choice((0, 1, 1, 2, 7)))
            tx = db.advance(now)
        else:
            tx = db.apply(model.change())
        total.add(tx.deltas["v"])
        total.equals(view.to_arrow())
        same_bag(view.to_arrow(), duckdb_answer(_literal(sql, now), model.tables()))
        assert view.count() == view.to_arrow().num_rows
        if step % 10 == 5:
            same_bag(db.query(sql), view.to_arrow())
            inside(db).views.rebuild(["v"])


def test_a_window_keeps_no_more_than_the_rows_within() -> None:
    db = freshet.connect()
    db.execute(DDL)
    db.create_view("v", "SELECT k, COUNT(*) AS n FROM e WHERE ts > NOW() - INTERVAL 1 HOUR GROUP BY k")
    timed = next(o for o in _all(inside(db).state.core.operators["v"]) if isinstance(o, TimedOperator))
    before = timed.own_work()
    for minute in range(600):
        now = START + dt.timedelta(minutes=minute)
        db.apply({"e": [{"id": minute, "k": 1, "ts": now}]})
        db.advance(now)
        assert len(timed.agenda) == timed.kept.tuples.live == min(minute + 1, 60)
    assert db.view("v").to_arrow().to_pylist() == [{"k": 1, "n": 60}]
    paid = timed.own_work() - before
    assert paid.fed <= 1_200  # rows that come, and rows that go
    assert paid.fed <= paid.placed <= paid.fed * (2 + (60).bit_length())  # places in a heap of 60 rows


def _all(operator: Any) -> list[Any]:
    return [operator, *(found for below in operator.below for found in _all(below))]


def test_explain_distinguishes_windows_from_other_comparisons() -> None:
    db = freshet.connect()
    db.execute(DDL)
    window = db.create_view("w", "SELECT e.id FROM e JOIN f ON e.k = f.k WHERE e.ts > NOW() - INTERVAL 1 HOUR")
    text = window.explain()
    assert "time       NOW() - 1:00:00 < ts" in text
    assert "rows only inserted, in order of ts, are a first-in-first-out stream: λ = 1" in text
    groups = db.create_view("g", "SELECT k, MAX(ts) AS m FROM e GROUP BY k HAVING MAX(ts) > NOW()").explain()
    assert "first-in-first-out stream" not in groups and "time       NOW() < max(ts)" in groups
    flags = db.create_view("c", "SELECT id, ts > NOW() AS later FROM e").explain()
    assert "class      comparison with the clock" in flags and "time       whether NOW() >= ts" in flags


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT NOW() AS n FROM e", "compare it with a date or timestamp of the rows"),
        ("SELECT id FROM e WHERE ts > NOW() - INTERVAL 1 MONTH", "add them to the rows' time"),
        ("SELECT id FROM e WHERE YEAR(NOW()) = 2024", "compare it"),
        ("SELECT id FROM e WHERE ts > NOW() AND NOW() < NOW()", "compare it"),
        ("SELECT id FROM e WHERE EXISTS (SELECT 1 FROM f WHERE GREATEST(e.ts, f.until) > NOW())", "compare it"),
        ("VALUES (NOW())", "compare it"),
        ("SELECT CURRENT_TIMESTAMP(3) > ts AS x FROM e", "leave out its argument"),
    ],
)
def test_what_is_refused(sql: str, words: str) -> None:
    db = freshet.connect()
    db.execute(DDL)
    with pytest.raises(freshet.UnsupportedError, match=words) as error:
        db.create_view("v", sql)
    assert error.value.line == 1
