"""Changes by key: whatever the order and the micro-batches they come in, of each key the one with the highest sequence
counts."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from freshet.errors import ChangeError
from freshet.spark import normalize
from freshet.spark.maintain import compile_job
from tests.spark.local_job import LocalJob
from tests.spark.streams import Sum

DDL = "CREATE TABLE t (id BIGINT PRIMARY KEY, s STRING, v INT)"
SQL = "SELECT s, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY s"
SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string()), ("v", pa.int32()), ("_change_type", pa.string()),
                    ("_sequence", pa.int64())])  # fmt: skip

Change = tuple[int, str | None, int | None, str, int]


def feed(changes: list[Change]) -> dict[str, pa.Table]:
    columns = list(zip(*changes, strict=True))
    return {"t": pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)}


def answer(rows: dict[int, tuple[str | None, int | None]]) -> dict[tuple[str | None, int, int], int]:
    groups: dict[str | None, list[int]] = {}
    for s, v in rows.values():
        groups.setdefault(s, []).append(v or 0)
    return {(s, len(values), sum(values)): 1 for s, values in groups.items()}


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_any_order(shards: int, seed: int) -> None:
    """Upserts in random order and batches, and deletes whose key is there: like the same changes sorted."""
    rng = random.Random(seed)
    running, total = LocalJob(compile_job(SQL, DDL, shards, None, ["t"])), Sum()
    best: dict[int, Change] = {}
    for number in range(12):
        batch: list[Change] = []
        for key in rng.sample(range(8), rng.randrange(1, 8)):
            known = best.get(key)
            moment = rng.randrange(number * 10 + 20)
            change: Change = (key, rng.choice(["a", "b"]), rng.randrange(5), "upsert", moment)
            if known is not None and known[3] == "upsert" and rng.random() < 0.4:
                change = (key, None, None, "delete", moment)
            batch.append(change)
            if known is None or moment >= known[4]:
                best[key] = change
        total.add(running.apply(feed(batch))["view"])
        if number % 4 == 3:
            running.forget()
        assert total.weights == answer({k: (c[1], c[2]) for k, c in best.items() if c[3] == "upsert"})


def test_late_changes() -> None:
    running, total = LocalJob(compile_job(SQL, DDL, 2, None, ["t"], True)), Sum()
    steps: list[tuple[list[Change], dict[int, tuple[str, int]]]] = [
        ([(1, "a", 1, "insert", 10), (2, "a", 2, "upsert", 10)], {1: ("a", 1), 2: ("a", 2)}),
        ([(1, "late", 9, "upsert", 9), (2, None, None, "delete", 12)], {1: ("a", 1)}),
        ([(2, "late", 9, "upsert", 11), (2, "late", 9, "insert", 11), (1, None, None, "delete", 3)], {1: ("a", 1)}),
        ([(2, "b", 3, "insert", 13), (1, "a", 1, "upsert", 20)], {1: ("a", 1), 2: ("b", 3)}),
        ([(1, "late", 9, "upsert", 19), (2, "b", 4, "upsert", 13)], {1: ("a", 1), 2: ("b", 4)}),
    ]
    for changes, rows in steps:
        delta = running.apply(feed(changes))["view"]
        total.add(delta)
        assert total.weights == answer(dict(rows))
        running.forget()
    assert running.quarantined == []
    assert running.apply(feed([(1, "a", 1, "upsert", 30)]))["view"].num_rows == 0  # only its sequence changed


def test_keys_that_are_gone_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normalize, "LEAST_GONE", 20)
    running = LocalJob(compile_job(SQL, DDL, 1, None, ["t"]))
    for i in range(0, 200, 10):
        running.apply(feed([(k, "a", 1, "insert", k) for k in range(i, i + 10)]))
        running.apply(feed([(k, None, None, "delete", k + 1) for k in range(i, i + 10)]))
        (shard,) = (s for (level, _), s in running.shards.items() if level == 0)
        assert shard.tables["t/gone"].tuples.live <= 25
    total = Sum()
    total.add(running.apply(feed([(k, "back", 1, "upsert", 100) for k in (5, 195)]))["view"])
    assert total.weights == {("back", 1, 1): 1}  # 195 is remembered to have left later, 5 is not


def test_a_second_row_wherever_it_is() -> None:
    """Two rows of one key that no shard of the view sees together."""
    rows = pa.table({"id": [1, 2], "s": ["a", "b"], "v": [1, 2]})
    again = pa.table({"id": [2], "s": ["x"], "v": [2]})
    sql = "SELECT x.s FROM t AS x JOIN t AS y ON x.s = y.s"
    for shards in (1, 4):
        running = LocalJob(compile_job(sql, DDL, shards, None, (), False, True))
        running.apply({"t": rows})
        with pytest.raises(ChangeError, match=r'second row with primary key \(id=2\).*"s": "x"'):
            running.apply({"t": again})
