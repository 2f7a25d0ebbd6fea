"""Views that several threads maintain, next to the same views in one thread and DuckDB's answers."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import freshet
from freshet.database.db import inside
from freshet.engine import crew
from tests.oracle import RunningSum, duckdb_answer, same_bag

DDL = (
    "CREATE TABLE item (id BIGINT PRIMARY KEY, k BIGINT, n BIGINT, t STRING)",
    "CREATE TABLE kind (k BIGINT, x BIGINT)",
)
#: Native as a whole, with nested queries, sharing one, and finished by Python.
VIEWS = {
    "joined": "SELECT i.id, i.n, c.x FROM item i JOIN kind c ON i.k = c.k",
    "totals": "SELECT i.k, COUNT(*) AS c, SUM(i.n) AS s FROM item i JOIN kind c ON i.k = c.k GROUP BY i.k",
    "selves": "SELECT a.id AS a, b.id AS b FROM item a JOIN item b ON a.k = b.n",
    "over": "SELECT s, COUNT(*) AS c FROM (SELECT k, SUM(n) AS s FROM item GROUP BY k) GROUP BY s",
    "again": "SELECT s, SUM(k) AS c FROM (SELECT k, SUM(n) AS s FROM item GROUP BY k) GROUP BY s",
    "shares": "SELECT k, SUM(100 / n) AS s FROM item GROUP BY k",
    "loud": "SELECT DISTINCT UPPER(t) AS t FROM item JOIN kind ON item.k = kind.k",
    "least": "SELECT k, MIN(t) AS t FROM item GROUP BY k",
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every transaction is large enough for several threads."""
    monkeypatch.setattr(crew, "_WORTHWHILE", 0)


def _database(threads: int, views: dict[str, str] = VIEWS) -> freshet.Database:
    db = freshet.connect(threads=threads)
    for statement in DDL:
        db.execute(statement)
    for name, sql in views.items():
        db.create_view(name, sql)
    return db


def _transactions(chance: random.Random, count: int, rows: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Changes, and the rows of the tables after them."""
    items: dict[int, dict[str, Any]] = {}
    kinds: list[dict[str, Any]] = []
    for _ in range(count):
        changes: dict[str, list[dict[str, Any]]] = {"item": [], "kind": []}
        for _ in range(chance.randrange(rows)):
            key = chance.randrange(3 * rows)
            if key in items:
                changes["item"].append({**items.pop(key), "_weight": -1})
            if chance.random() < 0.7:
                items[key] = {"id": key, "k": chance.randrange(9), "n": chance.randrange(1, 6), "t": f"t{key % 7}"}
                changes["item"].append({**items[key], "_weight": 1})
        for _ in range(chance.randrange(6)):
            if kinds and chance.random() < 0.5:
                changes["kind"].append({**kinds.pop(chance.randrange(len(kinds))), "_weight": -1})
            else:
                kinds.append({"k": chance.randrange(9), "x": chance.randrange(3)})
                changes["kind"].append({**kinds[-1], "_weight": 1})
        chosen = {name: made for name, made in changes.items() if made or chance.random() < 0.5}
        yield chosen, {"item": list(items.values()), "kind": kinds}


def _arrow(db: freshet.Database, name: str, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=db.query(f"SELECT * FROM {name} LIMIT 0").schema)


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_side_by_side(threads: int, seed: int) -> None:
    alone, together = _database(1), _database(threads)
    sums = {name: RunningSum(together.view(name).to_arrow()) for name in VIEWS}
    for number, (changes, rows) in enumerate(_transactions(random.Random(seed), 25, 60)):
        expected, tx = alone.apply(changes), together.apply(changes)
        tables = {name: _arrow(together, name, rows[name]) for name in rows}
        for name, sql in VIEWS.items():
            same_bag(tx.deltas[name], expected.deltas[name])
            sums[name].add(tx.deltas[name])
            sums[name].equals(together.view(name).to_arrow())
            if number % 5 == 4:
                same_bag(together.view(name).to_arrow(), duckdb_answer(sql, tables))
    assert inside(together).state.core.crew._others is not None  # several threads took part


@pytest.mark.parametrize("bad", [{"shares"}, {"joined"}, {"joined", "shares"}])
def test_a_failure_in_one_thread_undoes_all(bad: set[str]) -> None:
    """A group's sum of quotients fails by zero in Python, one beyond BIGINT in a native step."""
    views = {**VIEWS, "sums": "SELECT k, SUM(n * x) AS s FROM item JOIN kind USING (k) GROUP BY k"}
    db = _database(2, views)
    db.apply({"item": [{"id": i, "k": i % 9, "n": 1 + i % 5, "t": "x"} for i in range(50)]})
    db.apply({"kind": [{"k": i, "x": 1} for i in range(9)]})
    before = {name: db.view(name).to_arrow() for name in views}
    rows = [{"id": 60, "k": 1, "n": 0 if "shares" in bad else 1, "t": "y"}]
    if "joined" in bad:
        rows += [{"id": 61 + i, "k": 2, "n": 2**62, "t": "y"} for i in range(4)]
    with pytest.raises(freshet.ChangeError, match="a view has no answer after it"):
        db.apply({"item": rows})
    assert db.version == 2
    for name in views:
        same_bag(db.view(name).to_arrow(), before[name])
    db.apply({"item": [{"id": 70, "k": 1, "n": 3, "t": "z"}]})
    assert db.query("SELECT COUNT(*) AS n FROM item").to_pylist() == [{"n": 51}]
    assert db.view("joined").count() == 51


def test_threads_are_checked() -> None:
    for wrong in (0, -1, 1.5, "2", True):
        with pytest.raises(ValueError, match="give a whole number from 1 on"):
            freshet.connect(threads=wrong)  # type: ignore[arg-type]


def test_a_small_transaction_wakes_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    db = _database(2)
    db.apply({"item": [{"id": 1, "k": 1, "n": 1, "t": "a"}]})
    assert inside(db).state.core.crew._others is None
    db.apply({"item": [{"id": i, "k": i % 9, "n": 1, "t": "a"} for i in range(2, 3_000)]})
    assert inside(db).state.core.crew._others is not None
    db.close()
    assert inside(db).state.core.crew._others is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_threads_after_a_fork() -> None:
    """A fork inherits a database in memory, but not its threads."""
    db = _database(2)
    db.apply({"item": [{"id": i, "k": i % 9, "n": 1, "t": "a"} for i in range(100)]})
    child = os.fork()
    if child == 0:
        tx = db.apply({"item": [{"id": 200, "k": 1, "n": 1, "t": "a"}]})
        os._exit(0 if tx.deltas["over"].num_rows else 1)
    assert os.waitpid(child, 0)[1] == 0
