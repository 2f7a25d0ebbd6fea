"""Streams of rows that may come late, a twin of how tables with `lateness` take them, and views with EMIT FINAL next to
what DuckDB says of the same rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from tests.oracle import duckdb_answer

DDL = """
CREATE TABLE e (id BIGINT, k INT, ts TIMESTAMP) WITH (lateness = '20 minutes');
CREATE TABLE p (id BIGINT PRIMARY KEY, k INT, came TIMESTAMP, ts TIMESTAMP)
  WITH (lateness = '45 minutes', lateness_by = 'came');
CREATE TABLE d (k INT, day DATE) WITH (lateness = '1 day');
"""
LATENESS = {"e": timedelta(minutes=20), "p": timedelta(minutes=45), "d": timedelta(days=1)}
SCHEMAS = {
    "e": pa.schema([("id", pa.int64()), ("k", pa.int32()), ("ts", pa.timestamp("us", "UTC"))]),
    "p": pa.schema(
        [("id", pa.int64()), ("k", pa.int32()), ("came", pa.timestamp("us", "UTC")), ("ts", pa.timestamp("us", "UTC"))]
    ),
    "d": pa.schema([("k", pa.int32()), ("day", pa.date32())]),
}
_TIME = {"e": 2, "p": 2, "d": 1}
BEGIN = datetime(2026, 1, 31, 21, tzinfo=UTC)

#: Queries over tables that EMIT FINAL takes, and what they are in DuckDB: {e}, {p} and {ep} are watermarks.
VIEWS = {
    "windows": (
        "SELECT window.start, k, COUNT(*) AS n, SUM(id) s FROM e GROUP BY WINDOW(ts, '30 minutes'), k EMIT FINAL",
        """SELECT time_bucket(INTERVAL 30 MINUTE, ts) AS w, k, COUNT(*), SUM(id) FROM e GROUP BY w, k
        HAVING w + INTERVAL 30 MINUTE <= {e}""",
    ),
    "unseen": (
        "SELECT k, COUNT(*) AS n FROM e GROUP BY WINDOW(ts, '30 minutes'), k HAVING COUNT(*) > 1 EMIT FINAL",
        """SELECT k, COUNT(*) FROM e WHERE ts IS NOT NULL GROUP BY k, time_bucket(INTERVAL 30 MINUTE, ts)
        HAVING time_bucket(INTERVAL 30 MINUTE, ts) + INTERVAL 30 MINUTE <= {e} AND COUNT(*) > 1""",
    ),
    "sliding": (
        """SELECT w.end AS e, COUNT(DISTINCT k) AS n
        FROM (SELECT k, WINDOW(ts, '30 minutes', '10 minutes') AS w FROM e) AS x GROUP BY w EMIT FINAL""",
        """WITH x AS (SELECT k, time_bucket(INTERVAL 10 MINUTE, ts) AS b FROM e WHERE ts IS NOT NULL)
        SELECT w + INTERVAL 30 MINUTE AS e, COUNT(DISTINCT k)
        FROM (SELECT k, UNNEST([b, b - INTERVAL 10 MINUTE, b - INTERVAL 20 MINUTE]) AS w FROM x)
        GROUP BY w HAVING w + INTERVAL 30 MINUTE <= {e}""",
    ),
    "hours": (
        "SELECT DATE_TRUNC('HOUR', came) AS h, MAX(id) AS m FROM p GROUP BY 1 EMIT FINAL",
        "SELECT date_trunc('hour', came) AS h, MAX(id) FROM p GROUP BY h HAVING h < date_trunc('hour', {p}::TIMESTAMP)",
    ),
    "days": (
        "SELECT day, COUNT(*) AS n FROM d GROUP BY day EMIT FINAL",
        "SELECT day, COUNT(*) FROM d GROUP BY day HAVING day::TIMESTAMP < {d}",
    ),
    "rows": ("SELECT id, k FROM e WHERE k <> 1 EMIT FINAL", "SELECT id, k FROM e WHERE k <> 1 AND ts < {e}"),
    "distinct": (
        "SELECT DISTINCT k, DATE_TRUNC('HOUR', ts) AS h FROM e EMIT FINAL",
        "SELECT DISTINCT k, date_trunc('hour', ts) AS h FROM e WHERE h < date_trunc('hour', {e}::TIMESTAMP)",
    ),
    "joined": (
        "SELECT e.ts, e.k, COUNT(*) AS n FROM e JOIN p ON e.k = p.k AND e.ts = p.came GROUP BY e.ts, e.k EMIT FINAL",
        "SELECT e.ts, e.k, COUNT(*) FROM e JOIN p ON e.k = p.k AND e.ts = p.came WHERE e.ts < {ep} GROUP BY e.ts, e.k",
    ),
    "left": (
        """SELECT e.id, p.id AS pid FROM e
        LEFT JOIN p ON e.k = p.k AND DATE_TRUNC('HOUR', e.ts) = DATE_TRUNC('HOUR', p.came) WHERE e.k = 0 EMIT FINAL""",
        """SELECT e.id, p.id FROM e LEFT JOIN p ON e.k = p.k AND date_trunc('hour', e.ts) = date_trunc('hour', p.came)
        WHERE e.k = 0 AND date_trunc('hour', e.ts) < date_trunc('hour', {ep}::TIMESTAMP)""",
    ),
    "either": (
        "SELECT k, ts FROM e UNION ALL SELECT k, came FROM p EMIT FINAL",
        "SELECT * FROM (SELECT k, ts FROM e UNION ALL SELECT k, came FROM p) WHERE ts < {ep}",
    ),
    "except": (
        "SELECT k, ts FROM e EXCEPT SELECT k, came FROM p EMIT FINAL",
        "SELECT * FROM (SELECT k, ts FROM e EXCEPT SELECT k, came FROM p) WHERE ts < {ep}",
    ),
    "first": (
        """SELECT h, id FROM (SELECT id, h, ROW_NUMBER() OVER (PARTITION BY h ORDER BY id) AS r
        FROM (SELECT id, DATE_TRUNC('HOUR', ts) AS h FROM e) AS y) AS x WHERE r = 1 EMIT FINAL""",
        "SELECT date_trunc('hour', ts) AS h, MIN(id) FROM e GROUP BY h HAVING h < date_trunc('hour', {e}::TIMESTAMP)",
    ),
}


class Twin:
    """What the tables hold: rows before the watermark of earlier transactions are not taken."""

    def __init__(self) -> None:
        self.held: dict[str, Counter[tuple[Any, ...]]] = {name: Counter() for name in SCHEMAS}
        self.marks: dict[str, datetime] = {}
        self.late: Counter[str] = Counter()

    def apply(self, changes: dict[str, pa.Table]) -> dict[str, int]:
        """Takes a transaction; returns the late rows of each table."""
        late: Counter[str] = Counter()
        for name, rows in changes.items():
            mark, greatest = self.marks.get(name), None
            for *row, weight in zip(*(c.to_pylist() for c in rows.columns), strict=True):
                time = _time(name, row)
                if mark is not None and time is not None and time < mark:
                    assert weight > 0
                    late[name] += weight
                    continue
                self.held[name][tuple(row)] += weight
                if weight > 0 and time is not None:
                    greatest = time if greatest is None else max(greatest, time)
            if greatest is not None:
                risen = greatest - LATENESS[name]
                self.marks[name] = risen if mark is None else max(mark, risen)
        self.late += late
        return dict(late)

    def tables(self) -> dict[str, pa.Table]:
        """In UTC, without saying so: DuckDB then knows no other zone."""
        made = {}
        for name, schema in SCHEMAS.items():
            rows = [row for row, copies in self.held[name].items() for _ in range(copies)]
            columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
            made[name] = pa.table([_naive(a) for a in arrays], schema.names)
        return made

    def answer(self, view: str) -> pa.Table:
        marks = {name: self._written([name]) for name in SCHEMAS} | {"ep": self._written(["e", "p"])}
        return duckdb_answer(VIEWS[view][1].format(**marks), self.tables())

    def _written(self, names: list[str]) -> str:
        known = [self.marks[name] for name in names if name in self.marks]
        mark = min(known) if len(known) == len(names) else datetime(1, 1, 1)
        return f"TIMESTAMP '{mark.replace(tzinfo=None).isoformat(' ')}'"


def _time(name: str, row: list[Any]) -> datetime | None:
    value = row[_TIME[name]]
    if value is None or isinstance(value, datetime):
        return value
    return datetime(value.year, value.month, value.day, tzinfo=UTC)


def _naive(array: pa.Array) -> pa.Array:
    return array.cast(pa.int64()).cast(pa.timestamp("us")) if pa.types.is_timestamp(array.type) else array


def transactions(seed: int, count: int) -> Iterator[dict[str, pa.Table]]:
    """Rows around a time that passes, some of them late, and deletes of rows that are not before the watermark."""
    rng, twin = random.Random(seed), Twin()
    now, number = BEGIN, 0
    for _ in range(count):
        now += timedelta(minutes=rng.choice((0, 5, 20, 60)))
        changes = {}
        for name in SCHEMAS:
            rows: list[tuple[Any, ...]] = []
            if rng.random() < 0.3:
                continue
            mark = twin.marks.get(name)
            young = [r for r in twin.held[name].elements() if mark is None or (_time(name, [*r]) or now) >= mark]
            rng.shuffle(young)
            for _ in range(rng.randrange(7)):
                if young and rng.random() < 0.25:
                    rows.append((*young.pop(), -1))
                    continue
                number += 1
                ts = None if rng.random() < 0.1 else now + timedelta(minutes=rng.randrange(-90, 30, 10))
                k = rng.randrange(3)
                day = None if ts is None else (ts - timedelta(days=rng.randrange(3))).date()
                row = {"e": (number % 9, k, ts), "p": (number, k, ts, now), "d": (k, day)}[name]
                rows.append((*row, 1))
            columns = list(zip(*rows, strict=True)) if rows else [()] * (len(SCHEMAS[name]) + 1)
            schema = SCHEMAS[name].append(pa.field("_weight", pa.int64()))
            changes[name] = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
        twin.apply(changes)
        yield changes
