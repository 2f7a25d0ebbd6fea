"""All forms of changes are equivalent: forms of rows, weights and change types, upserts and key-only deletes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import freshet
from freshet.database.db import Database

FORMS: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "arrow table": pa.table,
    "chunked arrow table": lambda columns: pa.concat_tables([pa.table(columns).slice(i, 1) for i in range(4)]),
    "sliced arrow table": lambda columns: pa.table({k: [None, *v, None] for k, v in columns.items()}).slice(1, 4),
    "arrow batch": pa.RecordBatch.from_pydict,
    "pandas": pd.DataFrame,
    "pandas with an index": lambda columns: pd.DataFrame(columns, index=[5, 5, 7, 9]),
    "polars": pl.DataFrame,
    "dicts": lambda columns: [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
    "tuple of dicts": lambda columns: tuple(
        dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
    ),
}
COLUMNS: dict[str, list[Any]] = {"id": [1, 2, 3, 4], "name": ["ada", "bob", None, ""], "x": [1.5, None, 3.0, -0.0]}


@pytest.fixture
def db() -> Database:
    made = freshet.connect()
    made.execute("CREATE TABLE t (id INT PRIMARY KEY, name STRING, x DOUBLE); CREATE TABLE bag (id INT, name STRING)")
    made.create_view("v", "SELECT id, name, x FROM t")
    made.create_view("b", "SELECT id, name FROM bag")
    return made


def rows(db: Database, view: str = "v") -> list[tuple[Any, ...]]:
    answer = [tuple(row.values()) for row in db.view(view).to_arrow().to_pylist()]
    return sorted(answer, key=lambda row: tuple((v is not None, v) for v in row))


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
def test_forms_of_rows(db: Database, form: Callable[[dict[str, list[Any]]], Any]) -> None:
    tx = db.apply({"t": form(COLUMNS)})
    assert rows(db) == [(1, "ada", 1.5), (2, "bob", None), (3, None, 3.0), (4, "", 0.0)]
    assert tx.deltas["v"].column("_weight").to_pylist() == [1, 1, 1, 1]
    tx = db.apply({"t": form({**COLUMNS, "_weight": [-1, -1, -1, -1]})})
    assert rows(db) == []
    assert tx.deltas["v"].column("_weight").to_pylist() == [-1, -1, -1, -1]
    db.apply({"t": form({**COLUMNS, "_change_type": ["insert", "upsert", "update_postimage", "insert"]})})
    assert len(rows(db)) == 4


def test_columns_match_by_name_whatever_the_order_and_case(db: Database) -> None:
    db.apply({"T": pa.table({"X": [0.5], "NAME": ["ada"], "Id": [1]})})
    assert rows(db) == [(1, "ada", 0.5)]


def test_columns_not_given_are_null(db: Database) -> None:
    db.apply({"t": [{"id": 1}, {"id": 2, "name": "bob"}], "bag": pa.table({"name": ["x"]})})
    assert rows(db) == [(1, None, None), (2, "bob", None)]
    assert rows(db, "b") == [(None, "x")]


def test_nothing_given_is_a_transaction_too(db: Database) -> None:
    assert db.apply({}).version == 1
    assert db.apply({"t": []}).version == 2
    assert db.apply({"t": pa.table({"id": pa.array([], pa.int32())})}).version == 3
    assert all(delta.num_rows == 0 for delta in db.apply({"t": [], "bag": []}).deltas.values())


@pytest.mark.parametrize("weights", ["int8", "int32", "int64", "uint8", "double"])
def test_weights_of_any_whole_type(db: Database, weights: str) -> None:
    kind = pa.float64() if weights == "double" else getattr(pa, weights)()
    db.apply({"bag": pa.table({"id": [7], "name": ["x"], "_weight": pa.array([3], kind)})})
    assert rows(db, "b") == [(7, "x")] * 3


def test_weights_add_up_within_a_transaction(db: Database) -> None:
    given = [{"id": 7, "name": "x", "_weight": w} for w in (2, -3, 4, -1)] + [{"id": 8, "name": "y", "_weight": 0}]
    tx = db.apply({"bag": given})
    assert tx.deltas["b"].to_pylist() == [{"id": 7, "name": "x", "_weight": 2}]
    assert db.apply({"bag": given[2:4]}).deltas["b"].to_pylist() == [{"id": 7, "name": "x", "_weight": 3}]
    tx = db.apply({"bag": [{"id": 7, "name": "x", "_weight": -5}]})
    assert tx.deltas["b"].to_pylist() == [{"id": 7, "name": "x", "_weight": -5}]
    assert rows(db, "b") == []


def test_a_row_and_its_deletion_cancel_out(db: Database) -> None:
    tx = db.apply({"t": [{"id": 1, "name": "ada", "_weight": 1}, {"id": 1, "name": "ada", "_weight": -1}]})
    assert tx.version == 1 and tx.deltas["v"].num_rows == 0 and rows(db) == []


def test_update_as_two_images(db: Database) -> None:
    db.apply({"t": COLUMNS_AS_DICTS[:2], "bag": [{"id": 1, "name": "x"}, {"id": 1, "name": "x"}]})
    images = [
        {"id": 1, "name": "ada", "x": 1.5, "_change_type": "update_preimage"},
        {"id": 1, "name": "eve", "x": 1.5, "_change_type": "update_postimage"},
    ]
    tx = db.apply({
        "t": images,
        "bag": [
            {"id": 1, "name": "x", "_change_type": "update_preimage"},
            {"id": 1, "name": "z", "_change_type": "update_postimage"},
        ],
    })  # fmt: skip
    assert rows(db) == [(1, "eve", 1.5), (2, "bob", None)]
    assert rows(db, "b") == [(1, "x"), (1, "z")]
    assert sorted(tx.deltas["v"].column("_weight").to_pylist()) == [-1, 1]


COLUMNS_AS_DICTS: list[dict[str, Any]] = FORMS["dicts"](COLUMNS)


def test_images_in_any_order(db: Database) -> None:
    """The new image may stand before the old one, and keys may change places."""
    db.apply({"t": COLUMNS_AS_DICTS[:2]})
    db.apply({"t": [
        {"id": 2, "name": "ada", "x": 1.5, "_change_type": "update_postimage"},
        {"id": 1, "name": "ada", "x": 1.5, "_change_type": "update_preimage"},
        {"id": 1, "name": "bob", "x": None, "_change_type": "update_postimage"},
        {"id": 2, "name": "bob", "x": None, "_change_type": "update_preimage"},
    ]})  # fmt: skip
    assert rows(db) == [(1, "bob", None), (2, "ada", 1.5)]


def test_upserts_insert_replace_and_repeat(db: Database) -> None:
    db.apply({"t": COLUMNS_AS_DICTS[:2]})
    tx = db.apply({"t": [
        {"id": 1, "name": "first", "x": 0.0, "_change_type": "upsert"},
        {"id": 9, "name": "new", "x": 9.0, "_change_type": "upsert"},
        {"id": 1, "name": "last", "x": 1.0, "_change_type": "upsert"},
        {"id": 2, "name": "bob", "x": None, "_change_type": "upsert"},
    ]})  # fmt: skip
    assert rows(db) == [(1, "last", 1.0), (2, "bob", None), (9, "new", 9.0)]
    weights = {(r["id"], r["name"]): r["_weight"] for r in tx.deltas["v"].to_pylist()}
    assert weights == {(1, "ada"): -1, (1, "last"): 1, (9, "new"): 1}, "an unchanged row is not a change"


def test_upserts_and_deletes_of_one_key_the_last_decides(db: Database) -> None:
    db.apply({"t": COLUMNS_AS_DICTS[:2]})
    db.apply({"t": [
        {"id": 1, "name": "x", "_change_type": "upsert"},
        {"id": 1, "_change_type": "delete"},
        {"id": 2, "_change_type": "delete"},
        {"id": 2, "name": "again", "_change_type": "upsert"},
    ]})  # fmt: skip
    assert rows(db) == [(2, "again", None)]


def test_deletes_by_key_alone(db: Database) -> None:
    db.apply({"t": COLUMNS_AS_DICTS})
    db.apply({"t": pa.table({"id": [1, 2], "_change_type": ["delete", "delete"]})})
    db.apply({"t": [{"id": 3, "_weight": -1}]})
    tx = db.apply({"t": [{"id": 4, "name": "", "_change_type": "delete"}]})
    assert tx.deltas["v"].to_pylist() == [{"id": 4, "name": "", "x": 0.0, "_weight": -1}]
    assert rows(db) == []


def test_deletes_by_a_wide_key(db: Database) -> None:
    db.execute("CREATE TABLE w (a STRING, n INT, b DATE, PRIMARY KEY (b, a))")
    view = db.create_view("wide", "SELECT * FROM w")
    day = pa.array([0, 1, 0], pa.date32())
    db.apply({"w": pa.table({"a": ["x", "x", "y"], "n": [1, 2, 3], "b": day})})
    db.apply({"w": pa.table({"a": ["x", "y"], "b": day.take([1, 2]), "_change_type": ["delete", "delete"]})})
    assert view.to_arrow().column("n").to_pylist() == [1]


def test_one_transaction_over_many_tables(db: Database) -> None:
    joined = db.create_view("joined", "SELECT t.name, b.name AS other FROM t JOIN bag b ON b.id = t.id")
    tx = db.apply({"bag": [{"id": 1, "name": "x"}], "t": [{"id": 1, "name": "ada"}]})
    assert tx.version == 1
    assert tx.deltas["joined"].to_pylist() == [{"name": "ada", "other": "x", "_weight": 1}]
    tx = db.apply({"t": [{"id": 1, "_weight": -1}], "bag": [{"id": 1, "name": "x", "_weight": -1}]})
    assert tx.deltas["joined"].to_pylist() == [{"name": "ada", "other": "x", "_weight": -1}]
    assert joined.count() == 0


def test_versions_count_transactions(db: Database) -> None:
    assert db.version == 0
    assert [db.apply({"bag": [{"id": i}]}).version for i in range(3)] == [1, 2, 3]
    assert db.execute("INSERT INTO bag VALUES (5, 'x')").version == 4
    db.execute("SELECT * FROM bag")
    db.execute("CREATE TABLE other (a INT)")
    assert db.version == 4


def test_deltas_have_the_views_columns_and_a_weight(db: Database) -> None:
    db.create_view("counted", "SELECT COUNT(*) AS n FROM t")
    tx = db.apply({"bag": [{"id": 1}]})
    assert list(tx.deltas) == ["v", "b", "counted"]
    assert tx.deltas["v"].num_rows == 0
    assert tx.deltas["V"].column_names == ["id", "name", "x", "_weight"]
    assert tx.deltas["v"].schema.types == [pa.int32(), pa.string(), pa.float64(), pa.int64()]
    assert tx.deltas["counted"].num_rows == 0
    with pytest.raises(KeyError):
        tx.deltas["nothing"]


def test_deltas_can_be_read_later(db: Database) -> None:
    """A delta is of its transaction, also when it is read after the rows and their texts are gone."""
    tx = db.apply({"t": [{"id": 1, "name": "gone soon"}]})
    db.apply({"t": [{"id": 1, "_weight": -1}]})
    for i in range(3):
        db.apply({"t": [{"id": j, "name": f"text {i} {j}"} for j in range(5_000)]})
        db.apply({"t": [{"id": j, "_weight": -1} for j in range(5_000)]})
    assert tx.deltas["v"].to_pylist() == [{"id": 1, "name": "gone soon", "x": None, "_weight": 1}]


def test_deltas_are_not_made_when_not_wanted(db: Database) -> None:
    tx = db.apply({"t": COLUMNS_AS_DICTS}, deltas=False)
    assert len(tx.deltas) == 0 and len(rows(db)) == 4
