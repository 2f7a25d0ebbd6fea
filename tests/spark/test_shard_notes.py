"""The notes of shards about their join trees equal the state of the same views in one process, node by node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import freshet
from benchmarks.local_job import LocalJob
from freshet.demo import make_scenario
from freshet.plans.explain import as_dict
from freshet.spark import profile
from freshet.spark.explain import dataflow
from freshet.spark.maintain import compile_job
from freshet.web.shard_notes import LARGE, ShardNotes

VIEWS = ("Q3", "Q4", "Q5", "Q13", "Q17", "Q18", "Q21")


def sizes(described: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Every node of every tree with its tuples and alive tuples, if they are reported."""
    own = [(n["relation"], n["tuples"], n["alive"]) for n in described.get("tree", []) if "tuples" in n]
    return own + [node for below in described["inputs"].values() for node in sizes(below)]


@pytest.mark.parametrize("shards", [1, 3])
def test_trees_over_shards(shards: int, tmp_path: Path) -> None:
    scenario = make_scenario("tpch", 0.001)
    db = freshet.connect()
    db.execute(scenario.ddl)
    views = {name: db.create_view(name, scenario.queries[name]) for name in VIEWS}
    plans = {name: view.plan for name, view in views.items()}
    running = LocalJob(compile_job(plans, None, shards, None), chunk=10_000)
    first: dict[str, pa.Table] = dict(scenario.fixed)
    for changes in (first, *list(scenario.rounds("sliding", 0.5, 2_000))[:2]):
        given = {name.lower(): rows for name, rows in changes.items()}
        db.apply(given)
        running.apply(given)
    for (_, number), shard in running.shards.items():
        profile.note(str(tmp_path), "nodes", shard=number, trees=shard.trees(), counted=shard.work())
    notes = ShardNotes(tmp_path)
    notes.read()
    standings = notes.standings([plan.root for plan in plans.values()])
    for (name, view), standing in zip(views.items(), standings, strict=True):
        here = sizes(json.loads(view.explain("json")))
        # Rows travel between operators, so that one above another has a node of its own; in one process it has none.
        known = {relation for relation, _, _ in here}
        there = [node for node in sizes(as_dict(plans[name].root, standing)) if node[0] in known]
        assert known and [relation for relation, _, _ in there] == [relation for relation, _, _ in here], name
        if shards == 1:
            assert there == here, name
        else:
            pairs = list(zip(there, here, strict=True))
            assert all(t[1] >= h[1] and t[2] >= h[2] for t, h in pairs), "each tuple is on one shard at least"
    assert notes.tuples > 0 and notes.counted > 0


def test_the_dataflow_has_levels_and_shards_with_their_times(tmp_path: Path) -> None:
    notes, folder = ShardNotes(tmp_path), str(tmp_path)
    assert notes.dataflow() is None
    ddl = "CREATE TABLE a (k BIGINT, x BIGINT); CREATE TABLE b (k BIGINT, y BIGINT)"
    query = "SELECT x, n FROM a JOIN (SELECT k, COUNT(*) AS n FROM b GROUP BY k) AS c ON c.k = a.k"
    profile.note(folder, "job", dataflow=dataflow(compile_job({"v": query}, ddl, 4, None)))
    notes.read()
    flow = notes.dataflow()
    assert flow is not None and flow["shards"] == 4 and flow["tables"] == []
    assert [[o["views"] for o in level["operators"]] for level in flow["levels"]] == [[[]], [["v"]]]
    assert flow["levels"][0]["streams"] == [
        {"sources": ["b"], "columns": ["k"], "spread": "4 cells · row of b: hashed on k"}
    ]
    assert all(level["shards"] == [] for level in flow["levels"])
    profile.note(folder, "encode", table="b", rows=4, seconds=0.1)  # a partition each
    profile.note(folder, "encode", table="b", rows=6, seconds=0.15)
    for shard, seconds in ((2, 0.5), (0, 0.125), (2, 0.25)):
        spent = {"reading": 0.01, "opening": 0.01, "telling": 0.0, "logging": 0.002}
        profile.note(folder, "level", level=0, shard=shard, rows=5, engine=seconds, **spent)
    notes.read()
    flow = notes.dataflow()
    assert flow is not None and flow["tables"] == [{"name": "b", "all": 10, "rows": 10, "ms": 250.0}]
    steps = {"read blocks, open state": 20.0, "emit changes": 0.0, "write the log": 2.0}
    assert flow["levels"][0]["shards"] == [
        {"shard": 0, "rows": 5, "ms": {**steps, "maintain": 125.0}},
        {"shard": 2, "rows": 5, "ms": {**steps, "maintain": 250.0}},
    ]
    profile.note(folder, "job", dataflow=dataflow(compile_job({"w": "SELECT x FROM a"}, ddl, 1, None)))
    notes.read()
    flow = notes.dataflow()
    assert flow is not None and flow["shards"] == 1 and flow["tables"] == [] and flow["levels"][0]["shards"] == []


def test_notes_of_several_processes_are_taken_in_order_of_time(tmp_path: Path) -> None:
    ddl = "CREATE TABLE a (k BIGINT, x BIGINT)"
    described = dataflow(compile_job({"v": "SELECT x FROM a"}, ddl, 1, None))
    encode = {"step": "encode", "at": 2.0, "table": "a", "rows": 4, "seconds": 0.5}
    (tmp_path / "10.jsonl").write_text(json.dumps(encode) + "\n")  # a worker, whose file is read first
    (tmp_path / "20.jsonl").write_text(json.dumps({"step": "job", "at": 1.0, "dataflow": described}) + "\n")
    notes = ShardNotes(tmp_path)
    notes.read()
    flow = notes.dataflow()
    assert flow is not None and flow["tables"] == [{"name": "a", "all": 4, "rows": 4, "ms": 500.0}]


def test_notes_are_read_once_and_cut(tmp_path: Path) -> None:
    notes = ShardNotes(tmp_path)
    notes.read()
    assert notes.paid() == {"counters_per_change": None, "counters_per_change_minute": None}
    folder = str(tmp_path)
    profile.note(folder, "encode", table="t", rows=10, seconds=0.25)
    profile.note(folder, "nodes", shard=0, counted=5, trees={"#0": [[("t", 4, 3)]]})
    profile.note(
        folder, "level", level=0, shard=1, reading=0.1, opening=0.1, engine=0.5, telling=0.0, logging=0.0, rows=10
    )
    for _ in range(2):
        notes.read()
        assert notes.paid() == {"counters_per_change": 0.5, "counters_per_change_minute": 0.5}
    assert notes.spent(1) == {"encode rows": 250, "read blocks, open state": 200, "maintain": 500}
    assert notes.spent(1) == {}
    (file,) = tmp_path.iterdir()
    with file.open("a") as half:
        half.write('{"step": "enc')
    notes.read()
    with file.open("a") as rest:
        rest.write(
            'ode", "at": 0, "table": "t", "rows": 30, "seconds": 0}\n'
            + '{"step": "rebuild", "at": 0}\n' * (LARGE // 20)
        )
    notes.read()
    assert notes.tables == {"t": 40} and file.stat().st_size == 0
    assert notes.paid() == {"counters_per_change": 0.125, "counters_per_change_minute": 0.5}
    profile.note(folder, "encode", table="t", rows=1, seconds=0.0)
    notes.read()
    assert notes.tables == {"t": 41}
