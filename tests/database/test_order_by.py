"""ORDER BY is the order in which an answer is read, by every reader; state and deltas are bags nevertheless."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import freshet
from freshet.cli.session import SqlSession
from freshet.web.engine import read_view
from tests.oracle import RunningSum, in_order, same_bag

TABLE = "CREATE TABLE t (id BIGINT PRIMARY KEY, i INT, f DOUBLE, s STRING, d DATE, n DECIMAL(30,4), p DECIMAL(8,2))"
VALUES: dict[str, list[Any]] = {
    "i": [None, -1, 0, 7],
    "f": [None, float("nan"), float("-inf"), -0.0, 0.0, 2.5],
    "s": [None, "", "a", "B", "é", "aa", "𝒳", "￿"],
    "d": [None, datetime.date(1969, 1, 1), datetime.date(2024, 2, 29)],
    "n": [None, Decimal("-100000000000000000000.0001"), Decimal("0"), Decimal("99999999999999999999.5")],
    "p": [None, Decimal("-0.01"), Decimal("5.00")],
}
WAYS = ("", " NULLS LAST", " DESC", " DESC NULLS FIRST", " ASC NULLS FIRST")
SCHEMA = pa.schema(
    [("id", pa.int64()), ("i", pa.int32()), ("f", pa.float64()), ("s", pa.string()), ("d", pa.date32()),
     ("n", pa.decimal128(30, 4)), ("p", pa.decimal128(8, 2))]
)  # fmt: skip


def key(column: int, words: str) -> tuple[int, bool, bool]:
    return column, "DESC" in words, "FIRST" in words or not ("LAST" in words or "DESC" in words)


@given(st.data())
def test_any_keys_shown_or_hidden(data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.fixed_dictionaries({c: st.sampled_from(v) for c, v in VALUES.items()}), max_size=12))
    changed = data.draw(st.lists(st.fixed_dictionaries({c: st.sampled_from(v) for c, v in VALUES.items()}), max_size=4))
    keys = data.draw(st.lists(st.tuples(st.sampled_from([*VALUES]), st.sampled_from(WAYS)), min_size=1, max_size=3))
    columns = ["id", *VALUES]
    order = [key(columns.index(c), words) for c, words in keys]
    by = ", ".join(f"{c}{words}" for c, words in keys)
    db = freshet.connect()
    db.execute(TABLE)
    shown = db.create_view("shown", f"SELECT * FROM t ORDER BY {by}")
    hidden = db.create_view("hidden", f"SELECT id AS x FROM t ORDER BY {by}")
    few = db.create_view("few", f"SELECT * FROM t ORDER BY {by} LIMIT 5")
    sums = RunningSum(hidden.to_arrow())
    for changes in (rows, changed):
        listed = [{"id": i, **row, "_change_type": "upsert"} for i, row in enumerate(changes)]
        tx = db.apply({"t": pa.Table.from_pylist(listed, pa.schema([*SCHEMA, ("_change_type", pa.string())]))})
        answer = shown.to_arrow()
        in_order(answer, order)
        in_order(few.to_arrow(), order)
        in_order(db.execute(f"SELECT * FROM t ORDER BY {by}"), order)
        read = {row["id"]: row for row in answer.to_pylist()}
        places = [read[x] for x in hidden.to_arrow().column("x").to_pylist()]
        in_order(pa.Table.from_pylist(places, SCHEMA), order)
        sums.add(tx.deltas["hidden"])
        sums.equals(hidden.to_arrow())
        assert hidden.count() == len(read)


@pytest.fixture
def db() -> freshet.Database:
    made = freshet.connect()
    made.execute("CREATE TABLE t (a INT, b INT, s STRING)")
    made.execute("INSERT INTO t VALUES (3, 1, 'x'), (1, 2, 'y'), (2, 3, NULL), (1, 1, 'z')")
    return made


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT a FROM t ORDER BY a DESC", [3, 2, 1, 1]),
        ("SELECT b FROM t ORDER BY a, -b", [2, 1, 3, 1]),
        ("SELECT s FROM t ORDER BY s", [None, "x", "y", "z"]),
        ("SELECT s FROM t ORDER BY s DESC", ["z", "y", "x", None]),
        ("SELECT s FROM t ORDER BY s NULLS LAST", ["x", "y", "z", None]),
        ("SELECT UPPER(s) AS s FROM t ORDER BY LENGTH(s) DESC, t.s DESC", ["Z", "Y", "X", None]),
        ("SELECT a FROM t GROUP BY a ORDER BY SUM(b) DESC, a DESC", [2, 1, 3]),
        ("SELECT DISTINCT a FROM t ORDER BY a * -1", [3, 2, 1]),
        ("SELECT a FROM t UNION SELECT b + 10 FROM t ORDER BY 1 DESC", [13, 12, 11, 3, 2, 1]),
        ("(SELECT a FROM t ORDER BY a DESC)", [3, 2, 1, 1]),
        ("(SELECT a FROM t ORDER BY b) ORDER BY a", [1, 1, 2, 3]),
        ("VALUES (2), (3), (1) ORDER BY col1", [1, 2, 3]),
        ("WITH w AS (SELECT a FROM t ORDER BY a DESC) SELECT a FROM w ORDER BY a", [1, 1, 2, 3]),
        ("SELECT a, RANK() OVER (ORDER BY b, a) AS r FROM t ORDER BY r", [1, 3, 1, 2]),
        ("SELECT a FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) = 1 ORDER BY a DESC", [3, 2, 1]),
        ("SELECT a FROM t ORDER BY a DESC LIMIT 2", [3, 2]),
        ("SELECT a FROM t ORDER BY a DESC LIMIT ALL", [3, 2, 1, 1]),
        ("SELECT a FROM t ORDER BY a DESC OFFSET 1", [2, 1, 1]),
        ("SELECT a, b FROM t ORDER BY ALL", [1, 1, 2, 3]),
        ("SELECT a FROM t ORDER BY 'x', NULL, a", [1, 1, 2, 3]),
    ],
)
def test_one_off_and_as_a_view(sql: str, expected: list[object], db: freshet.Database) -> None:
    assert db.execute(sql).column(0).to_pylist() == expected
    view = db.create_view("v", sql)
    assert view.to_arrow().column(0).to_pylist() == expected
    assert view.to_polars().to_series(0).to_list() == expected
    assert view.to_pandas().iloc[:, 0].where(lambda c: c.notna(), None).tolist() == expected
    assert [v for batch in view.batches(2) for v in batch.column(0).to_pylist()] == expected
    assert all(batch.num_rows <= 2 for batch in view.batches(2))
    same_bag(pa.Table.from_batches(list(view.batches(ordered=False)), view.schema), view.to_arrow())


def test_a_change_of_what_only_the_order_reads_is_no_change(db: freshet.Database) -> None:
    view = db.create_view("v", "SELECT s FROM t ORDER BY b")
    assert db.execute("UPDATE t SET b = -b").deltas["v"].num_rows == 0
    assert view.to_arrow().column(0).to_pylist()[0] is None
    assert view.schema.names == ["s"]


def test_what_reads_a_view_in_order_reads_a_bag(db: freshet.Database) -> None:
    db.create_view("v", "SELECT a AS x FROM t ORDER BY b, s")
    assert db.execute("SELECT * FROM v WHERE x = 1").to_pylist() == [{"x": 1}, {"x": 1}]
    counted = db.create_view("w", "SELECT x, COUNT(*) AS n FROM v GROUP BY x ORDER BY x DESC")
    db.execute("INSERT INTO t VALUES (3, 9, 'q')")
    assert counted.to_arrow().to_pylist() == [{"x": 3, "n": 2}, {"x": 2, "n": 1}, {"x": 1, "n": 2}]
    db.execute("CREATE TABLE u (x INT); INSERT INTO u SELECT a FROM t ORDER BY b")
    assert db.execute("SELECT COUNT(*) AS n FROM u").to_pylist() == [{"n": 5}]


def test_a_database_on_disk_keeps_the_order(tmp_path: Path) -> None:
    with freshet.connect(tmp_path) as db:
        db.execute("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 5), (2, 4), (3, 6)")
        db.create_view("v", "SELECT a FROM t ORDER BY b DESC")
    with freshet.connect(tmp_path) as db:
        db.execute("INSERT INTO t VALUES (4, 5)")
        assert db.view("v").to_arrow().column(0).to_pylist()[::3] == [3, 2]
        assert db.execute("SELECT a FROM v ORDER BY a").column(0).to_pylist() == [1, 2, 3, 4]


def test_plans_say_so_and_are_read_back(db: freshet.Database) -> None:
    plan = freshet.plan("SELECT a FROM t ORDER BY b DESC, a", db.catalog)
    assert "sorted     b DESC NULLS LAST, a ASC NULLS FIRST, when it is read" in plan.explain()
    again = freshet.Plan.from_json(plan.to_json())
    assert again == plan
    assert db.create_view("v", again).to_arrow().column(0).to_pylist() == [2, 1, 1, 3]


def test_the_prompt_and_the_page(db: freshet.Database, capsys: pytest.CaptureFixture[str]) -> None:
    SqlSession(db).execute("SELECT a FROM t ORDER BY a DESC, s;")
    assert capsys.readouterr().out.split()[:6] == ["a", "─", "3", "2", "1", "1"]
    assert read_view(db.create_view("v", "SELECT b FROM t ORDER BY s DESC"))[0].column(0).to_pylist() == [1, 2, 1, 3]


@pytest.mark.parametrize("key", ["NULL * 2", "2", "'a'", "id % 1"])
@pytest.mark.parametrize("cut", ["LIMIT 1 OFFSET 1", "OFFSET 1", "LIMIT 2"])
def test_ties_are_cut_where_a_view_cuts_them(key: str, cut: str) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, s STRING, y BINARY); INSERT INTO t VALUES (2, 'z', X'7f')")
    db.execute("INSERT INTO t VALUES (0, 'a', X'61'), (1, 'b', X'00')")
    for shown in ("s", "y", "s, y"):
        sql = f"SELECT {key} AS k, {shown} FROM t ORDER BY k DESC {cut}"
        view = db.create_view("v", sql)
        assert db.execute(sql).to_pylist() == view.to_arrow().to_pylist()
        db.execute("DROP VIEW v")
