"""The log of a shard over a long stream in which every row leaves after a while: it stays in proportion to the rows
that are there, and a shard made from it alone goes on as if nothing had happened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from freshet.arrow import to_arrow
from freshet.spark.block import from_block, to_block
from freshet.spark.dispatch import shard_keys
from freshet.spark.encode import Encoder
from freshet.spark.level import Level
from freshet.spark.maintain import compile_job
from freshet.spark.shard import Shard
from freshet.spark.transaction import read_block
from freshet.state.arena import Arena
from tests.spark.streams import Sum

LIVE, STEP, BATCHES = 12_000, 3_000, 40


class Value:
    def __init__(self) -> None:
        self.held: tuple[Any, ...] | None = None

    def get(self) -> tuple[Any, ...] | None:
        return self.held

    def update(self, value: tuple[Any, ...]) -> None:
        self.held = value


class Entries:
    def __init__(self) -> None:
        self.held: list[tuple[str, bytes]] = []

    def get(self) -> Iterator[tuple[str, bytes]]:
        return iter(self.held)

    def appendList(self, entries: list[tuple[str, bytes]]) -> None:  # noqa: N802
        self.held += entries

    def clear(self) -> None:
        self.held = []


class Store:
    """Stands for the state store of one shard."""

    def __init__(self) -> None:
        self.log = Entries()

    def getListState(self, name: str, schema: object) -> Entries:  # noqa: N802
        return self.log

    def getValueState(self, name: str, schema: object) -> Value:  # noqa: N802
        return self.__dict__.setdefault(name, Value())  # type: ignore[no-any-return]


def changes(first: int) -> pa.Table:
    """The next rows come and, once the table is full, the oldest go."""
    come, go = np.arange(first, first + STEP), np.arange(first - LIVE, first - LIVE + STEP)
    ids = np.concatenate([come, go[go >= 0]])
    weights = np.where(ids >= first, 1, -1)
    notes = pa.array([f"note {i % 100}" for i in ids.tolist()])
    return pa.table([pa.array(ids), pa.array(ids), notes, pa.array(weights)], ["id", "v", "s", "_weight"])


def test_a_long_stream() -> None:
    sql = "SELECT s, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY s"
    job = compile_job(sql, "CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT, s STRING)", 1, None)
    text, store = job.to_json(), Store()
    (stream,) = job.streams
    total, rewritten = Sum(), 0
    for number in range(BATCHES):
        level = Level(text, 0, None)  # without an arena: every batch makes the shard again from its log
        level.init(cast(StatefulProcessorHandle, store))
        rows = [
            Row(key=r["key"], level=r["level"], stream=r["stream"], payload=r["payload"])
            for made in Encoder(text, "t")(changes(number * STEP).to_batches())
            for r in made.to_pylist()
        ]
        before = len(store.log.held)
        told = list(level.handleInputRows((shard_keys(1)[0],), iter(rows), None))
        rewritten += len(store.log.held) <= before
        live = min((number + 1) * STEP, LIVE)
        shard = Shard(job, 0, 0, Arena())
        logged = shard.load(stream.name, (read_block(shard, n, b) for n, b in store.log.held))
        shard.loaded()
        assert shard.live_rows() == live
        assert logged <= 3 * live, (number, logged)
        compact = sum(len(to_block(part)) for _, part in shard.contents())
        assert sum(len(b) for _, b in store.log.held) <= 3 * compact, number
        for row in told:
            delta = from_block(row.payload, [f.type for f in job.views[0].fields])
            total.add(pa.table([*map(to_arrow, delta.columns), pa.array(delta.weights)], ["s", "n", "total", "w"]))
    assert 3 < rewritten < BATCHES - 3  # compacted again and again, but not at every batch
    there = range(BATCHES * STEP - LIVE, BATCHES * STEP)
    groups = [[i for i in there if i % 100 == s] for s in range(100)]
    assert total.weights == {(f"note {s}", len(g), sum(g)): 1 for s, g in enumerate(groups)}
