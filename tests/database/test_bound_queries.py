"""A text that is asked again has the answer it would have if it were bound again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import freshet
from freshet.database.bound_queries import _LONGEST, _MOST, BoundQueries, BoundQuery
from freshet.sql.source import SqlText

TEXT = "SELECT a + 1 AS b FROM t WHERE a > 0"


@pytest.fixture
def db() -> Iterator[freshet.Database]:
    with freshet.connect() as db:
        db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")
        yield db


def asked(db: freshet.Database, text: str, params: Any = None) -> list[Any]:
    """The values of the last of three answers; all have the same types."""
    answers = [db.query(text, params) for _ in range(3)]
    assert len({str(answer.schema) for answer in answers}) == 1
    return list(answers[-1].column(0).to_pylist())


def test_a_text_is_bound_once(db: freshet.Database) -> None:
    queries = BoundQueries(db._inner.state)

    def bound(text: str) -> BoundQuery:
        (statement,) = SqlText(text).statements()
        return queries.bound(statement, set())

    first = bound(TEXT)
    assert bound(TEXT) is first
    for i in range(_MOST - 1):
        bound(f"SELECT a + {i} AS b FROM t")
    assert bound(TEXT) is first
    for i in range(_MOST):
        bound(f"SELECT a - {i} AS b FROM t")
    assert bound(TEXT) is not first and bound(TEXT) == first
    long = f"SELECT '{'x' * _LONGEST}' AS x"
    assert bound(long) is not bound(long)


def test_rows_change(db: freshet.Database) -> None:
    assert asked(db, TEXT) == [2]
    db.execute("INSERT INTO t VALUES (2), (-1)")
    assert sorted(asked(db, TEXT)) == [2, 3]


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE t; CREATE TABLE t (a BIGINT)",
        "CREATE OR REPLACE TABLE t (a BIGINT)",
        "DROP TABLE t; CREATE TABLE u (a BIGINT); CREATE MATERIALIZED VIEW t AS SELECT a FROM u",
    ],
)
def test_definitions_change(change: str, db: freshet.Database) -> None:
    assert asked(db, TEXT) == [2]
    db.execute(change)
    assert asked(db, TEXT) == [] and db.query(TEXT).schema.field(0).type == pa.int64()


def test_a_view_is_replaced(db: freshet.Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    assert asked(db, "SELECT a FROM v") == [1]
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a * 10 AS a FROM t")
    assert asked(db, "SELECT a FROM v") == [10]
    db.execute("DROP MATERIALIZED VIEW v")
    with pytest.raises(freshet.SqlError):
        db.query("SELECT a FROM v")


def test_a_column_is_added(db: freshet.Database) -> None:
    assert db.query("SELECT * FROM t").column_names == ["a"]
    db.execute("ALTER TABLE t ADD COLUMN b INT")
    assert db.query("SELECT * FROM t").column_names == ["a", "b"]


def test_values_of_parameters_have_types(db: freshet.Database) -> None:
    for value, type_ in ((1, pa.int32()), (True, pa.bool_()), (1.0, pa.float64()), (1 << 40, pa.int64())):
        answer = db.query("SELECT ? AS x FROM t", [value])
        assert answer.schema.field(0).type == type_ and answer.column(0).to_pylist() == [value]
    assert [str(db.query("SELECT ? AS x FROM t", [value]).column(0)[0]) for value in (0.0, -0.0)] == ["0.0", "-0.0"]
    assert asked(db, "SELECT :x AS x FROM t", {"x": 1}) == [1] and asked(db, "SELECT :x AS x FROM t", {"x": 2}) == [2]


def test_statements_of_one_text(db: freshet.Database) -> None:
    for _ in range(3):
        assert db.execute("SELECT 1 AS x; SELECT 2 AS x").to_pylist() == [{"x": 2}]
        assert db.execute("SELECT ? AS x; SELECT ? AS x", [3, 4]).to_pylist() == [{"x": 4}]


def test_time_passes(db: freshet.Database) -> None:
    days = [dt.datetime(2024, 1, day) for day in (1, 2, 3)]
    for day in days:
        db.advance(day)
        assert db.query("SELECT NOW() AS x").column(0)[0].as_py().replace(tzinfo=None) == day


def test_functions_that_are_not_deterministic(db: freshet.Database) -> None:
    numbers = count()
    db.create_function("next", lambda xs: [next(numbers) for _ in xs], returns="BIGINT", deterministic=False)
    db.create_function("twice", lambda xs: pc.multiply(xs, 2), returns="BIGINT")
    assert db.query("SELECT next(1) AS x").to_pylist() != db.query("SELECT next(1) AS x").to_pylist()
    assert asked(db, "SELECT twice(2) AS x") == [4]
    db.create_function("twice", lambda xs: pc.multiply(xs, 20), returns="BIGINT")
    assert asked(db, "SELECT twice(2) AS x") == [40]
