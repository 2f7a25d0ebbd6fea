"""A view as a collection: `len`, iteration, `repr`, notebooks, Arrow's capsules; callbacks with a condition."""

from __future__ import annotations

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import freshet


@pytest.fixture
def view() -> freshet.View:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT, s STRING)")
    made = db.create_view("v", "SELECT a, s FROM t ORDER BY a DESC")
    db.apply({"t": [(1, "<b>"), (3, None), (2, "x")]})
    return made


def test_collection(view: freshet.View) -> None:
    rows = [{"a": 3, "s": None}, {"a": 2, "s": "x"}, {"a": 1, "s": "<b>"}]
    assert len(view) == 3 and list(view) == view.to_dicts() == rows
    assert repr(view) == "View('v', version=1, columns=(a INT, s STRING))"


def test_notebook(view: freshet.View) -> None:
    shown = view._repr_html_()
    assert "v: 3 rows at version 1" in shown and "<td>&lt;b&gt;</td>" in shown and "<i>NULL</i>" in shown


def test_capsule(view: freshet.View) -> None:
    assert pa.table(view).equals(view.to_arrow())
    assert pl.DataFrame(view).rows() == [(3, None), (2, "x"), (1, "<b>")]
    assert duckdb.sql("SELECT SUM(a) FROM view").fetchall() == [(6,)]


def test_database_repr() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE T (a INT)")
    db.create_view("v", "SELECT a FROM t")
    assert repr(db) == "Database(in memory, version=0, tables=[T], views=[v])"
    db.close()
    assert repr(db) == "Database(closed)" and "closed" in repr(db.views.get("v", "closed"))


def test_callbacks_with_a_condition() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, s STRING, x DECIMAL(6,2))")
    seen: list[int] = []
    db.create_view("v", "SELECT k, s, x FROM t").subscribe(lambda tx: seen.append(tx.version), where="x > 1 OR s = 'a'")
    db.apply({"t": [(1, "b", "0.50")]})
    db.apply({"t": [(2, "a", None)]})
    db.apply({"t": [(3, None, "1.01"), (4, "b", None)]})
    db.execute("DELETE FROM t WHERE k = 2")
    db.execute("DELETE FROM t WHERE k = 4")
    db.apply({"t": [(5, "b", None)]}, deltas=False)
    assert seen == [2, 3, 4, 6]


@pytest.mark.parametrize("where", ["q = 1", "a", "a = 1; DELETE FROM t", "a = (SELECT MIN(a) FROM t)", "a = 1 LIMIT 1"])
def test_conditions_that_are_none(view: freshet.View, where: str) -> None:
    with pytest.raises(freshet.SqlError):
        view.subscribe(print, where=where)
