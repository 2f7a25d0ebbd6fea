"""Windows of time over changing rows, next to DuckDB; tests/scalar/nested_cases has Spark's answers."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import freshet
from tests.oracle import RunningSum, same_bag

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP, x INT)"
VIEWS = {
    "tumbling": (
        "SELECT window.start AS s, window.end AS e, SUM(x) AS x FROM t GROUP BY window(ts, '10 minutes')",
        (
            "SELECT time_bucket(INTERVAL 10 MINUTE, ts) AS s, s + INTERVAL 10 MINUTE, SUM(x) FROM t "
            "WHERE ts IS NOT NULL GROUP BY ALL"
        ),
    ),
    "sliding": (
        "SELECT window.start AS s, COUNT(*) AS n FROM t WHERE x > 0 GROUP BY window(ts, '15 minutes', '5 minutes')",
        (
            "SELECT time_bucket(INTERVAL 5 MINUTE, ts) - INTERVAL 5 MINUTE * k AS s, COUNT(*) FROM t, range(3) AS r(k) "
            "WHERE x > 0 AND ts IS NOT NULL GROUP BY ALL"
        ),
    ),
    "sessions": (
        (
            "SELECT x, session_window.start AS s, session_window.end AS e, COUNT(*) AS n FROM t GROUP BY "
            "session_window(ts, '3 minutes'), x"
        ),
        (
            "SELECT x, MIN(ts), MAX(ts) + INTERVAL 3 MINUTE, COUNT(*) FROM (SELECT *, SUM(fresh) OVER (PARTITION BY x "
            "ORDER BY ts, id) AS number FROM (SELECT *, CASE WHEN ts <= LAG(ts) OVER (PARTITION BY x ORDER BY ts, id) "
            "+ INTERVAL 3 MINUTE THEN 0 ELSE 1 END AS fresh FROM t WHERE ts IS NOT NULL)) GROUP BY x, number"
        ),
    ),
    "sessions of several lengths": (
        (
            "SELECT session_window.start AS s, session_window.end AS e, SUM(id) AS n FROM t GROUP BY "
            "session_window(ts, CASE WHEN x = 0 THEN '12 minutes' WHEN x = 1 THEN '2 minutes' ELSE '0 days' END)"
        ),
        (
            "SELECT MIN(ts), MAX(until), SUM(id) FROM (SELECT *, SUM(fresh) OVER (ORDER BY ts, id) AS number FROM "
            "(SELECT *, CASE WHEN ts <= MAX(until) OVER (ORDER BY ts, id ROWS BETWEEN UNBOUNDED PRECEDING AND "
            "1 PRECEDING) THEN 0 ELSE 1 END AS fresh FROM (SELECT *, ts + CASE WHEN x = 0 THEN INTERVAL 12 MINUTE "
            "ELSE INTERVAL 2 MINUTE END AS until FROM t WHERE ts IS NOT NULL AND x < 2))) GROUP BY number"
        ),
    ),
    "rows": (
        "SELECT id, window(ts, '7 minutes').end AS e FROM t",
        "SELECT id, to_timestamp((epoch(ts)::BIGINT // 420) * 420 + 420)::TIMESTAMP FROM t WHERE ts IS NOT NULL",
    ),
}


@pytest.mark.parametrize("name", VIEWS)
def test_equal_to_duckdb_after_every_transaction(name: str) -> None:
    sql, theirs = VIEWS[name]
    db = freshet.connect()
    db.execute(TABLE)
    view = db.create_view("v", sql)
    schema = db.query("SELECT * FROM t").schema
    rng, held, total = random.Random(3), list[dict[str, Any]](), RunningSum(view.to_arrow())
    for number in range(25):
        changes = []
        for row in rng.sample(held, min(len(held), rng.randrange(3))):
            held.remove(row)
            changes.append({**row, "_weight": -1})
        for i in range(rng.randrange(4)):
            time = dt.datetime(2024, 2, 29) + dt.timedelta(seconds=60 * rng.randrange(45))
            held.append({"id": 10 * number + i, "ts": rng.choice([time, time, None]), "x": rng.randrange(3)})
            changes.append({**held[-1], "_weight": 1})
        total.add(db.apply({"t": changes}).deltas["v"])
        total.equals(view.to_arrow())
        cursor = duckdb.connect()
        cursor.execute("SET TimeZone = 'UTC'")
        cursor.register("t", pa.Table.from_pylist(held, schema))
        same_bag(view.to_arrow(), cursor.execute(theirs).to_arrow_table())


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT window(ts, '1 month') FROM t", "windows of '1 month' have no fixed length"),
        ("SELECT window(ts, '1 minute', '2 minutes') FROM t", "give a smaller slide"),
        ("SELECT window(x, '1 minute') FROM t", "WINDOW takes a TIMESTAMP or DATE, not INT"),
        ("SELECT window(ts, x) FROM t", "x is not a length of time"),
        ("SELECT window(ts) FROM t", "WINDOW takes a time, the length of windows"),
        ("SELECT window(ts, '1 day', '1 second') FROM t", "a time in more than 10,000 windows is not supported"),
        ("SELECT window(ts, '1 day'), window(ts, '2 days') FROM t", "WINDOW of several kinds in one select"),
        ("SELECT x FROM t GROUP BY x, session_window(ts, '1 month')", "windows of '1 month' have no fixed length"),
        ("SELECT x FROM t GROUP BY x, session_window(ts)", "SESSION_WINDOW takes a time, and how far apart"),
        ("SELECT x FROM t GROUP BY session_window(x, '1 day'), x", "SESSION_WINDOW takes a TIMESTAMP or DATE, not INT"),
        ("SELECT x FROM t GROUP BY session_window(ts, ts), x", "ts is not a length of time"),
        ("SELECT session_window(ts, '1 day') AS w FROM t", "SESSION_WINDOW outside of GROUP BY is not supported"),
        ("SELECT 1 FROM t GROUP BY session_window(ts, '1 day').start", "a part of SESSION_WINDOW in GROUP BY"),
        ("SELECT x FROM t GROUP BY CUBE(x, session_window(ts, '1 day'))", "SESSION_WINDOW in grouping sets"),
        ("SELECT *, window(ts, '1 day') FROM t", "* next to WINDOW is not supported"),
        ("SELECT id FROM t WHERE window(ts, '1 day').start IS NULL", "function window is not supported"),
    ],
)
def test_what_is_refused(sql: str, words: str) -> None:
    db = freshet.connect()
    db.execute(TABLE)
    with pytest.raises(freshet.SqlError) as caught:
        db.create_view("v", sql)
    assert words in caught.value.reason and caught.value.line == 1
