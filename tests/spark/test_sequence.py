"""Changes by key: in whatever order, micro-batches and number of copies they arrive, and whatever is restarted in
between, the greatest change of each key wins."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from benchmarks.local_job import LocalJob
from freshet.errors import ChangeError, PlanError
from freshet.spark import cache, level, log, maintain, snapshot
from freshet.spark.maintain import compile_job
from tests.spark.level_job import LevelJob
from tests.spark.streams import Sum, batch, read_files, run, view_part, write_files

DDL = "CREATE TABLE t (id BIGINT PRIMARY KEY, s STRING, v INT)"
VIEWS = {
    "every": "SELECT id, s, v FROM t",
    "sums": "SELECT s, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY s",
    "some": "SELECT v, COUNT(*) AS n FROM t WHERE v > 1 GROUP BY v",
}
SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string()), ("v", pa.int32()), ("_change_type", pa.string()),
                    ("_sequence", pa.int64())])  # fmt: skip
KEYS = range(5)

Change = tuple[int | None, str | None, int | None, str, int]
Rows = dict[int, tuple[str | None, int | None]]


def table(changes: list[Change]) -> pa.Table:
    columns = list(zip(*changes, strict=True)) if changes else [()] * len(SCHEMA)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def feed(changes: list[Change]) -> dict[str, pa.Table]:
    return {"t": table(changes)}


def answers(rows: Rows) -> dict[str, Counter[Any]]:
    groups: dict[str | None, list[int | None]] = {}
    for s, v in rows.values():
        groups.setdefault(s, []).append(v)
    return {
        "every": Counter((k, *row) for k, row in rows.items()),
        "sums": Counter(
            (s, len(vs), sum(v for v in vs if v is not None) if any(v is not None for v in vs) else None)
            for s, vs in groups.items()
        ),
        "some": Counter(Counter(v for _, v in rows.values() if v is not None and v > 1).items()),
    }


def last_writers(changes: Sequence[Change]) -> Rows:
    """The law, in plain words."""
    best: dict[int, tuple[Any, ...]] = {}
    for key, s, v, kind, moment in changes:
        assert key is not None
        row = (s is not None, s or "", v is not None, v or 0)
        adds = kind not in ("delete", "update_preimage")
        best[key] = max(best.get(key, ()), (moment, adds, row if adds else ()))
    return {
        key: (row[1] if row[0] else None, row[3] if row[2] else None) for key, (_, adds, row) in best.items() if adds
    }


class History:
    """Changes of a table, each valid at its turn, and the resulting rows of the table."""

    def __init__(self, choose: Callable[[int], int]) -> None:
        """`choose`: a number below another."""
        self.choose, self.moment = choose, 0
        self.rows: Rows = {}
        self.changes: list[Change] = []

    def row(self) -> tuple[str | None, int | None]:
        return (None, "a", "b")[self.choose(3)], (None, 0, 1, 2, 3)[self.choose(5)]

    def add(self, key: int, kind: str) -> None:
        adds = kind not in ("delete", "update_preimage")
        old = self.rows.pop(key, (None, None))
        row = self.row() if adds else old if kind == "update_preimage" or self.choose(2) else (None, None)
        if adds:
            self.rows[key] = row
        self.changes.append((key, *row, kind, self.moment))

    def step(self) -> None:
        self.moment += 1 + self.choose(3)
        key = self.choose(len(KEYS))
        if key not in self.rows:
            self.add(key, ("insert", "upsert")[self.choose(2)])
            return
        free = [k for k in KEYS if k not in self.rows]
        match ("upsert", "update", "delete", "replace", "move")[self.choose(5 if free else 4)]:
            case "upsert":
                self.add(key, "upsert")
            case "delete":
                self.add(key, "delete")
            case "replace":
                self.add(key, "delete")
                self.add(key, "insert")
            case update:
                self.add(key, "update_preimage")
                self.add(key if update == "update" else free[self.choose(len(free))], "update_postimage")


def shuffled(choose: Callable[[int], int], changes: list[Change]) -> list[Change]:
    """The same changes, and some of them again, in any order."""
    left = [*changes, *(changes[choose(len(changes))] for _ in range(choose(4)))]
    return [left.pop(choose(len(left))) for _ in range(len(left))]


def cut(choose: Callable[[int], int], changes: Sequence[Change]) -> list[list[Change]]:
    batches: list[list[Change]] = [[]]
    for change in changes:
        if not choose(3):
            batches.append([])
        batches[-1].append(change)
    return [b for b in batches if b]


@given(st.data(), st.sampled_from([1, 3]), st.booleans())
def test_any_order_of_a_history(data: st.DataObject, shards: int, quarantine: bool) -> None:
    def choose(below: int) -> int:
        return int(data.draw(st.integers(0, below - 1)))

    history = History(choose)
    for _ in range(1 + choose(14)):
        history.step()
    running = LocalJob(compile_job(VIEWS, DDL, shards, None, ["t"], quarantine))
    sums, seen, bad = {v: Sum() for v in VIEWS}, list[Change](), 0
    for changes in cut(choose, shuffled(choose, history.changes)):
        seen += changes
        wrong: list[Change] = [(None, "x", 1, "upsert", 1), (1, "x", 1, "sold", 1 << 40)] if quarantine else []
        bad += len(wrong)
        for view, delta in running.apply(feed([*changes, *wrong])).items():
            sums[view].add(delta)
        assert {v: s.weights for v, s in sums.items()} == answers(last_writers(seen))
        (lambda: None, running.forget, running.compact)[choose(3)]()
    assert last_writers(seen) == history.rows
    assert len(running.quarantined) == bad


@given(st.data())
def test_what_differs_at_the_same_sequence(data: st.DataObject) -> None:
    """Changes of two keys at three moments, so that many collide: only the law decides, not the order."""
    row = st.tuples(st.sampled_from([None, "", "a", "b"]), st.sampled_from([None, -1, 0, 7]))
    kind = st.sampled_from(["insert", "upsert", "update_postimage", "delete", "update_preimage"])
    change = st.tuples(st.integers(0, 1), row, kind, st.integers(1, 3)).map(lambda c: (c[0], *c[1], c[2], c[3]))
    changes = data.draw(st.lists(change, min_size=1, max_size=10))
    expected = answers(last_writers(changes))
    for order in (changes, data.draw(st.permutations(changes))):
        running, sums = LocalJob(compile_job(VIEWS, DDL, 1, None, ["t"])), {v: Sum() for v in VIEWS}
        for changes_ in cut(lambda below: int(data.draw(st.integers(0, below - 1))), order):
            for view, delta in running.apply(feed(changes_)).items():
                sums[view].add(delta)
        assert {v: s.weights for v, s in sums.items()} == expected


def test_greater_by_value_of_every_type() -> None:
    """Of two rows with the same key and sequence, the greater is kept, whichever arrives first."""
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, b BOOLEAN, d DOUBLE, w DECIMAL(38,2), n DATE, m TIMESTAMP, s STRING)"
    order = {
        ("b", pa.bool_()): ["false", "true"],
        ("d", pa.float64()): ["-inf", "-1.5", "0.0", "2.0", "inf", "nan"],
        ("w", pa.decimal128(38, 2)): [
            "-99999999999999999999999999999999.00",
            "-1.00",
            "0.00",
            "18446744073709551616.00",
        ],
        ("n", pa.date32()): ["1969-12-31", "2024-01-01"],
        ("m", pa.timestamp("us")): ["1969-12-31 00:00:00", "2024-01-01 00:00:00"],
        ("s", pa.string()): ["", "A", "a", "ab", "é"],
    }
    for (column, kind), texts in order.items():
        arrow = pa.array([None, *texts]).cast(kind)
        for seed in range(3):
            running, total = LocalJob(compile_job(f"SELECT {column} FROM t", ddl, 1, None, ["t"])), Sum()
            seen = []
            for i in random.Random(seed).sample(range(len(arrow)), len(arrow)):
                rows = pa.table({"id": pa.array([1], pa.int32()), column: arrow[i : i + 1], "_change_type": ["upsert"],
                                 "_sequence": [5]})  # fmt: skip
                total.add(running.apply({"t": rows})["view"])
                seen.append(i)
                assert str(list(total.weights)) == str([(arrow[max(seen)].as_py(),)]), (column, seen)


@pytest.mark.parametrize("quarantine", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_restarts_and_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, quarantine: bool) -> None:
    """Through real logs, in files, that are rewritten repeatedly, with arenas and without."""
    monkeypatch.setattr(log, "_SMALL", 300)
    monkeypatch.setattr(level, "_LEAST_LOG", 10)
    choose = random.Random(seed).randrange
    history = History(choose)
    for _ in range(120):
        history.step()
    job = compile_job(VIEWS, DDL, 2, None, ["t"], quarantine)
    running = LevelJob(job, tmp_path / "checkpoint", tmp_path / "arena" if seed else None)
    sums, seen = {v: Sum() for v in VIEWS}, list[Change]()
    for changes in cut(choose, shuffled(choose, history.changes)):
        seen += changes
        for view, delta in running.apply(feed(changes)).items():
            sums[view].add(delta)
        assert {v: s.weights for v, s in sums.items()} == answers(last_writers(seen))
        if not choose(4):
            cache._open.clear()
        if not choose(8):
            shutil.rmtree(tmp_path / "arena", ignore_errors=True)
    assert last_writers(seen) == history.rows
    assert all(store.base > 1 for (at, _), store in running.stores.items() if at == 0), "never compacted"
    assert list((tmp_path / "checkpoint").rglob("log/0.*/*"))


def test_late_changes() -> None:
    running, total = LocalJob(compile_job(VIEWS["every"], DDL, 2, None, ["t"], True)), Sum()
    steps: list[tuple[list[Change], Rows]] = [
        ([(1, "a", 1, "insert", 10), (2, "a", 2, "upsert", 10)], {1: ("a", 1), 2: ("a", 2)}),
        ([(1, "late", 9, "upsert", 9), (2, None, None, "delete", 12)], {1: ("a", 1)}),
        ([(2, "late", 9, "upsert", 11), (2, "late", 9, "insert", 11), (1, None, None, "delete", 3)], {1: ("a", 1)}),
        ([(2, "b", 3, "insert", 13), (1, "a", 1, "upsert", 20)], {1: ("a", 1), 2: ("b", 3)}),
        ([(1, "late", 9, "upsert", 19), (2, "b", 4, "upsert", 13)], {1: ("a", 1), 2: ("b", 4)}),
    ]
    for changes, rows in steps:
        total.add(running.apply(feed(changes))["view"])
        assert total.weights == answers(rows)["every"]
        running.forget()
    assert running.quarantined == []
    assert running.apply(feed([(1, "a", 1, "upsert", 30)]))["view"].num_rows == 0  # only its sequence changed


def test_deleted_keys_are_remembered_forever() -> None:
    """However many changes come before and after, a row that arrives after its removal is not inserted."""
    running, total = LocalJob(compile_job(VIEWS["every"], DDL, 1, None, ["t"]), 10_000), Sum()
    for first in range(0, 60_000, 20_000):
        total.add(running.apply(feed([(k, None, None, "delete", 2) for k in range(first, first + 20_000)]))["view"])
    running.compact()
    total.add(running.apply(feed([(k, "late", 1, "upsert", 1) for k in range(60_000)]))["view"])
    assert total.weights == {}
    total.add(running.apply(feed([(7, "back", 1, "upsert", 3)]))["view"])
    assert total.weights == {(7, "back", 1): 1}


def test_impossible_weights_and_sequences_are_refused() -> None:
    running = LocalJob(compile_job(VIEWS["every"], DDL, 1, None, ["t"]))

    def rows(weight: int, sequence: pa.Array) -> dict[str, pa.Table]:
        return {"t": pa.table({"id": [1], "s": ["a"], "v": pa.array([1], pa.int32()), "_weight": [weight],
                               "_sequence": sequence})}  # fmt: skip

    for weight in (0, 2, -2):
        with pytest.raises(ChangeError, match=f"_weight is {weight}, and the table has a primary key; give 1"):
            running.apply(rows(weight, pa.array([1])))
    for number in ("-9223372036854775809", "9223372036854775808"):
        with pytest.raises(ChangeError, match=f"orders changes is {number}; give a number that fits BIGINT"):
            running.apply(rows(1, pa.array([number]).cast(pa.decimal128(20, 0))))
    delta = running.apply(rows(1, pa.array(["-9223372036854775808"]).cast(pa.decimal128(20, 0))))["view"]
    assert delta.num_rows == 1


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


class Plain(History):
    """The same without a sequence: whole rows, deletes also by key alone, in micro-batches that keep the order."""

    def __init__(self, choose: Callable[[int], int], by_key: bool) -> None:
        super().__init__(choose)
        self.by_key = by_key
        self.touched: set[int] = set()  # keys that the batch has changed already

    def add(self, key: int, kind: str) -> None:
        if kind == "upsert" and key in self.rows:
            self.add(key, "update_preimage")
            kind = "update_postimage"
        old = self.rows.get(key)
        super().add(key, "insert" if kind == "upsert" else kind)
        if kind == "delete":
            alone = self.by_key and key not in self.touched and self.choose(2)
            self.changes[-1] = (key, *((None, None) if alone else old or (None, None)), kind, 0)
        self.touched.add(key)


@given(st.data(), st.sampled_from([1, 3]), st.sampled_from(["plain", "check_keys", "quarantine"]))
def test_whole_rows_without_a_sequence(data: st.DataObject, shards: int, how: str) -> None:
    """Including updates that change the key and, if rows are stored by key, deletes by key alone."""

    def choose(below: int) -> int:
        return int(data.draw(st.integers(0, below - 1)))

    job = compile_job(VIEWS, DDL, shards, None, (), how == "quarantine", how == "check_keys")
    history, running = Plain(choose, how != "plain"), LocalJob(job)
    sums = {v: Sum() for v in VIEWS}
    for _ in range(1 + choose(4)):
        history.changes, history.touched = [], set()
        for _ in range(1 + choose(4)):
            history.step()
        rows = table(history.changes).drop_columns(["_sequence"])
        for view, delta in running.apply({"t": rows}).items():
            sums[view].add(delta)
        assert {v: s.weights for v, s in sums.items()} == answers(history.rows)
        (lambda: None, running.forget, running.compact)[choose(3)]()
    assert running.quarantined == []


def test_invalid_deletes_by_key_are_refused() -> None:
    ddl = "CREATE TABLE t (id BIGINT PRIMARY KEY, s STRING NOT NULL, v INT)"
    rows: list[Change] = [(1, "a", 1, "insert", 0), (2, "b", None, "insert", 0)]
    wrong: list[tuple[Change, str]] = [
        ((3, None, None, "delete", 0), r"removes a row the table does not hold \(id=3"),
        ((1, "b", None, "delete", 0), r"removes a row the table does not hold \(id=1, s='b'"),
        ((2, "b", 0, "delete", 0), r"removes a row the table does not hold \(id=2, s='b', v=0"),
        ((1, None, 1, "update_preimage", 0), "s is NULL or missing, and it is NOT NULL"),
    ]
    for change, message in wrong:
        for quarantine in (False, True):
            running = LocalJob(compile_job("SELECT s, v FROM t", ddl, 2, None, (), quarantine, True))
            running.apply({"t": table(rows).drop_columns(["_sequence"])})
            if not quarantine:
                with pytest.raises(ChangeError, match=message):
                    running.apply({"t": table([change]).drop_columns(["_sequence"])})
                continue
            assert running.apply({"t": table([change]).drop_columns(["_sequence"])})["view"].num_rows == 0
            assert len(running.quarantined) == 1
    plain = LocalJob(compile_job("SELECT s, v FROM t", ddl, 2, None))
    plain.apply({"t": table(rows).drop_columns(["_sequence"])})
    with pytest.raises(ChangeError, match=r"to delete by key alone, name the column .* \(check_keys=True\)"):
        plain.apply({"t": table([(1, None, None, "delete", 0)]).drop_columns(["_sequence"])})


@pytest.mark.timeout(900)
@pytest.mark.parametrize("on_error", ["stop", "quarantine"])
def test_on_spark(spark: SparkSession, tmp_path: Path, on_error: str) -> None:
    """A long history in random order over several micro-batches, with a restart in between."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    choose = random.Random(5 if on_error == "stop" else 6).randrange
    history = History(choose)
    for _ in range(300):
        history.step()
    changes = shuffled(choose, history.changes)
    assert last_writers(changes) == history.rows
    parts = [changes[i::4] for i in range(4)]
    sums = {v: Sum() for v in VIEWS}
    for first in (0, 2):
        write_files(tmp_path / "in", {"t": SCHEMA}, [feed(p) for p in parts[first : first + 2]], first)
        made = maintain(
            spark, VIEWS, read_files(spark, tmp_path / "in", ["t"]), schema=DDL, shards=2, sequence="_sequence",
            on_error=on_error, arena=str(tmp_path / "arena"), checkpoint=str(tmp_path / "checkpoint"), sizes={},
        )  # fmt: skip
        run(made, tmp_path / "out", tmp_path / "checkpoint")
        for number in (first, first + 1):
            for view, total in sums.items():
                total.add(view_part(batch(tmp_path / "out", number), view))
    expected = answers(history.rows)
    assert {v: s.weights for v, s in sums.items()} == expected
    kept = snapshot(spark, str(tmp_path / "checkpoint"), "every").collect()
    assert Counter(tuple(r) for r in kept) == expected["every"]


def test_streams_that_cannot_be_ordered(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load().selectExpr(
        "value AS id", "'a' AS s", "1 AS v", "'insert' AS _change_type", "value AS lsn", "CAST(value AS STRING) AS name"
    )  # fmt: skip
    wrong_ones: list[tuple[str | Mapping[str, str], str]] = [
        ("lsnn", "no stream has a column lsnn to order changes by"),
        ({"t": "lsnn"}, "the stream of t has no column lsnn to order its changes by"),
        ({"u": "lsn"}, "the stream of u has no column lsn to order its changes by"),
        ("name", "name of the stream of t is string; give whole numbers, dates or timestamps"),
    ]
    for sequence, message in wrong_ones:
        with pytest.raises(PlanError, match=message):
            maintain(spark, VIEWS, {"t": stream}, schema=DDL, shards=2, sequence=sequence)
    for column, wanted in (("_weight", "whole numbers"), ("_change_type", "text: one of insert, ")):
        wrong = stream.drop("name", "lsn", "_change_type").selectExpr("*", f"TRUE AS {column}")
        with pytest.raises(PlanError, match=f"{column} of the stream of t is boolean; give {wanted}"):
            maintain(spark, VIEWS, {"t": wrong}, schema=DDL, shards=2)
