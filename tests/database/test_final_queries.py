"""Random queries with EMIT FINAL: a query is refused, or no row of its answer ever changes, whatever comes in time."""

from __future__ import annotations

import random

import pytest

import freshet
from tests.late_cases import DDL, transactions
from tests.oracle import RunningSum

_TIMES = (
    "e.ts", "DATE_TRUNC('HOUR', e.ts)", "CAST(e.ts AS DATE)", "e.ts + INTERVAL 30 MINUTES", "MONTH(e.ts)", "e.k",
    "DATE_TRUNC('HOUR', e.ts - INTERVAL 10 MINUTES)", "CAST(CAST(e.ts AS DATE) AS TIMESTAMP)", "HOUR(e.ts)",
)  # fmt: skip
_BOTH = ("p.came", "DATE_TRUNC('HOUR', p.came)", "p.ts", "p.k", "CAST(p.came AS DATE)", "GREATEST(e.ts, p.came)",
         "COALESCE(p.came, e.ts)", "CASE WHEN e.k = 0 THEN e.ts ELSE p.came END")  # fmt: skip
_CONDITIONS = ("e.k = p.k", "e.ts = p.came", "DATE_TRUNC('HOUR', e.ts) = DATE_TRUNC('HOUR', p.came)", "e.ts <= p.came",
               "CAST(e.ts AS DATE) = CAST(p.came AS DATE)", "p.came = e.ts + INTERVAL 30 MINUTES", "e.id = p.id",
               "e.ts = p.ts", "e.ts <=> p.came")  # fmt: skip
_OPERATIONS = ("UNION ALL", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL")


def query(rng: random.Random) -> str:
    pick = rng.choice
    shape = pick(("one", "one", "windows", "join", "join", "join", "both", "numbered", "nested"))
    if shape == "windows":
        slide = pick(("", ", '10 minutes'"))
        above = pick(
            ("w.start, k, COUNT(*) AS n", "k, SUM(id) AS s", "w, MAX(id) AS m", "DATE_TRUNC('HOUR', w.end) AS h")
        )
        group = pick(("w, k", "w, k", "w", "k", "w.end, k, w"))
        return f"SELECT {above} FROM (SELECT id, k, WINDOW(ts, '30 minutes'{slide}) AS w FROM e) AS x GROUP BY {group}"
    if shape == "both":
        sides = (pick(("ts", "DATE_TRUNC('HOUR', ts)")), pick(("came", "DATE_TRUNC('HOUR', came)", "ts")))
        return f"SELECT k, {sides[0]} AS t FROM e {pick(_OPERATIONS)} SELECT k, {sides[1]} AS t FROM p"
    if shape == "numbered":
        over = pick(
            ("PARTITION BY h ORDER BY id", "PARTITION BY k ORDER BY ts", "PARTITION BY k, h ORDER BY id", "ORDER BY ts")
        )
        inner = "SELECT id, k, ts, DATE_TRUNC('HOUR', ts) AS h FROM e"
        call = pick(("ROW_NUMBER()", "COUNT(*)", "SUM(id)"))
        return f"SELECT k, id, h, n FROM (SELECT *, {call} OVER ({over}) AS n FROM ({inner}) AS y) AS x WHERE n < 3"
    if shape == "nested":
        inner = f"SELECT k, {pick(_TIMES)} AS t, COUNT(*) AS n FROM e GROUP BY ALL"
        shown = pick(("t, SUM(n) AS s", "n, COUNT(*) AS c", "t, n, MAX(k) AS m"))
        return f"SELECT {shown} FROM ({inner}) AS x GROUP BY ALL"
    if shape == "one":
        source, values = "e", list(_TIMES)
    else:
        on = " AND ".join(rng.sample(_CONDITIONS, rng.choice((1, 2))))
        kind = pick(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        source, values = f"e {kind} p ON {on}", [*_TIMES, *_BOTH]
    keys = rng.sample(values, rng.choice((1, 2)))
    listed = ", ".join(f"{v} AS c{i}" for i, v in enumerate(keys))
    where = pick(("", "", " WHERE e.k <> 1", f" WHERE {pick(_CONDITIONS)}" if shape == "join" else " WHERE e.id > 2"))
    if rng.random() < 0.5:
        return f"SELECT {pick(('', 'DISTINCT '))}{listed} FROM {source}{where}"
    having = pick(("", "", " HAVING COUNT(*) > 1"))
    return f"SELECT {listed}, COUNT(*) AS n, SUM(e.id) AS s FROM {source}{where} GROUP BY {', '.join(keys)}{having}"


@pytest.mark.parametrize("seed", range(3))
def test_no_final_row_changes(seed: int) -> None:
    rng, db, views = random.Random(seed), freshet.connect(), dict[str, str]()
    for statement in DDL.split(";")[:-1]:
        db.execute(statement)
    refused = 0
    while len(views) < 60:
        sql = f"{query(rng)} EMIT FINAL"
        try:
            db.create_view(f"v{len(views)}", sql)
        except freshet.SqlError as e:
            refused += "may always change" in str(e)
            continue
        views[f"v{len(views)}"] = sql
    assert refused > 20
    sums = {name: RunningSum(db.view(name).to_arrow()) for name in views}
    appeared = 0
    for changes in transactions(seed + 100, 25):
        tx = db.apply(changes)
        for name, sql in views.items():
            delta = tx.deltas[name]
            assert all(weight > 0 for weight in delta["_weight"].to_pylist()), sql
            appeared += len(delta)
            sums[name].add(delta)
            sums[name].equals(db.view(name).to_arrow())
    assert appeared > 200
