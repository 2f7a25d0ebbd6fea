"""Bad changes: the query stops and names them, or they are set aside and the rest is applied."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from benchmarks.local_job import LocalJob
from freshet.errors import ChangeError, PlanError
from freshet.spark import maintain
from freshet.spark.disputed import AGAIN
from freshet.spark.maintain import compile_job
from tests.spark.level_job import LevelJob
from tests.spark.streams import Sum, batch, read_files, run, view_part, write_files

DDL = "CREATE TABLE k (id BIGINT PRIMARY KEY, a INT NOT NULL); CREATE TABLE b (a INT, s STRING)"
VIEWS = {
    "joined": "SELECT k.id, b.s FROM k JOIN b ON k.a = b.a",
    "counted": "SELECT COUNT(*) AS n FROM b",
    "grouped": "SELECT a, COUNT(*) AS n FROM k GROUP BY a",
}
SCHEMAS = {
    "k": pa.schema([("id", pa.int64()), ("a", pa.int64()), ("_weight", pa.int64())]),
    "b": pa.schema([("a", pa.int64()), ("s", pa.string()), ("_weight", pa.int64())]),
}


def rows(table: str, *values: tuple[object, ...]) -> pa.Table:
    columns = list(zip(*values, strict=True)) if values else [()] * len(SCHEMAS[table])
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMAS[table], strict=True)], schema=SCHEMAS[table])


def set_aside(rows: list[tuple[str, str, str]]) -> list[tuple[str, dict[str, Any]]]:
    return sorted(((t, json.loads(row)) for t, row, _ in rows), key=str)


@pytest.mark.parametrize("shards", [1, 4])
def test_the_rest_goes_on(shards: int) -> None:
    running = LocalJob(compile_job(VIEWS, DDL, shards, None, (), True))
    sums = {v: Sum() for v in VIEWS}

    def apply(**changes: pa.Table) -> list[tuple[str, dict[str, Any]]]:
        running.quarantined = []
        for view, delta in running.apply(changes).items():
            sums[view].add(delta)
        return set_aside(running.quarantined)

    bad = apply(
        k=rows("k", (1, 5, 1), (2, 1 << 40, 1), (3, None, 1), (None, 5, 1), (4, 5, 1), (4, 6, 1)),
        b=rows("b", (5, "x", 1), (5, "x", 1), (5, "y", -1), (6, "z", 1), (6, "z", -1), (1, "w", None)),
    )
    assert bad == [
        ("b", {"a": 1, "s": "w", "_weight": None}),
        ("b", {"a": 5, "s": "y", "_weight": -1}),
        ("k", {"id": 2, "a": 1 << 40, "_weight": 1}),
        ("k", {"id": 3, "a": None, "_weight": 1}),
        ("k", {"id": 4, "a": 6, "_weight": 1}),
        ("k", {"id": None, "a": 5, "_weight": 1}),
    ]
    reasons = [reason for _, _, reason in running.quarantined]
    for part in ("second row with primary key (id=4)", "does not hold (a=5, s='y')", "a is NULL", "1099511627776"):
        assert any(part in r for r in reasons), (part, reasons)
    assert sums["joined"].weights == {(1, "x"): 2, (4, "x"): 2}
    running.forget()
    # The wrong old row of an update takes the new one with it; removing three of two copies removes none.
    bad = apply(k=rows("k", (1, 6, -1), (1, 7, 1), (4, 5, -1)), b=rows("b", (5, "x", -3), (5, "x", -1)))
    assert bad == [
        ("b", {"a": 5, "s": "x", "_weight": -3}),
        ("k", {"id": 1, "a": 6, "_weight": -1}),
        ("k", {"id": 1, "a": 7, "_weight": 1}),
    ]
    assert {v: dict(s.weights) for v, s in sums.items()} == {
        "joined": {(1, "x"): 1}, "counted": {(1,): 1}, "grouped": {(5, 1): 1},
    }  # fmt: skip


def test_random_changes_like_a_plain_table() -> None:
    """Of random changes, one a key and batch, exactly those are set aside that a plain table refuses."""
    rng = random.Random(11)
    running = LocalJob(compile_job(VIEWS, DDL, 3, None, (), True))
    held, counted = dict[int, int](), Counter[tuple[Any, ...]]()
    total = Sum()
    for _ in range(8):
        changes, bad = [], []
        for key in rng.sample(range(12), rng.randrange(1, 12)):
            change = (key, rng.randrange(3), rng.choice([1, -1]))
            changes.append(change)
            if change[2] > 0 and key not in held:
                held[key] = change[1]
            elif change[2] < 0 and held.get(key) == change[1]:
                del held[key]
            else:
                bad.append(("k", {"id": key, "a": change[1], "_weight": change[2]}))
        running.quarantined = []
        total.add(running.apply({"k": rows("k", *changes)})["grouped"])
        assert set_aside(running.quarantined) == sorted(bad, key=str)
        counted = Counter(Counter(held.values()).items())
        assert +total.weights == counted


def test_keyed_changes_in_sequence() -> None:
    sequenced = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("_change_type", pa.string()),
                           ("_sequence", pa.int64())])  # fmt: skip

    def feed(*values: tuple[object, ...]) -> dict[str, pa.Table]:
        return {"k": pa.table([pa.array(c, f.type) for c, f in zip(zip(*values, strict=True), sequenced, strict=True)],
                              schema=sequenced)}  # fmt: skip

    running, total = LocalJob(compile_job(VIEWS["grouped"], DDL, 2, None, ["k"], True)), Sum()
    total.add(running.apply(feed((1, 5, "insert", 1), (1, None, "insert", 2), (2, None, "delete", 3)))["view"])
    total.add(running.apply(feed((1, None, "delete", 5), (1, None, "delete", 4), (1, 7, "sold", 6)))["view"])
    total.add(running.apply(feed((1, 8, "insert", 7), (1, 9, "upsert", 8), (2, 3, "upsert", 2)))["view"])
    assert total.weights == {(9, 1): 1}
    assert [row for _, row in set_aside(running.quarantined)] == [
        {"id": 1, "a": 7, "_change_type": "sold", "_sequence": 6},
        {"id": 1, "a": None, "_change_type": "insert", "_sequence": 2},
    ]


@pytest.mark.parametrize("begun", ["stop", "quarantine", "sequence"])
def test_a_filter_without_a_value(tmp_path: Path, begun: str) -> None:
    """A row on which some view's filter cannot be computed is set aside, once, and nothing of it is sent before."""
    views = {"grouped": VIEWS["grouped"], "divided": "SELECT id, a FROM k WHERE 10 / a > 1"}
    job = compile_job(views, DDL, 2, None, ["k"] if begun == "sequence" else (), begun == "quarantine")
    running = LevelJob(job, tmp_path)
    running.turn(job, True)
    changes = rows("k", (1, 5, 1), (2, 0, 1), (3, 4, 1), (4, 0, 1), (5, 100, 1))
    if begun == "sequence":
        changes = changes.append_column("_sequence", pa.array([1, 2, 3, 4, 5]))
    deltas, sums = running.apply({"k": changes}), {v: Sum() for v in views}
    for view, total in sums.items():
        total.add(deltas[view])
    assert sums["grouped"].weights == {(5, 1): 1, (4, 1): 1, (100, 1): 1}
    assert sums["divided"].weights == {(1, 5): 1, (3, 4): 1}
    assert sorted(json.loads(r["row"])["id"] for r in deltas["_quarantine"].to_pylist()) == [2, 4]
    running.turn(job, False)
    with pytest.raises(ChangeError, match="division by zero"):
        running.apply({"k": changes[1:2]})


def test_stopping_names_the_row() -> None:
    running = LocalJob(compile_job(VIEWS, DDL, 2, None))
    with pytest.raises(ChangeError, match=r'table k, row 1: a: .*\(the row is {"id": 2, "a": 1099511627776'):
        running.apply({"k": rows("k", (1, 5, 1), (2, 1 << 40, 1))})
    with pytest.raises(PlanError, match="give the view another"):
        compile_job({"_quarantine": VIEWS["grouped"]}, DDL, 2, None)


class Bags:
    """Two bags and random changes of them, some of which remove rows that do not exist."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.held: dict[str, Counter[tuple[int, str]]] = {"b": Counter(), "c": Counter()}

    def step(self, bad: bool) -> tuple[dict[str, pa.Table], list[tuple[str, tuple[int, str]]]]:
        """Changes, one of each row at most, and those that cannot be applied."""
        changes, wrong = dict[str, pa.Table](), list[tuple[str, tuple[int, str]]]()
        for name, held in self.held.items():
            rows = []
            for row in self.rng.sample([(a, s) for a in range(3) for s in "xy"], self.rng.randrange(1, 6)):
                weight = self.rng.choice([1, 2, -1, -2])
                if held[row] + weight < 0:
                    if not bad:
                        continue
                    wrong.append((name, row))
                else:
                    held[row] += weight
                rows.append((*row, weight))
            changes[name] = rows_of_b(*rows)
        return changes, wrong

    def joined(self) -> Counter[tuple[str, str]]:
        counts = Counter[tuple[str, str]]()
        for (a, s), n in self.held["b"].items():
            for (other, t), m in self.held["c"].items():
                counts[s, t] += n * m * (a == other)
        return +counts


def rows_of_b(*values: tuple[object, ...]) -> pa.Table:
    return rows("b", *values)


@pytest.mark.parametrize("begun", ["stop", "quarantine"])
@pytest.mark.parametrize("sql", ["SELECT b.s, c.s AS t FROM b JOIN c ON b.a = c.a",
                                 "SELECT b.s, c.s AS t FROM b, c WHERE b.a + 0 * c.a = c.a"])  # fmt: skip
@pytest.mark.parametrize("shards", [1, 4])
def test_on_error_may_change(tmp_path: Path, shards: int, sql: str, begun: str) -> None:
    """A stopped query resumes by setting aside the change that stopped it, and stops again at the next bad change,
    however it began."""
    ddl = "CREATE TABLE b (a INT, s STRING); CREATE TABLE c (a INT, s STRING)"
    job = compile_job(sql, ddl, shards, {"b": 5, "c": 4}, (), begun == "quarantine")
    running, bags, total = LevelJob(job, tmp_path / "checkpoint", tmp_path / "arena"), Bags(shards), Sum()
    stopped = 0
    for number in range(12):
        changes, wrong = bags.step(number % 2 == 1)
        running.turn(job, False)
        if wrong:
            with pytest.raises(ChangeError, match="removes a row the table does not hold"):
                running.apply(changes)
            running.turn(job, True)
            stopped += 1
        deltas = running.apply(changes)
        total.add(deltas.get("view", rows_of_b().select(["s", "s", "_weight"])))
        assert total.weights == bags.joined()
        rejected = [] if "_quarantine" not in deltas else deltas["_quarantine"].to_pylist()
        parsed = [(r["table"], json.loads(r["row"])) for r in rejected]
        assert sorted((t, (r["a"], r["s"])) for t, r in parsed) == sorted(wrong)
    assert stopped > 2


MANY_WAYS = {
    "joined": "SELECT b.s, c.s AS t FROM b JOIN c ON b.a = c.a",
    "by_s": "SELECT s, COUNT(*) AS n FROM b GROUP BY s",
    "by_a": "SELECT a, COUNT(*) AS n FROM b WHERE a > 0 GROUP BY a",
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shards", [2, 4])
def test_a_table_read_in_several_ways(tmp_path: Path, shards: int, seed: int) -> None:
    """If the query began without that level, no shard checks changes for all views: a change that one shard refuses is
    set aside for all when the batch is run again."""
    ddl = "CREATE TABLE b (a INT, s STRING); CREATE TABLE c (a INT, s STRING)"
    job = compile_job(MANY_WAYS, ddl, shards, {"b": 5, "c": 4})
    running, bags, sums = LevelJob(job, tmp_path / "checkpoint"), Bags(seed), {v: Sum() for v in MANY_WAYS}
    started_again = 0
    for number in range(30):
        changes, wrong = bags.step(number % 2 == 1)
        running.turn(job, bool(wrong))
        deltas: dict[str, pa.Table] = {}
        while wrong and not deltas:
            try:
                deltas = running.apply(changes)
            except ChangeError as e:
                if AGAIN not in str(e):
                    raise
                started_again += 1
        deltas = deltas or running.apply(changes)
        for view, total in sums.items():
            total.add(deltas.get(view, rows_of_b()[:0]))
        rejected = [] if "_quarantine" not in deltas else deltas["_quarantine"].to_pylist()
        parsed = [(r["table"], json.loads(r["row"])) for r in rejected]
        aside = sorted((t, (r["a"], r["s"])) for t, r in parsed)
        # Each view sees only a part of b: a surplus row for one view may be no row for others.
        assert {x for x in aside if x[0] == "c"} == {x for x in wrong if x[0] == "c"}
        for table, row in aside:
            if (table, row) not in wrong:  # set aside together with one that looks the same
                weight = next(r["_weight"] for r in (x[1] for x in parsed) if (r["a"], r["s"]) == row)
                bags.held[table][row] -= weight
        for table, row in wrong:
            assert (table, row) in aside
        held = +bags.held["b"]
        assert sums["joined"].weights == bags.joined()
        assert sums["by_s"].weights == Counter(Counter(s for (_, s), n in held.items() for _ in range(n)).items())
        assert sums["by_a"].weights == Counter(Counter(a for (a, _), n in held.items() for _ in range(n) if a).items())
    assert started_again


def test_changes_that_cannot_be_quarantined() -> None:
    views = {"by_a": "SELECT a, COUNT(*) AS n FROM b GROUP BY a", "by_s": "SELECT s, COUNT(*) AS n FROM b GROUP BY s"}
    job = compile_job(views, DDL, 2, None)
    running = LevelJob(job)
    running.apply({"b": rows("b", (5, "x", 1))})
    running.turn(job, True)
    assert running.apply({"b": rows("b", (1 << 40, "y", 1))})["_quarantine"].num_rows == 1
    with pytest.raises(ChangeError, match=r"table b: removes a row .*began with on_error='stop' and without"):
        running.apply({"b": rows("b", (7, "y", -1))})


@pytest.mark.timeout(900)
def test_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """A bad row stops the stream with a message that names it, and nothing is lost: after a correction, the stream
    continues. If it is set aside, it is emitted once in addition to the answers."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    first, fine = {"k": rows("k", (1, 5, 1), (2, 5, 1))}, {"k": rows("k", (1, 5, -1), (3, 5, 1))}
    wrong = {
        (7, 5, -1): r"table k.*removes a row the table does not hold \(id=7, a=5\)",
        (8, 1 << 40, 1): r"table k, row 2: a: .*1099511627776",
        (2, 6, 1): r"table k.*second row with primary key \(id=2\)",
    }
    write_files(tmp_path / "in", {"k": SCHEMAS["k"]}, [first])

    def again(kind: str) -> None:
        streams = read_files(spark, tmp_path / "in", ["k"])
        changes = maintain(
            spark, VIEWS["grouped"], streams, schema=DDL, shards=2, arena=None, on_error=kind, check_keys=True
        )
        run(changes, tmp_path / kind, tmp_path / f"{kind}-checkpoint")

    for row, reason in wrong.items():
        write_files(tmp_path / "in", {"k": SCHEMAS["k"]}, [{"k": rows("k", (1, 5, -1), (3, 5, 1), row)}], 1)
        with pytest.raises(StreamingQueryException, match=reason):
            again("stop")
    write_files(tmp_path / "in", {"k": SCHEMAS["k"]}, [{"k": rows("k", (1, 5, -1), (3, 5, 1), *wrong)}], 1)
    again("quarantine")
    write_files(tmp_path / "in", {"k": SCHEMAS["k"]}, [fine], 1)
    again("stop")
    for kind in ("stop", "quarantine"):
        total = Sum()
        for number in (0, 1):
            emitted = batch(tmp_path / kind, number)
            total.add(emitted if kind == "stop" else view_part(emitted, "view"))
        assert total.weights == {(5, 2): 1}, kind
    aside = view_part(batch(tmp_path / "quarantine", 1), "_quarantine").to_pylist()
    assert set_aside([(r["table"], r["row"], r["reason"]) for r in aside]) == sorted(
        (("k", {"id": i, "a": a, "_weight": weight}) for i, a, weight in wrong), key=str
    )
