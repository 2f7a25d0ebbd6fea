"""A refused change has no effect: every array of the state is compared, byte for byte, before and after.

Arrays may have grown (their first bytes count) and the string pool may have seen texts that it has forgotten again, so
of the pool only what it still knows counts. Refusals found only while views are computed (an overflow, a division by
zero) rebuild the views: there rows, answers and later deltas must be right.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import freshet
from freshet import ChangeError, FreshetError, PlanError, SqlError, UnsupportedError
from freshet.database.db import Database, inside
from tests.oracle import RunningSum, duckdb_answer, same_bag

Refused = tuple[Callable[[Database], Any], type[Exception], str]

DDL = """
    CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING NOT NULL, total DECIMAL(10, 2), day DATE, flag TINYINT);
    CREATE TABLE lines (o BIGINT, n INT, body VARCHAR(5), q DOUBLE, PRIMARY KEY (o, n));
    CREATE TABLE notes (id INT, body STRING NOT NULL);
"""
VIEWS = {
    "joined": "SELECT o.id, o.customer, l.body FROM orders o JOIN lines l ON l.o = o.id",
    "totals": "SELECT customer, SUM(total) AS total, MAX(day) AS day FROM orders GROUP BY customer",
    "kinds": "SELECT DISTINCT o.customer, l.body FROM orders o LEFT JOIN lines l ON l.o = o.id",
    "noted": "SELECT n.body, o.id FROM notes n JOIN orders o ON o.customer = n.body",
}
ROWS: dict[str, list[dict[str, Any]]] = {
    "orders": [
        {"id": 1, "customer": "ada", "total": decimal.Decimal("1.50"), "day": datetime.date(2024, 1, 1), "flag": 1},
        {"id": 2, "customer": "ada", "total": None, "day": None, "flag": None},
        {"id": 3, "customer": "bob", "total": decimal.Decimal("7.25"), "day": datetime.date(2024, 3, 1), "flag": -128},
    ],
    "lines": [{"o": 1, "n": 1, "body": "pen", "q": 1.5}, {"o": 1, "n": 2, "body": "ink", "q": None}],
    "notes": [{"id": 1, "body": "ada"}, {"id": 1, "body": "ada"}, {"id": None, "body": "bob"}],
}


@pytest.fixture
def db() -> Database:
    made = freshet.connect()
    made.execute(DDL)
    for name, sql in VIEWS.items():
        made.create_view(name, sql)
    made.apply(ROWS)
    return made


def fingerprint(db: Database) -> dict[str, Any]:
    """The contents of every array, and the other state of a database."""
    arrays = {a.name: a.data.copy() for a in inside(db).state.core.arena if not a.name.startswith("text/")}
    texts = {
        i: inside(db).state.core.pool.text(np.array([i]))[0].as_py() for i in range(inside(db).state.core.pool.used)
    }
    texts = {i: text for i, text in texts.items() if inside(db).state.core.pool.find(text) == i}
    return {
        "arrays": arrays,
        "texts": texts,
        "version": db.version,
        "names": (sorted(inside(db).state.core.tables), sorted(db.views)),
    }


def unchanged(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert after["arrays"].keys() == before["arrays"].keys()
    for name, data in before["arrays"].items():
        now = after["arrays"][name]
        assert np.array_equal(now[: len(data)], data), f"{name} changed"
    assert {k: v for k, v in before.items() if k != "arrays"} == {k: v for k, v in after.items() if k != "arrays"}


def order(**values: Any) -> dict[str, Any]:
    return {"id": 9, "customer": "eve", "total": None, "day": None, "flag": None, **values}


NO_DICT: Any = [{"id": 1}]


def apply(**changes: Any) -> Callable[[Database], Any]:
    return lambda db: db.apply(changes)


def execute(sql: str) -> Callable[[Database], Any]:
    return lambda db: db.execute(sql)


CHANGES: dict[str, Refused] = {
    "missing row": (apply(orders=[order(_weight=-1)]), ChangeError, "does not hold"),
    "row with another value": (apply(orders=[{**ROWS["orders"][0], "flag": 2, "_weight": -1}]), ChangeError, "hold"),
    "one copy too many": (apply(notes=[{"id": 1, "body": "ada", "_weight": -3}]), ChangeError, "does not hold"),
    "missing row of a bag": (apply(notes=[{"id": 7, "body": "a new text", "_weight": -1}]), ChangeError, "hold"),
    "second row of a key": (apply(orders=[order(), order(id=1)]), ChangeError, r"row 1: a second row .*id=1"),
    "key twice in one batch": (apply(orders=[order(), order(flag=3)]), ChangeError, "second row with primary key"),
    "row twice in one batch": (apply(orders=[order(_weight=2)]), ChangeError, "second row with primary key"),
    "second row of a wide key": (apply(lines=[{"o": 1, "n": 2, "body": "x"}]), ChangeError, "o=1, n=2"),
    "NULL in a key": (apply(orders=[order(), order(id=None)]), ChangeError, "row 1: id is NULL"),
    "NULL in part of a key": (apply(lines=[{"o": 1, "n": None}]), ChangeError, "n is NULL or missing"),
    "key not given": (apply(orders=[{"customer": "eve"}]), ChangeError, "id is NULL or missing"),
    "NULL against NOT NULL": (apply(orders=[order(customer=None)]), ChangeError, "customer is NULL"),
    "NOT NULL not given": (apply(notes=[{"id": 4}]), ChangeError, "body is NULL or missing"),
    "number too large": (apply(orders=[order(), order(id=10, flag=128)]), ChangeError, "row 1.*flag|flag.*128"),
    "number too large for INT": (apply(notes=[{"id": 2**31, "body": "x"}]), ChangeError, "id"),
    "decimal too large": (apply(orders=[order(total=decimal.Decimal("123456789.00"))]), ChangeError, "total"),
    "text too long": (apply(lines=[{"o": 5, "n": 5, "body": "pencil"}]), ChangeError, "body"),
    "text for a number": (apply(notes=[{"id": "one", "body": "x"}]), ChangeError, "id"),
    "text for a date": (apply(orders=[order(day="tomorrow")]), ChangeError, "day"),
    "unknown column": (apply(orders=[order(custmer="x")]), ChangeError, r"no column custmer \(did you mean customer"),
    "unknown change type": (apply(orders=[order(_change_type="replace")]), ChangeError, "'replace'; give one of"),
    "no change type": (apply(orders=[order(_change_type=None)]), ChangeError, "_change_type is None"),
    "weight that is not a number": (apply(orders=[order(_weight="many")]), ChangeError, "_weight"),
    "weight too large": (apply(notes=[{"id": 1, "body": "x", "_weight": 2**31}]), ChangeError, "at most 2147483647"),
    "no weight": (apply(orders=[order(_weight=None)]), ChangeError, "_weight is NULL"),
    "weight and change type": (apply(orders=[order(_weight=1, _change_type="insert")]), ChangeError, "keep one"),
    "unknown table": (apply(order=[order()]), ChangeError, "no table order; the tables are"),
    "a view as a table": (apply(totals=[{"customer": "x"}]), ChangeError, "is a view"),
    "good table, then bad one": (
        apply(orders=[order(customer="somebody new")], notes=[{"id": 8, "body": "text", "_weight": -1}]),
        ChangeError,
        "table notes",
    ),
    "good table, then unknown one": (apply(orders=[order()], nothing=[{}]), ChangeError, "no table nothing"),
    "upsert without a key": (apply(notes=[{"id": 1, "body": "x", "_change_type": "upsert"}]), ChangeError, "upsert"),
    "upsert of NULL": (apply(orders=[order(customer=None, _change_type="upsert")]), ChangeError, "customer is NULL"),
    "delete of a missing key": (apply(orders=[{"id": 77, "_change_type": "delete"}]), ChangeError, "id=77"),
    "delete with a wrong value": (
        apply(orders=[{"id": 1, "customer": "bob", "_change_type": "delete"}]),
        ChangeError,
        "customer differs from the stored value",
    ),
    "delete by half a key": (apply(lines=[{"o": 1, "_change_type": "delete"}]), ChangeError, "n is NULL"),
    "delete of a key twice": (
        apply(orders=[{"id": 1, "_change_type": "delete"}, {"id": 1, "_change_type": "delete"}]),
        ChangeError,
        "orders",
    ),
    "rows of no known form": (apply(orders=7), ChangeError, "rows are an int; give Arrow"),
    "rows that are no dicts": (apply(orders=[order(), (1, 2)]), ChangeError, "row 1: the row is a tuple"),
    "changes that are no dict": (lambda db: db.apply(NO_DICT), ChangeError, "give a dict of table name"),
    "a column twice": (
        apply(notes=pa.table([pa.array([1]), pa.array([2]), pa.array(["x"])], names=["id", "ID", "body"])),
        ChangeError,
        "given twice",
    ),
    "a table twice": (apply(notes=[{"id": 5, "body": "x"}], NOTES=[{"id": 6, "body": "y"}]), ChangeError, "twice"),
}  # fmt: skip

STATEMENTS: dict[str, Refused] = {
    "no SQL": (execute("SELEKT 1"), SqlError, "no statement begins with SELEKT"),
    "half a statement": (execute("SELECT customer FROM"), SqlError, "FROM does not fit"),
    "unknown table": (execute("SELECT * FROM order_s"), SqlError, "order_s"),
    "unknown column": (execute("SELECT id, custmer FROM orders"), SqlError, "line 1, column 12.*custmer"),
    "ambiguous column": (execute("SELECT body FROM lines, notes"), SqlError, "body"),
    "types that do not compare": (execute("SELECT * FROM orders WHERE day > 5"), SqlError, r"no operator DATE > INT"),
    "unknown function": (execute("SELECT SOUNDEX2(customer) FROM orders"), SqlError, "(?i)soundex2"),
    "aggregate in WHERE": (execute("SELECT id FROM orders WHERE SUM(total) > 1"), SqlError, "HAVING"),
    "column neither grouped nor aggregated": (execute("SELECT id, COUNT(*) FROM orders GROUP BY day"), SqlError, "id"),
    "not supported": (
        execute("CREATE MATERIALIZED VIEW w AS SELECT id, MEDIAN(id) OVER () AS r FROM orders"),
        UnsupportedError,
        "window function is not supported",
    ),
    "table there already": (execute("CREATE TABLE Orders (a INT)"), SqlError, "already"),
    "table named like a view": (execute("CREATE TABLE totals (a INT)"), SqlError, "already"),
    "view there already": (execute("CREATE MATERIALIZED VIEW totals AS SELECT id FROM orders"), SqlError, "already"),
    "view named like a table": (execute("CREATE MATERIALIZED VIEW notes AS SELECT 1 AS one"), SqlError, "already"),
    "two columns of one name": (execute("CREATE TABLE t (a INT, A INT)"), SqlError, "two columns A"),
    "key that is not a column": (execute("CREATE TABLE t (a INT, PRIMARY KEY (b))"), SqlError, "b"),
    "unknown type": (execute("CREATE TABLE t (a GEOMETRY)"), SqlError, "GEOMETRY is not supported"),
    "drop of a table in use": (execute("DROP TABLE orders"), PlanError, "DROP TABLE orders CASCADE"),
    "drop of no table": (execute("DROP TABLE nothing"), SqlError, "no table nothing"),
    "drop of no view": (execute("DROP MATERIALIZED VIEW nothing"), SqlError, "no view nothing"),
    "insert of a key twice": (execute("INSERT INTO orders (id, customer) VALUES (1, 'x')"), ChangeError, "second"),
    "insert of NULL": (execute("INSERT INTO orders (id, customer) VALUES (5, NULL)"), ChangeError, "customer"),
    "insert without a needed column": (execute("INSERT INTO orders (id) VALUES (5)"), SqlError, "NOT NULL"),
    "insert that overflows": (execute("INSERT INTO orders (id, customer, flag) VALUES (5, '', 300)"), SqlError, "300"),
    "insert too long": (execute("INSERT INTO lines VALUES (7, 7, 'pencil', 0.0)"), SqlError, r"VARCHAR\(5\) holds 5"),
    "insert, wrong number of values": (execute("INSERT INTO notes VALUES (1)"), SqlError, "1 values for 2 columns"),
    "insert divides by zero": (execute("INSERT INTO notes VALUES (1, 'one'), (1 / 0, 'zero')"), SqlError, "by zero"),
    "insert from a query that has no answer": (
        execute("INSERT INTO notes SELECT CAST(10 / (id - 1) AS INT), customer || ' again' FROM orders"),
        ChangeError,
        "no answer",
    ),
    "insert into a view": (execute("INSERT INTO totals VALUES ('x', 1, NULL)"), FreshetError, "totals"),
    "update to a key that is there": (execute("UPDATE orders SET id = 1 WHERE id = 2"), ChangeError, "second row"),
    "update of all keys to one": (execute("UPDATE orders SET id = 5"), ChangeError, "second row"),
    "update to NULL": (execute("UPDATE orders SET customer = NULL"), FreshetError, "customer"),
    "update of a key to NULL": (execute("UPDATE orders SET id = NULL"), FreshetError, "id"),
    "update that overflows": (execute("UPDATE orders SET flag = flag - 1"), ChangeError, "-129 does not fit"),
    "update that divides by zero": (
        execute("UPDATE orders SET total = 1 / (id - 3), customer = customer || '?'"),
        ChangeError,
        "division by zero",
    ),
    "update too long": (execute("UPDATE lines SET body = body || body"), ChangeError, "penpen"),
    "update of no column": (execute("UPDATE orders SET cost = 1"), SqlError, "cost"),
    "delete where no value": (execute("DELETE FROM orders WHERE 1 / (id - 3) > 0"), ChangeError, "division by zero"),
    "delete from nothing": (execute("DELETE FROM nothing"), SqlError, "nothing"),
}  # fmt: skip


@pytest.mark.parametrize("case", [*CHANGES.values(), *STATEMENTS.values()], ids=[*CHANGES, *STATEMENTS])
def test_a_refusal_leaves_the_state_as_it_was(db: Database, case: Refused) -> None:
    attempt, error, message = case
    answers = {name: db.view(name).to_arrow() for name in VIEWS}
    before = fingerprint(db)
    with pytest.raises(error, match=message):
        attempt(db)
    unchanged(before, fingerprint(db))
    for name, answer in answers.items():
        assert db.view(name).to_arrow().equals(answer)
    goes_on(db)


def goes_on(db: Database) -> None:
    """The database works as if nothing had been requested."""
    sums = {name: RunningSum(db.view(name).to_arrow()) for name in VIEWS}
    version = db.version
    tx = db.apply({"orders": [order(customer="zoe")], "notes": [{"id": 1, "body": "ada", "_weight": -1}]})
    assert tx.version == version + 1
    tables = {name: db.execute(f"SELECT * FROM {name}") for name in ROWS}
    assert [tables[name].num_rows for name in ROWS] == [4, 2, 2]
    for name, sql in VIEWS.items():
        sums[name].add(tx.deltas[name])
        sums[name].equals(db.view(name).to_arrow())
        same_bag(db.view(name).to_arrow(), duckdb_answer(sql, tables))


def test_a_refusal_says_where(db: Database) -> None:
    with pytest.raises(ChangeError) as caught:
        db.apply({"orders": [order(), order(id=3)]})
    assert (caught.value.table, caught.value.row) == ("orders", 1)
    with pytest.raises(SqlError) as bad:
        db.execute("SELECT id,\n  custmer FROM orders")
    assert (bad.value.line, bad.value.column) == (2, 3)
    assert "custmer FROM orders\n  ^" in str(bad.value).replace("    ^", "  ^")


def test_many_new_texts_are_forgotten(db: Database) -> None:
    """More texts than the pool has room for, so that it grows and is undone; the next id is that of a pool that
    never saw them."""
    before = fingerprint(db)
    rows = [{"id": i, "body": f"text {i}"} for i in range(5_000)] + [{"id": None, "body": None}]
    with pytest.raises(ChangeError, match="row 5000"):
        db.apply({"notes": rows})
    with pytest.raises(ChangeError):
        db.apply({"notes": rows[:-1], "orders": [{"id": 77, "_change_type": "delete"}]})
    unchanged(before, fingerprint(db))
    db.apply({"notes": [{"id": 5, "body": "the first new text"}]})
    assert inside(db).state.core.pool.find("the first new text") == len(before["texts"])


LATE = {
    "sum overflows": (
        "CREATE TABLE t (k INT PRIMARY KEY, x BIGINT)",
        "SELECT SUM(x) AS total FROM t",
        [{"k": 1, "x": 2**62}, {"k": 2, "x": 5}],
        [{"k": 3, "x": 2**62}, {"k": 4, "x": 1}],
        [{"k": 1, "_change_type": "delete"}, {"k": 3, "x": 2**62, "_change_type": "insert"}],
    ),
    "division by zero in an output": (
        "CREATE TABLE t (k INT PRIMARY KEY, x BIGINT)",
        "SELECT a.k, 10 / (a.x - b.x) AS ratio FROM t a JOIN t b ON b.k = a.k + 1",
        [{"k": 1, "x": 1}, {"k": 2, "x": 4}],
        [{"k": 4, "x": 7}, {"k": 3, "x": 4}],
        [{"k": 1, "_change_type": "delete"}, {"k": 3, "x": 5, "_change_type": "insert"}],
    ),
    "division by zero above groups": (
        "CREATE TABLE t (k INT PRIMARY KEY, x BIGINT)",
        "SELECT x, 1 / (COUNT(*) - 2) AS r FROM t GROUP BY x",
        [{"k": 1, "x": 1}, {"k": 2, "x": 4}],
        [{"k": 3, "x": 4}, {"k": 4, "x": 9}],
        [{"k": 1, "_change_type": "delete"}, {"k": 4, "x": 9, "_change_type": "insert"}],
    ),
    "cast in a nested query": (
        "CREATE TABLE t (k INT PRIMARY KEY, x STRING)",
        "SELECT n.y, COUNT(*) AS c FROM (SELECT CAST(x AS INT) AS y FROM t) n GROUP BY n.y",
        [{"k": 1, "x": "1"}, {"k": 2, "x": "2"}],
        [{"k": 3, "x": "1"}, {"k": 4, "x": "four"}],
        [{"k": 2, "_change_type": "delete"}, {"k": 3, "x": "4", "_change_type": "insert"}],
    ),
    "product overflows in a group": (
        "CREATE TABLE t (k INT PRIMARY KEY, x BIGINT)",
        "SELECT a.k % 2 AS m, MAX(a.x * b.x) AS top FROM t a, t b GROUP BY a.k % 2",
        [{"k": 1, "x": 2**31}, {"k": 2, "x": 3}],
        [{"k": 3, "x": 2**33}],
        [{"k": 1, "_change_type": "delete"}, {"k": 4, "x": 2, "_change_type": "insert"}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LATE.values(), ids=list(LATE))
def test_a_refusal_found_late_puts_everything_back(case: tuple[str, str, list[Any], list[Any], list[Any]]) -> None:
    ddl, sql, rows, bad, good = case
    db = freshet.connect()
    db.execute(ddl)
    other = "SELECT COUNT(*) AS n, MIN(x) AS least FROM t"
    early, view, late = (
        db.create_view("early", other),
        db.create_view("v", sql),
        db.create_view("late", "SELECT k, x FROM t"),
    )
    db.apply({"t": rows})
    answers = [v.to_arrow() for v in (early, view, late)]
    sums = [RunningSum(answer) for answer in answers]
    for _ in range(2):
        with pytest.raises(ChangeError, match="a view has no answer"):
            db.apply({"t": bad})
        assert db.version == 1
        for v, answer in zip((early, view, late), answers, strict=True):
            same_bag(v.to_arrow(), answer)
            assert v.count() == answer.num_rows
        same_bag(db.execute("SELECT * FROM t"), late.to_arrow())
    for changes in (good, [{**bad[0], "k": 50, "x": rows[0]["x"]}]):
        if len(changes) == 1 and sql.startswith("SELECT SUM"):
            changes[0]["x"] = -3
        tx = db.apply({"t": changes})
        tables = {"t": db.execute("SELECT * FROM t")}
        for v, total, text in zip((early, view, late), sums, (other, sql, "SELECT k, x FROM t"), strict=True):
            total.add(tx.deltas[v.name])
            total.equals(v.to_arrow())
            same_bag(v.to_arrow(), duckdb_answer(text, tables))


def test_a_view_without_an_answer_over_existing_rows_is_not_created(db: Database) -> None:
    before = fingerprint(db)
    for _ in range(2):
        with pytest.raises(ChangeError, match="no answer over the existing rows"):
            db.create_view("w", "SELECT customer, 1 / (id - 2) AS r FROM orders")
    unchanged(before, fingerprint(db))
    view = db.create_view("w", "SELECT customer, 1 / (id - 200) AS r FROM orders")
    assert view.count() == 3


def test_copies_that_multiply_beyond_64_bits_are_refused() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE a (k INT); CREATE TABLE b (k INT); CREATE TABLE c (k INT)")
    view = db.create_view("v", "SELECT a.k FROM a JOIN b ON b.k = a.k JOIN c ON c.k = a.k")
    many = [{"k": 1, "_weight": 2**21}]
    db.apply({"a": many, "b": many, "c": [{"k": 2, "_weight": 2**21}]})
    with pytest.raises(ChangeError, match="a row of the answer would have more than"):
        db.apply({"c": many})
    assert view.count() == 0
    assert db.apply({"c": [{"k": 1, "_weight": 2**19}]}).deltas["v"].to_pylist() == [{"k": 1, "_weight": 2**61}]
    assert view.count() == 2**61


def test_copies_that_add_up_beyond_64_bits_are_refused() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE a (k INT, i INT); CREATE TABLE b (k INT)")
    view = db.create_view("v", "SELECT b.k FROM a JOIN b ON b.k = a.k")
    db.apply({"b": [{"k": 1, "_weight": 2**30}]})
    with pytest.raises(ChangeError, match="a row of the answer would have more than"):
        db.apply({"a": [{"k": 1, "i": i, "_weight": 2**31 - 1} for i in range(3)]})
    assert view.count() == 0
    db.apply({"a": [{"k": 1, "i": 1, "_weight": 2**30}]})
    assert view.count() == 2**60


PASSING = {
    "LEFT JOIN": "SELECT o.id, 10 / COALESCE(l.q, 0) AS r FROM o LEFT JOIN l ON l.id = o.id",
    "NOT EXISTS": "SELECT o.id, 10 / (o.id - 1) AS r FROM o WHERE NOT EXISTS (SELECT 1 FROM l WHERE l.id = o.id)",
    "groups": "SELECT SUM(10 / COALESCE(l.q, 0)) AS r FROM o LEFT JOIN l ON l.id = o.id",
    "DISTINCT": "SELECT DISTINCT 10 / COALESCE(l.q, 0) AS r FROM o LEFT JOIN l ON l.id = o.id",
    "nested": "SELECT l.q, 10 / (n.top - l.q + 1) AS r FROM l JOIN (SELECT MAX(q) AS top FROM l) n ON 1 = 1",
}


@pytest.mark.parametrize("sql", PASSING.values(), ids=list(PASSING))
def test_rows_that_only_pass_through_a_transaction_are_not_evaluated(sql: str) -> None:
    """Between two tables of a transaction a view may see rows that never were: they need no value."""
    db = freshet.connect()
    db.execute("CREATE TABLE o (id INT PRIMARY KEY); CREATE TABLE l (id INT PRIMARY KEY, q INT)")
    view = db.create_view("v", sql)
    sums = RunningSum(view.to_arrow())
    transactions: list[dict[str, list[dict[str, Any]]]] = [
        {"o": [{"id": 1}], "l": [{"id": 1, "q": 5}]},
        {"l": [{"id": 1, "q": 2, "_change_type": "upsert"}]},
        {"l": [{"id": 2, "q": 3}], "o": [{"id": 2}]},
        {"l": [{"id": 3, "q": 4}], "o": [{"id": 3}, {"id": 2, "_weight": -1}, {"id": 1, "_weight": -1}]},
        {"o": [{"id": 3, "_change_type": "delete"}], "l": [{"id": 3, "_change_type": "delete"}]},
    ]
    for changes in transactions:
        for rows in changes.values():
            for row in rows:
                if "_change_type" not in row:
                    row.setdefault("_weight", 1)
        sums.add(db.apply(changes).deltas["v"])
        tables = {name: db.execute(f"SELECT * FROM {name}") for name in ("o", "l")}
        same_bag(view.to_arrow(), duckdb_answer(sql, tables))
        sums.equals(view.to_arrow())
        again = db.create_view("again", sql)  # nor are they while a view is made
        same_bag(again.to_arrow(), view.to_arrow())
        db.execute("DROP VIEW again")


def test_no_value_is_noticed_where_nobody_asks_for_deltas(db: Database) -> None:
    db.create_view("w", "SELECT customer, 1 / (id - 50) AS r FROM orders")
    with pytest.raises(ChangeError, match="division by zero"):
        db.apply({"orders": [order(id=50)]}, deltas=False)
    db.apply({"orders": [order(id=51)]}, deltas=False)
    assert db.view("w").count() == 4
