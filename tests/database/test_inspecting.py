"""SHOW, DESCRIBE and EXPLAIN are statements like others: bound with the text, answered as tables."""

from __future__ import annotations

import pytest

import freshet


@pytest.fixture
def db() -> freshet.Database:
    made = freshet.connect()
    made.execute("CREATE TABLE bag (a INT, b STRING); CREATE TABLE Keyed (id BIGINT PRIMARY KEY, c DECIMAL(5,2))")
    made.execute("INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (2, NULL)")
    made.execute("CREATE MATERIALIZED VIEW Counts AS SELECT b, COUNT(*) AS n FROM bag GROUP BY b")
    return made


def test_the_objects_that_exist_are_listed(db: freshet.Database) -> None:
    assert db.execute("SHOW TABLES").to_pylist() == [{"name": "bag", "rows": 3}, {"name": "Keyed", "rows": 0}]
    counts = {"name": "Counts", "rows": 2, "query": "SELECT b, COUNT(*) AS n FROM bag GROUP BY b"}
    for statement in ("SHOW VIEWS", "show materialized views"):
        assert db.query(statement).to_pylist() == [counts]


@pytest.mark.parametrize("statement", ["DESCRIBE keyed", "DESC TABLE Keyed", "DESCRIBE `KEYED`"])
def test_columns(db: freshet.Database, statement: str) -> None:
    assert db.execute(statement).to_pylist() == [
        {"name": "id", "type": "BIGINT", "nullable": False, "key": True},
        {"name": "c", "type": "DECIMAL(5,2)", "nullable": True, "key": False},
    ]


def test_columns_of_a_view(db: freshet.Database) -> None:
    assert db.execute("DESCRIBE counts").column("name").to_pylist() == ["b", "n"]


def lines(db: freshet.Database, statement: str, params: list[object] | None = None) -> list[str]:
    return [str(line) for line in db.execute(statement, params).column("plan").to_pylist()]


def test_explain_of_a_view_and_of_a_query(db: freshet.Database) -> None:
    view = db.view("counts")
    assert lines(db, "EXPLAIN counts") == view.plan.explain().splitlines()
    assert lines(db, "EXPLAIN ANALYZE VIEW counts") == view.explain().splitlines()
    query = "SELECT a FROM bag WHERE b = ';'"
    assert lines(db, f"EXPLAIN {query}") == freshet.plan(query, db.catalog).explain().splitlines()
    analyzed = lines(db, "EXPLAIN ANALYZE SELECT a FROM bag WHERE b = ? LIMIT 5", ["x"])
    assert analyzed[-1].startswith("answered   2 rows in ")
    assert db.version == 1


def test_they_are_read_with_the_text_and_run_in_its_order(db: freshet.Database) -> None:
    assert (
        db.execute("CREATE TABLE new (z INT); INSERT INTO new VALUES (1); DESCRIBE new").to_pylist()[0]["name"] == "z"
    )
    with pytest.raises(freshet.SqlError, match="statement 2 of 2 failed; nothing was run"):
        db.execute("INSERT INTO bag VALUES (3, 'y'); DESCRIBE nothing")
    assert db.execute("INSERT INTO bag VALUES (3, 'y'); SHOW TABLES").to_pylist()[0] == {"name": "bag", "rows": 4}
    with db.transaction() as tx:
        tx.execute("DELETE FROM bag")
        assert tx.query("SHOW TABLES").to_pylist()[0]["rows"] == 0
        tx.rollback()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SHOW everything", "SHOW lists TABLES or VIEWS"),
        ("DESCRIBE", "DESCRIBE takes the name of a table or view"),
        ("DESCRIBE a b", "DESCRIBE takes the name of a table or view"),
        ("DESCRIBE count", r"column 10: no table or view count; there are counts, bag, Keyed"),
        ("EXPLAIN", "EXPLAIN takes a view's name or a query"),
        ("EXPLAIN bag", "no view bag; there are counts"),
        ("EXPLAIN ANALYZE DELETE FROM bag", "column 17: EXPLAIN takes a view's name or a query"),
        ("EXPLAIN SELECT\n nothing FROM bag", "line 2, column 2: no column nothing"),
    ],
)
def test_mistakes(db: freshet.Database, statement: str, message: str) -> None:
    with pytest.raises(freshet.SqlError, match=message):
        db.execute(statement)


def test_a_view_cannot_be_one_of_them(db: freshet.Database) -> None:
    with pytest.raises(freshet.UnsupportedError, match="EXPLAIN is not supported; run it alone"):
        db.create_view("v", "EXPLAIN SELECT a FROM bag")
