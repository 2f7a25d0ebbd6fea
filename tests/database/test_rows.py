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
def test_invalid_conditions_are_refused(view: freshet.View, where: str) -> None:
    with pytest.raises(freshet.SqlError):
        view.subscribe(print, where=where)


def test_each_row_is_in_its_view() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a BIGINT PRIMARY KEY, b DOUBLE, c STRING)")
    db.apply({"t": [(1, float("nan"), None), (2, 0.5, "x"), (3, None, "y")]})
    keyed = db.create_view("keyed", "SELECT a, b, c FROM t")
    bag = db.create_view("bag", "SELECT b, c FROM t")
    for view in (keyed, bag):
        assert all(row in view for row in view), "with a key or without"
    assert {"A": 2, "C": "x"} in keyed and {"a": 2, "c": "y"} not in keyed and {"a": 2} in keyed
    assert {"b": 0.5, "c": "y"} not in bag
    with pytest.raises(freshet.PlanError, match="cannot be found by b"):
        {"b": 0.5} in bag  # noqa: B015
    with pytest.raises(freshet.PlanError, match="no column a; view bag has b, c"):
        {"a": 2, "z": 1} in bag  # noqa: B015
    with pytest.raises(freshet.PlanError, match="no column z; view keyed has a, b, c"):
        {"a": 2, "z": 1} in keyed  # noqa: B015


def test_a_database_is_a_collection_of_views() -> None:
    db = freshet.connect()
    assert db and len(db) == 0 and list(db) == []
    db.execute("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1), (2)")
    view = db.create_view("Sums", "SELECT SUM(a) AS a FROM t")
    assert len(db) == 1 and list(db) == ["Sums"] and db["sums"] is view
    assert "SUMS" in db and "t" not in db and 1 not in db
    with pytest.raises(KeyError, match="others"):
        db["others"]
    shown = db._repr_html_()
    assert "version 1" in shown and "<td>t</td><td>2</td>" in shown and "<td>Sums</td><td>1</td>" in shown
    db.close()
    assert db._repr_html_() == "<p>a closed database</p>"
