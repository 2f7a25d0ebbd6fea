"""Moments compared with their definition: the least time at which a comparison with the clock has its new outcome."""

from __future__ import annotations

import datetime as dt

import duckdb
import numpy as np
import pytest

import freshet
from freshet.logical.query import Query, Timed
from freshet.scalar import types
from freshet.scalar.clock import ALWAYS, NEVER, Moment, Step, StepKind
from freshet.sql.catalog import Catalog
from freshet.sql.parse import bind_query

CATALOG = Catalog.from_ddl("CREATE TABLE t (d DATE, ts TIMESTAMP)")
EPOCH = dt.datetime(1970, 1, 1)
TURNS = (
    "ts > NOW()", "ts >= NOW() - INTERVAL 90 MINUTES", "ts < CURRENT_TIMESTAMP + INTERVAL '1' DAY", "ts <= NOW()",
    "d > CURRENT_DATE - 3", "d >= NOW()", "d < CURRENT_DATE + INTERVAL '2' DAY", "d <= DATE_ADD(CURRENT_DATE, 1)",
    "ts >= DATE_TRUNC('hour', NOW())", "ts < DATE_TRUNC('week', NOW())", "ts >= DATE_TRUNC('month', NOW())",
    "ts >= DATE_TRUNC('quarter', NOW() - INTERVAL 5 HOURS)", "d >= TRUNC(CURRENT_DATE, 'YEAR')", "d > TO_DATE(NOW())",
    "ts > CURRENT_DATE", "CURRENT_DATE > ts", "DATE_TRUNC('day', NOW()) <> ts", "d = CURRENT_DATE", "ts = NOW()",
    "ts > TIMESTAMPADD(HOUR, -2, NOW())",
)  # fmt: skip


@pytest.mark.parametrize("condition", TURNS)
def test_rows_turn_when_the_comparison_does(condition: str) -> None:
    query = bind_query(f"SELECT d, ts FROM t WHERE {condition}", CATALOG)
    timed = query if isinstance(query, Timed) else query.relations[0].source if isinstance(query, Query) else None
    assert isinstance(timed, Timed)
    db = freshet.connect()
    db.execute("CREATE TABLE t (d DATE, ts TIMESTAMP)")
    chosen = np.random.default_rng(7)
    rows = []
    for _ in range(60):
        ts = dt.datetime(2024, 1, 1) + dt.timedelta(minutes=30 * int(chosen.integers(0, 4_000)))
        rows.append((ts.date() if chosen.random() > 0.1 else None, ts if chosen.random() > 0.1 else None))
    db.apply({"t": rows})
    view = db.create_view("v", f"SELECT d, ts FROM t WHERE {condition}")
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (d DATE, ts TIMESTAMP)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
    time = dt.datetime(2023, 12, 30)
    for _ in range(60):
        time += dt.timedelta(minutes=30 * int(chosen.integers(1, 90)), microseconds=int(chosen.integers(-1, 2)))
        db.advance(time)
        asked = db.query(f"SELECT d, ts FROM t WHERE {condition}")  # with the time in place of NOW()
        assert sorted(map(str, view.to_arrow().to_pylist())) == sorted(map(str, asked.to_pylist()))
        text = condition.replace("CURRENT_TIMESTAMP", f"TIMESTAMP '{time}'").replace("NOW()", f"TIMESTAMP '{time}'")
        text = (
            text.replace("CURRENT_DATE", f"DATE '{time.date()}'")
            .replace("TO_DATE(", "CAST(")
            .replace(f"CAST(TIMESTAMP '{time}')", f"CAST(TIMESTAMP '{time}' AS DATE)")
        )
        if "TRUNC(DATE" in text or "TIMESTAMPADD" in text or "DATE_ADD" in text:
            continue  # not DuckDB's words
        found = connection.execute(f"SELECT d, ts FROM t WHERE {text}").fetchall()
        assert sorted(map(str, found)) == sorted(str((r["d"], r["ts"])) for r in view.to_arrow().to_pylist())


def test_moments_stay_within_time() -> None:
    ends = np.array([NEVER, NEVER - 1, ALWAYS, ALWAYS + 1, 0], np.int64)
    for size in (1, -1, 86_400_000_000, -86_400_000_000, 1 << 62, -(1 << 62)):
        found = Moment(0, True, (Step(StepKind.PLUS, size),)).of(ends, types.TIMESTAMP)
        assert found.tolist() == [min(max(min(v + 1, NEVER) - size, ALWAYS), NEVER) for v in ends.tolist()]
    days = Moment(0, False, ()).of(np.array([2**31 - 1, -(2**31)], np.int64), types.DATE)
    assert days[0] > 2**62 and days[1] < -(2**62)
