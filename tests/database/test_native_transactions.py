"""Transactions that one native call applies to tables and views, and what happens if one fails on the way."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import freshet
from freshet.database.db import Database, inside
from tests.oracle import RunningSum, duckdb_answer, same_bag

MOST = 2**63 - 1
QUERIES = {"rows": "SELECT a, b FROM t WHERE b > 0", "total": "SELECT a, SUM(b) AS s FROM t GROUP BY a"}


def database(table: str) -> Database:
    db = freshet.connect()
    db.execute(table)
    db.execute("CREATE TABLE u (a BIGINT, c DECIMAL(10, 2))")
    for name, sql in QUERIES.items():
        db.create_view(name, sql)
    db.create_view("joined", "SELECT t.a, b, c FROM t, u WHERE t.a = u.a")
    return db


def is_native(db: Database, *tables: str) -> bool:
    core = inside(db).state.core
    core._know()
    return core._native([core.tables[name] for name in tables]) is not None


NESTED = {
    "plain": "SELECT t.a, t.b, u.c FROM t JOIN u ON t.a = u.a",
    "outer": "SELECT t.a, t.b, u.c FROM t LEFT JOIN u ON t.a = u.a",
    "without": "SELECT a, b FROM t WHERE NOT EXISTS (SELECT * FROM u WHERE u.a = t.a)",
    "with": "SELECT a, c FROM u WHERE a IN (SELECT a FROM t WHERE b > 2)",
    "sums": "SELECT t.a, s.total FROM t JOIN (SELECT a, SUM(c) AS total FROM u GROUP BY a) AS s ON s.a = t.a",
    "passed": "SELECT a, n FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a) AS x WHERE n > 1",
    "once": "SELECT DISTINCT t.a FROM t, u WHERE t.a = u.a",
    "near": "SELECT t.b, u.c FROM t, u WHERE t.a = u.a AND t.b < u.c",
}


@pytest.mark.parametrize("seed", range(4))
def test_transactions_without_deltas_change_the_same(seed: int) -> None:
    """Transactions with deltas follow them, so whatever they leave undone would be seen there."""
    random = Random(seed)
    db = freshet.connect()
    db.execute("CREATE TABLE t (a BIGINT, b BIGINT)")
    db.execute("CREATE TABLE u (a BIGINT, c BIGINT)")
    views = {name: db.create_view(name, sql) for name, sql in NESTED.items()}
    names, rows = {"t": ("a", "b"), "u": ("a", "c")}, dict[str, list[tuple[int | None, int]]](t=[], u=[])
    for _ in range(40):
        changes = {}
        for table, (first, second) in names.items():
            gone = [rows[table].pop(random.randrange(len(rows[table]))) for _ in range(min(2, len(rows[table])))]
            come = [(random.choice((None, 1, 2, 3)), random.randrange(6)) for _ in range(random.randrange(4))]
            rows[table] += come
            signed = [(row, -1) for row in gone] + [(row, 1) for row in come]
            changes[table] = [{first: a, second: b, "_weight": w} for (a, b), w in signed]
        before = {name: RunningSum(view.to_arrow()) for name, view in views.items()}
        deltas = random.random() < 0.5
        tx = db.apply(changes, deltas=deltas)
        assert bool(len(tx.deltas)) is deltas
        tables = {
            name: pa.table({c: pa.array([r[i] for r in rows[name]], pa.int64()) for i, c in enumerate(columns)})
            for name, columns in names.items()
        }
        for name, view in views.items():
            same_bag(view.to_arrow(), duckdb_answer(NESTED[name], tables))
            if deltas:
                before[name].add(tx.deltas[name])
                before[name].equals(view.to_arrow())


@pytest.mark.parametrize("key", ["a BIGINT, b BIGINT", "a BIGINT, b BIGINT PRIMARY KEY"])
def test_answers_and_deltas(key: str) -> None:
    db = database(f"CREATE TABLE t ({key})")
    views = {name: db.view(name) for name in [*QUERIES, "joined"]}
    sums = {name: RunningSum(view.to_arrow()) for name, view in views.items()}
    assert is_native(db, "t") and is_native(db, "u", "t")
    one = [{"a": i % 3, "b": i - 4} for i in range(12)]
    transactions: tuple[dict[str, Any], ...] = (
        {"t": one, "u": [{"a": 1, "c": Decimal(7)}, {"a": 1, "c": Decimal(7)}, {"a": 2, "c": Decimal(1)}]},
        {"t": [{**row, "_weight": -1} for row in one[:5]] + [{"a": 1, "b": 99, "_weight": 1}]},
        {"u": [{"a": 1, "c": Decimal(7), "_weight": -1}], "t": [{"a": 2, "b": 50}]},
        {"t": [], "u": []},
        {},
    )
    for changes in transactions:
        tx = db.apply(changes)
        for name, total in sums.items():
            total.add(tx.deltas[name])
            total.equals(views[name].to_arrow())
    db.create_view("all_t", "SELECT * FROM t")
    db.create_view("all_u", "SELECT * FROM u")
    tables = {"t": db.view("all_t").to_arrow(), "u": db.view("all_u").to_arrow()}
    for name, sql in QUERIES.items():
        same_bag(views[name].to_arrow(), duckdb_answer(sql, tables))


@pytest.mark.parametrize("key", ["a BIGINT, b BIGINT", "a BIGINT, b BIGINT PRIMARY KEY"])
def test_a_failure_leaves_everything_as_it_was(key: str) -> None:
    """The sum overflows after rows were removed from the tables and others were added."""
    db = database(f"CREATE TABLE t ({key})")
    db.apply({"t": [{"a": 1, "b": 5}, {"a": 1, "b": 6}], "u": [{"a": 1, "c": Decimal(3)}]})
    names = [*QUERIES, "joined"]
    before = {name: db.view(name).to_arrow() for name in names}
    assert is_native(db, "u", "t")
    removed = [{"a": 1, "b": 5, "_weight": -1}]
    added = [{"a": 1, "b": MOST, "_weight": 1}, {"a": 1, "b": MOST - 1, "_weight": 1}]
    with pytest.raises(freshet.ChangeError, match="no answer"):
        db.apply({"u": [{"a": 1, "c": Decimal(3), "_weight": -1}, {"a": 2, "c": Decimal(4)}], "t": removed + added})
    for name in names:
        same_bag(db.view(name).to_arrow(), before[name])
    tx = db.apply({"t": [*removed, {"a": 2, "b": 8, "_weight": 1}]})
    assert sorted(map(tuple, (row.values() for row in tx.deltas["rows"].to_pylist()))) == [(1, 5, -1), (2, 8, 1)]
    assert db.view("total").to_dicts() == [{"a": 1, "s": 6}, {"a": 2, "s": 8}]


def test_dropped_views_are_forgotten() -> None:
    db = database("CREATE TABLE t (a BIGINT, b BIGINT)")
    db.apply({"t": [(1, 2)]})
    db.execute("DROP VIEW total")
    tx = db.apply({"t": [(1, 3)]})
    assert set(tx.deltas) == {"rows", "joined"}
    assert tx.deltas["rows"].to_pylist() == [{"a": 1, "b": 3, "_weight": 1}]


def test_a_transaction_with_a_view_in_python() -> None:
    """A view whose join is not native takes its turn between the native steps of the others."""
    db = database("CREATE TABLE t (a BIGINT, b BIGINT)")
    db.create_view("ranked", "SELECT a, b, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) AS n FROM t")
    queries = {
        "less": "SELECT x.a, COUNT(*) AS n FROM t AS x, t AS y WHERE x.a = y.a AND x.b < y.b GROUP BY x.a",
        "failing": "SELECT x.a, 1 DIV (x.b + y.b - 100) AS n FROM t AS x, t AS y WHERE x.a = y.a AND x.b < y.b",
    }
    for name, sql in queries.items():
        db.create_view(name, sql)
    core = inside(db).state.core
    assert is_native(db, "t") and is_native(db, "u", "t") and len(core._readers[1]) == 2
    tx = db.apply({"t": [(1, 3), (1, 2)], "u": [(1, Decimal(4))]})
    assert [tx.deltas[name].num_rows for name in ("rows", "joined", "ranked", "less")] == [2, 2, 2, 1]
    sums = {name: RunningSum(db.view(name).to_arrow()) for name in (*QUERIES, *queries)}
    db.create_view("all_t", "SELECT * FROM t")
    for i in range(30):
        with pytest.raises(freshet.ChangeError, match="division by zero"):
            db.apply({"t": [{"a": 1, "b": 2, "_weight": -1}, {"a": 9, "b": 49}, {"a": 9, "b": 51}]})
        other = {"a": 1, "b": 60 + i - i % 2, "_weight": (-1) ** i}  # comes, and goes with the next transaction
        tx = db.apply({"t": [{"a": i % 3, "b": i % 7}, other]})
        for name, total in sums.items():
            total.add(tx.deltas[name])
            total.equals(db.view(name).to_arrow())
            tables = {"t": db.view("all_t").to_arrow()}
            same_bag(db.view(name).to_arrow(), duckdb_answer((QUERIES | queries)[name].replace("DIV", "//"), tables))


def test_nothing_runs_for_views_that_were_dropped() -> None:
    """Native steps refer to the state of a view by address."""
    db = freshet.connect()
    db.execute("CREATE TABLE t (a BIGINT, b BIGINT)")
    db.create_view("v", "SELECT x.n, t.b FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a) AS x JOIN t ON x.a = t.a")
    db.apply({"t": [(1, 2), (1, 3)]})
    core = inside(db).state.core
    (nest,) = core._whole
    nest.changed = True  # as after a load
    db.execute("DROP VIEW v")
    assert not core._whole and not core._ends and not core._known
    db.apply({"t": [(1, 4)]})
    assert db.query("SELECT COUNT(*) AS n FROM t").to_pylist() == [{"n": 3}]
