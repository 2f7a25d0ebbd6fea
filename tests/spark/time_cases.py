"""Views that follow the clock, and random transactions with times around it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa

import freshet

DDL = """
CREATE TABLE e (id BIGINT PRIMARY KEY, k INT, ts TIMESTAMP);
CREATE TABLE b (k INT, day DATE, ts TIMESTAMP) WITH (retain = '3 hours', retain_by = 'ts');
CREATE TABLE p (id BIGINT PRIMARY KEY, k INT, ts TIMESTAMP) WITH (retain = '5 hours');
"""
VIEWS = {
    "recent": "SELECT id, k FROM e WHERE ts > NOW() - INTERVAL 2 HOURS",
    "soon": "SELECT k, COUNT(*) AS n FROM e WHERE ts BETWEEN NOW() AND NOW() + INTERVAL 1 HOUR GROUP BY k",
    "filtered": "SELECT k, COUNT(*) AS n, COUNT(*) FILTER (WHERE ts > NOW()) AS later FROM e GROUP BY k",
    "joined": "SELECT e.id, p.id AS pid FROM e JOIN p ON e.k = p.k AND e.ts <= NOW() AND p.ts > e.ts",
    "beside": "SELECT e.k, COUNT(*) AS n FROM e JOIN b ON e.k = b.k WHERE e.ts > NOW() - INTERVAL 1 HOUR GROUP BY e.k",
    "exists": "SELECT id FROM p WHERE EXISTS (SELECT 1 FROM e WHERE e.k = p.k AND e.ts > NOW() - INTERVAL 1 HOUR)",
    "groups": "SELECT k, MAX(ts) AS last FROM e GROUP BY k HAVING MAX(ts) < NOW() - INTERVAL 1 HOUR",
    "today": "SELECT day, COUNT(*) AS n FROM b WHERE day = CURRENT_DATE GROUP BY day",
    "every": "SELECT k, ts, COUNT(*) AS n FROM b GROUP BY k, ts",
    "kept": "SELECT id, k, ts FROM p",
    "total": "SELECT COUNT(*) AS n, MAX(ts) AS last FROM e WHERE ts <= NOW()",
    "either": "SELECT id FROM e WHERE ts > NOW() UNION ALL SELECT k FROM b",
    "top": "SELECT id, ts FROM e WHERE ts <= NOW() ORDER BY ts DESC, id LIMIT 2",
    "moment": "SELECT x.k, x.n FROM (SELECT k, COUNT(*) AS n, MIN(ts) AS ts FROM b GROUP BY k) AS x WHERE x.ts > NOW()",
    "distinct": "SELECT DISTINCT k FROM e WHERE ts > NOW() - INTERVAL 1 HOUR",
    "numbered": "SELECT id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY id) AS n FROM e WHERE ts <= NOW()",
    "except": "SELECT k FROM e WHERE ts > NOW() EXCEPT SELECT k FROM b",
    "triangle": "SELECT x.id, y.id AS yid, z.id AS zid FROM e x JOIN e y ON x.k=y.k JOIN p z ON y.k=z.k AND "
    "x.k=z.k WHERE x.ts > NOW() - INTERVAL 2 HOURS AND z.ts <= NOW()",
    "left": "SELECT e.id, p.id AS pid FROM e LEFT JOIN p ON e.k = p.k AND p.ts > NOW()",
    "not_in": "SELECT id FROM e WHERE k NOT IN (SELECT k FROM p WHERE ts > NOW() AND k IS NOT NULL)",
    "case": "SELECT id, CASE WHEN ts > NOW() THEN 'later' ELSE 'past' END AS w FROM e",
    "reached": "WITH RECURSIVE r(k, n) AS (SELECT k, 0 FROM e WHERE ts <= NOW() UNION SELECT p.k, n+1 FROM r "
    "JOIN p ON p.k = r.k + 1 WHERE n < 3) SELECT k, n FROM r",
    "greatest": "SELECT e.id, p.id AS pid FROM e JOIN p ON e.k = p.k WHERE GREATEST(e.ts, p.ts) > NOW()",
    "or": "SELECT e.id FROM e WHERE ts BETWEEN DATE_TRUNC('HOUR', NOW()) AND NOW() + INTERVAL 1 HOUR OR k = 1",
    "counted": "SELECT id, (SELECT COUNT(*) FROM b WHERE b.k = e.k AND b.ts > NOW()) AS n FROM e WHERE ts <= NOW()",
    "means": "SELECT k, AVG(id) AS m, COUNT(DISTINCT ts) AS d FROM p WHERE ts > NOW() - INTERVAL 30 MINUTES GROUP BY k",
    "total_of_few": "SELECT COUNT(*) AS n FROM b WHERE ts > NOW()",
    "union": "SELECT id FROM e WHERE NOW() > ts UNION SELECT id FROM p WHERE ts > NOW()",
    "lateral": "SELECT e.id, l.id AS lid FROM e, LATERAL (SELECT id FROM p WHERE p.k = e.k AND p.ts > NOW() "
    "ORDER BY id LIMIT 1) l",
}
SCHEMAS = {
    "e": pa.schema([("id", pa.int64()), ("k", pa.int32()), ("ts", pa.timestamp("us", "UTC")), ("_weight", pa.int64())]),
    "b": pa.schema(
        [("k", pa.int32()), ("day", pa.date32()), ("ts", pa.timestamp("us", "UTC")), ("_weight", pa.int64())]
    ),
    "p": pa.schema([("id", pa.int64()), ("k", pa.int32()), ("ts", pa.timestamp("us", "UTC")), ("_weight", pa.int64())]),
    "the clock": pa.schema([("now", pa.timestamp("us", "UTC"))]),
}
BEGIN = datetime(2026, 1, 31, 21, tzinfo=UTC)


def transactions(seed: int, count: int) -> Iterator[dict[str, pa.Table]]:
    """Rows that come and go, and times in any order; in every third transaction nothing but the time passes, in every
    fifth no time does. What has expired is not deleted."""
    rng = random.Random(seed)
    held: dict[str, list[tuple[object, ...]]] = {name: [] for name in SCHEMAS}
    now, number = BEGIN, 0
    for turn in range(count):
        rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in SCHEMAS}
        if turn % 5 != 4:
            later = now + timedelta(minutes=rng.randrange(90))
            rows["the clock"] = [(later,), (now - timedelta(minutes=rng.randrange(60)),)]
            rng.shuffle(rows["the clock"])
            now = later
        for name in ("e", "b", "p") if turn % 3 != 2 else ():
            stays = {"e": timedelta(days=99), "b": timedelta(hours=3), "p": timedelta(hours=5)}[name]
            held[name] = [r for r in held[name] if r[-1] is None or r[-1] > now - stays]  # type: ignore[operator]
            for _ in range(rng.randrange(6)):
                if held[name] and rng.random() < 0.4:
                    rows[name].append((*held[name].pop(rng.randrange(len(held[name]))), -1))
                    continue
                number += 1
                ts = None if rng.random() < 0.1 else now + timedelta(minutes=rng.randrange(-240, 150, 30))
                k = rng.randrange(3)
                day = None if ts is None else ts.date()
                row: tuple[object, ...] = (k, day, ts) if name == "b" else (number, k, ts)
                held[name].append(row)
                rows[name].append((*row, 1))
        yield {name: table(name, given) for name, given in rows.items()}


def table(name: str, rows: list[tuple[object, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMAS[name])
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMAS[name], strict=True)], schema=SCHEMAS[name])


class InProcess:
    """The same views of a database in this process: each transaction, then its time."""

    def __init__(self) -> None:
        self.db = freshet.connect()
        for statement in DDL.split(";")[:-1]:
            self.db.execute(statement)
        self.views = {name: self.db.create_view(name, sql) for name, sql in VIEWS.items()}
        self.now = datetime(1970, 1, 1, tzinfo=UTC)

    def apply(self, changes: dict[str, pa.Table]) -> None:
        self.db.apply({name: rows for name, rows in changes.items() if name != "the clock"})
        self.now = max([self.now, *changes["the clock"]["now"].to_pylist()])
        self.db.advance(self.now)
