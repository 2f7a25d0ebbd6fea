"""Queries that several views read: maintained once, whatever comes and goes."""

from __future__ import annotations

import datetime
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import freshet
from freshet.database import state_copy
from freshet.database.db import Database, inside
from freshet.engine.shared import Shared
from tests.database.test_adapt import CHAIN, WIDE, below, flicker, star
from tests.oracle import RunningSum, duckdb_answer, same_bag

DDL = "CREATE TABLE o (id INT PRIMARY KEY, c INT, d STRING); CREATE TABLE l (o INT, q INT)"
SCHEMAS = {
    "o": pa.schema([("id", pa.int32()), ("c", pa.int32()), ("d", pa.string())]),
    "l": pa.schema([("o", pa.int32()), ("q", pa.int32())]),
}
SUMS = "(SELECT o, SUM(q) AS s, COUNT(*) AS n FROM l GROUP BY o)"
QUERIES = {
    "joined": f"SELECT o.c, x.s FROM o JOIN {SUMS} AS x ON x.o = o.id",
    "renamed": f"SELECT p.c AS c2, y.s AS s2 FROM o AS p JOIN {SUMS} AS y ON y.o = p.id",
    "grouped": f"SELECT o.d, SUM(y.s) AS t FROM o JOIN {SUMS} AS y ON y.o = o.id WHERE o.c > 1 GROUP BY o.d",
    "top": f"SELECT * FROM {SUMS} AS z ORDER BY s DESC, o LIMIT 3",
    "whole": "SELECT o, SUM(q) AS s, COUNT(*) AS n FROM l GROUP BY o",
    "sorted": "SELECT o, SUM(q) AS s, COUNT(*) AS n FROM l GROUP BY o ORDER BY s",
    "greatest": f"WITH r AS {SUMS} SELECT r.o, r.s FROM r WHERE s = (SELECT MAX(s) FROM r)",
    "ranked": f"SELECT o, s, RANK() OVER (ORDER BY s) AS r FROM {SUMS} AS x",
    "either": f"SELECT o FROM {SUMS} AS x UNION SELECT id FROM o",
    "less": f"SELECT o, s FROM {SUMS} AS x WHERE s > 4",
    "without": f"SELECT o.id FROM o LEFT JOIN {SUMS} AS x ON x.o = o.id WHERE x.o IS NULL",
    "cyclic": "SELECT COUNT(*) AS n FROM l AS a, l AS b, l AS c WHERE a.q = b.o AND b.q = c.o AND c.q = a.o",
    "triangles": "SELECT a.o, b.o AS p FROM l AS a, l AS b, l AS c WHERE a.q = b.o AND b.q = c.o AND c.q = a.o",
    "both": f"SELECT o.c, x.s FROM o JOIN {SUMS} AS x ON x.o = o.id UNION ALL SELECT x.n, o.id FROM o JOIN {SUMS} AS x "
    "ON x.o = o.id",
    "texts": "SELECT DISTINCT d FROM o",
    "named": "SELECT x.d FROM (SELECT DISTINCT d FROM o) AS x JOIN o ON o.d = x.d",
}


class Stream:
    """Random transactions, and the rows that they leave."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rows: dict[str, list[dict[str, Any]]] = {"o": [], "l": []}

    def next(self) -> dict[str, list[dict[str, Any]]]:
        changes: dict[str, list[dict[str, Any]]] = {}
        for name, rows in self.rows.items():
            for _ in range(self.random.randint(0, 3)):
                if rows and self.random.random() < 0.5:
                    row, weight = rows.pop(self.random.randrange(len(rows))), -1
                else:
                    row, weight = self._row(name), 1
                    rows.append(row)
                changes.setdefault(name, []).append(row | {"_weight": weight})
        return changes

    def _row(self, name: str) -> dict[str, Any]:
        below = self.random.randrange
        if name == "l":
            return {"o": below(6), "q": below(1, 6)}
        taken = {row["id"] for row in self.rows["o"]}
        return {"id": next(i for i in range(below(9), 99) if i not in taken), "c": below(4), "d": f"text {below(3)}"}

    def tables(self) -> dict[str, pa.Table]:
        return {name: pa.Table.from_pylist(rows, SCHEMAS[name]) for name, rows in self.rows.items()}


class Watched:
    """Views of a database that are compared with DuckDB, and with the sums of their deltas, after each transaction."""

    def __init__(self, db: Database, stream: Stream) -> None:
        self.db, self.stream = db, stream
        self.sums: dict[str, RunningSum] = {}

    def create(self, name: str) -> None:
        self.sums[name] = RunningSum(self.db.create_view(name, QUERIES[name]).to_arrow())

    def drop(self, name: str) -> None:
        del self.sums[name]
        self.db.execute(f"DROP VIEW {name}")

    def check(self, tx: freshet.Transaction) -> None:
        tables = self.stream.tables()
        for name, total in self.sums.items():
            answer = self.db.view(name).to_arrow()
            total.add(tx.deltas[name])
            total.equals(answer)
            same_bag(answer, duckdb_answer(QUERIES[name], tables))

    def run(self, transactions: int) -> None:
        for _ in range(transactions):
            self.check(self.db.apply(self.stream.next()))


def shared(db: Database) -> list[Shared]:
    return inside(db).state.core.sharing.queries


def arrays(db: Database) -> set[str]:
    """The scopes of views and shared queries that have state."""
    names = {array.name.partition("/")[0] for array in inside(db).state.core.arena}
    return {name for name in names if name.startswith(("view", "shared"))}


@pytest.mark.parametrize("seed", range(6))
def test_views_come_and_go(seed: int) -> None:
    """Also rows of several copies, deltas of views at rest, and reads on a copy of the state."""
    db = freshet.connect()
    db.execute(DDL)
    stream = Stream(seed)
    watched, most = Watched(db, stream), 0
    for _ in range(60):
        name = stream.random.choice([*QUERIES])
        if name in watched.sums:
            watched.drop(name)
        else:
            watched.create(name)
        most = max(most, len(shared(db)))
        watched.run(2)
    assert most > 1
    for name in [*watched.sums]:
        watched.drop(name)
    assert not shared(db) and not arrays(db)


def test_what_is_shared_takes_its_state_once() -> None:
    db = freshet.connect()
    db.execute(DDL)
    db.apply({"l": [{"o": i, "q": i % 7} for i in range(20_000)]})
    before = db.nbytes()
    db.create_view("v0", QUERIES["whole"])
    one = db.nbytes() - before
    for i in range(1, 10):
        db.create_view(f"v{i}", f"SELECT o AS o{i}, SUM(q) AS s, COUNT(*) AS n FROM l GROUP BY o ORDER BY o")
    assert db.nbytes() - before < 1.1 * one
    tx = db.apply({"l": [{"o": 1, "q": 1}]})
    assert all(tx.deltas[f"v{i}"].num_rows == 2 for i in range(10))
    for i in range(10):
        assert db.view(f"v{i}").count() == 20_000
        db.execute(f"DROP VIEW v{i}")
    assert not arrays(db)


def test_explain_says_what_is_shared() -> None:
    db = freshet.connect()
    db.execute(DDL)
    view = db.create_view("whole", QUERIES["whole"])
    assert "\nshared " not in view.explain()
    db.create_view("top", QUERIES["top"])
    size = shared(db)[0].scope.nbytes()
    assert f"\nshared     a query of {size:,} bytes, with view top; it has paid 0 steps\n" in view.explain()
    db.create_view("sorted", QUERIES["sorted"])
    assert "bytes, with views sorted, top; " in view.explain()
    assert "bytes, with views top, whole; " in db.view("sorted").explain()
    twice = f"SELECT o FROM {SUMS} AS x WHERE o > 1 UNION ALL SELECT o FROM {SUMS} AS x WHERE o > 1"
    assert "bytes, read in several places here; " in db.create_view("twice", twice).explain()


def test_work_is_counted_once_for_each_view() -> None:
    """A view has the same cost next to others as alone, from its creation on."""
    paid = []
    for others in ((), ("whole", "top")):
        db = freshet.connect()
        db.execute(DDL)
        db.apply({"l": [{"o": i % 4, "q": i} for i in range(50)]})
        for name in others:
            db.create_view(name, QUERIES[name])
        db.create_view("greatest", QUERIES["greatest"])
        for i in range(5):
            db.apply({"l": [{"o": i, "q": 9}]})
        metrics = db.metrics()["views"]["greatest"]
        listed = metrics.pop("shared")
        assert metrics["changes"] == 5 and metrics["grouped_rows"] and len(listed) == 1
        paid.append({k: v for k, v in metrics.items() if k != "last_minute" and not k.startswith("tree")})
    assert paid[0] == paid[1]


def test_rows_that_readers_join_are_counted_with_each() -> None:
    """What a shared query pays is listed once, and counts in every view that reads it; the rows that it changes in the
    input of a reader count there."""
    texts = {name: f"SELECT l.q, x.s FROM l JOIN {SUMS} AS x ON x.o = l.{c}" for name, c in (("a", "o"), ("b", "q"))}
    alone = {}
    for name, text in texts.items():
        db = freshet.connect()
        db.execute(DDL)
        view = db.create_view(name, text)
        for i in range(6):
            db.apply({"l": [{"o": i % 3, "q": i}]})
        alone[name] = view.metrics()
        assert view.metrics()["shared"] == []
    db = freshet.connect()
    db.execute(DDL)
    for name, text in texts.items():
        db.create_view(name, text)
    for i in range(6):
        db.apply({"l": [{"o": i % 3, "q": i}]})
    for name, other in (("a", "b"), ("b", "a")):
        view = db.view(name)
        metrics = view.metrics()
        (listed,) = metrics["shared"]
        assert {k: v for k, v in metrics.items() if k != "last_minute"} == {
            **{k: v for k, v in alone[name].items() if k != "last_minute"},
            "shared": [listed],
        }
        document = json.loads(view.explain("json"))
        assert listed["with"] == [other] and document["shared"][0]["with"] == [other]
        fed = 3 + 3 * 2  # a group appears, or replaces its row
        (nested,) = document["inputs"].values()
        assert document["paid"]["fed"] == fed and nested["paid"] == document["shared"][0]["paid"]
        assert listed["joined_rows"] == listed["grouped_rows"] == 6 and listed["steps"] == 12
        assert nested["paid"]["fed"] == 0
        assert f"with view {other}; it has paid 12 steps" in view.explain()
    db.execute("DROP MATERIALIZED VIEW b")
    db.apply({"l": [{"o": 1, "q": 1}]})
    assert db.view("a").metrics()["shared"] == [] and db.view("a").metrics()["nested_rows"] == fed + 2


@pytest.mark.parametrize("checkpoint", [True, False])
def test_a_folder(checkpoint: bool, tmp_path: Path) -> None:
    """Shared state is in the checkpoint; without one it is shared again when the log is replayed."""
    stream = Stream(7)
    with freshet.connect(tmp_path / "db") as db:
        db.execute(DDL)
        watched = Watched(db, stream)
        for name in QUERIES:
            watched.create(name)
            watched.run(3)
        before, numbers = len(shared(db)), {q.number for q in shared(db)}
    if not checkpoint:
        (tmp_path / "db" / "checkpoint").unlink()
    with freshet.connect(tmp_path / "db") as db:
        assert len(shared(db)) == before and ({q.number for q in shared(db)} == numbers or not checkpoint)
        watched.db = db
        for name in QUERIES:
            watched.run(3)
            watched.drop(name)
        assert not shared(db) and not arrays(db)


def test_a_checkpoint_without_shared_queries(tmp_path: Path) -> None:
    """As versions wrote it that shared nothing."""
    stream = Stream(8)
    with freshet.connect(tmp_path / "db") as db:
        inside(db).state.core.sharing.enabled = False
        db.execute(DDL)
        watched = Watched(db, stream)
        for name in QUERIES:
            watched.create(name)
        watched.run(5)
        assert not shared(db)
    with freshet.connect(tmp_path / "db") as db:
        watched.db = db
        watched.run(5)
        for name in ("top", "joined", "cyclic"):
            watched.drop(name)
            watched.create(name)
            watched.run(5)


def test_changed_definitions() -> None:
    db = freshet.connect()
    db.execute(DDL)
    stream = Stream(9)
    watched = Watched(db, stream)
    for name in ("joined", "whole", "top", "greatest"):
        watched.create(name)
    watched.run(5)
    db.execute("ALTER TABLE l ADD COLUMN more INT")
    db.execute("ALTER TABLE o DROP COLUMN d")
    for row in stream.rows["o"]:
        del row["d"]
    for row in stream.rows["l"]:
        row["more"] = None
    assert len(shared(db)) >= 1
    for name in watched.sums:
        same_bag(db.view(name).to_arrow(), duckdb_answer(QUERIES[name], stream.tables() | {"o": _without_d(stream)}))
    db.execute("CREATE INDEX by_n ON whole (n)")
    assert db.query("SELECT o FROM whole WHERE n = 99").num_rows == 0
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW top AS SELECT o, SUM(q) AS s FROM l GROUP BY o")
    tx = db.apply({"l": [{"o": 50, "q": 5, "more": 1}]})
    assert tx.deltas["top"].to_pylist() == [{"o": 50, "s": 5, "_weight": 1}]
    assert tx.deltas["whole"].to_pylist() == [{"o": 50, "s": 5, "n": 1, "_weight": 1}]
    db.execute("DROP INDEX by_n")
    db.execute("DROP VIEW joined; DROP VIEW greatest; DROP VIEW top; DROP VIEW whole")
    assert not shared(db) and not arrays(db)


def _without_d(stream: Stream) -> pa.Table:
    return pa.Table.from_pylist(stream.rows["o"], pa.schema([("id", pa.int32()), ("c", pa.int32())]))


def _begun(db: Database) -> None:
    """A transaction that sees its own changes, and ends without them."""
    with db.transaction() as pending:
        pending.apply({"l": [{"o": 3, "q": 1000}]})
        assert pending.query("SELECT MAX(s) AS s FROM greatest").to_pylist()[0]["s"] >= 1000
        raise InterruptedError


def test_a_failed_transaction() -> None:
    """The shared query is rebuilt, and then its readers; transactions of several statements leave no trace either."""
    db = freshet.connect()
    db.execute(DDL)
    db.create_view("guarded", f"SELECT o, 100 DIV (s - 7) AS x FROM {SUMS} AS y")
    stream = Stream(10)
    watched = Watched(db, stream)
    for name in ("joined", "top", "greatest", "either"):
        watched.create(name)
    db.apply({"l": [{"o": 70, "q": 1}]})
    stream.rows["l"].append({"o": 70, "q": 1})
    total, refused = RunningSum(db.view("guarded").to_arrow()), 0
    for name in watched.sums:
        watched.sums[name] = RunningSum(db.view(name).to_arrow())
    for _ in range(20):
        missing = 7 - sum(row["q"] for row in stream.rows["l"] if row["o"] == 70)
        with pytest.raises(freshet.ChangeError, match="no answer"):
            db.apply({"l": [{"o": 70, "q": missing}], "o": [{"id": 70, "c": 1, "d": "x"}]})
        with pytest.raises(InterruptedError):
            _begun(db)
        kept = {name: [*rows] for name, rows in stream.rows.items()}
        try:
            tx = db.apply(stream.next())
        except freshet.ChangeError:  # another sum is 7
            stream.rows, refused = kept, refused + 1
            continue
        total.add(tx.deltas["guarded"])
        total.equals(db.view("guarded").to_arrow())
        watched.check(tx)
    assert refused < 20 and len(shared(db)) > 0


def test_long_reads_and_earlier_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_copy, "_SHORT", -1.0)
    monkeypatch.setattr(state_copy, "_A_BYTE", 0.0)
    with freshet.connect(tmp_path / "db") as db:
        db.execute(DDL)
        stream = Stream(11)
        watched = Watched(db, stream)
        for name in ("joined", "whole", "top", "greatest", "ranked"):
            watched.create(name)
        watched.run(10)
        for name in watched.sums:
            answer = db.view(name).to_arrow()
            same_bag(pa.Table.from_batches(db.view(name).batches(2, copy=True), answer.schema), answer)
            same_bag(db.query(f"SELECT * FROM {name}"), answer)


def test_text_stays_while_a_shared_query_reads_it() -> None:
    db = freshet.connect()
    db.execute(DDL)
    stream = Stream(12)
    watched = Watched(db, stream)
    watched.create("texts")
    watched.create("named")
    core = inside(db).state.core
    for _ in range(20):
        watched.run(1)
        core.sweep()


def test_equal_views_switch_trees_together() -> None:
    db = star(freshet.Adapt(patience=200))
    renamed = CHAIN.replace("SELECT p, b.x, b.y, b.z, q", "SELECT p AS r, b.x AS s, b.y AS t, b.z AS u, q AS v")
    db.create_view("w", renamed)
    deep = below(db)
    other, column = {"a": ("c", "y"), "c": ("a", "x")}[deep]
    db.apply({other: [{column: 0, "_weight": -1}]})
    flicker(db, deep, 400)
    assert below(db) == other and len(shared(db)) == 1
    assert [metrics["tree_switches"] for metrics in db.metrics()["views"].values()] == [1, 1]
    tx = db.apply({other: [{column: 0}]})
    assert tx.deltas["v"].num_rows == tx.deltas["w"].num_rows == db.view("w").count() == WIDE
    assert tx.deltas["w"].column_names == ["r", "s", "t", "u", "v", "_weight"]


def test_time_passes_for_shared_queries() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE e (k INT, at TIMESTAMP)")
    recent = "SELECT k, COUNT(*) AS n FROM e WHERE at > NOW() - INTERVAL 1 HOUR GROUP BY k"
    db.create_view("v", recent)
    db.create_view("w", f"SELECT COUNT(*) AS groups FROM ({recent}) AS x")
    start = datetime.datetime(2024, 1, 1)
    db.advance(start)
    db.apply({"e": [{"k": i, "at": start + datetime.timedelta(minutes=i)} for i in range(3)]})
    assert shared(db) and db.view("w").to_arrow().to_pylist() == [{"groups": 3}]
    tx = db.advance(start + datetime.timedelta(minutes=61, seconds=30))
    assert db.view("w").to_arrow().to_pylist() == [{"groups": 1}] and tx.deltas["v"].num_rows == 2
