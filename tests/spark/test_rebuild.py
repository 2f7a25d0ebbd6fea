"""A checkpoint that is rebuilt goes on as the new query: with other shards, other views, new tables and columns."""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from freshet.errors import StateError
from freshet.job import read_job
from freshet.job.run import JobRun
from freshet.logical.kinds import JoinKind
from freshet.plans.model import QueryPlan
from freshet.spark import growth, maintain, read_materialized, rebuild, snapshot
from freshet.spark.job import Job, fingerprint
from tests.oracle import duckdb_answer, same_bag
from tests.spark.streams import Sum, batch, read_files, run, view_part, write_files

DDL = """
CREATE TABLE customer (id BIGINT PRIMARY KEY, name STRING, city STRING);
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, total BIGINT);
CREATE TABLE item (orders BIGINT, part STRING, n INT);
"""
SCHEMAS = {
    "customer": pa.schema([("id", pa.int64()), ("name", pa.string()), ("city", pa.string()), ("_weight", pa.int64())]),
    "orders": pa.schema([("id", pa.int64()), ("customer", pa.int64()), ("total", pa.int64()), ("_weight", pa.int64())]),
    "item": pa.schema([("orders", pa.int64()), ("part", pa.string()), ("n", pa.int32()), ("_weight", pa.int64())]),
}
CITIES = """SELECT c.city, COUNT(*) AS n, SUM(o.total) AS total FROM customer c JOIN orders o ON o.customer = c.id
GROUP BY c.city"""
ROWS = """SELECT c.name, o.id, i.part, i.n FROM customer c JOIN orders o ON o.customer = c.id
JOIN item i ON i.orders = o.id"""
LARGE = CITIES.replace("GROUP", "WHERE o.total > 5 GROUP")
NUMBER = "SELECT COUNT(*) AS n FROM orders"


MOST = 5  # shards
SIZES = import_module("freshet.spark.sizes")  # whose name in the package is the function
MAINTAIN = import_module("freshet.spark.maintain")


class Tables:
    """Rows in memory, and random changes of them as transactions."""

    def __init__(self, seed: int) -> None:
        self.random, self.rows = random.Random(seed), {name: Counter[tuple[Any, ...]]() for name in SCHEMAS}

    def transaction(self, tables: Mapping[str, Any] = SCHEMAS) -> dict[str, pa.Table]:
        changed = {}
        for name in tables:
            change = Counter[tuple[Any, ...]]()
            held = list(self.rows[name].elements())
            for row in self.random.sample(held, len(held) // 4):
                change[row] -= 1
            keys = {row[0] for row in (self.rows[name] + change)} | {row[0] for row in held}
            for _ in range(12):
                row = self._row(name)
                if name == "item" or row[0] not in keys:
                    change[row] += 1
                    keys.add(row[0])
            self.rows[name].update(change)
            self.rows[name] = +self.rows[name]
            columns = zip(*((*row, n) for row, n in change.items() if n), strict=True)
            changed[name] = pa.table(
                [pa.array(c, f.type) for c, f in zip(columns, SCHEMAS[name], strict=True)], SCHEMAS[name].names
            )
        return changed

    def _row(self, name: str) -> tuple[Any, ...]:
        draw = self.random.randrange
        if name == "customer":
            return draw(30), f"name {draw(9)}", f"city {draw(4)}" if draw(9) else None
        return (draw(80), draw(30), draw(10)) if name == "orders" else (draw(80), f"part {draw(5)}", draw(3))

    def arrow(self) -> dict[str, pa.Table]:
        found = {}
        for name, schema in SCHEMAS.items():
            rows = list(self.rows[name].elements())
            fields = [f for f in schema if f.name != "_weight"]
            found[name] = pa.table(
                [pa.array([r[i] for r in rows], f.type) for i, f in enumerate(fields)], [f.name for f in fields]
            )
        return found


class Stream:
    """A query over files, one transaction a micro-batch, with the sum of the deltas of each view."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int) -> None:
        self.spark, self.folder, self.tables = spark, folder, Tables(seed)
        self.written, self.sums = 0, dict[str, Sum]()
        self.checkpoint = folder / "checkpoint"

    def write(self, transactions: int, tables: Mapping[str, Any] = SCHEMAS) -> None:
        steps = [self.tables.transaction(tables) for _ in range(transactions)]
        write_files(self.folder / "in", SCHEMAS, steps, self.written)
        self.written += transactions

    def maintained(self, views: Mapping[str, str], shards: int | None, ddl: str = DDL, **other: Any) -> Any:
        self.spark.conf.set("spark.sql.shuffle.partitions", str(shards or MOST))
        names = [n for n in SCHEMAS if any(n in sql for sql in views.values())]
        streams = read_files(self.spark, self.folder / "in", names)
        return maintain(
            self.spark, dict(views), streams, schema=ddl, shards=shards,
            sizes=other.pop("sizes", None if shards is None else {}),
            arena=str(self.folder / "arena"), checkpoint=str(self.checkpoint), **other,
        )  # fmt: skip

    def run(self, views: Mapping[str, str], shards: int | None, **other: Any) -> None:
        """Runs the query over what is new, and compares the sums of its deltas, and its checkpoint, with DuckDB."""
        out = self.folder / "out"
        before = {p.name for p in out.glob("batch=*")}
        run(self.maintained(views, shards, **other), out, self.checkpoint)
        for new in sorted({p.name for p in out.glob("batch=*")} - before):
            rows = batch(out, int(new.removeprefix("batch=")))
            for view in views:
                self.sums.setdefault(view, Sum()).add(view_part(rows, view))
        for view, sql in views.items():
            expected = duckdb_answer(sql, self.tables.arrow())
            weights = Counter({row: n for row, n in self.sums[view].weights.items() if n})
            assert weights == Counter(zip(*(c.to_pylist() for c in expected.columns), strict=True)), view
            same_bag(snapshot(self.spark, str(self.checkpoint), view).toArrow(), expected)


@pytest.mark.timeout(900)
def test_other_shards_and_views(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, 1)
    first = {"cities": CITIES, "rows": ROWS}
    stream.write(3)
    stream.run(first, 1)
    with pytest.raises(StateError, match="shards: 1 then, 3 now"):
        stream.maintained(first, 3)
    stream.write(2)
    stream.run(first, 3, rebuild=True)
    stream.write(1)
    stream.run(first, 3)
    changed = {"cities": LARGE, "rows": ROWS, "number": NUMBER}
    stream.write(1)
    stream.run(changed, 2, rebuild=True)
    stream.write(2)
    stream.run(changed, 2)


def test_a_checkpoint_with_a_wrong_plan_is_refused_and_can_be_rebuilt(spark: SparkSession, tmp_path: Path) -> None:
    """Earlier versions took a row of which nothing is read to satisfy all comparisons if it satisfies the first."""
    stream = Stream(spark, tmp_path, 7)
    views = {
        "near": "SELECT i.part FROM item i JOIN orders o ON i.orders = o.id AND i.n < o.total AND i.n < o.customer"
    }
    stream.write(2)
    stream.run(views, 1)
    path = stream.checkpoint / "freshet" / "query.json"
    kept = json.loads(path.read_text())
    job = wrongly_planned(Job.from_text(kept["job"]))
    path.write_text(json.dumps({**kept, "job": job.to_text(), "fingerprint": fingerprint(job)}))
    with pytest.raises(StateError, match=r"has planned some views wrongly.*\n.*give rebuild=True"):
        stream.maintained(views, 1)
    stream.write(1)
    stream.run(views, 1, rebuild=True)
    stream.write(1)
    stream.run(views, 1)


def wrongly_planned(job: Job) -> Job:
    (operator,) = job.operators
    assert isinstance(operator.plan, QueryPlan)
    nodes = [
        n if n.edge is None else replace(n, output=False, edge=replace(n.edge, kind=JoinKind.SEMI))
        for n in operator.plan.nodes
    ]
    assert any(n.edge and n.edge.comparison and n.edge.comparison.second for n in nodes)
    return replace(job, operators=(replace(operator, plan=replace(operator.plan, nodes=tuple(nodes))),))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_new_tables_and_columns(spark: SparkSession, tmp_path: Path) -> None:
    """A table that no view has read is read from its beginning; a new column is NULL in the rows that are there."""
    stream = Stream(spark, tmp_path, 2)
    stream.write(2)
    stream.run({"cities": CITIES}, 2)
    stream.write(1)
    stream.run({"rows": ROWS.replace("c.name", "c.id AS name")}, 1, rebuild=True)
    ddl = DDL.replace("total BIGINT", "total BIGINT, note STRING")
    noted = "SELECT note, COUNT(*) AS n FROM orders GROUP BY note"
    stream.write(1)
    out = run(stream.maintained({"notes": noted}, 1, ddl, rebuild=True), tmp_path / "notes", stream.checkpoint)
    assert out.exception() is None
    (row,) = snapshot(spark, str(stream.checkpoint), "notes").collect()
    assert tuple(row) == (None, stream.tables.rows["orders"].total())


@pytest.mark.timeout(900)
def test_sequences_and_quarantine(spark: SparkSession, tmp_path: Path) -> None:
    """Rows keep their sequences, and removed keys theirs: a change that comes late has no effect after it either."""
    ddl = "CREATE TABLE t (id BIGINT PRIMARY KEY, a INT)"
    schema = pa.schema([("id", pa.int64()), ("a", pa.int32()), ("_change_type", pa.string()), ("at", pa.int64())])
    changes: list[list[tuple[Any, ...]]] = [
        [(1, 10, "upsert", 5), (2, 20, "upsert", 5), (3, 30, "upsert", 5), (3, None, "delete", 8)],
        [(1, 11, "upsert", 4), (2, 21, "upsert", 9), (3, 31, "upsert", 7), (4, 40, "upsert", 1)],
        [(3, 33, "upsert", 10), (2, None, "delete", 8), (4, None, "delete", 2)],
    ]
    for i, rows in enumerate(changes):
        columns: Any = zip(*rows, strict=True)
        table = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema.names)
        write_files(tmp_path / "in", {"t": schema}, [{"t": table}], i)
        spark.conf.set("spark.sql.shuffle.partitions", str(i + 1))
        kept = maintain(
            spark, {"v": "SELECT a, COUNT(*) AS n FROM t GROUP BY a"}, read_files(spark, tmp_path / "in", ["t"]),
            schema=ddl, shards=i + 1, sizes={}, sequence="at", on_error="quarantine" if i else "stop",
            arena=str(tmp_path / "arena"), checkpoint=str(tmp_path / "checkpoint"), rebuild=True,
        )  # fmt: skip
        run(kept, tmp_path / "out", tmp_path / "checkpoint")
    found = Counter(tuple(r) for r in snapshot(spark, str(tmp_path / "checkpoint"), "v").collect())
    assert found == Counter([(10, 1), (21, 1), (33, 1)])


@pytest.mark.timeout(900)
def test_what_cannot_be_rebuilt_is_refused_and_nothing_changes(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, 3)
    stream.write(2)
    views = {"cities": LARGE}
    stream.run(views, 2)
    before = sorted(p.relative_to(tmp_path) for p in stream.checkpoint.rglob("*"))
    refused: list[tuple[dict[str, Any], str]] = [
        ({"views": {"names": "SELECT name FROM customer"}}, "table customer: .*name was not read before"),
        ({"views": {"cities": CITIES}}, "table orders: .*rows were filtered"),
        ({"ddl": DDL.replace("total BIGINT", "total INT")}, "column total was BIGINT, is INT"),
        ({"ddl": DDL.replace("total BIGINT", "total BIGINT, x INT NOT NULL")}, "column x is new and NOT NULL"),
        ({"sequence": {"orders": "total"}}, "sequence was None, is total"),
    ]
    for other, message in refused:
        given = {"views": views, **other}
        with pytest.raises(StateError, match=message):
            stream.maintained(given.pop("views"), 2, rebuild=True, **given)
    assert sorted(p.relative_to(tmp_path) for p in stream.checkpoint.rglob("*")) == before
    assert not list(tmp_path.glob("checkpoint.*"))
    stream.write(1)
    stream.run(views, 2, rebuild=True)
    assert not list(tmp_path.glob("checkpoint.*")), "rebuilt, though nothing differs"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_interrupted(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first rename the checkpoint is as it was; between the two, the next start does the second."""
    stream = Stream(spark, tmp_path, 4)
    stream.write(1)
    stream.run({"cities": CITIES}, 1)

    def fail(*_: object) -> None:
        raise OSError("interrupted")

    with monkeypatch.context() as patch:
        patch.setattr(rebuild, "_take_place", fail)
        with pytest.raises(OSError, match="interrupted"):
            stream.maintained({"cities": LARGE}, 2, rebuild=True)
    stream.write(1)
    stream.run({"cities": CITIES}, 1)

    def half(checkpoint: str) -> None:
        os.rename(checkpoint, checkpoint + rebuild.BEFORE)
        raise OSError("interrupted")

    with monkeypatch.context() as patch:
        patch.setattr(rebuild, "_swap", half)
        with pytest.raises(OSError, match="interrupted"):
            stream.maintained({"cities": LARGE}, 2, rebuild=True)
    assert not stream.checkpoint.exists()
    with pytest.raises(StateError, match="not yet emitted"):
        stream.maintained({"cities": CITIES}, 2, rebuild=True)
    stream.write(1)
    stream.run({"cities": LARGE}, 2)


def _shards(folder: Path) -> int:
    return int(json.loads((folder / "checkpoint" / "freshet" / "query.json").read_text())["shards"])


@pytest.mark.timeout(900)
def test_outgrown_shards(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where nobody gives their number, there are more of them when the rows need twice as many."""
    monkeypatch.setattr(SIZES, "A_SHARD", 40)
    monkeypatch.setattr(growth, "A_SHARD", 40)
    stream, views = Stream(spark, tmp_path, 6), {"cities": CITIES, "rows": ROWS}
    stream.write(1)
    stream.run(views, None, rebuild=True)
    assert _shards(tmp_path) == 1
    stream.write(2)
    stream.run(views, None, rebuild=True)
    assert _shards(tmp_path) == 1, "chosen at the start, and its rows were counted before this run"
    stream.write(1)
    stream.run(views, None)
    assert _shards(tmp_path) == 1 and "moves to" not in caplog.text, "a query that is not rebuilt stays"
    held = sum(t.num_rows for t in stream.tables.arrow().values())
    assert held > 40
    stream.write(1)
    stream.run(views, None, rebuild=True)
    needed = min(MOST, -(-held // 40))
    assert _shards(tmp_path) == needed > 1
    assert (
        f"freshet: {held} rows on 1 shard are more than they are for (40 each); the state moves to {needed}"
        in caplog.text
    )
    kept = json.loads((tmp_path / "checkpoint" / "freshet" / "sizes.json").read_text())
    assert sum(kept.values()) == held
    stream.write(1)
    stream.run({"cities": LARGE, "rows": ROWS}, None, rebuild=True)
    assert _shards(tmp_path) == needed, "other views on as many shards"


JOB = """
SET trigger = 'available now';
CREATE TABLE b (a INT, s STRING) USING json OPTIONS (path 'in', changes '_weight', maxFilesPerTrigger '1');
CREATE MATERIALIZED VIEW by_a AS SELECT a, COUNT(*) AS n FROM b GROUP BY a;
CREATE SINK kept FROM by_a USING materialized OPTIONS (path 'kept');
"""


@pytest.mark.timeout(900)
def test_job_file(spark: SparkSession, tmp_path: Path) -> None:
    """The copy that a sink maintains follows the changed view."""
    (tmp_path / "in").mkdir()
    texts = [JOB, JOB.replace("GROUP", "WHERE a > 1 GROUP")]
    texts.append(texts[1].replace("'kept'", "'other'"))
    texts.append(texts[1] + "CREATE SINK late FROM by_a USING materialized OPTIONS (path 'late');")
    rows = [(1, "x", 1), (2, "y", 1), (2, "z", 1), (1, "x", 1), (2, "y", -1)]
    for i, row in enumerate(rows):
        (tmp_path / "in" / f"{i}.json").write_text(json.dumps(dict(zip(("a", "s", "_weight"), row, strict=True))))
        job, mistakes = read_job(texts[i > 2], tmp_path)
        assert not mistakes
        made = JobRun(
            spark, job, shards=1 + (i > 2), checkpoint=str(tmp_path / "checkpoint"), arena=str(tmp_path / "arena"),
            rebuild=i == 3,
        )  # fmt: skip
        made.wait(threading.Event(), lambda progress, sinks: None)
        found = Counter(tuple(r) for r in read_materialized(spark, str(tmp_path / "kept")).collect())
        held = Counter(r[0] for r in rows[: i + 1]) - Counter({r[0]: 2 for r in rows[: i + 1] if r[2] < 0})
        assert found == Counter({(a, n): 1 for a, n in held.items() if i < 3 or a > 1})
    for text, message in ((texts[2], "sink kept: path was"), (texts[3], "sink late: new, of a view that is not")):
        job, _ = read_job(text, tmp_path)
        with pytest.raises(StateError, match=message):
            JobRun(spark, job, shards=2, checkpoint=str(tmp_path / "checkpoint"), rebuild=True)


@pytest.mark.timeout(900)
def test_job_file_whose_shards_follow_its_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SIZES, "A_SHARD", 2)
    monkeypatch.setattr(growth, "A_SHARD", 2)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    (tmp_path / "in").mkdir()
    held = Counter[int]()
    for i, shards in enumerate([1, 1, 2, 2]):
        rows = [{"a": a, "s": "x", "_weight": 1} for a in range(1 + 2 * (i == 1))]
        held.update(range(len(rows)))
        (tmp_path / "in" / f"{i}.json").write_text("\n".join(map(json.dumps, rows)))
        job, _ = read_job("SET shards = 'auto';" + JOB, tmp_path)
        made = JobRun(
            spark, job, shards=None, checkpoint=str(tmp_path / "checkpoint"), arena=str(tmp_path / "arena"),
            rebuild=i != 3,
        )  # fmt: skip
        made.wait(threading.Event(), lambda progress, sinks: None)
        found = {tuple(r) for r in read_materialized(spark, str(tmp_path / "kept")).collect()}
        assert found == set(held.items()) and _shards(tmp_path) == shards


RUNNING = """
SET trigger = '0 seconds';
SET shards = 'auto';
CREATE TABLE b (a INT, s STRING) USING json OPTIONS (path 'in', changes '_weight', maxFilesPerTrigger '1');
CREATE MATERIALIZED VIEW by_a AS SELECT a % 5 AS a, COUNT(*) AS n FROM b GROUP BY a % 5;
CREATE SINK kept FROM by_a USING materialized OPTIONS (path 'kept');
CREATE SINK sent FROM by_a USING json OPTIONS (path 'sent');
"""
FILES = 10


@pytest.mark.parametrize("movable", [True, False])
@pytest.mark.timeout(900)
def test_a_running_job_moves_to_more_shards(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, movable: bool
) -> None:
    """While files keep coming; sinks get every change once. Where the state cannot be rebuilt, the job goes on as it
    was."""
    monkeypatch.setattr(SIZES, "A_SHARD", 4)
    monkeypatch.setattr(growth, "A_SHARD", 4)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    (tmp_path / "in").mkdir()
    held, on, stop = Counter[int](), dict[int, int](), threading.Event()

    def write(number: int) -> None:
        rows = [{"a": 10 * number + a, "s": "x", "_weight": 1} for a in range(number % 5 + 1)]
        held.update(range(len(rows)))
        draft = tmp_path / "draft"
        draft.write_text("\n".join(map(json.dumps, rows)))
        draft.rename(tmp_path / "in" / f"{number}.json")

    def watch(changes: DataFrame, number: int, query: str) -> None:
        if number not in on and not changes.isEmpty():
            on[number] = _shards(tmp_path)
            if len(on) + 1 < FILES:
                write(len(on) + 1)
            elif len(on) == FILES:
                stop.set()

    def refuse(*_: object) -> None:
        raise StateError("cannot be rebuilt")

    if not movable:
        monkeypatch.setattr(MAINTAIN, "rebuild_state", refuse)
    write(0)
    job, mistakes = read_job(RUNNING, tmp_path)
    assert not mistakes
    place, arena = str(tmp_path / "checkpoint"), str(tmp_path / "arena")
    made = JobRun(spark, job, shards=None, checkpoint=place, arena=arena, watchers=[watch])
    write(1)  # one more than have been seen: the query is never idle when it is to move
    made.wait(stop, lambda progress, sinks: None)
    shards = [on[number] for number in sorted(on)]
    assert shards[0] == 1 and shards[-1] == _shards(tmp_path) == (2 if movable else 1)
    assert {tuple(r) for r in read_materialized(spark, str(tmp_path / "kept")).collect()} == set(held.items())
    total = Counter[tuple[int, int]]()
    for row in spark.read.json(str(tmp_path / "sent")).collect():
        total[row.a, row.n] += row["_weight"]
    assert +total == Counter(held.items()) and not -total
