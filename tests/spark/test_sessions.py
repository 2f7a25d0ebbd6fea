"""Sessions, rows of a LIMIT without an order, and JSON on one shard and on several: the deltas add up to what one
process answers."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pyarrow as pa
import pytest

import freshet
from benchmarks.local_job import LocalJob
from freshet.spark.maintain import compile_job
from tests.oracle import RunningSum

DDL = "CREATE TABLE t (id INT PRIMARY KEY, k INT, ts TIMESTAMP, s STRING)"
VIEWS = {
    "of_keys": (
        "SELECT k, session_window.start AS b, session_window.end AS e, COUNT(*) AS n FROM t "
        "GROUP BY k, session_window(ts, '3 minutes')"
    ),
    "of_all": "SELECT session_window.start AS b, SUM(id) AS n FROM t GROUP BY session_window(ts, '2 minutes')",
    "least": "SELECT k, id FROM t LIMIT 3",
    "read": "SELECT from_json(s, 'a INT').a AS a, COUNT(*) AS n, to_json(struct(k)) AS j FROM t GROUP BY ALL",
}


@pytest.mark.parametrize("shards", [1, 3])
def test_shards_answer_as_one_process(shards: int) -> None:
    db = freshet.connect()
    db.execute(DDL)
    views = {name: db.create_view(name, sql) for name, sql in VIEWS.items()}
    running = LocalJob(compile_job(VIEWS, DDL, shards, None))
    sums = {name: RunningSum() for name in VIEWS}
    schema = db.query("SELECT * FROM t").schema.append(pa.field("_weight", pa.int64()))
    rng, held = random.Random(4), list[dict[str, Any]]()
    for number in range(12):
        changes = []
        for row in rng.sample(held, min(len(held), rng.randrange(3))):
            held.remove(row)
            changes.append({**row, "_weight": -1})
        for i in range(rng.randrange(1, 5)):
            time = dt.datetime(2024, 2, 29, tzinfo=dt.UTC) + dt.timedelta(seconds=30 * rng.randrange(40))
            text = rng.choice(['{"a": 1}', '{"a": "x"}', "[", None])
            held.append({"id": 10 * number + i, "k": rng.randrange(3), "ts": time, "s": text})
            changes.append({**held[-1], "_weight": 1})
        rows = pa.Table.from_pylist(changes, schema)
        db.apply({"t": rows})
        for name, delta in running.apply({"t": rows}).items():
            if delta.num_rows:
                sums[name].add(delta)
            sums[name].equals(views[name].to_arrow())
