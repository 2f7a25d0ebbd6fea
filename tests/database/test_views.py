"""Making, reading, following and dropping views."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import freshet
from freshet.database.db import Database
from tests.oracle import RunningSum, duckdb_answer, same_bag

DDL = """
    CREATE TABLE c (id INT PRIMARY KEY, region STRING);
    CREATE TABLE o (id INT PRIMARY KEY, customer INT, total DECIMAL(10, 2));
"""
REGIONS = "SELECT c.region, SUM(o.total) AS total, COUNT(*) AS n FROM c JOIN o ON o.customer = c.id GROUP BY c.region"


@pytest.fixture
def db() -> Database:
    made = freshet.connect()
    made.execute(DDL)
    made.apply({"c": [{"id": i, "region": "NE"[i % 2]} for i in range(6)],
                "o": [{"id": i, "customer": i % 7, "total": i} for i in range(40)]})  # fmt: skip
    return made


def follow(
    db: Database, views: dict[str, str], steps: list[dict[str, Any]], expected: dict[str, str] | None = None
) -> None:
    """Applies the steps and compares every view with DuckDB's answer to `expected`, or to its own text."""
    sums = {name: RunningSum(db.view(name).to_arrow()) for name in expected or views}
    for changes in [{}, *steps]:
        tx = db.apply(changes)
        tables = {name: db.execute(f"SELECT * FROM {name}") for name in ("c", "o")}
        for name, sql in (expected or views).items():
            sums[name].add(tx.deltas[name])
            same_bag(db.view(name).to_arrow(), duckdb_answer(sql, tables))
            sums[name].equals(db.view(name).to_arrow())
            assert db.view(name).count() == db.view(name).to_arrow().num_rows


STEPS: list[dict[str, Any]] = [
    {"o": [{"id": 100, "customer": 1, "total": 5}, {"id": 101, "customer": 77, "total": 5}]},
    {"c": [{"id": 77, "region": "W"}, {"id": 2, "region": "W"}], "o": []},
    {"o": [{"id": i, "_weight": -1} for i in range(0, 40, 2)]},
    {"c": [{"id": 1, "region": "E", "_change_type": "delete"}, {"id": 1, "region": "N", "_change_type": "insert"}]},
    {"c": [{"id": i, "_weight": -1} for i in (1, 3, 5)]},
    {"o": [{"id": i, "_weight": -1} for i in range(1, 40, 2)]},
]
STEPS[1]["c"] = [{**row, "_change_type": "upsert"} for row in STEPS[1]["c"]]
STEPS[3]["c"][0]["region"] = "E"


@pytest.mark.parametrize(
    "sql",
    [
        REGIONS,
        "SELECT o.id, c.region FROM o LEFT JOIN c ON c.id = o.customer",
        "SELECT o.id FROM o WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.id = o.customer)",
        "SELECT DISTINCT c.region FROM c JOIN o ON o.customer = c.id",
        (
            "SELECT c.region, m.x FROM c JOIN (SELECT customer, MAX(total) AS x FROM o GROUP BY customer) m "
            "ON customer = c.id"
        ),
        "SELECT COUNT(DISTINCT customer) AS n, MIN(total) AS low FROM o",
    ],
)
def test_a_view_over_existing_rows(db: Database, sql: str) -> None:
    """Made before or after the rows, a view is the same."""
    db.create_view("late", sql)
    early = freshet.connect()
    early.execute(DDL)
    early.create_view("early", sql)
    for name in ("o", "c"):
        early.apply({name: db.execute(f"SELECT * FROM {name}")})
    same_bag(early.view("early").to_arrow(), db.view("late").to_arrow())
    follow(db, {"late": sql}, STEPS)


def test_views_over_views(db: Database) -> None:
    joined = "SELECT o.id, o.total, c.region FROM o JOIN c ON c.id = o.customer"
    views = {
        "joined": joined,
        "regions": "SELECT region, SUM(total) AS total, COUNT(*) AS n FROM joined GROUP BY region",
        "best": "SELECT j.id, j.total, r.total AS of FROM joined j JOIN regions r ON r.region = j.region WHERE r.n > 3",
        "busy": "SELECT COUNT(*) AS regions, MAX(total) AS top FROM regions",
        "named": "SELECT DISTINCT n FROM regions",
    }
    regions = f"SELECT region, SUM(total) AS total, COUNT(*) AS n FROM ({joined}) j GROUP BY region"
    expected = {
        "joined": joined,
        "regions": regions,
        "best": f"SELECT j.id, j.total, r.total AS of FROM ({joined}) j JOIN ({regions}) r ON r.region = j.region"
        " WHERE r.n > 3",
        "busy": f"SELECT COUNT(*) AS regions, MAX(total) AS top FROM ({regions}) r",
        "named": f"SELECT DISTINCT n FROM ({regions}) r",
    }
    for name, sql in views.items():
        db.create_view(name, sql)
    follow(db, views, STEPS, expected)
    db.execute("DROP VIEW regions CASCADE")
    assert list(db.views) == ["joined"]
    follow(db, views, STEPS[:0], {"joined": joined})


def test_all_views_move_together(db: Database) -> None:
    """A subscriber of one view sees every other at the same version."""
    db.create_view("a", "SELECT COUNT(*) AS n FROM o")
    db.create_view("b", "SELECT id FROM o")
    seen: list[tuple[int, int, int, int]] = []

    def look(tx: freshet.Transaction) -> None:
        counted = db.view("a").to_arrow()["n"][0].as_py()
        seen.append((tx.version, db.version, counted, db.view("b").count()))

    db.view("a").subscribe(look)
    db.apply({"o": [{"id": 100, "customer": 1, "total": 1}]})
    db.apply({"o": [{"id": 100, "_weight": -1}]})
    assert seen == [(2, 2, 41, 41), (3, 3, 40, 40)]


def test_subscribe_and_close(db: Database) -> None:
    view = db.create_view("v", "SELECT id FROM o WHERE total > 10")
    heard: list[freshet.Transaction] = []
    handle = view.subscribe(heard.append)
    with view.subscribe(heard.append):
        tx = db.apply({"o": [{"id": 50, "customer": 1, "total": 50}]})
        assert heard == [tx, tx]
    with pytest.raises(freshet.ChangeError):
        db.apply({"o": [{"id": 50}]})
    db.apply({"c": []})
    assert len(heard) == 3, "also of a transaction that does not change the view, not of one that was refused"
    handle.close()
    handle.close()
    db.apply({"o": [{"id": 51}]})
    assert len(heard) == 3


def test_a_subscriber_may_close_itself(db: Database) -> None:
    view = db.create_view("v", "SELECT id FROM o")
    heard: list[int] = []

    def once(tx: freshet.Transaction) -> None:
        heard.append(tx.version)
        handle.close()

    handle = view.subscribe(once)
    view.subscribe(lambda tx: heard.append(-tx.version))
    db.apply({})
    db.apply({})
    assert heard == [2, -2, -3]


def test_transactions_of_a_subscriber_are_published_in_order(db: Database) -> None:
    view = db.create_view("v", "SELECT COUNT(*) AS n FROM o WHERE id >= 100")
    heard: list[tuple[str, int, int]] = []

    def more(tx: freshet.Transaction) -> None:
        heard.append(("more", tx.version, view.to_arrow()["n"][0].as_py()))
        if tx.version < 4:
            db.apply({"o": [{"id": 100 + tx.version}]})

    view.subscribe(more)
    view.subscribe(lambda tx: heard.append(("heard", tx.version, tx.deltas["v"]["n"].to_pylist()[-1])))
    db.apply({"o": [{"id": 100}]})
    assert heard == [("more", 2, 1), ("heard", 2, 1), ("more", 3, 2), ("heard", 3, 2), ("more", 4, 3), ("heard", 4, 3)]


def test_forms_of_an_answer(db: Database) -> None:
    view = db.create_view(
        "v", "SELECT o.id, c.region, o.total FROM o LEFT JOIN c ON c.id = o.customer AND c.region = 'E'"
    )
    arrow = view.to_arrow()
    assert arrow.schema == view.schema
    assert view.schema.types == [pa.int32(), pa.string(), pa.decimal128(10, 2)]
    pandas, polars = view.to_pandas(), view.to_polars()
    assert isinstance(pandas, pd.DataFrame) and isinstance(polars, pl.DataFrame)
    assert list(pandas.columns) == polars.columns == ["id", "region", "total"]
    assert pandas["id"].tolist() == polars["id"].to_list() == arrow["id"].to_pylist()
    assert polars["region"].to_list() == arrow["region"].to_pylist()
    assert pa.Table.from_batches(view.batches(7)).equals(arrow)
    assert view.count() == len(pandas) == 40


def test_an_empty_answer_has_its_columns(db: Database) -> None:
    view = db.create_view("v", "SELECT id, total FROM o WHERE total < 0")
    assert (view.count(), view.to_arrow().num_rows, list(view.batches())) == (0, 0, [])
    assert view.to_arrow().schema == view.schema
    assert list(view.to_pandas().columns) == view.to_polars().columns == ["id", "total"]


def test_an_empty_table_without_groups_gives_one_row(db: Database) -> None:
    view = db.create_view("v", "SELECT COUNT(*) AS n, SUM(total) AS s, MIN(id) AS m FROM o WHERE total < 0")
    assert view.to_arrow().to_pylist() == [{"n": 0, "s": None, "m": None}]
    tx = db.apply({"o": [{"id": 99, "total": -1}]})
    assert sorted(r["_weight"] for r in tx.deltas["v"].to_pylist()) == [-1, 1]
    tx = db.apply({"o": [{"id": 99, "_weight": -1}]})
    assert view.to_arrow().to_pylist() == [{"n": 0, "s": None, "m": None}]
    assert view.count() == 1


def test_explain_in_words_and_as_data(db: Database) -> None:
    view = db.create_view("v", REGIONS)
    text = view.explain()
    for part in ("class", "height", "update", "delay", "tree", "customer", "SUM", "tuples"):
        assert part in text
    data = json.loads(view.explain("json"))
    assert data["view"] == "v" and data["class"] in text
    assert sum(n["tuples"] for n in data["tree"] if not n["generalized"]) == 46
    assert data["state"]["tuples"] >= 46 and data["state"]["bytes"] > 0
    assert data["output"] == ["region", "total", "n"]
    assert {n["relation"] for n in data["tree"] if not n["generalized"]} == {"c", "o"}
    with pytest.raises(ValueError, match="text"):
        view.explain("xml")


def test_drop_and_create_again(db: Database) -> None:
    view = db.create_view("v", REGIONS)
    size = db.nbytes()
    db.execute("DROP MATERIALIZED VIEW v")
    assert db.nbytes() < size
    for use in (view.to_arrow, view.count, view.explain, lambda: view.subscribe(print), lambda: next(view.batches())):
        with pytest.raises(freshet.StateError, match="dropped"):
            use()
    with pytest.raises(freshet.PlanError, match="no view v"):
        db.view("v")
    assert "v" not in db.apply({"o": [{"id": 99, "customer": 1, "total": 1}]}).deltas
    db.create_view("v", "SELECT COUNT(*) AS n FROM o")
    follow(db, {"v": "SELECT COUNT(*) AS n FROM o"}, STEPS[2:3])
    db.execute("DROP VIEW v; DROP TABLE o; CREATE TABLE o (id STRING)")
    db.apply({"o": [{"id": "a text now"}]})
    assert db.execute("SELECT id FROM o").to_pylist() == [{"id": "a text now"}]


def test_a_delta_of_a_dropped_view_can_still_be_read(db: Database) -> None:
    db.create_view("v", "SELECT id FROM o")
    tx = db.apply({"o": [{"id": 99}]})
    db.execute("DROP VIEW v")
    assert tx.deltas["v"].to_pylist() == [{"id": 99, "_weight": 1}]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 AS one",
        "SELECT 1 AS one WHERE 1 = 2",
        "SELECT COUNT(*) AS n",
        "SELECT COUNT(*) AS n WHERE 1 = 2",
        "SELECT DISTINCT 2 AS two",
        "SELECT 1 AS one WHERE EXISTS (SELECT 1 FROM o)",
    ],
)
def test_a_view_over_nothing(db: Database, sql: str) -> None:
    db.create_view("v", sql)
    follow(db, {"v": sql}, STEPS[:1])
