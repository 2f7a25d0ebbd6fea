"""The page's views on Spark: transactions as files, answers mirrored, views added while the stream runs."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import freshet
from freshet.demo import make_scenario
from freshet.web.spark_engine import SparkEngine
from tests.web.pages import wait_until

SUMS = "SELECT stock, COUNT(*) AS n, SUM(quantity) AS total FROM bid GROUP BY stock"
MEETING = "SELECT b.id, a.price FROM bid AS b JOIN ask AS a ON b.stock = a.stock AND b.price >= a.price"


def bag(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(r.values()) for r in table.to_pylist())


def test_views_on_spark_are_mirrored(spark: SparkSession) -> None:
    scenario = make_scenario("market", 0.0003)
    copied: Counter[tuple[Any, ...]] = Counter()

    def changed(version: int, deltas: Any) -> None:
        for row in deltas["sums"].to_pylist() if "sums" in deltas else ():
            weight = row.pop("_weight")
            copied[tuple(row.values())] += weight

    db = freshet.connect()
    db.execute(scenario.ddl)
    here = {"sums": db.create_view("sums", SUMS), "meeting": db.create_view("meeting", MEETING)}
    engine = SparkEngine(scenario.ddl, {}, changed, 2, spark=spark)
    try:
        with pytest.raises(freshet.SqlError, match="no column nothing"):
            engine.create("bad", "SELECT nothing FROM bid")
        engine.create("sums", SUMS)
        changes = list(scenario.rounds("sliding", 0.4, 150))[:3]
        for i, transaction in enumerate(changes):
            if i == 2:
                engine.create("meeting", MEETING)  # the query starts again, over all files
            engine.apply(transaction)
            db.apply(transaction)
        wait_until(lambda: all(bag(engine.look(n).table) == bag(v.to_arrow()) for n, v in here.items()), 240)
        assert here["sums"].count() > 4 and here["meeting"].count() > 4
        # reported after the answer has changed
        wait_until(lambda: +copied == bag(here["sums"].to_arrow()) and not -copied)
        wait_until(lambda: engine.progress(engine.query) > 0, 60)  # Spark reports a batch after its end
        health = engine.health()
        assert health["stages"]["all together"] > 0 and health["changes"] > 0
        assert health["stages"]["run it · maintain"] > 0
        flow = health["dataflow"]
        assert flow["shards"] == 2 and [t["name"] for t in flow["tables"]] == ["ask", "bid"]
        assert {s["shard"] for level in flow["levels"] for s in level["shards"]} == {0, 1}
        assert all(s["rows"] > 0 and s["ms"]["maintain"] > 0 for s in flow["levels"][0]["shards"])
        assert {v for level in flow["levels"] for o in level["operators"] for v in o["views"]} == set(here)
        own = json.loads(here["meeting"].explain("json"))["tree"]

        def counted() -> bool:
            engine.refresh()
            assert engine.health()["counters_per_change"] is not None
            there = engine.look("meeting").plan["tree"]
            assert [n["relation"] for n in there] == [n["relation"] for n in own]
            held = [(n.get("tuples", 0), n.get("alive", 0)) for n in there]
            wanted = [(n["tuples"], n["alive"]) for n in own]  # of which any may be on both shards
            pairs = zip(held, wanted, strict=True)
            return all(w[0] <= h[0] <= 2 * w[0] and w[1] <= h[1] <= 2 * w[1] for h, w in pairs)

        wait_until(counted, 60)
        engine.drop("sums")
        assert "sums" not in engine.plans
    finally:
        engine.close()
    assert spark.range(1).count() == 1, "a session that was given is not stopped"
